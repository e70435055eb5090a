//! What the parts of a guard share: settings, errors, and one engine used by search and judges in turn.

use std::{
    cell::RefCell,
    num::NonZeroUsize,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

use super::pool::{Pool, Upcoming};
use crate::{
    explore::{Lost, Stop, System},
    oracle::{RunError, SerialRunner},
    tracer::PrepareError,
    world::{ActorId, Plan, Policy, Run, Variant},
};

/// How to verify a scenario, beyond what the scenario says.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Do not stop at the first anomaly.
    pub all: bool,
    /// Where replay files of what is found are written; `None`: nowhere.
    pub replay_dir: Option<PathBuf>,
    /// Raised to end the search; what is known so far is reported.
    pub interrupt: Arc<AtomicBool>,
    /// How many engines run at once (`None`: one); the result is the same.
    pub jobs: Option<NonZeroUsize>,
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
pub(super) struct Shared<'a>(pub &'a RefCell<Pool>);

impl Shared<'_> {
    /// Runs one plan.
    pub(super) fn run(&self, plan: &Plan) -> Result<Run, PrepareError> {
        self.run_ahead(plan, &mut |_| Vec::new())
    }

    /// Runs one plan of a sequence, of which more is known.
    pub(super) fn run_ahead(&self, plan: &Plan, upcoming: &mut Upcoming<'_>) -> Result<Run, PrepareError> {
        self.0.borrow_mut().run(plan, upcoming)
    }

    /// Why a schedule was left before its end, if one was.
    pub(super) fn cut(&self) -> Option<Stop> {
        self.0.borrow().cut()
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
        Shared::run(self, &plan).map_err(|e| RunError::from(e.to_string()))
    }
}
