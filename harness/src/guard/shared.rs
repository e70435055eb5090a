//! What the parts of a guard share: settings, errors, and one engine used by search and judges in turn.

use std::{
    cell::RefCell,
    num::NonZeroUsize,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

use super::{
    pool::{Pool, Upcoming},
    watch::Watch,
};
use crate::{
    explore::{Lost, Stop, System},
    oracle::{RunError, SerialRunner},
    tracer::PrepareError,
    world::{ActorId, Plan, Policy, Run, Variant, Weakening},
};

/// How to verify a scenario, beyond what the scenario says.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Do not stop at the first anomaly.
    pub all: bool,
    /// Where replay files of what is found are written; `None`: nowhere.
    pub replay_dir: Option<PathBuf>,
    /// One more worker is tried when every order of the scenario's own was.
    pub grow: bool,
    /// Explore only this part, from 1, of so many.
    pub part: Option<(u32, u32)>,
    /// What the names of replay files have behind the scenario's name.
    pub replay_suffix: String,
    /// Raised to end the search; what is known so far is reported.
    pub interrupt: Arc<AtomicBool>,
    /// How many engines run at once (`None`: one); the result is the same.
    pub jobs: Option<NonZeroUsize>,
    /// The CPU that the first engine runs on, of those that this process may use; the result is the same.
    pub place: usize,
    /// A worker all by itself, without a fault, is no answer: there is nothing that it could race with.
    pub needs_company: bool,
    /// Who is told how far it has come.
    pub watch: Option<Arc<dyn Watch>>,
}

impl Settings {
    /// Time passes, and nothing else has happened.
    pub(super) fn tick(&self) {
        if let Some(watch) = &self.watch {
            watch.tick();
        }
    }
}

/// A scenario could not be verified at all.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// A mistake of the user's: exit 2.
    #[error("{0}")]
    Mistake(String),
    /// This machine does not allow it, or control was lost: exit 3.
    #[error("{0}")]
    CannotTell(String),
}

impl From<PrepareError> for GuardError {
    fn from(error: PrepareError) -> Self {
        match error {
            PrepareError::Scenario(e) => GuardError::Mistake(e),
            PrepareError::Machine(e) => GuardError::CannotTell(e),
        }
    }
}

/// The engines, borrowed for one run at a time: search and judges call them in turns.
#[derive(Clone, Copy)]
pub(super) struct Shared<'a> {
    pub engine: &'a RefCell<Pool>,
    weakening: Option<&'a Weakening>,
}

impl<'a> Shared<'a> {
    pub(super) fn new(engine: &'a RefCell<Pool>) -> Self {
        Shared { engine, weakening: None }
    }

    /// From now on the programs do not have this protection, except in serial orders: those say what is right.
    pub(super) fn weakened(self, weakening: Option<&'a Weakening>) -> Self {
        Shared { weakening, ..self }
    }

    /// The same engine, and the programs have all they ask for.
    pub(super) fn strong(self) -> Self {
        Shared { weakening: None, ..self }
    }

    /// The protection that is weakened.
    pub(super) fn weakening(&self) -> Option<&'a Weakening> {
        self.weakening
    }
}

impl Shared<'_> {
    /// Runs one plan.
    pub(super) fn run(&self, plan: &Plan) -> Result<Run, PrepareError> {
        self.run_ahead(plan, &mut |_| Vec::new())
    }

    /// Runs one plan of a sequence, of which more is known.
    pub(super) fn run_ahead(&self, plan: &Plan, upcoming: &mut Upcoming<'_>) -> Result<Run, PrepareError> {
        let Some(weakening) = self.weakening else { return self.engine.borrow_mut().run(plan, upcoming) };
        let weaken = |plan: Plan| Plan { weakening: Some(weakening.clone()), ..plan };
        let mut weakened = |n| upcoming(n).into_iter().map(weaken).collect();
        self.engine.borrow_mut().run(&weaken(plan.clone()), &mut weakened)
    }

    /// Whether a schedule may be left before its end.
    pub(super) fn is_limited(&self) -> bool {
        self.engine.borrow().is_limited()
    }

    /// Why a schedule was left before its end, if one was.
    pub(super) fn cut(&self) -> Option<Stop> {
        self.engine.borrow().cut()
    }
}

impl System for Shared<'_> {
    fn run(&mut self, plan: &Plan) -> Result<Run, Lost> {
        Shared::run(self, plan).map_err(|e| Lost::Engine(e.to_string()))
    }
}

impl SerialRunner for Shared<'_> {
    fn run_serial(&mut self, order: &[ActorId], variant: Variant) -> Result<Run, RunError> {
        let plan = Plan { variant, ..Plan::from_policy(Policy::Serial(order.to_vec())) };
        self.strong().run(&plan).map_err(|e| RunError::from(e.to_string()))
    }
}
