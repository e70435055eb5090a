//! One schedule: who may go next, virtual time, and how a run ends.

mod asks;
mod serial;
mod stuck;

use asks::Due;

use std::time::Duration;

use nix::unistd::Pid;

use super::{
    filter::Filters,
    machine::{Lost, Machine},
    repeats::Repeats,
    start::Program,
    steps::Attempt,
    task::{Pending, State},
};
use crate::{
    scenario::Ends,
    world::{Access, ActorId, Choice, Chooser, Decision, Ended, Step, TimeModel, View, WarningKind},
};

/// A worker as the scheduler needs it.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    /// What to start.
    pub program: Program,
    /// Which workers must have ended first.
    pub after: Vec<usize>,
    /// When it is over.
    pub ends: Ends,
}

/// How one run is to be made.
pub(super) struct Order<'a> {
    /// The workers, as actors 0, 1, ...
    pub workers: &'a [Worker],
    /// Decides at each choice point.
    pub chooser: &'a mut dyn Chooser,
    /// Run the actors one after the other, whatever the chooser says.
    pub serial: Option<Vec<usize>>,
    /// The order is the one that virtual time gives: sleeps are as long as they say.
    pub timeline: bool,
    /// The model of time.
    pub time: TimeModel,
    /// Bytes of output kept per stream.
    pub output_limit: u64,
    /// The decisions made before (a run that goes on after a power cut).
    pub choices: Vec<Choice>,
    /// The power goes when so many decisions were made.
    pub cut: Option<usize>,
}

/// A schedule that came to its end.
pub(super) struct Finished {
    /// How.
    pub ended: Ended,
    /// The decisions made.
    pub choices: Vec<Choice>,
    /// What the steps that actors still waited with would have touched.
    pub pending: Vec<(ActorId, Vec<Access>)>,
    /// The power went: everybody was killed, and the run is to go on from what the disk holds.
    pub cut: bool,
}

/// The state of one run.
struct Schedule<'a> {
    order: Order<'a>,
    choices: Vec<Choice>,
    last: Option<ActorId>,
    repeats: Vec<Repeats>,
    /// Accesses that the next step of an actor gets in addition: it was started by others' ends.
    inherited: Vec<Vec<Access>>,
    /// A sleeper was woken in fair time since the last choice: the next step is a barrier.
    barrier: bool,
    /// Blocked steps were all tried once more before a deadlock is declared.
    tried_again: bool,
    /// In a serial order: workers that wait for more and let the next one begin.
    parked: Vec<usize>,
    cut: bool,
}

impl Machine {
    /// Runs one schedule to its end. All tasks are gone afterwards.
    pub(super) fn run(&mut self, mut order: Order<'_>, filters: &Filters) -> Result<Finished, Lost> {
        let count = order.workers.len();
        let choices = std::mem::take(&mut order.choices);
        let mut schedule = Schedule {
            order,
            choices,
            last: None,
            repeats: (0..count).map(|_| Repeats::default()).collect(),
            inherited: vec![Vec::new(); count],
            barrier: false,
            tried_again: false,
            parked: Vec::new(),
            cut: false,
        };
        self.waited_for = (0..count).map(|i| schedule.order.workers.iter().any(|w| w.after.contains(&i))).collect();
        let ended = schedule.run(self, filters);
        self.drain();
        let ended = ended?;
        let pending = self.pending_accesses();
        self.kill_all()?;
        Ok(Finished { ended, choices: schedule.choices, pending, cut: schedule.cut })
    }
}

