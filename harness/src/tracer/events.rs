//! Letting tasks run until everything is at rest: at a visible step, asleep, or gone.
//!
//! Exactly one task runs user code at a time. A task that another one wakes in the kernel runs on to its exit stop
//! only, and is held there until it is its turn.

use std::time::{Duration, Instant};

use nix::{errno::Errno, libc, sys::ptrace, unistd::Pid};

use super::{
    arch::Registers,
    calls::OnTimeout,
    kernel::{self, Status},
    machine::{Lost, Machine, must, resume},
    memory, proc_files, rewrite,
    task::{InCall, Pending, State, Task},
};
use crate::world::WarningKind;

/// When a wait for a task ends at first to look whether it fell asleep; later ones take so often as long, at most.
pub(super) const FIRST_LOOK: Duration = Duration::from_micros(50);
/// See [`FIRST_LOOK`].
pub(super) const LOOKS: u32 = 100;
/// When the CPU time of what runs privately is looked at first.
const FIRST_COUNT: Duration = Duration::from_millis(100);
/// So many times the limit of CPU time may pass on the wall; then nobody knows what is the matter.
const MOST_WAITING: u32 = 20;
/// The kernel goes on with an interrupted wait by itself.
const ERESTART_RESTARTBLOCK: i64 = -516;
/// `-ERESTARTSYS` to `-ERESTART_RESTARTBLOCK`: the kernel will run the call again or turn it into EINTR.
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;

impl Machine {
    /// Runs until no task of any actor can go on privately.
    pub(super) fn settle(&mut self) -> Result<(), Lost> {
        self.busy_since = Instant::now();
        self.busy_cpu = None;
        let mut looks = 0;
        loop {
            while let Some((pid, status)) = self.wait(false)? {
                looks = 0;
                self.on_event(pid, status)?;
            }
            if self.fall_asleep() {
                continue;
            }
            if self.tasks.values().any(|t| t.state.is_busy()) {
                self.let_run(&mut looks)?;
                continue;
            }
            if self.wake_ups() {
                continue;
            }
            match self.next_private() {
                Some(pid) => {
                    looks = 0;
                    self.continue_private(pid)?;
                }
                // So many looks later nobody is on the way any more.
                None if looks < LOOKS && self.signals_underway() => self.let_run(&mut looks)?,
                None => return Ok(()),
            }
        }
    }

    /// Marks sleepers that have got a signal and do not look awake yet. The kernel tells a parent of a death after it
    /// has told the tracer, on a busy machine long after.
    fn signals_underway(&mut self) -> bool {
        if !self.signals.sent {
            return false;
        }
        let sleeper = |t: &Task| match t.state {
            State::Asleep(InCall::Stopped | InCall::Vfork) => None,
            State::Asleep(call) => Some(call),
            _ => None,
        };
        // A signal to a process wakes one of its threads: perhaps one that is held, and then none that sleeps.
        let all_sleep = |process| self.tasks.values().all(|t| t.process != process || sleeper(t).is_some());
        let coming: Vec<(Pid, InCall)> = self
            .tasks
            .values()
            .filter_map(|t| sleeper(t).map(|call| (t, call)))
            .filter(|(t, _)| proc_files::has_signal(t.process, t.pid, all_sleep(t.process)))
            .map(|(t, call)| (t.pid, call))
            .collect();
        self.rouse(&coming)
    }

    /// Marks sleepers as busy in their call. Returns whether there were any.
    fn rouse(&mut self, awake: &[(Pid, InCall)]) -> bool {
        for (pid, call) in awake {
            self.task_mut(*pid).state = match call {
                InCall::Unknown => State::Running,
                call => State::Calling(*call),
            };
        }
        !awake.is_empty()
    }

    fn wait(&mut self, block: bool) -> Result<Option<(Pid, Status)>, Lost> {
        match kernel::wait_any(block) {
            Ok(event) => Ok(event),
            Err(Errno::ECHILD) => {
                // Nobody is left; what we still believe in is gone without a word.
                match self.tasks.values().find(|t| t.state.is_busy()) {
                    Some(task) => Err(Lost::Other(format!("process {} vanished", task.pid))),
                    None => Ok(None),
                }
            }
            Err(e) => must("waiting for a task", Err(e)),
        }
    }

