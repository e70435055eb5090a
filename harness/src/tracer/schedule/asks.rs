//! What the scheduler asks of the machine: what comes next, who sleeps until when, who waits for what.

use std::time::Duration;

use nix::{sys::signal::Signal, unistd::Pid};

use crate::{
    tracer::{
        draft::Draft,
        machine::{Lost, Machine},
        task::{InCall, Pending, State},
    },
    world::{Access, ActorId, Op, Step},
};

impl Machine {
    /// What the next step of an actor would touch.
    pub(super) fn predict(&mut self, actor: usize) -> Vec<Access> {
        let next = self.in_turn(actor, |state| matches!(state, State::AtStep(_)));
        match next.map(|pid| (pid, self.task(pid).state)) {
            Some((pid, State::AtStep(pending))) => self.draft(pid, &pending).accesses,
            _ => Vec::new(),
        }
    }

    /// The sleeper with the earliest deadline among these actors (ties: place in the file, then task).
    pub(in crate::tracer) fn next_deadline(&self, of: impl Fn(usize) -> bool) -> Option<Pid> {
        self.tasks
            .values()
            .filter(|t| of(t.actor))
            .filter_map(|t| Some((t.deadline?, t.actor, t.number, t.pid)))
            .min()
            .map(|(.., pid)| pid)
    }

    pub(super) fn sleeps(&self, actor: usize) -> bool {
        self.tasks.values().any(|t| t.actor == actor && t.deadline.is_some())
    }

    /// Holds a task for some virtual time.
    pub(in crate::tracer) fn delay(&mut self, pid: Pid, wait: Duration) {
        let (now, steps) = (self.clock.since_start(), self.steps.len());
        let task = self.task_mut(pid);
        task.deadline = Some(now + wait.as_micros() as u64);
        task.slept_from = now;
        task.slept_at = steps;
    }

    pub(super) fn wake_step(&self, pid: Pid) -> (usize, Step) {
        let task = self.task(pid);
        let wakes = task.deadline.unwrap_or(0).max(self.clock.since_start());
        let slept = Duration::from_micros(wakes.saturating_sub(task.slept_from));
        let what = match task.state {
            State::Asleep(InCall::Sleeping { .. }) => "sleep",
            State::Asleep(_) => "time-out",
            _ if self.actors[task.actor].paused == Some(pid) => "pause",
            _ => "delay",
        };
        let mut step = self.bare_step(pid, Op::Sleep);
        step.time_us = wakes;
        step.result = format!("{what} of {}", crate::scenario::format_duration(slept));
        (task.actor, step)
    }

    /// All blocked steps are tried again: perhaps a release was missed.
    pub(super) fn retry_blocked(&mut self) {
        for task in self.tasks.values_mut() {
            if let State::Blocked(pending) = task.state {
                task.state = State::AtStep(pending);
            }
        }
    }

    /// What the steps that actors wait with would touch.
    pub(in crate::tracer) fn pending_accesses(&mut self) -> Vec<(ActorId, Vec<Access>)> {
        let waiting: Vec<(usize, Pid, Pending)> = (0..self.actors.len())
            .flat_map(|a| self.blocked(a).map(move |(t, p)| (a, t.pid, p)).collect::<Vec<_>>())
            .collect();
        waiting
            .into_iter()
            .map(|(actor, pid, pending)| (ActorId(actor as u16), self.draft(pid, &pending).accesses))
            .collect()
    }

    pub(super) fn waits_for(&mut self, actor: usize) -> String {
        let waiting: Vec<(Pid, Pending)> = self.blocked(actor).map(|(t, p)| (t.pid, p)).collect();
        let mut words: Vec<String> = waiting
            .into_iter()
            .map(|(pid, pending)| {
                let draft: Draft = self.draft(pid, &pending);
                format!("{} {}", draft.op, draft.path.unwrap_or_default())
            })
            .collect();
        if words.is_empty() {
            words.push(if self.actors[actor].started { "waits in the kernel" } else { "was not started" }.into());
        }
        words.join(", ")
    }

    /// Sends a signal to all processes of an actor.
    pub(super) fn signal_actor(&mut self, actor: usize, signal: Signal) -> Result<(), Lost> {
        let main = self.actors[actor].main;
        for task in self.tasks.values_mut().filter(|t| t.actor == actor && t.pid == t.process) {
            if Some(task.pid) == main {
                let _ = nix::sys::signal::kill(task.process, signal);
            }
        }
        // Those that are held find the signal when they go on.
        let held: Vec<Pid> = self
            .tasks
            .values()
            .filter(|t| t.actor == actor && matches!(t.state, State::Blocked(_) | State::AtStep(_)))
            .map(|t| t.pid)
            .collect();
        for pid in held {
            if let State::Blocked(pending) = self.task(pid).state {
                self.task_mut(pid).state = State::AtStep(pending);
            }
        }
        Ok(())
    }

    pub(super) fn drain(&mut self) {
        for actor in &mut self.actors {
            if let Some(capture) = &mut actor.capture {
                capture.drain();
            }
        }
    }

    pub(super) fn check_output(&mut self) -> Result<(), Lost> {
        let over = self.actors.iter().find_map(|a| a.capture.as_ref().filter(|c| c.overflowed()).map(|c| c.limit()));
        over.map_or(Ok(()), |limit| Err(Lost::Limit("output_bytes", limit)))
    }

    pub(super) fn end_sleep(&mut self, pid: Pid, step: Step) -> Result<(), Lost> {
        self.clock.advance_to(step.time_us);
        self.push(step);
        let actor = self.task(pid).actor;
        self.actors[actor].paused.take_if(|paused| *paused == pid);
        match self.task(pid).state {
            State::AtStep(Pending::Again { entry }) => {
                self.task_mut(pid).deadline = None;
                match crate::tracer::arch::decode(&entry) {
                    Some(call) => self.dispatch(pid, call, entry),
                    None => self.go_on(pid, 0),
                }
            }
            State::AtStep(_) | State::Ready(_) => {
                self.task_mut(pid).deadline = None;
                Ok(())
            }
            _ => self.wake(pid),
        }
    }
}
