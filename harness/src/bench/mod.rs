//! What lock strategies cost, and whether they lose anything.
//!
//! Each competitor (a strategy of the `queue` program, a peer, a command of the user's) is a set of real processes that
//! speak a small [`protocol`]. They begin together, push and take tasks in turns for a fixed time, and report every
//! operation. A [`Case`] is one competitor under one load; a [`Suite`] goes through all cases again and again, in turns,
//! and measures [floors](Floor) in between. In every slice tasks are counted ([`conserve`]): speed that loses tasks is
//! shown with what it lost.
//!
//! Data flows one way: [`catalogue`] and [`Loads`] -> [`Suite`] -> [`Results`] -> [`report`], [`compare`].

use serde::Serialize;

pub mod protocol;
pub mod report;

mod advice;
mod case;
mod catalogue;
mod compare;
mod competitor;
mod conserve;
mod floor;
mod lines;
mod machine;
mod results;
mod run_slice;
mod sample;
mod stats;
mod suite;
mod talker;
mod turns;
mod usage;

pub use advice::advise;
pub use case::{Case, Dimension, Loads};
pub use catalogue::{Tools, catalogue, names, write_peers};
pub use compare::{CompareError, Comparison, Judgement, Row, Rules, compare};
pub use competitor::{Competitor, Durability, Start, Store};
pub use conserve::{Conservation, Left, conserve};
pub use floor::Floor;
pub use machine::{Machine, Place};
pub use results::{Conditions, FloorResult, Missing, Noise, Quantiles, Results, Run};
pub use run_slice::{SliceError, Timing};
pub use sample::{Sample, Slice, Times};
pub use stats::{Interval, Pooled, differences, median, quantile, ratio};
pub use suite::{BenchError, Progress, Suite};
pub use talker::TalkError;

/// What a user needs of a strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Need {
    /// A finished operation survives a power cut.
    Durable,
    /// Nobody starves.
    Fair,
    /// It does without what only some systems have.
    Portable,
}
