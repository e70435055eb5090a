//! Making one visible step: run the held call to its result, note what it did, and keep the result free of what
//! depends on the machine.

mod effects;
mod exits;
mod finish;
mod notes;

pub(super) use effects::real_path;

use std::{collections::BTreeSet, time::Duration};

use finish::result_words;
use nix::{libc, unistd::Pid};

use super::{
    arch::Registers,
    calls::Call,
    draft::{After, Draft},
    events::{FIRST_LOOK, LOOKS},
    faults::Bend,
    kernel::{self, Status},
    locks::{Owner, RecordRequest},
    machine::{Lost, Machine, must},
    memory,
    task::{InCall, Pending, State},
    weaken::{self, Weak},
};
use crate::world::{ASKED_FLAG, Access, ActorId, FAULT_FLAG, Op, Step, Sync};

/// Where a call that was let go came to rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// At its exit.
    Exit,
    /// Asleep in the kernel.
    Asleep,
    /// Its task died.
    Gone,
}

/// How often the CPU is offered to a call that may sleep before its end is waited for.
const YIELDS: u32 = 20;

/// How the attempt at a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// It was made; the task goes on.
    Made,
    /// It would wait; nothing happened.
    Waits,
}

impl Machine {
    /// Makes the next visible step of an actor. `enabled`: who could have been chosen.
    pub(super) fn make_step(&mut self, actor: usize, enabled: &[ActorId]) -> Result<Attempt, Lost> {
        let ready = |state: &State| matches!(state, State::AtStep(_));
        let Some(pid) = self.in_turn(actor, ready) else {
            return Err(Lost::Other("an actor without a step was chosen".into()));
        };
        if self.tasks.values().filter(|t| t.actor == actor && ready(&t.state)).count() > 1 {
            self.actors[actor].inner_choice = true;
        }
        let State::AtStep(pending) = self.task(pid).state else { return Ok(Attempt::Waits) };
        let number = if matches!(pending, Pending::Exit) { self.exit_number(pid) } else { self.task(pid).number };
        let attempt = match (self.fault_due(pid, &pending), pending) {
            (Some(fault), _) => self.inject(pid, pending, fault, enabled)?,
            (None, Pending::Exit) => self.step_exit(pid, enabled)?,
            (None, Pending::Call { call, entry }) => self.step_call(pid, call, entry, enabled, None)?,
            (None, Pending::Again { .. }) => return Err(Lost::Other("a delayed task was chosen".into())),
        };
        if attempt == Attempt::Made {
            self.actors[actor].turn = number;
            if self.steps.len() as u64 > self.step_limit {
                return Err(Lost::Limit("steps", self.step_limit));
            }
        }
        Ok(attempt)
    }

    fn step_exit(&mut self, pid: Pid, enabled: &[ActorId]) -> Result<Attempt, Lost> {
        self.record_exit(pid)?;
        let draft = self.draft(pid, &Pending::Exit);
        let step = self.step(pid, &draft, 0, String::new());
        self.push(Step { task: self.exit_number(pid), chosen: true, enabled: enabled.to_vec(), ..step });
        let accesses = draft.accesses;
        self.task_mut(pid).state = State::Exiting;
        super::machine::resume(pid, false, 0)?;
        // The locks are gone only when the process is.
        self.settle()?;
        self.free_waiters(&accesses);
        Ok(Attempt::Made)
    }