impl Schedule<'_> {
    fn run(&mut self, machine: &mut Machine, filters: &Filters) -> Result<Ended, Lost> {
        loop {
            self.note_ends(machine);
            if self.start_due(machine, filters)? {
                continue;
            }
            machine.check_output()?;
            if machine.cut_points.last().is_none_or(|point| point.at != self.choices.len()) {
                machine.note_cut_point(self.choices.len());
            }
            if self.order.cut == Some(self.choices.len()) {
                self.cut = true;
                return Ok(Ended::Done);
            }
            machine.release_ready();
            if machine.interrupt_held()? {
                machine.settle()?;
                continue;
            }
            self.delay_before(machine);
            if let Some(ended) = self.choose_and_step(machine)? {
                return Ok(ended);
            }
        }
    }

    fn actors(&self) -> std::ops::Range<usize> {
        0..self.order.workers.len()
    }

    /// Who takes part: everybody, or those of a serial order.
    fn takes_part(&self) -> impl Iterator<Item = usize> {
        let serial = self.order.serial.clone();
        self.actors().filter(move |a| serial.as_ref().is_none_or(|order| order.contains(a)))
    }

    fn those(&self, fit: impl Fn(usize) -> bool) -> Vec<ActorId> {
        self.actors().filter(|a| fit(*a)).map(|a| ActorId(a as u16)).collect()
    }

    fn note_ends(&mut self, machine: &mut Machine) {
        for actor in self.actors() {
            let state = &machine.actors[actor];
            if state.started && !state.ended && !machine.tasks.values().any(|t| t.actor == actor) {
                machine.actors[actor].ended = true;
            }
        }
    }

    /// Starts one worker whose predecessors have ended.
    fn start_due(&mut self, machine: &mut Machine, filters: &Filters) -> Result<bool, Lost> {
        let current = self.order.serial.as_ref().map(|_| self.current(machine));
        for actor in self.actors() {
            let worker = &self.order.workers[actor];
            // In a serial order a worker begins when the one before it has ended, and nobody else takes part.
            let due = match current {
                Some(current) => current == Some(actor),
                None => worker.after.iter().all(|a| machine.actors[*a].ended),
            };
            if machine.actors[actor].started || !due {
                continue;
            }
            self.inherited[actor] = worker.after.iter().map(|a| super::machine::life(*a, false)).collect();
            machine.start(actor, &worker.program, filters, self.order.output_limit)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Steps that were reached and that a delay holds.
    fn delay_before(&mut self, machine: &mut Machine) {
        if machine.delays.is_empty() {
            return;
        }
        let reached: Vec<(Pid, Pending)> = machine
            .tasks
            .values()
            .filter_map(|t| match t.state {
                State::AtStep(pending @ Pending::Call { .. }) if !t.delay_checked => Some((t.pid, pending)),
                _ => None,
            })
            .collect();
        for (pid, pending) in reached {
            let draft = machine.draft(pid, &pending);
            let actor = machine.task(pid).actor;
            let group = machine.read_group(pid, &pending);
            let wait = machine.delays.before(actor, &draft, group);
            machine.task_mut(pid).delay_checked = true;
            if let Some(wait) = wait {
                machine.delay(pid, wait);
            }
        }
    }

    /// One decision and its step, or what ends the run.
    fn choose_and_step(&mut self, machine: &mut Machine) -> Result<Option<Ended>, Lost> {
        let ready = self.those(|a| machine.is_ready(a));
        if self.order.serial.is_some() {
            return self.serial_step(machine, &ready);
        }
        let eager: Vec<ActorId> = ready.iter().copied().filter(|a| !self.repeats[a.0 as usize].yields()).collect();
        if eager.len() < ready.len() && !eager.is_empty() {
            for actor in ready.iter().filter(|a| !eager.contains(a)) {
                let text = format!(
                    "{{{}}} repeats the same steps: its retries are not exhausted while others can run",
                    actor.0
                );
                machine.warn(WarningKind::Coverage, text);
            }
        }
        if eager.is_empty() {
            if let Some(pid) = machine.next_deadline(|_| true) {
                if let Some(ended) = self.idle_or_livelock(machine, &ready)? {
                    return Ok(Some(ended));
                }
                // While a worker stands still, the others go on polling: that moves the time on.
                let now = machine.clock.since_start();
                let still = matches!(pid, Due::Sleeper(p) if machine.actors[machine.task(p).actor].paused == Some(p));
                let polls = |a: &ActorId| self.repeats[a.0 as usize].since(now).is_some_and(|us| us > 0);
                if !(still && ready.iter().any(polls)) {
                    return self.wake(machine, pid).map(|()| None);
                }
            }
            if ready.is_empty() {
                return self.nobody_can_run(machine);
            }
            if let Some(ended) = self.idle_or_livelock(machine, &ready)? {
                return Ok(Some(ended));
            }
        }
        let candidates = if eager.is_empty() { ready } else { eager };
        let wakeable: Vec<ActorId> = match self.order.time {
            TimeModel::Adversarial => self.those(|a| machine.sleeps(a) && !machine.is_ready(a)),
            TimeModel::Fair | TimeModel::Real => Vec::new(),
        };
        let asleep = self.those(|a| machine.sleeps(a));
        let ended = self.those(|a| machine.actors[a].ended);
        let decision = {
            let cell = std::cell::RefCell::new(&mut *machine);
            let predict = |actor: ActorId| cell.borrow_mut().predict(actor.0 as usize);
            let view = View {
                number: self.choices.len(),
                last: self.last,
                ready: &candidates,
                wakeable: &wakeable,
                asleep: &asleep,
                ended: &ended,
                predict: &predict,
            };
            self.order.chooser.choose(&view)
        };
        match decision {
            Decision::SleepSet => Ok(Some(Ended::SleepSet)),
            Decision::Infeasible => Ok(Some(Ended::Infeasible(self.choices.len()))),
            Decision::Go(Choice::Step(actor)) => {
                let mut enabled = candidates;
                if !enabled.contains(&actor) {
                    return Err(Lost::Other(format!("the scheduler chose actor {} which cannot run", actor.0)));
                }
                enabled.sort_unstable();
                self.step(machine, actor, enabled, wakeable)
            }
            Decision::Go(Choice::Wake(actor)) => {
                let Some(pid) = machine.next_deadline(|a| a == actor.0 as usize) else {
                    return Err(Lost::Other(format!("the scheduler woke actor {} which does not sleep", actor.0)));
                };
                self.choices.push(Choice::Wake(actor));
                self.wake_early(machine, pid, candidates, wakeable)?;
                Ok(None)
            }
        }
    }

    fn step(
        &mut self,
        machine: &mut Machine,
        actor: ActorId,
        enabled: Vec<ActorId>,
        wakeable: Vec<ActorId>,
    ) -> Result<Option<Ended>, Lost> {
        let index = actor.0 as usize;
        let from = machine.steps.len();
        let attempt = machine.make_step(index, &enabled)?;
        if attempt == Attempt::Made {
            self.tried_again = false;
            self.choices.push(Choice::Step(actor));
            self.last = Some(actor);
        }
        machine.settle()?;
        if let Some(step) = machine.steps.get_mut(from..).and_then(|new| new.iter_mut().find(|s| s.chosen)) {
            step.wakeable = wakeable;
        }
        self.learn(machine, from, index);
        Ok(None)
    }

    /// Tells everybody about the steps since `from`.
    fn learn(&mut self, machine: &mut Machine, from: usize, actor: usize) {
        let from = from.min(machine.steps.len());
        if let Some(step) = machine.steps[from..].iter_mut().find(|s| s.chosen) {
            step.accesses.append(&mut self.inherited[actor]);
            step.barrier |= std::mem::take(&mut self.barrier);
        }
        let now = machine.clock.since_start();
        let private: Vec<u64> = machine.actors.iter_mut().map(|a| std::mem::take(&mut a.private)).collect();
        for step in &machine.steps[from..] {
            self.order.chooser.stepped(step);
            for (other, repeats) in self.repeats.iter_mut().enumerate() {
                if other == step.actor.0 as usize {
                    repeats.made(step, private[other], now);
                } else {
                    repeats.others(step);
                }
            }
        }
    }

    /// The earliest sleeper's time is up, and nobody else can run.
    fn wake(&mut self, machine: &mut Machine, due: Due) -> Result<(), Lost> {
        let (actor, step) = machine.wake_step(due)?;
        self.inherited[actor].extend(machine.given_up(due));
        // The next step comes after everything so far, and everything later after it.
        self.barrier = true;
        let timeline = self.order.timeline;
        let mattered = machine.steps[machine.slept_at(due).min(machine.steps.len())..]
            .iter()
            .any(|s| s.chosen && s.actor.0 as usize != actor);
        if mattered
            && !timeline
            && self.order.serial.is_none()
            && self.order.time == TimeModel::Fair
            && machine.explored
        {
            let others = self
                .actors()
                .filter(|a| *a != actor && machine.actors[*a].started)
                .map(|a| format!("{{{a}}}"))
                .collect::<Vec<_>>()
                .join(", ");
            machine.warn(
                WarningKind::Coverage,
                format!("{{{actor}}}'s {} was taken to outlast {others}: try --time adversarial", step.result),
            );
        }
        self.end_sleep(machine, due, actor, step)
    }

    /// A sleep or time-out ends early, because the scheduler wants it.
    fn wake_early(
        &mut self,
        machine: &mut Machine,
        due: Due,
        enabled: Vec<ActorId>,
        wakeable: Vec<ActorId>,
    ) -> Result<(), Lost> {
        let (actor, mut step) = machine.wake_step(due)?;
        step.accesses = machine.given_up(due);
        step.flags.push("early".into());
        step.chosen = true;
        step.enabled = enabled;
        step.wakeable = wakeable;
        step.accesses.push(Access::new(crate::world::Object::Life(ActorId(actor as u16)), crate::world::Mode::Write));
        self.end_sleep(machine, due, actor, step)
    }

    fn end_sleep(&mut self, machine: &mut Machine, due: Due, actor: usize, step: Step) -> Result<(), Lost> {
        let from = machine.steps.len();
        self.tried_again = false;
        if self.order.time == TimeModel::Real {
            std::thread::sleep(Duration::from_micros(step.time_us.saturating_sub(machine.clock.since_start())));
        }
        machine.end_sleep(due, step)?;
        machine.settle()?;
        self.learn(machine, from, actor);
        Ok(())
    }
}
