//! Faults in one run: counting matches, and making them happen at the step that was reached.
//!
//! A fault takes the place of its step, or bends it; either way it is a step of its worker that the scheduler chose,
//! with a flag that names it. Matches are counted when a step is made, so that a lock request that had to wait counts
//! once.

use nix::{
    sys::{ptrace, signal::Signal},
    unistd::Pid,
};

use super::{
    calls::{Buffer, Call},
    draft::{After, Draft},
    machine::{Lost, Machine, life, must},
    memory,
    steps::Attempt,
    task::{Pending, State},
};
use crate::{
    fault::{PAGE, Rule, Target},
    scenario::{Fault, FaultKind},
    world::{ASKED_FLAG, Access, ActorId, FAULT_FLAG, Injection, Mode, Object, Op, Step, Sync},
};

/// The faults of a scenario, and those of one run.
#[derive(Debug, Default)]
pub(super) struct Faults {
    rules: Vec<Rule>,
    active: Vec<Injection>,
    /// Matches so far, per rule and worker.
    seen: Vec<Vec<u64>>,
}

/// How a call is bent.
#[derive(Clone, Debug)]
pub(super) struct Bend {
    /// It moves only so many bytes; the rest follows as a step of its own (`split`) or not at all.
    pub len: Option<u64>,
    /// It is made, and this is its result in spite of that.
    pub result: Option<i64>,
    /// The flag of the step.
    pub flag: String,
}

impl Faults {
    /// Faults whose globs and kinds were checked when the scenario was read.
    pub(super) fn new(faults: &[Fault], workers: usize) -> Self {
        let rules: Vec<Rule> = faults.iter().filter_map(|fault| Rule::new(fault).ok()).collect();
        let seen = vec![vec![0; workers]; rules.len()];
        Faults { rules, active: Vec::new(), seen }
    }

    /// Starts a run with these faults.
    pub(super) fn begin(&mut self, injections: &[Injection]) {
        self.active = injections.to_vec();
        self.seen.iter_mut().for_each(|seen| seen.fill(0));
    }

    /// Nothing to look for.
    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether steps of this operation, which nothing depends on, are choice points of this worker.
    pub(super) fn wants(&self, actor: usize, op: Op) -> bool {
        self.rules.iter().any(|rule| rule.wants(actor, op))
    }

    /// What happens at this step of a worker.
    fn due(&self, actor: usize, target: &Target<'_>) -> Option<FaultKind> {
        let hits = |injection: &&Injection| {
            injection.actor.is_none_or(|a| usize::from(a.0) == actor)
                && self.rules.get(injection.rule).is_some_and(|rule| rule.matches(actor, target))
                && injection.nth.is_none_or(|nth| self.seen[injection.rule][actor] + 1 == nth)
        };
        self.active.iter().find(hits).map(|injection| self.rules[injection.rule].kind.clone())
    }

    fn count(&mut self, actor: usize, target: &Target<'_>) {
        for (rule, seen) in self.rules.iter().zip(&mut self.seen) {
            if rule.matches(actor, target) {
                seen[actor] += 1;
            }
        }
    }
}

impl Machine {
    /// Whether a fault holds the whole worker.
    pub(super) fn stands_still(&self, actor: usize) -> bool {
        self.actors[actor].paused.is_some_and(|pid| self.tasks.get(&pid).is_some_and(|t| t.deadline.is_some()))
    }

    /// The fault that is due at a step, if any. The step counts as a match from now on.
    pub(super) fn fault_due(&mut self, pid: Pid, pending: &Pending) -> Option<(FaultKind, Draft, u64)> {
        let actor = self.task(pid).actor;
        if self.faults.is_empty() || actor >= self.faults.seen.first().map_or(0, Vec::len) {
            return None;
        }
        let draft = self.draft(pid, pending);
        let target = Target {
            op: draft.op,
            path: draft.path.as_deref(),
            path2: draft.path2.as_deref(),
            offset: draft.offset,
            len: self.moves(pid, pending, &draft),
            append: draft.flags.contains(&"append"),
            waits: draft.waits,
        };
        // A step that is tried again (it had to wait, or its worker stood still) was counted already.
        if std::mem::replace(&mut self.task_mut(pid).fault_checked, true) {
            return None;
        }
        let due = self.faults.due(actor, &target);
        self.faults.count(actor, &target);
        let len = target.len;
        due.map(|kind| (kind, draft, len))
    }

