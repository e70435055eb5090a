//! A JSON task queue in one file, and the ways to keep its writers apart.
//!
//! The file is `{"version": N, "tasks": [...]}`: readable, easy to edit by hand, and shared by processes that each
//! read it, change it and write it back. *The simpler the queue file, the more you must ask how many writers it has*:
//! without protection the writers silently overwrite each other. This crate holds the queue, the unprotected way
//! ([`Naive`]) and the ways that are safe ([`Flock`], [`LockDir`], [`Optimistic`], [`Sharded`], [`Writer`]), and the
//! evidence that each write leaves behind ([`snapshot`], [`audit`]).
//!
//! - [`Queue`] has the operations: push, claim, complete, extend, release, process, edit, move, list. They are written
//!   once, as [data](Operation); a [`strategy`] decides only who may come in between, and a [`storage`] where the steps
//!   go. So the very code that runs on the disk is what the loom models and property tests in `tests/` take through every
//!   interleaving and every crash.
//! - [`Document`] and [`Task`] are the file. What they do not understand they give back unchanged.
//! - [`cli`] is the program `queue`, usable from any script.
//!
//! An id names one task of its file. `complete` is accepted once per id, and a push of an id that is queued, claimed,
//! dead, or was completed lately adds nothing. *Execution* is another matter: a task is delivered again if it is released,
//! if its lease runs out, or if its worker dies between claim and completion under a lease; so work must bear being
//! repeated.
#![deny(missing_docs)]

pub mod audit;
pub mod cli;
pub mod snapshot;
pub mod storage;
pub mod strategy;

mod document;
mod error;
mod json;
mod lease;
mod note;
mod operation;
mod paths;
mod queue;
mod quick;
mod redo;
mod relocate;
mod sealed;
mod splice;
mod task;
mod transaction;

pub use document::{Document, Done};
pub use error::{Error, Malformed, Position};
pub use json::MAX_DEPTH;
pub use lease::{Deadline, Moment, Token};
pub use operation::{Context, Hold, Operation, Push, Reply};
pub use queue::{Claim, Edit, Owner, Queue, Work};
pub use strategy::{Flock, LockDir, Naive, Optimistic, Sharded, Writer};
pub use task::{DEFAULT_ACCOUNT, MAX_ID, State, Task};
pub use transaction::{Access, Change, Durability, Loaded, Settings};
