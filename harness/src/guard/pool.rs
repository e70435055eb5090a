//! The engines of one scenario. The search is one deterministic sequence; engines beyond the first only run ahead of
//! it, so that the run of a plan is there when the plan's turn comes. A run is a function of its plan, whichever engine
//! makes it; so is the result of the search, with any number of them.

use std::{
    collections::VecDeque,
    os::fd::AsFd,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

use super::shared::Settings;
use crate::{
    explore::{Stop, effective_sleep},
    scenario::Scenario,
    tracer::{Engine, PrepareError},
    world::{Plan, Run, Tree},
};

/// Runs made ahead that are kept for their turn, for each engine.
const KEPT: usize = 16;
/// Plans looked at ahead, for each engine.
const AHEAD: usize = 3;
/// How often a wait looks at the clock.
const TICK: Duration = Duration::from_millis(50);

/// What would come next if the runs before it changed nothing: at most this many plans.
pub(super) type Upcoming<'f> = dyn FnMut(usize) -> Vec<Plan> + 'f;

pub(super) struct Pool {
    scenario: Scenario,
    settings: Settings,
    places: Vec<Place>,
    /// Runs made ahead, oldest first.
    done: VecDeque<(Plan, Run)>,
    initial: Tree,
    templates: bool,
    deadline: Option<Instant>,
    /// Deadline and interrupt are obeyed.
    limited: bool,
    /// A schedule was left because the time was over.
    cut: Option<Stop>,
}

struct Place {
    engine: Engine,
    busy: Option<Plan>,
}

impl Pool {
    /// One engine.
    pub(super) fn start(scenario: &Scenario, settings: &Settings) -> Result<Self, PrepareError> {
        let engine = Engine::start(scenario, settings.place)?;
        let initial = engine.initial().clone();
        Ok(Pool {
            scenario: scenario.clone(),
            settings: settings.clone(),
            places: vec![Place { engine, busy: None }],
            done: VecDeque::new(),
            initial,
            templates: false,
            deadline: None,
            limited: true,
            cut: None,
        })
    }

    /// The world before the first step.
    pub(super) fn initial(&self) -> &Tree {
        &self.initial
    }

    /// From now on a schedule is left when this much time is over, or the user interrupts.
    pub(super) fn limit(&mut self, time: Option<Duration>) {
        self.limited = true;
        self.deadline = time.map(|time| Instant::now() + time);
    }

    /// Why a schedule was left before its end, if one was.
    pub(super) fn cut(&self) -> Option<Stop> {
        self.cut
    }

    /// Whether a schedule may be left; after one was, none is.
    pub(super) fn is_limited(&self) -> bool {
        self.limited
    }

    /// The search is over: from now on no schedule is left before its end, so that what was found is made plain.
    pub(super) fn over(&mut self) {
        self.limited = false;
    }

    /// Turns templates on or off in every engine.
    /// Of each worker that is started afresh all the same it says why.
    pub(super) fn templates(&mut self, wanted: bool) -> Result<Vec<Option<String>>, PrepareError> {
        self.templates = wanted;
        self.places.truncate(1);
        self.rest()?;
        self.places[0].engine.templates(wanted)
    }

    /// Starts the engines that run ahead, as many as the settings ask for. An engine whose setup left another world is
    /// of no use.
    pub(super) fn grow(&mut self) {
        // Where there is one world for all, nobody runs ahead.
        let jobs = if self.places[0].engine.is_private() { self.settings.jobs.map_or(1, usize::from) } else { 1 };
        while self.places.len() < jobs {
            let Ok(mut engine) = Engine::start(&self.scenario, self.places.len()) else { return };
            if *engine.initial() != self.initial || engine.templates(self.templates).is_err() {
                return;
            }
            self.places.push(Place { engine, busy: None });
        }
    }

    /// The run of a plan. Engines that have nothing to do meanwhile run ahead of it.
    pub(super) fn run(&mut self, plan: &Plan, upcoming: &mut Upcoming<'_>) -> Result<Run, PrepareError> {
        let mut ahead = if self.places.len() > 1 { upcoming(AHEAD * self.places.len()) } else { Vec::new() };
        ahead.reverse();
        loop {
            if let Some(run) = self.take(plan) {
                return Ok(run);
            }
            let wanted = |place: &Place| place.busy.as_ref().is_some_and(|busy| alike(busy, plan));
            if !self.places.iter().any(wanted)
                && let Some(idle) = self.places.iter_mut().find(|p| p.busy.is_none())
            {
                idle.begin(plan)?;
            }
            while let Some(next) = ahead.pop() {
                let known = next == *plan
                    || self.done.iter().any(|(done, _)| alike(done, &next))
                    || self.places.iter().any(|p| p.busy.as_ref().is_some_and(|busy| alike(busy, &next)));
                if known {
                    continue;
                }
                let Some(idle) = self.places.iter_mut().find(|p| p.busy.is_none()) else {
                    ahead.push(next);
                    break;
                };
                idle.begin(&next)?;
            }
            self.wait()?;
        }
    }

    /// Looks for the run of a plan among those made ahead.
    fn take(&mut self, plan: &Plan) -> Option<Run> {
        let at = self.done.iter().position(|(done, _)| alike(done, plan))?;
        let (done, run) = self.done.remove(at)?;
        // A sleep set may have grown since; what only slept at the end of the prefix never mattered.
        let same = done.sleep == plan.sleep || effective_sleep(&done, &run) == effective_sleep(plan, &run);
        same.then_some(run)
    }

    /// Waits until some engine is done, and keeps its run.
    fn wait(&mut self) -> Result<(), PrepareError> {
        loop {
            let busy: Vec<usize> = (0..self.places.len()).filter(|i| self.places[*i].busy.is_some()).collect();
            let fd = |i: &usize| PollFd::new(self.places[*i].engine.as_fd(), PollFlags::POLLIN);
            let mut fds: Vec<PollFd<'_>> = busy.iter().map(fd).collect();
            let tick = PollTimeout::try_from(TICK).unwrap_or(PollTimeout::NONE);
            let ready: Vec<usize> = match poll(&mut fds, tick) {
                Ok(_) => {
                    let came = fds.iter().map(|fd| fd.revents().is_some_and(|events| !events.is_empty()));
                    busy.iter().zip(came).filter(|(_, came)| *came).map(|(i, _)| *i).collect()
                }
                Err(Errno::EINTR) => Vec::new(),
                Err(e) => return Err(PrepareError::Machine(format!("waiting for the engine: {e}"))),
            };
            // From the back, so that the engines that run ahead can leave.
            for i in ready.iter().rev() {
                self.collect(*i)?;
            }
            if !ready.is_empty() {
                return Ok(());
            }
            self.settings.tick();
            self.check_time()?;
        }
    }

    fn collect(&mut self, i: usize) -> Result<(), PrepareError> {
        let place = &mut self.places[i];
        let Some(plan) = place.busy.take() else { return Ok(()) };
        match place.engine.collect() {
            Ok(run) => {
                self.done.push_back((plan, run));
                if self.done.len() > KEPT * self.places.len() {
                    self.done.pop_front();
                }
                Ok(())
            }
            Err(e) if i == 0 => Err(e),
            // What is wrong with the plan the first engine will say when its turn comes.
            Err(_) => {
                self.places.remove(i);
                Ok(())
            }
        }
    }

    fn check_time(&mut self) -> Result<(), PrepareError> {
        let why = if !self.limited {
            return Ok(());
        } else if self.settings.interrupt.load(Ordering::Relaxed) {
            Stop::Interrupt
        } else if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            Stop::Time
        } else {
            return Ok(());
        };
        self.cut = Some(why);
        self.over();
        self.renew()?;
        Err(PrepareError::Machine("a schedule was left before its end".into()))
    }

    /// A fresh engine in the place of all: theirs are in the middle of something.
    fn renew(&mut self) -> Result<(), PrepareError> {
        self.places.clear();
        self.done.clear();
        let mut engine = Engine::start(&self.scenario, 0)?;
        engine.templates(self.templates)?;
        self.places.push(Place { engine, busy: None });
        Ok(())
    }

    /// Waits until nobody runs ahead.
    fn rest(&mut self) -> Result<(), PrepareError> {
        while self.places.iter().any(|place| place.busy.is_some()) {
            self.wait()?;
        }
        Ok(())
    }
}

impl Place {
    fn begin(&mut self, plan: &Plan) -> Result<(), PrepareError> {
        self.engine.submit(plan)?;
        self.busy = Some(plan.clone());
        Ok(())
    }
}

/// The same plan, but for the sleep set: a run with another fault, or without a protection, is another run.
fn alike(a: &Plan, b: &Plan) -> bool {
    // All fields are named, so that a new one cannot be forgotten here.
    let Plan { prefix, lenient, then, sleep: _, record, variant, faults, weakening } = a;
    (prefix, lenient, then) == (&b.prefix, &b.lenient, &b.then)
        && (record, variant, faults, weakening) == (&b.record, &b.variant, &b.faults, &b.weakening)
}