    /// Runs a held call to its result; with a fault that bends it.
    pub(super) fn step_call(
        &mut self,
        pid: Pid,
        call: Call,
        entry: Registers,
        enabled: &[ActorId],
        bend: Option<Bend>,
    ) -> Result<Attempt, Lost> {
        let draft = self.draft(pid, &Pending::Call { call, entry });
        if matches!(draft.weak, Weak::Skipped | Weak::Copied) {
            return self.step_weakened(pid, &draft, call, entry, enabled);
        }
        let before = self.contents_before(&draft);
        let publishes = match (&draft.after, draft.file) {
            (After::Closes { fds }, Some(file)) => self.is_last_writer(pid, fds, file, draft.flags.contains(&"w")),
            _ => false,
        };
        if let After::Exec { found } = draft.after {
            let ret = if found { 0 } else { -i64::from(libc::ENOENT) };
            let step = self.step(pid, &draft, ret, "ok".into());
            let frees = frees(&step);
            self.push(Step { chosen: true, enabled: enabled.to_vec(), ..step });
            for fd in super::opened::open_fds(pid).into_iter().filter(|_| !frees.is_empty()) {
                let closes = super::opened::closes_on_exec(pid, fd);
                if let Some(file) = self.inspect(pid, fd).filter(|f| closes && f.world) {
                    self.forget_fd_locks(pid, file.inode);
                }
            }
            self.go_on(pid, 0)?;
            if !frees.is_empty() {
                // They are gone only when the new program is there.
                self.settle()?;
                self.free_waiters(&frees);
            }
            return Ok(Attempt::Made);
        }
        if let After::Closes { fds } = &draft.after {
            for fd in fds.clone() {
                if let Some(file) = self.inspect(pid, fd).filter(|f| f.world) {
                    self.forget_fd_locks(pid, file.inode);
                }
            }
        }
        if draft.until_ready && !self.is_ready_now(pid, &call) {
            return Ok(self.block(pid, call, entry));
        }
        self.task_mut(pid).wait_until = None;
        let mut regs = entry;
        let shorter = bend.as_ref().and_then(|bend| bend.len);
        let (mut kept, mut in_memory) = (None, None);
        if draft.waits {
            do_not_wait(&call, &mut regs);
        }
        if let Weak::Flags(flags) = draft.weak {
            in_memory = weaken::set_flags(pid, &call, flags, &mut regs);
        }
        if let Some(len) = shorter {
            kept = self.shorten(pid, &call, &mut regs, len)?;
        }
        let changed = draft.waits || draft.weak != Weak::No || shorter.is_some();
        if changed {
            must("writing registers", regs.set(pid))?;
        }
        self.call(pid, State::Calling(InCall::Plain))?;
        let may_sleep = !draft.waits && self.channels.users.contains(&self.task(pid).actor);
        match self.run_to_rest(pid, may_sleep)? {
            Rest::Exit => {}
            Rest::Gone => return Ok(Attempt::Made),
            Rest::Asleep => {
                // It was begun, which others notice, and will go on when they have done their part.
                self.task_mut(pid).state = State::Asleep(InCall::Plain);
                let step = self.step(pid, &draft, 0, "waits".into());
                let frees = frees(&step);
                self.push(Step { chosen: true, enabled: enabled.to_vec(), ..step });
                self.free_waiters(&frees);
                return Ok(Attempt::Made);
            }
        }
        let mut regs = must("reading registers", Registers::get(pid))?;
        let mut ret = regs.result();
        let lost = lost_by_converting(&call, &draft, ret);
        if draft.waits && !lost.is_empty() {
            // It gave the old lock back, and from here on waits for a new one like anybody else.
            let step = self.step(pid, &draft, 0, "gives its lock back and waits".into());
            let accesses = draft.accesses.iter().map(|a| match a.sync {
                Some(Sync::Take { .. }) => Access { sync: None, ..a.clone() },
                _ => a.clone(),
            });
            self.push(Step { chosen: true, enabled: enabled.to_vec(), accesses: accesses.collect(), ..step });
            self.rewind(pid, call, entry)?;
            self.free_waiters(&lost);
            return Ok(Attempt::Made);
        }
        if draft.waits && is_busy(ret) {
            if self.is_deadlock(pid, &draft) {
                ret = -i64::from(libc::EDEADLK);
            } else {
                return self.rewind(pid, call, entry);
            }
        }
        if let Some((place, bytes)) = kept {
            must("putting a vector back", memory::write(pid, place, &bytes))?;
        }
        let split = self.task(pid).split;
        let forced = bend.as_ref().and_then(|bend| bend.result);
        let forgiven = weaken::forgiven(draft.weak, ret);
        if changed || split.is_some() || forced.is_some() {
            let (entered, done) = split.map_or((entry, 0), |(entry, done)| (entry, done as i64));
            for (index, value) in entered.args().into_iter().enumerate() {
                regs.set_arg(index, value);
            }
            // The second part of a call that fails cuts it short.
            let result = if done > 0 { done + ret.max(0) } else { ret };
            regs.set_result(forced.unwrap_or(if forgiven.is_some() { 0 } else { result }));
            must("writing registers", regs.set(pid))?;
        }
        if let Some((address, value)) = in_memory {
            let _ = memory::write(pid, address, &value.to_ne_bytes());
        }
        let mut step = self.finish(pid, &draft, call, ret, before)?;
        step.accesses.extend(lost);
        if let Some(result) = forgiven {
            (step.ret, step.result) = (0, result.into());
        }
        step.publishes = publishes;
        if let Some(Bend { flag, .. }) = &bend {
            step.flags.push(flag.clone());
        } else if split.is_some() {
            step.flags.push(format!("{FAULT_FLAG}split"));
        }
        if let (Some(_), Op::Write | Op::Read, None) = (shorter, draft.op, split) {
            step.flags.push(format!("{ASKED_FLAG}{}", super::faults::asked(pid, &Pending::Call { call, entry })));
        }
        if let Some(forced) = forced {
            step.ret = forced;
            step.result = result_words(draft.op, forced);
        }
        let frees = frees(&step);
        let wait = self.delay_after(pid, &Pending::Call { call, entry }, &step);
        self.push(Step { chosen: true, enabled: enabled.to_vec(), ..step });
        if shorter == u64::try_from(ret).ok() && self.split_rest(pid, call, ret)? {
            return Ok(Attempt::Made);
        }
        self.task_mut(pid).split = None;
        match wait {
            Some(wait) => {
                self.task_mut(pid).state = State::Ready(0);
                self.delay(pid, wait);
            }
            None => self.go_on(pid, 0)?,
        }
        self.free_waiters(&frees);
        Ok(Attempt::Made)
    }

