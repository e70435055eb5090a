//! What the end of a process means to the others.

use nix::unistd::Pid;

use crate::{
    tracer::{
        locks::{self, Owner},
        machine::{self, Machine},
        opened,
        task::State,
    },
    world::{Access, ActorId, Mode, Object, Op},
};

impl Machine {
    pub(super) fn is_last_thread(&self, pid: Pid) -> bool {
        let process = self.task(pid).process;
        !self
            .tasks
            .values()
            .any(|t| t.process == process && t.pid != pid && !matches!(t.state, State::Exiting | State::Zombie))
    }

    /// The number an exit of a process goes by. Its threads die in any order, and the last one to say so is not the same
    /// every time: the process's first thread stands for all.
    pub(in crate::tracer) fn exit_number(&self, pid: Pid) -> u32 {
        let task = self.task(pid);
        self.tasks.get(&task.process).map_or(task.number, |first| first.number)
    }

    /// Whether any thread of this process has written to the world.
    pub(super) fn has_written(&self, pid: Pid) -> bool {
        let process = self.task(pid).process;
        self.tasks.values().any(|t| t.process == process && t.wrote)
    }

    /// Remembers that a task wrote. Its process's first thread, which is the last to go, remembers it too.
    pub(super) fn note_written(&mut self, pid: Pid) {
        let process = self.task(pid).process;
        for pid in [pid, process] {
            if let Some(task) = self.tasks.get_mut(&pid) {
                task.wrote = true;
            }
        }
    }

    /// Whether somebody can notice the end of this task: locks that go with it, actors that wait for it.
    pub(in crate::tracer) fn exit_matters(&mut self, pid: Pid) -> bool {
        if !self.is_last_thread(pid) {
            return false;
        }
        let (process, actor) = (self.task(pid).process, self.task(pid).actor);
        // A fault may come just before the end.
        let hit = self.actors[actor].main == Some(process) && self.faults.wants(actor, Op::Exit);
        hit || !self.exit_accesses(pid).is_empty()
    }

    /// What the end of a process gives back.
    pub(in crate::tracer) fn exit_accesses(&mut self, pid: Pid) -> Vec<Access> {
        let (process, actor) = (self.task(pid).process, self.task(pid).actor);
        let mut accesses = Vec::new();
        let last = !self.tasks.values().any(|t| t.actor == actor && t.process != process);
        if last && self.waited_for.get(actor) == Some(&true) {
            accesses.push(machine::life(actor, true));
        }
        // Others may ask whether a worker's first process still lives (a lock that names its owner).
        if self.explored && self.actors.len() > 1 && self.actors[actor].main == Some(process) {
            accesses.push(Access::new(Object::Life(ActorId(actor as u16)), Mode::Write));
        }
        if self.channels.users.contains(&actor) {
            for fd in opened::open_fds(pid) {
                accesses.extend(self.closes_channel(pid, fd));
            }
        }
        if self.has_written(pid) {
            accesses.extend(self.exit_notices());
        }
        if self.locked.is_empty() {
            return accesses;
        }
        for file in self.record_locks.files(Owner::Process(process)) {
            let number = self.number(pid, file);
            let held = self.record_locks.of(Owner::Process(process), file, (0, u64::MAX));
            accesses.extend(locks::release_records(number, &held));
        }
        for fd in opened::open_fds(pid) {
            if let Some(file) = self.inspect(pid, fd).filter(|f| f.world && self.locked.contains(&f.inode)) {
                accesses.extend(self.lock_drops(pid, fd, file.inode, true));
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
    pub(in crate::tracer) fn forget_locks(&mut self, process: Pid) {
        for file in self.record_locks.files(Owner::Process(process)) {
            self.record_locks.cut(Owner::Process(process), file, (0, u64::MAX));
        }
    }

    pub(super) fn forget_fd_locks(&mut self, pid: Pid, file: u64) {
        let process = self.task(pid).process;
        self.record_locks.cut(Owner::Process(process), file, (0, u64::MAX));
    }
}
