//! Joining the reports of the parts of one search (`--partition K/N`) into the report of the whole.
//!
//! Each part is a process of its own, perhaps on a machine of its own; all that comes back is its JSON report. Its
//! `partition` object says which part it is, of what, and what it found in a form that can be joined: the names of its
//! classes and of its outcomes. Nothing is joined that does not belong together: a part that is missing or there twice,
//! and parts of different inputs, are mistakes.
//!
//! What is summed: schedules, redundant runs, steps, seconds. What is united: classes, outcomes, anomalies, warnings.
//! The verdict is the most severe one, `exhausted` holds if it holds of each part. Canary, double run and serial orders
//! were made by every part and are not among the schedules of any.
//!
//! **Hashes.** A part executes other schedules of the same classes than the whole search does (it cannot skip a branch
//! of the top because of what another part finds), so the whole's `trace_hash`, which is made of schedules, cannot be
//! had from parts. The joined one is SHA-256 over the parts' hashes in the order of the parts: the same inputs in the
//! same number of parts give the same. `classes_hash` is SHA-256 over the sorted names of the classes: it is the same
//! for the whole and for any number of parts, when all of them are exhausted.

mod join;
mod part;

pub use join::{MergeError, merge};
pub use part::{PartReport, read_reports};