    /// How many bytes a read or write would move.
    fn moves(&self, pid: Pid, pending: &Pending, draft: &Draft) -> u64 {
        let asked = asked(pid, pending);
        match pending {
            Pending::Call { call: Call::Read { fd, .. }, .. } => {
                let left = self.inspect(pid, *fd).map_or(0, |f| f.size.saturating_sub(draft.offset.unwrap_or(0)));
                asked.min(left)
            }
            _ => asked,
        }
    }

    /// Makes a fault happen in place of a step, or bends the step.
    pub(super) fn inject(
        &mut self,
        pid: Pid,
        pending: Pending,
        (kind, draft, len): (FaultKind, Draft, u64),
        enabled: &[ActorId],
    ) -> Result<Attempt, Lost> {
        let flag = format!("{FAULT_FLAG}{kind}");
        let bend = Bend { len: None, result: None, flag: flag.clone() };
        match (kind, pending) {
            (FaultKind::Kill, _) => self.kill(pid, &draft, flag, true, enabled),
            (FaultKind::KillOne, _) => self.kill(pid, &draft, flag, false, enabled),
            (FaultKind::Pause(time), _) => {
                let mut step = self.bare_step(pid, Op::Sleep);
                step.result =
                    format!("stands still for {} before {}", crate::scenario::format_duration(time), words(&draft));
                step.flags.push(flag);
                self.push(Step { chosen: true, enabled: enabled.to_vec(), ..step });
                let actor = self.task(pid).actor;
                self.actors[actor].paused = Some(pid);
                self.delay(pid, time);
                Ok(Attempt::Made)
            }
            (FaultKind::Errno(_, number), Pending::Call { call, entry }) => {
                // Whatever it says, close closes (Linux, close(2)).
                if matches!(draft.after, After::Closes { .. }) {
                    let bend = Bend { result: Some(-i64::from(number)), ..bend };
                    return self.step_call(pid, call, entry, enabled, Some(bend));
                }
                let result = -i64::from(number);
                let mut step = self.failed_step(pid, &draft, result);
                step.flags.push(flag);
                if matches!(draft.op, Op::Write | Op::Read) {
                    step.flags.push(format!("{ASKED_FLAG}{len}"));
                }
                super::syscalls::answer(pid, entry, result)?;
                // Of a rename that is a copy the rest is not made.
                self.copying.remove(&pid);
                self.push(Step { chosen: true, enabled: enabled.to_vec(), ..step });
                self.go_on(pid, 0)?;
                Ok(Attempt::Made)
            }
            (FaultKind::ShortWrite(bytes) | FaultKind::ShortRead(bytes), Pending::Call { call, entry }) => {
                self.step_call(pid, call, entry, enabled, Some(Bend { len: Some(bytes), ..bend }))
            }
            (FaultKind::Split, Pending::Call { call, entry }) => {
                let from = draft.offset.unwrap_or(0);
                let first = PAGE - from % PAGE;
                self.task_mut(pid).split = Some((entry, 0));
                self.step_call(pid, call, entry, enabled, Some(Bend { len: Some(first), ..bend }))
            }
            _ => Err(Lost::Other("a fault that cannot happen at this step".into())),
        }
    }

    /// SIGKILL in place of a step: for all processes of the worker, or for the one whose step it is.
    fn kill(&mut self, pid: Pid, draft: &Draft, flag: String, all: bool, enabled: &[ActorId]) -> Result<Attempt, Lost> {
        let (actor, process) = (self.task(pid).actor, self.task(pid).process);
        let victims: Vec<(Pid, Pid)> = self
            .tasks
            .values()
            .filter(|t| t.actor == actor && (all || t.process == process))
            .map(|t| (t.pid, t.process))
            .collect();
        let mut processes: Vec<Pid> = victims.iter().map(|(_, process)| *process).collect();
        processes.dedup();
        processes.sort_unstable();
        processes.dedup();
        let main = self.actors[actor].main;
        let gone = !self.tasks.values().any(|t| t.actor == actor && !processes.contains(&t.process));
        let mut accesses: Vec<Access> = Vec::new();
        for process in &processes {
            let Some((task, _)) = victims.iter().find(|(_, p)| p == process) else { continue };
            accesses.extend(self.exit_accesses(*task));
        }
        if gone && self.waited_for.get(actor) == Some(&true) {
            accesses.push(life(actor, true));
        }
        if main.is_some_and(|main| processes.contains(&main)) {
            accesses.push(Access::new(Object::Life(ActorId(actor as u16)), Mode::Write));
            self.actors[actor].end.ended_by = Some("kill".into());
        }
        let mut seen: Vec<Access> = Vec::new();
        accesses.retain(|a| {
            !seen.contains(a) && {
                seen.push(a.clone());
                true
            }
        });
        let mut step = self.bare_step(pid, Op::Exit);
        step.result = format!("killed before {}", words(draft));
        step.flags.push(flag);
        step.accesses.clone_from(&accesses);
        self.push(Step { chosen: true, enabled: enabled.to_vec(), ..step });
        for (task, _) in &victims {
            self.copying.remove(task);
            let task = self.task_mut(*task);
            task.deadline = None;
            task.killed = true;
            task.state = State::Exiting;
        }
        for process in &processes {
            let _ = nix::sys::signal::kill(*process, Signal::SIGKILL);
        }
        for (task, _) in &victims {
            // Those that sleep in the kernel are not stopped: the signal alone ends them.
            let _ = ptrace::cont(*task, None);
        }
        self.settle()?;
        let freed: Vec<Access> = accesses.into_iter().filter(|a| a.sync == Some(Sync::Free)).collect();
        self.free_waiters(&freed);
        Ok(Attempt::Made)
    }

