//! The controlled world: actors, their steps, virtual time, and what a run leaves behind.
//!
//! This folder holds the *data* that every later layer consumes. How the data is made on Linux is in `tracer`.

mod access;
mod chooser;
mod disk;
mod outcome;
mod plan;
mod run;
mod step;
mod tree;
mod weakening;

pub use access::{Access, Inode, Mode, Object, Sync};
pub use chooser::{Chooser, Decision, View};
pub use disk::DiskModel;
pub use outcome::{ActorEnd, CheckResult, Node, Outcome};
pub use plan::{Choice, Injection, Plan, Policy, TimeModel, Variant};
pub use run::{Cut, Cuts, Ended, Run, Warning, WarningKind};
pub use step::{ACK_MARKER, ASKED_FLAG, ActorId, Effect, FAULT_FLAG, IN_ORDER_FLAG, Op, Step};
pub use tree::{Tree, WorkTree, read_node};
pub use weakening::{Protection, Weakening};
