//! Hearing what the watched processes do.

use std::collections::{HashMap, HashSet, VecDeque};

use nix::{libc, sys::ptrace, unistd::Pid};

use super::{
    calls::Begun,
    document::{Documents, Writer},
    process::{DocumentId, Known, Opened, Process, process_of},
};
use crate::{
    evidence::recording::{Base, RecordedFile, Recording, StoreError},
    tracer::{
        arch::{Registers, decode},
        calls::{Call, Watch},
        kernel::{self, CallStop, Status},
        signals::ERESTARTNOHAND,
    },
};

/// At most this many processes that go on are named.
const NAMED: usize = 16;

/// A thread of a watched process.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) process: Pid,
    /// The call that it is in, if its end matters.
    pub(super) begun: Option<Begun>,
    /// Its call was looked at before it reached the filter.
    pub(super) entered: bool,
    /// It runs, and no call of it but the filter's stops it.
    free: bool,
}

/// Everything that is watched.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) tasks: HashMap<Pid, Task>,
    pub(super) processes: HashMap<Pid, Process>,
    pub(super) opened: HashMap<usize, Opened>,
    next_opened: usize,
    pub(super) documents: Documents,
    /// The commands' own processes, with how they ended.
    mains: Vec<(Pid, Option<i32>)>,
    /// Counts everything that is seen.
    clock: u64,
    /// Who is renaming, linking or removing a watched file: one at a time, as the folder's own lock has it, so that the
    /// order in which they return is the order in which they happened.
    pub(super) turn: Option<Pid>,
    waiting: VecDeque<Pid>,
}

/// What a stop means for the task.
pub(super) enum Next {
    /// It goes on.
    GoOn,
    /// It waits for its turn.
    Wait,
}

impl Watcher {
    pub(super) fn new(documents: Documents) -> Watcher {
        Watcher {
            tasks: HashMap::new(),
            processes: HashMap::new(),
            opened: HashMap::new(),
            next_opened: 0,
            documents,
            mains: Vec::new(),
            clock: 0,
            turn: None,
            waiting: VecDeque::new(),
        }
    }

    /// A command's process.
    pub(super) fn add_main(&mut self, pid: Pid) {
        self.processes.insert(pid, Process::new(pid, None));
        self.tasks.insert(pid, Task { process: pid, begun: None, entered: false, free: true });
        self.mains.push((pid, None));
    }

    /// Watches until every process has ended. `ended` is called once, when the commands themselves have.
    pub(super) fn run(&mut self, mut ended: impl FnMut(&Recording)) -> Result<Recording, StoreError> {
        let mut told = false;
        loop {
            let (pid, status) = match kernel::wait_any(true) {
                Ok(Some(heard)) => heard,
                Ok(None) => continue,
                // Nobody is left.
                Err(_) => break,
            };
            self.clock += 1;
            match status {
                Status::Exited(code) => self.gone(pid, code)?,
                Status::Killed(signal) => self.gone(pid, 128 + signal)?,
                Status::Stopped { signal, event } => self.stopped(pid, signal, event)?,
            }
            if !told && self.mains.iter().all(|(_, code)| code.is_some()) {
                told = true;
                let running = self.processes.len();
                if running > 0 {
                    ended(&self.recording());
                }
            }
        }
        self.discard_private();
        Ok(self.recording())
    }

    /// What is recorded so far.
    fn recording(&self) -> Recording {
        let path = |path: &std::path::Path| self.documents.watched.shown(path);
        let mut files = Vec::new();
        for (id, document) in self.documents.all.iter().enumerate().filter(|(id, _)| self.is_kept(*id)) {
            let Some(dir) = self.documents.store.dir_of(id) else { continue };
            files.push(RecordedFile {
                file: self.documents.watched.shown(&document.path),
                evidence: path(dir),
                versions: document.current,
                processes: document.touched.len(),
                stale: document.stale,
            });
        }
        let mut warnings = self.documents.warnings.clone();
        if self.documents.store.dropped() > 0 {
            warnings.push(format!(
                "{} of the oldest copies were removed to stay within the limits (--keep)",
                self.documents.store.dropped()
            ));
        }
        let mut running: Vec<u32> = self.processes.keys().map(|pid| pid.as_raw() as u32).collect();
        running.sort_unstable();
        running.truncate(NAMED);
        Recording {
            schema: 1,
            out: path(self.documents.store.root()),
            exits: self.mains.iter().map(|(_, code)| code.unwrap_or(0)).collect(),
            files,
            running,
            warnings,
        }
    }

    /// Whether evidence of a file is worth keeping: it was named, or more than one process had to do with it and it
    /// changed, and ever held anything (locks do not).
    fn is_kept(&self, id: DocumentId) -> bool {
        let document = &self.documents.all[id];
        document.begun
            && (self.documents.watched.is_named()
                || document.touched.len() > 1 && document.current > 1 && document.has_held)
    }