    /// Makes a call move fewer bytes than it was asked to. Returns the piece of memory to put back afterwards, and how
    /// many bytes were asked for; `None` when the call has no length that could be shortened.
    pub(super) fn shorten(
        &self,
        pid: Pid,
        call: &Call,
        regs: &mut super::arch::Registers,
        len: u64,
    ) -> Result<Option<(u64, [u8; 8])>, Lost> {
        match *call {
            Call::Read { buffer: Buffer::Flat(..), .. }
            | Call::Write { buffer: Buffer::Flat(..), .. }
            | Call::CopyRange { .. } => {
                let index = regs.length_argument();
                regs.set_arg(index, len);
                Ok(None)
            }
            Call::Read { buffer: Buffer::Vector(address, count), .. }
            | Call::Write { buffer: Buffer::Vector(address, count), .. } => {
                let mut left = len;
                for i in 0..count {
                    let (_, size) = must("reading a vector", memory::read_pair(pid, address + i * 16))?;
                    if size >= left {
                        let place = address + i * 16 + 8;
                        must("shortening a vector", memory::write(pid, place, &left.to_ne_bytes()))?;
                        regs.set_arg(2, i + 1);
                        return Ok(Some((place, size.to_ne_bytes())));
                    }
                    left -= size;
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// The rest of a call that is done in two parts: held as a step of its own. False: there is no rest.
    pub(super) fn split_rest(&mut self, pid: Pid, call: Call, done: i64) -> Result<bool, Lost> {
        let Some((entry, before)) = self.task(pid).split else { return Ok(false) };
        if before > 0 || done <= 0 {
            return Ok(false);
        }
        let done = done as u64;
        let mut rest = entry;
        let (call, left) = match call {
            Call::Read { fd, buffer: Buffer::Flat(address, len), offset } => {
                let offset = offset.map(|o| o + done as i64);
                (Call::Read { fd, buffer: Buffer::Flat(address + done, len - done), offset }, len - done)
            }
            Call::Write { fd, buffer: Buffer::Flat(address, len), offset } => {
                let offset = offset.map(|o| o + done as i64);
                (Call::Write { fd, buffer: Buffer::Flat(address + done, len - done), offset }, len - done)
            }
            _ => return Ok(false),
        };
        rest.set_arg(1, entry.args()[1] + done);
        rest.set_arg(2, left);
        if matches!(call, Call::Read { offset: Some(_), .. } | Call::Write { offset: Some(_), .. }) {
            rest.set_arg(3, entry.args()[3] + done);
        }
        self.task_mut(pid).split = Some((entry, done));
        if self.back_to_entry(pid, &rest)? {
            self.task_mut(pid).state = State::AtStep(Pending::Call { call, entry: rest });
        }
        Ok(true)
    }
}

/// How many bytes a read, write or copy asks for.
pub(super) fn asked(pid: Pid, pending: &Pending) -> u64 {
    match pending {
        Pending::Call { call: Call::Read { buffer, .. } | Call::Write { buffer, .. }, .. } => {
            memory::pieces(pid, *buffer).iter().map(|piece| piece.1).sum()
        }
        Pending::Call { call: Call::CopyRange { len, .. }, .. } => *len,
        _ => 0,
    }
}

/// A step in words: `rename a -> b`.
fn words(draft: &Draft) -> String {
    let mut text = draft.op.to_string();
    if let Some(path) = &draft.path {
        text += &format!(" {path}");
    }
    if let Some(path) = &draft.path2 {
        text += &format!(" -> {path}");
    }
    text
}
