//! Reports: what people and machines read. Reporters consume a finished [`Report`]; they never compute verdicts.

mod model;

pub use model::{Anomaly, EndedBy, Explored, Report, StepLine, Verdict};