    fn discard_private(&mut self) {
        for id in 0..self.documents.all.len() {
            if !self.is_kept(id) {
                self.documents.store.discard(id);
            }
        }
    }

    fn stopped(&mut self, pid: Pid, signal: i32, event: i32) -> Result<(), StoreError> {
        if !self.tasks.contains_key(&pid) {
            self.adopt(pid);
        }
        if let Some(task) = self.tasks.get_mut(&pid) {
            task.free = false;
        }
        match event {
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                if let Ok(new) = ptrace::getevent(pid) {
                    let new = Pid::from_raw(new as i32);
                    if !self.tasks.contains_key(&new) {
                        self.adopt_from(new, self.tasks[&pid].process);
                    }
                }
            }
            libc::PTRACE_EVENT_EXEC => self.executed(pid)?,
            libc::PTRACE_EVENT_EXIT => self.exiting(pid)?,
            libc::PTRACE_EVENT_SECCOMP => return self.at_call(pid, CallStop::Filter),
            libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => restart_wait(pid),
            libc::PTRACE_EVENT_STOP => {
                // Stopped for good, by job control or a debugger's signal: it stays so until SIGCONT.
                let _ = kernel::listen(pid);
                return Ok(());
            }
            0 if signal == libc::SIGTRAP | 0x80 => {
                if let Some(stop) = kernel::call_stop(pid) {
                    return self.at_call(pid, stop);
                }
            }
            0 => {
                self.go_on(pid, signal);
                return Ok(());
            }
            _ => {}
        }
        self.go_on(pid, 0);
        Ok(())
    }

    fn at_call(&mut self, pid: Pid, stop: CallStop) -> Result<(), StoreError> {
        let Ok(regs) = Registers::get(pid) else {
            self.go_on(pid, 0);
            return Ok(());
        };
        let Some(task) = self.tasks.get_mut(&pid) else { return Ok(()) };
        match stop {
            CallStop::Exit => {
                task.entered = false;
                if let Some(begun) = task.begun.take() {
                    self.finish(pid, begun, regs.result())?;
                }
                self.release_turn(pid)?;
            }
            CallStop::Filter if task.entered => {}
            CallStop::Entry | CallStop::Filter => {
                task.entered = stop == CallStop::Entry;
                if let Some(call) = decode(&regs)
                    && let Next::Wait = self.begin(pid, call)?
                {
                    self.waiting.push_back(pid);
                    return Ok(());
                }
                let process = self.tasks[&pid].process;
                if stop == CallStop::Entry && self.processes.get_mut(&process).is_some_and(Process::lost_patience) {
                    self.let_go(process);
                }
            }
        }
        self.go_on(pid, 0);
        Ok(())
    }

    /// The turn goes to the next that waits for it.
    fn release_turn(&mut self, pid: Pid) -> Result<(), StoreError> {
        if self.turn != Some(pid) {
            return Ok(());
        }
        self.turn = None;
        while let Some(next) = self.waiting.pop_front() {
            let Ok(regs) = Registers::get(next) else { continue };
            if let Some(call) = decode(&regs).filter(|_| self.tasks.contains_key(&next))
                && let Next::Wait = self.begin(next, call)?
            {
                self.waiting.push_front(next);
                return Ok(());
            }
            self.go_on(next, 0);
        }
        Ok(())
    }

    /// Lets a task run, to the next stop that matters.
    fn go_on(&mut self, pid: Pid, signal: i32) {
        let Some(task) = self.tasks.get_mut(&pid) else { return };
        let follow = self.processes.get(&task.process).is_some_and(Process::is_followed);
        let to_call = follow || task.begun.is_some() || task.entered;
        task.free = !to_call;
        // One that was killed meanwhile cannot go on: its end will be reported.
        let _ = kernel::resume_with(pid, to_call, signal);
    }

    /// The calls of all threads of a process matter from now on.
    pub(super) fn follow(&mut self, process: Pid, but: Pid) {
        let Some(process) = self.processes.get(&process) else { return };
        for thread in process.threads.iter().filter(|thread| **thread != but) {
            if self.tasks.get(thread).is_some_and(|task| task.free) {
                let _ = ptrace::interrupt(*thread);
            }
        }
    }

    /// A task that was heard of before its parent said that it made it.
    fn adopt(&mut self, pid: Pid) {
        let process = process_of(pid).unwrap_or(pid);
        let parent = || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
            line.trim().parse().ok().map(Pid::from_raw)
        };
        let from = if process == pid { parent().unwrap_or(pid) } else { process };
        self.adopt_from(pid, from);
    }

    fn adopt_from(&mut self, pid: Pid, from: Pid) {
        let process = process_of(pid).unwrap_or(pid);
        self.tasks.insert(pid, Task { process, begun: None, entered: false, free: true });
        if let Some(known) = self.processes.get_mut(&process) {
            known.threads.insert(pid);
            return;
        }
        let mut new = Process::new(process, Some(from));
        new.threads.insert(pid);
        if let Some(parent) = self.processes.get(&from) {
            new.descriptors = parent.descriptors.clone();
            new.let_go = parent.let_go;
            new.known = parent.known.iter().map(|(id, known)| (*id, Known { own: false, ..*known })).collect();
        }
        for opened in new.descriptors.values() {
            if let Some(opened) = self.opened.get_mut(opened) {
                opened.references += 1;
            }
        }
        self.processes.insert(process, new);
    }

    /// A process runs another program: only the thread that called is left, and some descriptors were closed.
    fn executed(&mut self, pid: Pid) -> Result<(), StoreError> {
        let Some(process) = self.processes.get_mut(&pid) else { return Ok(()) };
        let gone: Vec<Pid> = process.threads.drain().filter(|thread| *thread != pid).collect();
        process.threads.insert(pid);
        for thread in gone {
            self.tasks.remove(&thread);
        }
        if let Some(task) = self.tasks.get_mut(&pid) {
            task.begun = None;
        }
        self.refresh(pid)
    }

    fn exiting(&mut self, pid: Pid) -> Result<(), StoreError> {
        let Some(process) = self.tasks.get(&pid).map(|task| task.process) else { return Ok(()) };
        let last = self.processes.get_mut(&process).is_some_and(|process| {
            process.threads.remove(&pid);
            process.threads.is_empty()
        });
        if last { self.ended(process) } else { Ok(()) }
    }

    /// A process ends: its descriptors are closed, and what it read its parent may make use of.
    fn ended(&mut self, pid: Pid) -> Result<(), StoreError> {
        let descriptors: Vec<i32> =
            self.processes.get(&pid).map(|p| p.descriptors.keys().copied().collect()).unwrap_or_default();
        for fd in descriptors {
            self.close(pid, fd)?;
        }
        let Some(process) = self.processes.remove(&pid) else { return Ok(()) };
        let parent = process.parent.filter(|parent| *parent != pid).and_then(|parent| self.processes.get_mut(&parent));
        if let Some(parent) = parent {
            for (id, known) in process.known.into_iter().filter(|(_, known)| known.own) {
                let newer = parent.known.get(&id).is_none_or(|old| !old.own || old.when < known.when);
                if newer {
                    parent.known.insert(id, known);
                }
            }
        }
        Ok(())
    }

    fn gone(&mut self, pid: Pid, code: i32) -> Result<(), StoreError> {
        if let Some(main) = self.mains.iter_mut().find(|(main, _)| *main == pid) {
            main.1 = Some(code);
        }
        self.exiting(pid)?;
        self.tasks.remove(&pid);
        self.waiting.retain(|waiting| *waiting != pid);
        self.release_turn(pid)
    }

    pub(super) fn writer(&self, process: Pid) -> Writer {
        Writer { pid: process, start: self.processes.get(&process).map_or(0, |p| p.start) }
    }

    /// What a process knows of a file: what it read itself, else what the nearest process above it read or had read.
    pub(super) fn base_of(&self, process: Pid, id: DocumentId) -> Option<Base> {
        let mut at = Some(process);
        let mut inherited = None;
        // Parents end in a process that is not watched; the count is only against a circle.
        for _ in 0..1_000 {
            let Some(process) = at.and_then(|pid| self.processes.get(&pid)) else { break };
            match process.known.get(&id) {
                Some(known) if known.own => return Some(known.base),
                known => inherited = inherited.or(known.map(|known| known.base)),
            }
            at = process.parent;
        }
        inherited
    }

    /// A process read, or wrote, this of a file.
    pub(super) fn knows(&mut self, process: Pid, id: DocumentId, base: Base) {
        let when = self.clock;
        if let Some(process) = self.processes.get_mut(&process) {
            process.known.insert(id, Known { base, when, own: true });
        }
    }

    pub(super) fn add_opened(&mut self, opened: Opened) -> usize {
        self.next_opened += 1;
        self.opened.insert(self.next_opened, opened);
        self.next_opened
    }

    /// A process has kept a file open for very long: it runs at full speed from here on.
    fn let_go(&mut self, process: Pid) {
        let Some(known) = self.processes.get(&process) else { return };
        let written: HashSet<DocumentId> = known
            .descriptors
            .values()
            .filter_map(|d| self.opened.get(d))
            .filter(|o| o.writes)
            .map(|o| o.document)
            .collect();
        for id in written {
            let shown = self.documents.watched.shown(&self.documents.all[id].path);
            self.documents.warn(format!(
                "process {process} keeps {shown} open: what it writes there counts as one version until it unlocks it or \
                 ends"
            ));
        }
    }
}

/// A wait that does not begin again by itself when a tracer interrupts it is made to.
fn restart_wait(pid: Pid) {
    let Ok(mut regs) = Registers::get(pid) else { return };
    let waits = matches!(decode(&regs), Some(Call::Wait { watch: Watch::Epoll { .. }, .. }));
    if waits && regs.result() == -i64::from(libc::EINTR) {
        regs.set_result(ERESTARTNOHAND);
        let _ = regs.set(pid);
    }
}