    fn delay_after(&mut self, pid: Pid, pending: &Pending, step: &Step) -> Option<std::time::Duration> {
        if self.delays.is_empty() {
            return None;
        }
        let group = if step.op == Op::Read { self.read_group(pid, pending) } else { None };
        let actor = self.task(pid).actor;
        self.delays.after(actor, step, group)
    }

    /// Puts a task whose lock is held by somebody else back to where it was.
    fn rewind(&mut self, pid: Pid, call: Call, entry: Registers) -> Result<Attempt, Lost> {
        if self.back_to_entry(pid, &entry)? {
            self.task_mut(pid).state = State::Blocked(Pending::Call { call, entry });
        }
        Ok(Attempt::Waits)
    }

    /// Puts a task at the exit of a call back to an entry. False: a signal comes first, and its handler runs before the
    /// call is made again.
    pub(super) fn back_to_entry(&mut self, pid: Pid, entry: &Registers) -> Result<bool, Lost> {
        must("rewinding a call", Registers::rewound(entry).set(pid))?;
        super::machine::resume(pid, false, 0)?;
        self.task_mut(pid).state = State::Running;
        loop {
            match must("waiting for the rewound call", kernel::wait_one(pid, true))? {
                Some((_, Status::Stopped { event: libc::PTRACE_EVENT_SECCOMP, .. })) => return Ok(true),
                Some((_, Status::Stopped { signal, event: 0 })) if signal != libc::SIGTRAP | 0x80 => {
                    self.go_on(pid, signal)?;
                    return Ok(false);
                }
                Some((_, Status::Stopped { event: libc::PTRACE_EVENT_STOP, .. })) => {
                    super::machine::resume(pid, false, 0)?;
                }
                Some((_, status)) => {
                    return Err(Lost::Other(format!("a rewound call gave {status:?}")));
                }
                None => {}
            }
        }
    }

    /// Holds a task whose call would wait, until others have made it ready or its time is over.
    fn block(&mut self, pid: Pid, call: Call, entry: Registers) -> Attempt {
        if let Call::Wait { timeout, .. } = call
            && let Some(length) = self.wait_length(pid, timeout, &entry)
        {
            let now = self.clock.since_start();
            let until = *self.task_mut(pid).wait_until.get_or_insert(now + length);
            self.delay(pid, Duration::from_micros(until.saturating_sub(now)));
        }
        self.task_mut(pid).state = State::Blocked(Pending::Call { call, entry });
        Attempt::Waits
    }

    /// Waits for the exit stop of a step. False: the task died instead.
    pub(super) fn run_to_exit(&mut self, pid: Pid) -> Result<bool, Lost> {
        self.run_to_rest(pid, false).map(|rest| rest == Rest::Exit)
    }

    /// Waits until a call has returned, or sleeps if it may.
    fn run_to_rest(&mut self, pid: Pid, may_sleep: bool) -> Result<Rest, Lost> {
        let begun = std::time::Instant::now();
        let mut looks = 0;
        loop {
            match must("waiting for a step", kernel::wait_one(pid, !may_sleep || looks > YIELDS))? {
                Some((_, Status::Stopped { signal, event: 0 })) if signal == libc::SIGTRAP | 0x80 => {
                    return Ok(Rest::Exit);
                }
                Some((_, Status::Stopped { event: libc::PTRACE_EVENT_STOP, .. })) => {
                    super::machine::resume(pid, true, 0)?;
                }
                Some((_, Status::Stopped { event: libc::PTRACE_EVENT_EXIT, .. })) => {
                    self.task_mut(pid).state = State::Exiting;
                    super::machine::resume(pid, false, 0)?;
                    return Ok(Rest::Gone);
                }
                Some((_, status)) => return Err(Lost::Other(format!("a step gave {status:?}"))),
                None if may_sleep && self.task(pid).is_asleep() => return Ok(Rest::Asleep),
                None if may_sleep => {
                    looks += 1;
                    // Giving way is quicker, but where the kernel groups sessions it reaches nobody of another one.
                    match looks > YIELDS {
                        false => rustix::thread::sched_yield(),
                        true => must("setting a timer", kernel::tick(FIRST_LOOK, FIRST_LOOK * LOOKS))?,
                    }
                }
                None if self.task(pid).is_asleep() && begun.elapsed().as_secs() > 1 => {
                    return Err(Lost::Other("a step on the world waits inside the kernel".into()));
                }
                None => {}
            }
        }
    }

