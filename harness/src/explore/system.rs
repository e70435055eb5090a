//! The port to the engine that executes one whole schedule.

use crate::world::{Plan, Run};

/// Control was lost: nothing may be concluded from the run, nor from the search as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The engine no longer controls the actors (a step let through unseen, a tracee that vanished).
    #[error("control of the workers was lost: {0}")]
    Control(String),
    /// The engine itself failed (a system call of its own, an allocation, a dead helper process).
    #[error("the engine failed: {0}")]
    Engine(String),
}

/// Something that can execute a plan: the Linux tracer, or a model in the tests.
///
/// Exploration is stateless: each run starts from the same initial state, and the same plan gives the same run. The
/// engine asks [`chooser`](super::chooser)`(plan)` at each choice point.
pub trait System {
    /// Executes one schedule from its beginning to its end.
    ///
    /// # Errors
    /// [`Lost`] when control was lost or the engine died. How the *schedule* ended is in [`Run::ended`].
    fn run(&mut self, plan: &Plan) -> Result<Run, Lost>;
}