    /// Gives the CPU to the busy task: waits for it, and a timer ends the wait now and then.
    fn let_run(&mut self, looks: &mut u32) -> Result<(), Lost> {
        let in_call = self.tasks.values().any(|t| matches!(t.state, State::Calling(_) | State::Exiting));
        *looks += 1;
        // A task in a call either stops or falls asleep, which nobody tells: look again soon. Giving way instead of
        // waiting would let programs go first that have nothing to do with it.
        let patience = if in_call { FIRST_LOOK * (*looks).min(LOOKS) } else { FIRST_LOOK * LOOKS };
        must("setting a timer", kernel::tick(patience, FIRST_LOOK * LOOKS))?;
        if let Some((pid, status)) = self.wait(true)? {
            *looks = 0;
            return self.on_event(pid, status);
        }
        self.drain();
        // A task may sleep in a call that we do not know, or a leader may be a zombie that waits for its threads.
        let mut silent = Vec::new();
        for task in self.tasks.values() {
            match task.state {
                State::Running if task.is_asleep() => silent.push(task.pid),
                State::Exiting if self.threads_left(task.process) && task.run_state() == b'Z' => silent.push(task.pid),
                _ => {}
            }
        }
        for pid in silent {
            let task = self.task_mut(pid);
            task.state = match task.state {
                State::Exiting => State::Zombie,
                _ => State::Asleep(InCall::Unknown),
            };
        }
        if self.busy_since.elapsed() > FIRST_COUNT { self.check_cpu_time() } else { Ok(()) }
    }

    /// Whether what runs privately has used up its time on a CPU. Time on the wall is no measure: on a busy machine a task
    /// waits for a CPU for long, and a run that ended for that would be another run than on a quiet one.
    fn check_cpu_time(&mut self) -> Result<(), Lost> {
        // Of all, busy or not: who begins to run later brings along what it had used before.
        let used = self.tasks.values().map(Task::cpu_time).sum();
        let before: Duration = *self.busy_cpu.get_or_insert(used);
        if used.saturating_sub(before) > self.cpu_limit.saturating_sub(FIRST_COUNT) {
            return Err(Lost::Limit("cpu_seconds", self.cpu_limit.as_secs()));
        }
        match self.busy_since.elapsed() > self.cpu_limit.saturating_mul(MOST_WAITING) {
            true => Err(Lost::Other(format!(
                "what runs had {:.1?} on a CPU in {:.0?}: the machine is too busy",
                used.saturating_sub(before),
                self.busy_since.elapsed()
            ))),
            false => Ok(()),
        }
    }

    /// Whether threads of a process live on when those that are about to die are dead.
    fn threads_left(&self, process: Pid) -> bool {
        self.tasks.values().any(|t| t.process == process && !matches!(t.state, State::Exiting | State::Zombie))
    }

    /// Marks tasks that went to sleep in their call. Returns whether there were any.
    fn fall_asleep(&mut self) -> bool {
        let asleep: Vec<(Pid, InCall)> = self
            .tasks
            .values()
            .filter_map(|t| match t.state {
                State::Calling(call) if t.is_asleep() => Some((t.pid, call)),
                _ => None,
            })
            .collect();
        for (pid, call) in &asleep {
            self.task_mut(*pid).state = State::Asleep(*call);
        }
        !asleep.is_empty()
    }

    /// Marks sleepers that somebody woke, and empties the captured pipes, which wakes writers.
    fn wake_ups(&mut self) -> bool {
        self.drain();
        let awake: Vec<(Pid, InCall)> = self
            .tasks
            .values()
            .filter_map(|t| match t.state {
                State::Asleep(InCall::Stopped) => None,
                State::Asleep(call) if !t.sleeps_on() => Some((t.pid, call)),
                _ => None,
            })
            .collect();
        self.rouse(&awake)
    }

    /// The next held task that may go on privately: actors in order, tasks of one actor in turns.
    fn next_private(&self) -> Option<Pid> {
        (0..self.actors.len()).find_map(|actor| self.in_turn(actor, |state| matches!(state, State::Ready(_))))
    }

    fn continue_private(&mut self, pid: Pid) -> Result<(), Lost> {
        let State::Ready(signal) = self.task(pid).state else { return Ok(()) };
        let (actor, number) = (self.task(pid).actor, self.task(pid).number);
        self.actors[actor].turn = number;
        self.go_on(pid, signal)
    }

    /// Ends the sleep or time-out of a task now.
    pub(super) fn wake(&mut self, pid: Pid) -> Result<(), Lost> {
        let task = self.task_mut(pid);
        task.deadline = None;
        match task.state {
            State::Asleep(call) => {
                task.state = State::Calling(call);
                must("waking a sleeper", ptrace::interrupt(pid))
            }
            _ => Ok(()),
        }
    }

