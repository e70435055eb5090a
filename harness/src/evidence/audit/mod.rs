//! Audit lines: one per read-modify-write, and what they give away.
//!
//! [`inspect`] reads files of them ([`Line`]), however large, in the order in which they were rotated, and judges each
//! queue file of its own ([`Judge`]): two writers that read one version, a version that goes back, comes twice or out
//! of nowhere, and a content that nobody wrote.

mod fault;
mod follow;
mod judge;
mod line;
mod ranges;
mod rotation;
mod run;

pub use fault::{Fault, FaultKind};
pub use follow::follow;
pub use judge::Judge;
pub use line::{Line, Malformed};
pub use run::{Inspection, MAX_FAULTS, MAX_LINE, inspect};
