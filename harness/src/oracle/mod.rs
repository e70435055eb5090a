//! What judges a run.
//!
//! **Judges accuse.** [`Judge`] holds those of a scenario: *serial* (some serial order of the workers, or of their
//! operations, explains the outcome), *conserve* (every id is executed once or still queued), *check* (the user's
//! command), *torn file* (a fault left half a file), and the ends nobody wants (deadlock, stale lock, livelock). A [`Judgement`] is right, wrong or unknown.
//!
//! **Witnesses name.** [`History`] (versions, who read what), [`LockTrace`] and [`Lockset`] (who owned what), and the
//! torn witness never accuse a run that the judges pass: [`name()`] uses them to say what happened in a run that failed,
//! and [`witness_warnings`] what is worth knowing anyway.
//!
//! # How to use it
//! 1. [`Judge::new`] with the scenario and the initial world; [`Judge::first_reference`] with the first run;
//!    [`Sharing`] and [`Lockset`] observe every run.
//! 2. [`Judge::judge`] each run. Runs need not be recorded unless [`Judge::needs_record`].
//! 3. When a run is wrong: the same choices again, recorded; then [`name()`] and [`step_lines`].
//!
//! Serial runs come from the caller ([`SerialRunner`]): each order at most twice, at most 120 orders of one set of
//! workers.

mod atomic;
mod case;
mod compare;
mod conserve;
mod digest;
mod duplicates;
mod ending;
mod error;
mod failures;
mod film;
mod graph;
mod history;
mod hits;
mod items;
mod json;
mod judge;
mod judgement;
mod lines;
mod locks;
mod lockset;
mod lost;
mod mask;
mod naming;
mod operations;
mod orders;
mod outcome;
mod reference;
mod rules;
mod serial;
mod sharing;
mod story;
#[cfg(test)]
mod tests;
mod text;
mod torn;
mod torn_file;
mod warnings;

pub use atomic::Atomic;
pub use case::Case;
pub use digest::outcome_digest;
pub use duplicates::{Duplicate, duplicates};
pub use error::{OracleError, RunError};
pub use film::{Film, Holding, Reel};
pub use history::{Frame, History, Reading, Stray, Version};
pub use judge::Judge;
pub use judgement::{Accusation, Judgement, Wrong};
pub use lines::step_lines;
pub use locks::{Held, LockTrace};
pub use lockset::Lockset;
pub use lost::{LostUpdate, lost_updates};
pub use naming::{Named, name};
pub use operations::MARKER;
pub use reference::SerialRunner;
pub use sharing::Sharing;
pub use torn::{InvalidTime, invalid_json, readings_of_unpublished, torn_readings};
pub use torn_file::TornFile;
pub use warnings::witness_warnings;