    fn on_event(&mut self, pid: Pid, status: Status) -> Result<(), Lost> {
        self.stops += 1;
        self.keep_clock_reads(pid);
        if !self.tasks.contains_key(&pid) {
            match status {
                Status::Stopped { .. } => {
                    self.orphans.insert(pid);
                }
                Status::Exited(code) => self.on_gone(pid, Some(code), None),
                Status::Killed(signal) => self.on_gone(pid, None, Some(signal)),
            }
            return Ok(());
        }
        match status {
            Status::Exited(code) => {
                self.on_gone(pid, Some(code), None);
                Ok(())
            }
            Status::Killed(signal) => {
                self.on_gone(pid, None, Some(signal));
                Ok(())
            }
            Status::Stopped { signal, event: 0 } if signal == libc::SIGTRAP | 0x80 => self.on_exit_stop(pid),
            Status::Stopped { signal, event: 0 } => self.on_signal(pid, signal),
            Status::Stopped { event: libc::PTRACE_EVENT_SECCOMP, .. } => self.on_call(pid),
            Status::Stopped { event: libc::PTRACE_EVENT_EXIT, .. } => self.on_exit_event(pid),
            Status::Stopped { event: libc::PTRACE_EVENT_EXEC, .. } => self.on_exec(pid),
            Status::Stopped { event: libc::PTRACE_EVENT_VFORK, .. } => {
                self.on_child(pid)?;
                self.task_mut(pid).state = State::Calling(InCall::Vfork);
                resume(pid, false, 0)
            }
            Status::Stopped { event: libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_CLONE, .. } => {
                self.on_child(pid)?;
                self.go_on(pid, 0)
            }
            Status::Stopped { event: libc::PTRACE_EVENT_VFORK_DONE, .. } => {
                self.task_mut(pid).state = State::Ready(0);
                Ok(())
            }
            Status::Stopped { signal, event: libc::PTRACE_EVENT_STOP } => self.on_stop(pid, signal),
            Status::Stopped { event, .. } => Err(Lost::Other(format!("unknown ptrace event {event}"))),
        }
    }

    /// The first stop of a new task, a group stop, or the echo of a wake-up.
    fn on_stop(&mut self, pid: Pid, signal: i32) -> Result<(), Lost> {
        match (self.task(pid).state, signal) {
            (State::Starting, _) => {
                self.task_mut(pid).state = State::Ready(0);
                Ok(())
            }
            (_, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU) => {
                self.task_mut(pid).state = State::Asleep(InCall::Stopped);
                must("leaving a task stopped", kernel::listen(pid))
            }
            (State::Asleep(InCall::Stopped), _) => {
                self.task_mut(pid).state = State::Ready(0);
                Ok(())
            }
            (State::Calling(_), _) => resume(pid, true, 0),
            _ => self.go_on(pid, 0),
        }
    }

    fn on_child(&mut self, parent: Pid) -> Result<(), Lost> {
        let child = Pid::from_raw(must("asking for the new child", ptrace::getevent(parent))? as i32);
        let (actor, wrote) = (self.task(parent).actor, self.task(parent).wrote);
        self.adopt(child, actor)?;
        self.task_mut(child).wrote = wrote;
        let (from, to) = (self.task(parent).process, self.task(child).process);
        if from != to {
            let inherited: Vec<u64> = self.mapped.iter().filter(|m| m.0 == from).map(|m| m.1).collect();
            self.mapped.extend(inherited.into_iter().map(|file| (to, file)));
        }
        if self.orphans.remove(&child) {
            self.task_mut(child).state = State::Ready(0);
        }
        Ok(())
    }

    /// Takes a new task under control as the next one of this actor.
    pub(super) fn adopt(&mut self, pid: Pid, actor: usize) -> Result<(), Lost> {
        let number = self.actors[actor].made;
        self.actors[actor].made += 1;
        let process = thread_group(pid).unwrap_or(pid);
        let task = must("opening a new task", Task::new(pid, process, actor, number, self.variant))?;
        self.tasks.insert(pid, task);
        self.note_number(pid, actor, number);
        Ok(())
    }

