//! Entries of the trace: those of steps, and those of what nobody can notice.

use nix::unistd::Pid;

use crate::{
    tracer::{
        calls::SyncKind,
        draft::Draft,
        machine::{Lost, Machine},
        opened::{self, Opened},
    },
    world::{ActorId, Op, Step},
};

impl Machine {
    /// A step without a path.
    pub(in crate::tracer) fn bare_step(&self, pid: Pid, op: Op) -> Step {
        let task = self.task(pid);
        Step { actor: ActorId(task.actor as u16), task: task.number, ..self.nobodys_step(op) }
    }

    /// A step of what is no task any more.
    pub(in crate::tracer) fn nobodys_step(&self, op: Op) -> Step {
        Step {
            actor: ActorId(0),
            task: 0,
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
    pub(in crate::tracer) fn step(&self, pid: Pid, draft: &Draft, ret: i64, result: String) -> Step {
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
    pub(in crate::tracer) fn push(&mut self, mut step: Step) {
        // A file descriptor's number says nothing of the world.
        if matches!(step.op, Op::Open | Op::Create) && step.ret > 0 {
            step.ret = 0;
        }
        if self.explored {
            self.steps.push(step);
        }
    }

    /// Notes the close of a descriptor of the world that drops no lock.
    pub(in crate::tracer) fn record_close(&mut self, pid: Pid, fd: i32, file: &Opened) -> Result<(), Lost> {
        let publishes = self.is_last_writer(pid, &[fd], file.inode, file.writable());
        self.note_close(pid, self.task(pid).number, fd, file, publishes);
        Ok(())
    }

    fn note_close(&mut self, pid: Pid, task: u32, fd: i32, file: &Opened, publishes: bool) {
        let mut draft = self.draft_fd(pid, fd, Op::Close);
        draft.flags = if file.writable() { vec!["w"] } else { Vec::new() };
        let mut step = self.step(pid, &draft, 0, "ok".into());
        step.task = task;
        step.publishes = publishes;
        if publishes {
            self.disk_close(step.inode);
        }
        self.push(step);
    }

    /// Whether nobody of this worker can write to a file any more once these descriptors of a task are closed. Shells open a file,
    /// duplicate the descriptor and close the first one: that publishes nothing. Asked in recorded runs only.
    pub(in crate::tracer) fn is_last_writer(&self, pid: Pid, closing: &[i32], inode: u64, writable: bool) -> bool {
        if !writable || !self.record {
            return writable;
        }
        let (closer, actor) = (self.task(pid).process, self.task(pid).actor);
        // Another worker that has the file open says nothing of whether this one's change is finished.
        let others = self.tasks.values().filter(|t| t.actor == actor && t.pid == t.process && !t.killed);
        !others.into_iter().any(|t| {
            let fds = opened::open_fds(t.pid).into_iter();
            let kept = fds.filter(|fd| t.process != closer || !closing.contains(fd));
            kept.filter_map(|fd| self.inspect(t.pid, fd)).any(|f| f.world && f.inode == inode && f.writable())
        })
    }

    /// A sync of one file, or of everything.
    pub(in crate::tracer) fn draft_sync(&mut self, pid: Pid, fd: Option<i32>) -> Draft {
        match fd {
            Some(fd) => self.draft_fd(pid, fd, Op::Sync),
            None => Draft { path: Some(".".into()), ..self.draft_fd(pid, -1, Op::Sync) },
        }
    }

    /// Notes a sync: without power cuts nobody can tell whether it happened.
    pub(in crate::tracer) fn record_sync(&mut self, pid: Pid, fd: Option<i32>, kind: SyncKind) -> Result<(), Lost> {
        let draft = self.draft_sync(pid, fd);
        let step = self.step(pid, &draft, 0, "ok".into());
        self.disk_sync(kind, step.inode);
        self.push(step);
        Ok(())
    }

    /// Notes what the end of a process closes: its open world files that it may have written.
    pub(in crate::tracer) fn record_exit(&mut self, pid: Pid) -> Result<(), Lost> {
        if !self.has_written(pid) || !self.is_last_thread(pid) {
            return Ok(());
        }
        let fds = opened::open_fds(pid);
        for fd in &fds {
            if let Some(file) = self.inspect(pid, *fd).filter(|f| f.world && f.writable()) {
                let publishes = self.is_last_writer(pid, &fds, file.inode, true);
                self.note_close(pid, self.exit_number(pid), *fd, &file, publishes);
            }
        }
        Ok(())
    }
}
