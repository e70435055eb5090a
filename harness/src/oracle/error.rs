//! What can go wrong while judging, apart from the run itself.

use crate::world::ActorId;

/// An error of the oracle layer.
#[derive(Debug, thiserror::Error)]
pub enum OracleError {
    /// A glob of the scenario does not compile.
    #[error("[oracle] {key}: `{text}` is no glob: {source}")]
    Glob {
        /// The key it stands under.
        key: &'static str,
        /// As written.
        text: String,
        /// Why.
        source: globset::Error,
    },
    /// A JSON pointer of the scenario is malformed.
    #[error("[oracle] {key}: `{text}` is no JSON pointer: it must be empty or begin with `/`")]
    Pointer {
        /// The key it stands under.
        key: &'static str,
        /// As written.
        text: String,
    },
    /// A serial order could not be run.
    #[error("the serial order {order:?} could not be run: {source}")]
    SerialRun {
        /// The order.
        order: Vec<ActorId>,
        /// Why.
        source: RunError,
    },
    /// Control was lost during a serial order: nothing can be compared with it.
    #[error("control was lost in the serial order {order:?}: {why}")]
    SerialControl {
        /// The order.
        order: Vec<ActorId>,
        /// Why.
        why: String,
    },
}

/// Whatever made a run impossible, in the runner's own words.
pub type RunError = Box<dyn std::error::Error + Send + Sync>;
