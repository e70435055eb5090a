//! Which order of steps to try next.
//!
//! An engine (a [`System`]) executes one whole schedule; exploration decides which. It is stateless: a schedule is a
//! [`Plan`](crate::world::Plan), a finished [`Run`](crate::world::Run) says what happened, and nothing else is kept of
//! the programs.

mod class;
mod coverage;
mod dpor;
mod explorer;
mod follow;
mod partition;
mod pivot;
mod policy;
mod portfolio;
mod races;
mod replay;
mod rng;
mod shrink;
mod system;
mod trace;
mod trace_hash;

pub use class::class_key;
pub use coverage::coverage;
pub use dpor::Unrepeatable;
pub use explorer::{Explorer, Seen, Stop, Summary};
pub use follow::chooser;
pub use pivot::{Pivot, pivot};
pub use portfolio::miss_bound;
pub use replay::{Divergence, Expected, Origin, Replay, ReplayError};
pub use shrink::{Shrunk, context_switches, shrink};
pub use system::{Lost, System};
pub use trace_hash::TraceHash;
