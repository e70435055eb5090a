//! Reports: what people and machines read. Reporters consume a finished [`Report`]; they never compute verdicts.
//!
//! Each format is a [`Reporter`] in a file of its own. Names, paths, ids, results and file contents come from the
//! programs under test and are shown as text, whatever they contain (`text`).

mod advice;
mod github;
mod html;
mod human;
mod incident;
mod inspection;
mod json;
mod junit;
mod lanes;
mod model;
pub(crate) mod paint;
mod part;
mod recording;
mod reporter;
mod rows;
mod silent;
mod teeth;
mod teeth_json;
mod teeth_text;
pub(crate) mod text;
mod verdict;

pub use advice::{advice, page_of};
pub use github::Github;
pub use html::{Html, incident_html};
pub use human::{Detail, Human, HumanOptions, render};
pub use incident::{incident_json, incident_text};
pub use inspection::{fault_line, inspection_end, inspection_json};
pub use json::{Json, to_json};
pub use junit::Junit;
pub use model::{Anomaly, EndedBy, Explored, Report, StepLine, Verdict};
pub use part::{Part, classes_hash};
pub use recording::{recording_json, recording_text};
pub use reporter::Reporter;
pub use teeth::{Teeth, Tooth};
pub use teeth_json::{teeth_to_json, write_line};
pub use teeth_text::render_teeth;
pub use verdict::as_expected;