    fn on_gone(&mut self, pid: Pid, code: Option<i32>, signal: Option<i32>) {
        let task = self.tasks.remove(&pid);
        if task.is_none() {
            self.orphans.remove(&pid);
            self.templates.iter_mut().for_each(|t| drop(t.take_if(|t| t.pid() == pid)));
        }
        if let Some(task) = task.as_ref().filter(|_| signal == Some(libc::SIGSYS)) {
            let text = format!(
                "{{{}}} was ended by SIGSYS: it made a 32-bit system call, or has a filter of its own",
                task.actor
            );
            self.warn(WarningKind::NotControlled, text);
        }
        // Of a process whose threads outlived the first one, that one may have been given up before.
        if let Some(actor) = self.actors.iter_mut().find(|a| a.main == Some(pid)) {
            // A worker that a fault hit at its very end was ended by that.
            let killed = task.as_ref().is_some_and(|t| t.killed);
            actor.end.exit = code.filter(|_| !killed);
            actor.end.signal = if killed { Some(libc::SIGKILL) } else { signal };
        }
        let process = task.as_ref().map_or(pid, |t| t.process);
        if !self.threads_left(process)
            && let Some(first) = self.tasks.get_mut(&process)
        {
            // Its turn to be reported has come.
            first.state = State::Exiting;
        }
        if task.is_none_or(|t| t.pid == t.process) {
            // Its parent is told.
            self.signals.sent = true;
            self.timers.forget(pid, false);
            self.forget_locks(pid);
            self.mapped.retain(|m| m.0 != pid);
            // The last thread is reported under the leader's number: no other thread can be left.
            self.tasks.retain(|_, t| t.process != pid);
        }
    }

    fn on_signal(&mut self, pid: Pid, signal: i32) -> Result<(), Lost> {
        if signal == libc::SIGSEGV && self.answer_time_stamp(pid)? {
            return self.go_on(pid, 0);
        }
        let process = self.task(pid).process;
        if let Some((timer, value)) = self.timer_origin(process, signal) {
            let _ = kernel::set_timer_origin(pid, timer, value);
        }
        if signal == libc::SIGSYS {
            self.warn(WarningKind::NotControlled, "a worker was ended by SIGSYS: a 32-bit program, or its own filter");
        }
        if signal == libc::SIGTRAP && self.shared_clock.is_some() {
            let regs = must("reading registers", Registers::get(pid))?;
            if regs.args()[1] == super::arch::CLOCK_AT {
                return Err(Lost::Other("a new program could not be given the clock's memory".into()));
            }
        }
        let another_runs = self.tasks.values().any(|t| t.pid != pid && matches!(t.state, State::Running));
        if another_runs {
            // One task runs user code at a time, a signal's handler too.
            self.task_mut(pid).state = State::Ready(signal);
            return Ok(());
        }
        self.go_on(pid, signal)
    }

    /// A read of the time-stamp counter faults; it gets virtual time in nanoseconds.
    fn answer_time_stamp(&mut self, pid: Pid) -> Result<bool, Lost> {
        let mut regs = must("reading registers", Registers::get(pid))?;
        let mut code = [0; 3];
        if memory::read(pid, regs.instruction(), &mut code).is_err() {
            return Ok(false);
        }
        let clock = self.clock;
        let task = self.task_mut(pid);
        let now = clock.show(libc::CLOCK_MONOTONIC, task.clock_reads) * 1000 + task.nanos();
        if !regs.answer_time_stamp(&code, now) {
            return Ok(false);
        }
        task.clock_reads += 1;
        must("writing registers", regs.set(pid))?;
        Ok(true)
    }

    fn on_exit_event(&mut self, pid: Pid) -> Result<(), Lost> {
        self.task_mut(pid).deadline = None;
        if self.task(pid).killed {
            self.task_mut(pid).state = State::Exiting;
            return resume(pid, false, 0);
        }
        if self.exit_matters(pid) {
            self.task_mut(pid).state = State::AtStep(Pending::Exit);
            return Ok(());
        }
        self.record_exit(pid)?;
        self.task_mut(pid).state = State::Exiting;
        resume(pid, false, 0)
    }

    fn on_exec(&mut self, pid: Pid) -> Result<(), Lost> {
        let former = Pid::from_raw(must("asking who called exec", ptrace::getevent(pid))? as i32);
        if former != pid {
            // The caller took over its process's number; the other threads are gone.
            if let Some(caller) = self.tasks.remove(&former) {
                let number = caller.number;
                let actor = caller.actor;
                let mut task = must("opening a task after exec", Task::new(pid, pid, actor, number, self.variant))?;
                task.clock_reads = caller.clock_reads;
                task.wrote = caller.wrote;
                task.state = caller.state;
                self.tasks.retain(|_, t| t.process != pid);
                self.tasks.insert(pid, task);
            }
        }
        self.mapped.retain(|m| m.0 != pid);
        self.timers.forget(pid, true);
        self.prepare_image(pid)?;
        match self.task(pid).state {
            // The exit stop of a watched exec is still to come.
            State::Calling(_) => resume(pid, true, 0),
            _ => self.go_on(pid, 0),
        }
    }

