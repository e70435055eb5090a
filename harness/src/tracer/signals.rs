//! Signals between workers, and signals that come to a task which is held.
//!
//! A held task stands before its call, so the kernel cannot interrupt the call: it is taken out of it as the kernel
//! would have done (handlers run, then the call is made again or fails with EINTR, as the handler's flags say).

use nix::{libc, unistd::Pid};

use super::{
    arch::Registers,
    calls::Call,
    draft::{After, Draft},
    kernel,
    machine::{Lost, Machine, must},
    sandbox,
    syscalls::answer,
    task::{Pending, State},
};
use crate::world::{Access, ActorId, Mode, Object, Op, Step, WarningKind};

/// The call is made again, or fails with EINTR when a handler without `SA_RESTART` ran.
const ERESTARTSYS: i64 = -512;
/// The call is made again whatever handler ran.
const ERESTARTNOINTR: i64 = -513;
/// The call is made again, or fails with EINTR when any handler ran.
pub(super) const ERESTARTNOHAND: i64 = -514;
/// In steps: this one sent a signal.
const SIGNAL: &str = "signal";

/// Signals of one run.
#[derive(Debug, Default)]
pub(super) struct Signals {
    /// Some were sent since held tasks were last looked at.
    pub sent: bool,
    /// To these actors from outside of them: also a step that could go on is interrupted.
    pub to: Vec<usize>,
}

impl Machine {
    /// kill(2) and its kin.
    pub(super) fn dispatch_kill(&mut self, pid: Pid, (process, signal): (i32, i32), held: Pending) -> Result<(), Lost> {
        self.signals.sent |= signal != 0;
        if process == -1
            && let (Pending::Call { entry, .. }, Some(_)) = (held, sandbox::shared())
        {
            // Without a PID namespace these are all processes of the user.
            let name = self.actor_name(pid);
            self.warn(WarningKind::NotControlled, format!("{name} signals every process: that is refused here"));
            answer(pid, entry, -i64::from(libc::EPERM))?;
            return self.go_on(pid, 0);
        }
        if process == -1 && self.actors.len() > 1 {
            let name = self.actor_name(pid);
            self.warn(WarningKind::NotControlled, format!("{name} signals every process: that is not explored"));
            return self.go_on(pid, 0);
        }
        match self.other_actor(pid, process.saturating_abs()) {
            Some(other) if signal != 0 || self.is_main(other, process) => self.hold(pid, held),
            Some(other) => {
                let name = self.actor_name(pid);
                let text = format!("{name} asks for a process of {{{other}}}: orders around that are not explored");
                self.warn(WarningKind::NotControlled, text);
                self.go_on(pid, 0)
            }
            None => self.go_on(pid, 0),
        }
    }

    /// A signal to another worker, or the question whether it lives.
    pub(super) fn draft_kill(&mut self, pid: Pid, process: i32, signal: i32) -> Draft {
        let mut draft = Draft::new(if signal == 0 { Op::Access } else { Op::Send });
        draft.flag(true, if signal == 0 { "lives" } else { SIGNAL });
        if let Some(actor) = self.other_actor(pid, process.saturating_abs()) {
            draft.path = Some(format!("process {process}"));
            let mode = if signal == 0 { Mode::Read } else { Mode::Write };
            draft.accesses.push(Access::new(Object::Life(ActorId(actor as u16)), mode));
            if signal != 0 {
                draft.after = After::Signalled { actor };
            }
        }
        draft
    }

    /// At rest: takes held tasks to which a signal came out of their calls. Returns whether there were any.
    pub(super) fn interrupt_held(&mut self) -> Result<bool, Lost> {
        if !std::mem::take(&mut self.signals.sent) {
            return Ok(false);
        }
        let to = std::mem::take(&mut self.signals.to);
        let held: Vec<(Pid, Registers, i64)> = self
            .tasks
            .values()
            .filter_map(|t| match t.state {
                State::Blocked(Pending::Call { call: Call::Wait { .. }, entry }) => {
                    Some((t.pid, entry, ERESTARTNOHAND))
                }
                State::Blocked(Pending::Call { entry, .. }) => Some((t.pid, entry, ERESTARTSYS)),
                State::AtStep(Pending::Call { entry, .. } | Pending::Again { entry }) if to.contains(&t.actor) => {
                    Some((t.pid, entry, ERESTARTNOINTR))
                }
                _ => None,
            })
            .collect();
        let mut any = false;
        for (pid, entry, code) in held {
            if self.has_signal(pid) {
                self.interrupt(pid, &entry, code)?;
                any = true;
            }
        }
        Ok(any)
    }

    /// Whether a signal that is not blocked waits for a task.
    fn has_signal(&self, pid: Pid) -> bool {
        let process = self.task(pid).process;
        let Ok(status) = std::fs::read_to_string(format!("/proc/{process}/task/{pid}/status")) else { return false };
        let mask = |name: &str| {
            let line = status.lines().find_map(|l| l.strip_prefix(name));
            line.and_then(|l| u64::from_str_radix(l.trim(), 16).ok()).unwrap_or(0)
        };
        (mask("SigPnd:") | mask("ShdPnd:")) & !mask("SigBlk:") != 0
    }

    /// Takes a task that is held at a seccomp stop out of its call with this result; the kernel then delivers what is
    /// pending.
    fn interrupt(&mut self, pid: Pid, entry: &Registers, code: i64) -> Result<(), Lost> {
        let task = self.task_mut(pid);
        task.deadline = None;
        task.wait_until = None;
        let mut regs = *entry;
        regs.skip_call(code);
        // One that was killed meanwhile has no registers any more: its end will be reported.
        if regs.set(pid).is_err() {
            return self.go_on(pid, 0);
        }
        self.call(pid, State::Running)?;
        if !self.run_to_exit(pid)? {
            return Ok(());
        }
        must("interrupting a call", Registers::interrupted(entry, code).set(pid))?;
        self.go_on(pid, 0)
    }

    /// Sends a signal from outside to a process and to what of it is held.
    pub(super) fn send_signal(&mut self, process: Pid, thread: Option<Pid>, signal: i32) {
        if let Some(actor) = self.tasks.values().find(|t| t.process == process).map(|t| t.actor) {
            self.signals.to.push(actor);
            self.signals.sent = true;
        }
        // A process that is gone gets nothing.
        let _ = kernel::send_signal(process, thread, signal);
    }
}

/// Where a signal came from another worker, each step of its target might have come before or after it.
pub(super) fn mark_targets(steps: &mut [Step]) {
    let mut targets: Vec<Object> = Vec::new();
    for step in steps.iter().filter(|s| s.flags.iter().any(|f| f == SIGNAL)) {
        targets.extend(step.accesses.iter().map(|a| a.object.clone()).filter(|o| matches!(o, Object::Life(_))));
    }
    for step in steps.iter_mut().filter(|s| s.chosen) {
        let own = Object::Life(step.actor);
        if targets.contains(&own) {
            step.accesses.push(Access::new(own, Mode::Read));
        }
    }
}
