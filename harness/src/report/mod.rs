//! Reports: what people and machines read. Reporters consume a finished [`Report`]; they never compute verdicts.

mod model;
mod verdict;

pub use model::{Anomaly, EndedBy, Explored, Report, StepLine, Verdict};
pub use verdict::as_expected;
