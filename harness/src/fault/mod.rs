//! Faults: what can go wrong with a program or under it, where, and how a search tries it.
//!
//! A `[[fault]]` of a scenario is a [`Rule`]: what happens, to whom, at which steps. A *placement* is one way to let it
//! happen in a run, a list of [`Injection`](crate::world::Injection)s: the n-th matching step of one worker, or every
//! one. [`Sweep`] finds the placements from the steps that were seen and explores the orders of each of them, in turns
//! and with one budget. [`shrink_faults`] makes the faults of a found run fewer and earlier.
//!
//! | file | noun |
//! |---|---|
//! | `rule` | which steps a fault can hit |
//! | `sweep` | all placements, one search |
//! | `shrink` | fewer and earlier faults |
//! | `power_cut` | what a disk may hold after the power went |

pub mod power_cut;
mod rule;
mod shrink;
mod sweep;

pub use rule::{PAGE, Rule, Target};
pub use shrink::shrink_faults;
pub use sweep::Sweep;