    /// Waiters on what was given back may try again.
    pub(super) fn free_waiters(&mut self, freed: &[Access]) {
        let candidates: Vec<(Pid, Pending)> = self
            .tasks
            .values()
            .filter_map(|t| match t.state {
                State::Blocked(pending) => Some((t.pid, pending)),
                _ => None,
            })
            .collect();
        for (pid, pending) in candidates {
            let draft = self.draft(pid, &pending);
            // What waits for readiness is asked at rest.
            if !draft.until_ready && draft.accesses.iter().any(|w| freed.iter().any(|f| f.conflicts(w))) {
                self.task_mut(pid).state = State::AtStep(pending);
            }
        }
    }

    /// At rest: whoever waited for a channel that is ready now may try again.
    pub(super) fn release_ready(&mut self) {
        let waiting: Vec<(Pid, Call, Registers)> = self
            .tasks
            .values()
            .filter_map(|t| match t.state {
                State::Blocked(Pending::Call { call: Call::Flock { .. } | Call::Fcntl { .. }, .. }) => None,
                State::Blocked(Pending::Call { call, entry }) => Some((t.pid, call, entry)),
                _ => None,
            })
            .collect();
        for (pid, call, entry) in waiting {
            if self.is_ready_now(pid, &call) {
                let task = self.task_mut(pid);
                task.deadline = None;
                task.state = State::AtStep(Pending::Call { call, entry });
            }
        }
    }

    /// The kernel finds cycles of POSIX record locks and refuses the lock that would close one; since no lock call
    /// ever waits in the kernel here, this is done in its place.
    fn is_deadlock(&mut self, pid: Pid, draft: &Draft) -> bool {
        let After::Record { owner: Owner::Process(process), file, request } = draft.after else { return false };
        let waiting: Vec<(Pid, Pid, Pending)> = self
            .tasks
            .values()
            .filter_map(|t| match t.state {
                State::Blocked(pending) if t.pid != pid => Some((t.process, t.pid, pending)),
                _ => None,
            })
            .collect();
        let mut wants: Vec<(Pid, u64, RecordRequest)> = Vec::new();
        for (waiter, task, pending) in waiting {
            if let After::Record { owner: Owner::Process(_), file, request } = self.draft(task, &pending).after {
                wants.push((waiter, file, request));
            }
        }
        let mut seen = BTreeSet::new();
        let mut todo = self.record_locks.holders(process, file, request);
        while let Some(holder) = todo.pop() {
            if holder == process {
                return true;
            }
            if seen.insert(holder) {
                for (_, file, request) in wants.iter().filter(|w| w.0 == holder) {
                    todo.extend(self.record_locks.holders(holder, *file, *request));
                }
            }
        }
        false
    }
}

/// What a step gave back or made ready.
fn frees(step: &Step) -> Vec<Access> {
    step.accesses.iter().filter(|a| a.sync == Some(Sync::Free)).cloned().collect()
}

/// What a refused flock(2) gave back: it changes shared to exclusive by letting go of the one first.
fn lost_by_converting(call: &Call, draft: &Draft, ret: i64) -> Vec<Access> {
    let refused = matches!(call, Call::Flock { .. }) && draft.op == Op::Lock && is_busy(ret);
    let freed = draft.accesses.iter().filter(|a| refused && a.sync == Some(Sync::Free));
    freed.cloned().collect()
}

/// Turns a waiting lock request into an attempt.
fn do_not_wait(call: &Call, regs: &mut Registers) {
    match *call {
        Call::Flock { op, .. } => regs.set_arg(1, (op | libc::LOCK_NB) as u64),
        Call::Fcntl { cmd: libc::F_SETLKW, .. } => regs.set_arg(1, libc::F_SETLK as u64),
        Call::Fcntl { cmd: libc::F_OFD_SETLKW, .. } => regs.set_arg(1, libc::F_OFD_SETLK as u64),
        _ => {}
    }
}

fn is_busy(ret: i64) -> bool {
    [libc::EAGAIN, libc::EACCES].iter().any(|e| ret == -i64::from(*e))
}
