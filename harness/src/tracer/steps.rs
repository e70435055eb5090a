//! Making one visible step: run the held call to its result, note what it did, and keep the result free of what
//! depends on the machine.

use std::{collections::BTreeSet, sync::Arc};

use nix::{errno::Errno, libc, unistd::Pid};

use super::{
    arch::Registers,
    calls::Call,
    draft::{After, Draft},
    kernel::{self, Status},
    locks::{self, Owner, RecordRequest},
    machine::{Lost, Machine, must},
    memory, rewrite,
    syscalls::Opened,
    task::{InCall, Pending, State},
    walk::Lookup,
};
use crate::world::{Access, ActorId, Effect, Mode, Object, Op, Step, Sync, WarningKind};

/// Contents up to this size are kept in recorded runs.
const RECORD_CAP: u64 = 4 << 20;

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
        let number = self.task(pid).number;
        let attempt = match pending {
            Pending::Exit => self.step_exit(pid, enabled)?,
            Pending::Call { call, entry } => self.step_call(pid, call, entry, enabled)?,
            Pending::Again { .. } => return Err(Lost::Other("a delayed task was chosen".into())),
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
        self.push(Step { chosen: true, enabled: enabled.to_vec(), ..step });
        let accesses = draft.accesses;
        self.task_mut(pid).state = State::Exiting;
        super::machine::resume(pid, false, 0)?;
        // The locks are gone only when the process is.
        self.settle()?;
        self.free_waiters(&accesses);
        Ok(Attempt::Made)
    }

    fn step_call(&mut self, pid: Pid, call: Call, entry: Registers, enabled: &[ActorId]) -> Result<Attempt, Lost> {
        let draft = self.draft(pid, &Pending::Call { call, entry });
        let before = self.contents_before(&draft);
        if let After::Exec { found } = draft.after {
            let ret = if found { 0 } else { -i64::from(libc::ENOENT) };
            let step = self.step(pid, &draft, ret, "ok".into());
            self.push(Step { chosen: true, enabled: enabled.to_vec(), ..step });
            self.go_on(pid, 0)?;
            return Ok(Attempt::Made);
        }
        if let After::Closes { fds } = &draft.after {
            for fd in fds.clone() {
                if let Some(file) = self.inspect(pid, fd).filter(|f| f.world) {
                    self.forget_fd_locks(pid, fd, file.inode);
                }
            }
        }
        let mut regs = entry;
        if draft.waits {
            do_not_wait(&call, &mut regs);
            must("writing registers", regs.set(pid))?;
        }
        self.call(pid, State::Calling(InCall::Plain))?;
        if !self.run_to_exit(pid)? {
            return Ok(Attempt::Made);
        }
        let mut regs = must("reading registers", Registers::get(pid))?;
        let mut ret = regs.result();
        if draft.waits && is_busy(ret) {
            if self.is_deadlock(pid, &draft) {
                ret = -i64::from(libc::EDEADLK);
            } else {
                return self.rewind(pid, call, entry);
            }
        }
        if draft.waits {
            for (index, value) in entry.args().into_iter().enumerate() {
                regs.set_arg(index, value);
            }
            regs.set_result(ret);
            must("writing registers", regs.set(pid))?;
        }
        let step = self.finish(pid, &draft, call, &entry, ret, before)?;
        let frees: Vec<Access> = step.accesses.iter().filter(|a| a.sync == Some(Sync::Free)).cloned().collect();
        let wait = self.delay_after(pid, &Pending::Call { call, entry }, &step);
        self.push(Step { chosen: true, enabled: enabled.to_vec(), ..step });
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
        must("rewinding a call", Registers::rewound(&entry).set(pid))?;
        super::machine::resume(pid, false, 0)?;
        self.task_mut(pid).state = State::Running;
        loop {
            match must("waiting for the rewound call", kernel::wait_one(pid, true))? {
                Some((_, Status::Stopped { event: libc::PTRACE_EVENT_SECCOMP, .. })) => break,
                Some((_, Status::Stopped { signal, event: 0 })) if signal != libc::SIGTRAP | 0x80 => {
                    // A signal came first; its handler runs before the call is made again.
                    self.go_on(pid, signal)?;
                    return Ok(Attempt::Waits);
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
        self.task_mut(pid).state = State::Blocked(Pending::Call { call, entry });
        Ok(Attempt::Waits)
    }

    /// Waits for the exit stop of a step. False: the task died instead.
    fn run_to_exit(&mut self, pid: Pid) -> Result<bool, Lost> {
        let begun = std::time::Instant::now();
        loop {
            match must("waiting for a step", kernel::wait_one(pid, true))? {
                Some((_, Status::Stopped { signal, event: 0 })) if signal == libc::SIGTRAP | 0x80 => return Ok(true),
                Some((_, Status::Stopped { event: libc::PTRACE_EVENT_STOP, .. })) => {
                    super::machine::resume(pid, true, 0)?;
                }
                Some((_, Status::Stopped { event: libc::PTRACE_EVENT_EXIT, .. })) => {
                    self.task_mut(pid).state = State::Exiting;
                    super::machine::resume(pid, false, 0)?;
                    return Ok(false);
                }
                Some((_, status)) => return Err(Lost::Other(format!("a step gave {status:?}"))),
                None if self.task(pid).is_asleep() && begun.elapsed().as_secs() > 1 => {
                    return Err(Lost::Other("a step on the world waits inside the kernel".into()));
                }
                None => {}
            }
        }
    }

    /// Waiters on what was given back may try again.
    fn free_waiters(&mut self, freed: &[Access]) {
        let candidates: Vec<(Pid, Pending)> = self
            .tasks
            .values()
            .filter_map(|t| match t.state {
                State::Blocked(pending) => Some((t.pid, pending)),
                _ => None,
            })
            .collect();
        for (pid, pending) in candidates {
            let wanted = self.draft(pid, &pending).accesses;
            if wanted.iter().any(|w| freed.iter().any(|f| f.conflicts(w))) {
                self.task_mut(pid).state = State::AtStep(pending);
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

    /// Notes what a finished call did and makes its result deterministic.
    fn finish(
        &mut self,
        pid: Pid,
        draft: &Draft,
        call: Call,
        entry: &Registers,
        ret: i64,
        before: Option<Vec<(String, Option<u64>)>>,
    ) -> Result<Step, Lost> {
        let actor = self.task(pid).actor;
        let now = self.clock.wall();
        let mut step = self.step(pid, draft, ret, result_words(draft.op, ret));
        if ret < 0 {
            step.accesses = failed(&draft.accesses, draft.op);
            return Ok(step);
        }
        let mut changed_content = None;
        match draft.after.clone() {
            After::Open { created, truncated } => {
                let fd = ret as i32;
                if let Some(file) = self.inspect(pid, fd) {
                    step.inode = Some(self.inodes.number(file.inode, actor, now));
                    if created && let Some(dir) = self.entry_dir(pid, &call) {
                        self.inodes.modified(dir, actor, now);
                    }
                    if truncated {
                        self.inodes.modified(file.inode, actor, now);
                    }
                    if file.writable() {
                        self.task_mut(pid).wrote = true;
                        self.processes_wrote(pid);
                    }
                    if created || truncated {
                        changed_content = Some(file.inode);
                    }
                }
                step.result = "ok".into();
            }
            After::Data => {
                if let Call::Read { buffer, .. } = call {
                    self.keep_data(&mut step, memory::read_buffer(pid, buffer, ret as u64));
                }
            }
            After::Modified(file) => {
                self.inodes.modified(file, actor, now);
                if let Call::Write { buffer, .. } = call {
                    self.keep_data(&mut step, memory::read_buffer(pid, buffer, ret as u64));
                }
                changed_content = Some(file);
            }
            After::Named { at, dir } => {
                self.inodes.modified(dir, actor, now);
                if let Some((file, _)) = self.lookup(pid, at, false).target {
                    step.inode = Some(self.inodes.number(file, actor, now));
                    self.inodes.changed(file, actor, now);
                }
            }
            After::Unnamed { dir, target } => {
                self.inodes.modified(dir, actor, now);
                if let Some(file) = target {
                    self.inodes.changed(file, actor, now);
                }
            }
            After::Renamed { dirs, moved, replaced } => {
                for dir in dirs {
                    self.inodes.modified(dir, actor, now);
                }
                for file in [moved, replaced].into_iter().flatten() {
                    self.inodes.changed(file, actor, now);
                }
            }
            After::Changed(file) => self.inodes.changed(file, actor, now),
            After::Timed { file, times } => {
                let modified = rewrite::modified_time(pid, times);
                self.inodes.set_modified(file, modified, actor, now);
            }
            After::Stat { buffer, extended, file } => {
                let number = self.inodes.number(file, actor, now);
                let times = self.inodes.times(file);
                let seen = rewrite::stat(pid, buffer, extended, number, times);
                step.bytes = Some(*blake3::hash(&seen).as_bytes());
            }
            After::List { buffer, wide } => {
                let inodes = &mut self.inodes;
                let number = |real| inodes.number(real, actor, now);
                let names = rewrite::listing(pid, buffer, ret as u64, wide, number);
                step.result = match names.len() {
                    0 => "end".to_owned(),
                    n => format!("{n} names"),
                };
                step.bytes = Some(*blake3::hash(names.join(&b'\n').as_slice()).as_bytes());
            }
            After::Flock { file, unlock } => {
                if !unlock {
                    self.locked.insert(file);
                }
                step.result = if unlock { "unlocked".into() } else { "locked".into() };
            }
            After::Record { owner, file, request } => {
                self.record_locks.granted(owner, file, request);
                self.locked.insert(file);
                step.result = if request.kind == libc::F_UNLCK { "unlocked".into() } else { "locked".into() };
            }
            After::Closes { .. } => step.result = "gives its lock back".into(),
            After::Exec { .. } | After::Nothing => {}
        }
        if let Call::Map { .. } = call
            && draft.flags.contains(&"writable")
        {
            let name = self.actor_name(pid);
            let path = draft.path.clone().unwrap_or_default();
            if let Some(file) = draft.file {
                self.inodes.modified(file, actor, now);
            }
            self.warn(
                WarningKind::NotControlled,
                format!("{name} maps {path} shared and writable: its writes through memory are not seen"),
            );
        }
        self.record_effects(&mut step, draft, &call, before, changed_content);
        let _ = entry;
        Ok(step)
    }

    fn entry_dir(&mut self, pid: Pid, call: &Call) -> Option<u64> {
        let Call::Open { at, .. } = call else { return None };
        let Lookup { dir, .. } = self.lookup(pid, *at, true).last()?.clone();
        Some(dir)
    }

    fn processes_wrote(&mut self, pid: Pid) {
        let process = self.task(pid).process;
        for task in self.tasks.values_mut().filter(|t| t.process == process) {
            task.wrote = true;
        }
    }

    fn keep_data(&mut self, step: &mut Step, data: Vec<u8>) {
        step.bytes = Some(*blake3::hash(&data).as_bytes());
        if self.record && data.len() as u64 <= RECORD_CAP {
            step.data = Some(Arc::from(data));
        }
    }

    /// What the paths of a step named before it, for recorded runs.
    fn contents_before(&self, draft: &Draft) -> Option<Vec<(String, Option<u64>)>> {
        self.record.then(|| {
            let paths = [&draft.path, &draft.path2];
            paths.into_iter().flatten().map(|p| (p.clone(), named_inode(p))).collect()
        })
    }

    fn record_effects(
        &mut self,
        step: &mut Step,
        draft: &Draft,
        call: &Call,
        before: Option<Vec<(String, Option<u64>)>>,
        changed: Option<u64>,
    ) {
        let Some(before) = before else { return };
        let renames = draft.accesses.iter().any(|a| matches!(a.object, Object::Entry(..)) && a.mode == Mode::Write);
        if renames {
            for (path, was) in before {
                let is = named_inode(&path);
                if is != was {
                    let inode = is.and_then(|real| self.inodes.peek(real));
                    step.effects.push(Effect::Bind { path, inode });
                }
            }
        }
        if let Some(file) = changed
            && let Some(inode) = self.inodes.peek(file)
        {
            let after = self.content(step, call, file);
            step.effects.push(Effect::Content { inode, after });
        }
    }

    /// All bytes of a file that a step changed, through whatever still leads to it.
    fn content(&self, step: &Step, call: &Call, file: u64) -> Option<Arc<[u8]>> {
        let pid = self.tasks.values().find(|t| t.actor == step.actor.0 as usize && t.number == step.task)?.pid;
        let fd = match *call {
            Call::Open { .. } => Some(step.ret as i32),
            Call::Write { fd, .. } | Call::Ftruncate { fd, .. } | Call::Fallocate { fd, .. } => Some(fd),
            Call::CopyRange { to, .. } => Some(to),
            _ => None,
        };
        let path = match fd {
            Some(fd) => format!("/proc/{pid}/fd/{fd}"),
            None => real_path(step.path.as_deref()?),
        };
        use std::os::unix::fs::MetadataExt;
        let meta = std::fs::metadata(&path).ok()?;
        (meta.ino() == file && meta.len() <= RECORD_CAP).then(|| std::fs::read(&path).ok().map(Arc::from)).flatten()
    }

    /// A step without a path.
    pub(super) fn bare_step(&self, pid: Pid, op: Op) -> Step {
        let task = self.task(pid);
        Step {
            actor: ActorId(task.actor as u16),
            task: task.number,
            op,
            path: None,
            path2: None,
            flags: Vec::new(),
            ret: 0,
            result: String::new(),
            bytes: None,
            inode: None,
            offset: None,
            data: None,
            publishes: false,
            accesses: Vec::new(),
            barrier: false,
            chosen: false,
            enabled: Vec::new(),
            wakeable: Vec::new(),
            time_us: self.clock.since_start(),
            effects: Vec::new(),
        }
    }

    /// A step with everything that does not depend on its result.
    fn step(&self, pid: Pid, draft: &Draft, ret: i64, result: String) -> Step {
        Step {
            path: draft.path.clone(),
            path2: draft.path2.clone(),
            flags: draft.flags.iter().map(|f| (*f).to_owned()).collect(),
            ret,
            result,
            inode: draft.file.and_then(|file| self.inodes.peek(file)),
            offset: draft.offset,
            accesses: draft.accesses.clone(),
            ..self.bare_step(pid, draft.op)
        }
    }

    /// Adds a step to the trace.
    pub(super) fn push(&mut self, mut step: Step) {
        // A file descriptor's number says nothing of the world.
        if matches!(step.op, Op::Open | Op::Create) && step.ret > 0 {
            step.ret = 0;
        }
        if self.explored {
            self.steps.push(step);
        }
    }

    /// Notes the close of a descriptor of the world that drops no lock.
    pub(super) fn record_close(&mut self, pid: Pid, fd: i32, file: &Opened) -> Result<(), Lost> {
        let mut draft = self.draft_fd(pid, fd, Op::Close);
        draft.flags = if file.writable() { vec!["w"] } else { Vec::new() };
        let mut step = self.step(pid, &draft, 0, "ok".into());
        step.publishes = file.writable();
        self.push(step);
        Ok(())
    }

    /// Notes a sync: without power cuts nobody can tell whether it happened.
    pub(super) fn record_sync(&mut self, pid: Pid, fd: Option<i32>) -> Result<(), Lost> {
        let draft = match fd {
            Some(fd) => self.draft_fd(pid, fd, Op::Sync),
            None => Draft { path: Some(".".into()), ..self.draft_fd(pid, -1, Op::Sync) },
        };
        let step = self.step(pid, &draft, 0, "ok".into());
        self.push(step);
        Ok(())
    }

    /// Notes what the end of a process closes: its open world files that it may have written.
    pub(super) fn record_exit(&mut self, pid: Pid) -> Result<(), Lost> {
        if !self.task(pid).wrote || !self.is_last_thread(pid) {
            return Ok(());
        }
        for fd in super::syscalls::open_fds(pid) {
            if let Some(file) = self.inspect(pid, fd).filter(|f| f.world && f.writable()) {
                self.record_close(pid, fd, &file)?;
            }
        }
        Ok(())
    }

    fn is_last_thread(&self, pid: Pid) -> bool {
        let process = self.task(pid).process;
        !self.tasks.values().any(|t| t.process == process && t.pid != pid && !matches!(t.state, State::Exiting))
    }

    /// Whether somebody can notice the end of this task: locks that go with it, actors that wait for it.
    pub(super) fn exit_matters(&mut self, pid: Pid) -> bool {
        if !self.is_last_thread(pid) {
            return false;
        }
        !self.exit_accesses(pid).is_empty()
    }

    /// What the end of a process gives back.
    pub(super) fn exit_accesses(&mut self, pid: Pid) -> Vec<Access> {
        let (process, actor) = (self.task(pid).process, self.task(pid).actor);
        let mut accesses = Vec::new();
        let last = !self.tasks.values().any(|t| t.actor == actor && t.process != process);
        if last && self.waited_for.get(actor) == Some(&true) {
            accesses.push(super::machine::life(actor, true));
        }
        // Others may ask whether a worker's first process still lives (a lock that names its owner).
        if self.explored && self.actors.len() > 1 && self.actors[actor].main == Some(process) {
            accesses.push(Access::new(Object::Life(ActorId(actor as u16)), Mode::Write));
        }
        if self.locked.is_empty() {
            return accesses;
        }
        for file in self.record_locks.files(Owner::Process(process)) {
            let number = self.number(pid, file);
            let held = self.record_locks.of(Owner::Process(process), file, (0, u64::MAX));
            accesses.extend(locks::release_records(number, &held));
        }
        for fd in super::syscalls::open_fds(pid) {
            if let Some(file) = self.inspect(pid, fd).filter(|f| f.world && self.locked.contains(&f.inode)) {
                accesses.extend(self.lock_drops(pid, fd, file.inode));
            }
        }
        let mut seen = Vec::new();
        accesses.retain(|a| {
            !seen.contains(a) && {
                seen.push(a.clone());
                true
            }
        });
        accesses
    }

    /// A process is gone, and its record locks with it.
    pub(super) fn forget_locks(&mut self, process: Pid) {
        for file in self.record_locks.files(Owner::Process(process)) {
            self.record_locks.cut(Owner::Process(process), file, (0, u64::MAX));
        }
    }

    fn forget_fd_locks(&mut self, pid: Pid, fd: i32, file: u64) {
        let process = self.task(pid).process;
        for owner in [Owner::Process(process), Owner::Description(process, fd)] {
            self.record_locks.cut(owner, file, (0, u64::MAX));
        }
    }
}

/// The accesses of a call that failed: it only looked. A refused lock looked at the lock.
fn failed(accesses: &[Access], op: Op) -> Vec<Access> {
    accesses
        .iter()
        .filter(|a| op == Op::Rmdir || !matches!(a.object, Object::Listing(_)) || a.mode == Mode::Read)
        .map(|a| Access { mode: Mode::Read, sync: None, ..a.clone() })
        .collect()
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

fn result_words(op: Op, ret: i64) -> String {
    if ret < 0 {
        let errno = Errno::from_raw(-ret as i32);
        return match (op, errno) {
            (Op::Lock, Errno::EAGAIN | Errno::EACCES) => "held by another".into(),
            _ => format!("{errno:?}"),
        };
    }
    match op {
        Op::Read | Op::Write => format!("{ret} bytes"),
        _ => "ok".into(),
    }
}

/// The real path of one shown in a report.
fn real_path(shown: &str) -> String {
    if shown.starts_with('/') {
        return shown.to_owned();
    }
    match shown.strip_prefix("$TMPDIR/") {
        Some(rest) => format!("{}/{rest}", super::sandbox::TMP),
        None => format!("{}/{shown}", super::sandbox::WORLD),
    }
}

fn named_inode(shown: &str) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    std::fs::symlink_metadata(real_path(shown)).ok().map(|m| m.ino())
}