    /// The exit stop of a call that might have slept.
    fn on_exit_stop(&mut self, pid: Pid) -> Result<(), Lost> {
        let (call, slept) = match self.task(pid).state {
            State::Calling(
                call @ (InCall::FirstLook { .. }
                | InCall::PrivateStat { .. }
                | InCall::MagicLink { .. }
                | InCall::FileSystem { .. }),
            ) => (call, false),
            State::Calling(call) | State::Asleep(call) => (call, true),
            _ => return self.go_on(pid, 0),
        };
        let mut regs = must("reading registers", Registers::get(pid))?;
        let fired = self.task(pid).deadline.is_none() && RESTARTS.contains(&regs.result());
        let mut dirty = false;
        match call {
            InCall::Waiting { entry, changed, on_timeout } => {
                let timed_out = fired && changed;
                if changed {
                    for (index, value) in entry.args().into_iter().enumerate() {
                        regs.set_arg(index, value);
                    }
                    dirty = true;
                }
                if !timed_out && regs.result() == ERESTART_RESTARTBLOCK {
                    // The kernel would go on with the wait as we had changed it, unseen: make the call again instead.
                    regs.set_result(super::signals::ERESTARTNOHAND);
                    dirty = true;
                }
                if timed_out {
                    regs.set_result(match on_timeout {
                        OnTimeout::Zero | OnTimeout::ClearSets => 0,
                        OnTimeout::Error(e) => -i64::from(e),
                    });
                    if on_timeout == OnTimeout::ClearSets {
                        clear_sets(pid, &entry);
                    }
                }
            }
            InCall::Sleeping { entry, remaining } => {
                dirty = true;
                for (index, value) in entry.args().into_iter().enumerate() {
                    regs.set_arg(index, value);
                }
                if fired {
                    regs.set_result(0);
                } else {
                    regs.set_result(-i64::from(libc::EINTR));
                    self.store_remaining(pid, remaining);
                }
            }
            InCall::PrivateStat { buffer, extended, file } if regs.result() == 0 => {
                self.show_private_file(pid, buffer, extended, file);
            }
            InCall::PrivateStat { .. } => {}
            InCall::MagicLink { buffer, len } => {
                if let Some(new) = self.show_magic_link(pid, buffer, len, regs.result()) {
                    regs.set_result(new);
                    dirty = true;
                }
            }
            InCall::Connecting { address, len } => self.connected_outside(pid, address, len, regs.result()),
            InCall::FileSystem { buffer } if regs.result() == 0 => rewrite::file_system(pid, buffer),
            InCall::FileSystem { .. } => {}
            InCall::FirstLook { buffer, extended } => rewrite::first_look(pid, buffer, extended, self.clock.epoch()),
            InCall::Plain | InCall::Vfork | InCall::Unknown | InCall::Stopped => {}
        }
        if dirty {
            must("writing registers", regs.set(pid))?;
        }
        let task = self.task_mut(pid);
        task.deadline = None;
        if slept {
            task.state = State::Ready(0);
            Ok(())
        } else {
            self.go_on(pid, 0)
        }
    }

    fn store_remaining(&mut self, pid: Pid, address: u64) {
        let left = self.task(pid).deadline.unwrap_or(0).saturating_sub(self.clock.since_start());
        if address != 0 {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&(left / 1_000_000).to_ne_bytes());
            bytes[8..].copy_from_slice(&(left % 1_000_000 * 1000).to_ne_bytes());
            let _ = memory::write(pid, address, &bytes);
        }
    }
}

/// select and pselect6 empty their sets when the time is over.
fn clear_sets(pid: Pid, entry: &Registers) {
    let args = entry.args();
    let bytes = (args[0].min(65_536) as usize).div_ceil(64) * 8;
    for set in &args[1..4] {
        if *set != 0 {
            let _ = memory::write(pid, *set, &vec![0; bytes]);
        }
    }
}

/// The process of a thread.
fn thread_group(pid: Pid) -> Option<Pid> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("Tgid:"))?;
    line.trim().parse().ok().map(Pid::from_raw)
}
