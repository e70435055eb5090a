//! What the scheduler asks of the machine: what comes next, who sleeps until when, who waits for what.

use std::time::Duration;

use nix::{sys::signal::Signal, unistd::Pid};

use crate::{
    tracer::{
        calls::Call,
        draft::Draft,
        machine::{Lost, Machine},
        task::{InCall, Pending, State},
    },
    world::{Access, ActorId, Mode, Op, Step},
};

/// What is due next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tracer) enum Due {
    /// The sleep, time-out or delay of a task.
    Sleeper(Pid),
    /// A timer, by its place in the list.
    Timer(usize),
}

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
    /// A timer comes after the sleepers of its moment and actor.
    pub(in crate::tracer) fn next_deadline(&self, of: impl Fn(usize) -> bool) -> Option<Due> {
        let sleeper = self
            .tasks
            .values()
            .filter(|t| of(t.actor))
            .filter_map(|t| Some((t.deadline?, t.actor, t.number, t.pid)))
            .min()
            .map(|(at, actor, _, pid)| (at, actor, Due::Sleeper(pid)));
        let timer = self.timers.next(of).map(|(at, actor, n)| (at, actor, Due::Timer(n)));
        sleeper.into_iter().chain(timer).min_by_key(|(at, actor, _)| (*at, *actor)).map(|(.., due)| due)
    }

    pub(super) fn sleeps(&self, actor: usize) -> bool {
        self.tasks.values().any(|t| t.actor == actor && t.deadline.is_some())
            || self.timers.next(|a| a == actor).is_some()
    }

    /// How many steps had been made when a sleeper fell asleep, or a timer was set.
    pub(super) fn slept_at(&self, due: Due) -> usize {
        match due {
            Due::Sleeper(pid) => self.task(pid).slept_at,
            Due::Timer(n) => self.timers.list[n].set_at,
        }
    }

    /// What the attempt that a waiter gives up at its time-out looked at.
    pub(super) fn given_up(&mut self, due: Due) -> Vec<Access> {
        let Due::Sleeper(pid) = due else { return Vec::new() };
        let State::Blocked(pending) = self.task(pid).state else { return Vec::new() };
        let accesses = self.draft(pid, &pending).accesses;
        accesses.into_iter().map(|a| Access { mode: Mode::Read, sync: None, ..a }).collect()
    }

    /// Holds a task for some virtual time.
    pub(in crate::tracer) fn delay(&mut self, pid: Pid, wait: Duration) {
        let (now, steps) = (self.clock.since_start(), self.steps.len());
        let task = self.task_mut(pid);
        task.deadline = Some(now + wait.as_micros() as u64);
        task.slept_from = now;
        task.slept_at = steps;
    }

    pub(super) fn wake_step(&self, due: Due) -> Result<(usize, Step), Lost> {
        let pid = match due {
            Due::Sleeper(pid) => pid,
            Due::Timer(n) => {
                let lost = || Lost::Other("a timer of a process that is gone".into());
                let (timer, pid) = (&self.timers.list[n], self.timer_task(n).ok_or_else(lost)?);
                let wakes = timer.due.unwrap_or(0).max(self.clock.since_start());
                let length = Duration::from_micros(wakes.saturating_sub(timer.set_from));
                let mut step = self.bare_step(pid, Op::Sleep);
                step.time_us = wakes;
                step.result = format!("timer of {}", crate::scenario::format_duration(length));
                return Ok((timer.actor, step));
            }
        };
        let task = self.task(pid);
        let wakes = task.deadline.unwrap_or(0).max(self.clock.since_start());
        let slept = Duration::from_micros(wakes.saturating_sub(task.slept_from));
        let what = match task.state {
            State::Asleep(InCall::Sleeping { .. }) => "sleep",
            State::Asleep(_) | State::Blocked(_) => "time-out",
            _ if self.actors[task.actor].paused == Some(pid) => "pause",
            _ => "delay",
        };
        let mut step = self.bare_step(pid, Op::Sleep);
        step.time_us = wakes;
        step.result = format!("{what} of {}", crate::scenario::format_duration(slept));
        Ok((task.actor, step))
    }

    /// All blocked steps are tried again: perhaps a release was missed.
    pub(super) fn retry_blocked(&mut self) {
        for task in self.tasks.values_mut() {
            // Channels are asked whether they are ready.
            if let State::Blocked(pending) = task.state
                && task.deadline.is_none()
                && matches!(pending, Pending::Call { call: Call::Flock { .. } | Call::Fcntl { .. }, .. })
            {
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

    /// Sends a signal to the first process of an actor; SIGKILL to all of them.
    pub(super) fn signal_actor(&mut self, actor: usize, signal: Signal) {
        let main = self.actors[actor].main;
        let processes: Vec<Pid> = self
            .tasks
            .values()
            .filter(|t| t.actor == actor && t.pid == t.process)
            .filter(|t| signal == Signal::SIGKILL || Some(t.pid) == main)
            .map(|t| t.process)
            .collect();
        for process in processes {
            self.send_signal(process, None, signal as i32);
        }
    }

    /// Takes what workers have printed, which wakes those that wait for room in the pipe.
    pub(in crate::tracer) fn drain(&mut self) {
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

    pub(super) fn end_sleep(&mut self, due: Due, step: Step) -> Result<(), Lost> {
        self.clock.advance_to(step.time_us);
        self.push(step);
        let pid = match due {
            Due::Sleeper(pid) => pid,
            Due::Timer(n) => {
                self.fire(n);
                return Ok(());
            }
        };
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
            State::Blocked(Pending::Call { call, entry }) => {
                let result = self.time_out_result(pid, &call);
                crate::tracer::syscalls::answer(pid, entry, result)?;
                let task = self.task_mut(pid);
                (task.deadline, task.wait_until) = (None, None);
                task.state = State::Ready(0);
                Ok(())
            }
            State::AtStep(_) | State::Ready(_) => {
                self.task_mut(pid).deadline = None;
                Ok(())
            }
            _ => self.wake(pid),
        }
    }
}
