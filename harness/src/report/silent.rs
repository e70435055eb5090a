//! The report of a scenario of which nothing could be learnt.

use super::{EndedBy, Explored, Report, Verdict};
use crate::scenario::Scenario;

impl Report {
    /// Nothing was explored; `why`.
    pub fn silent(scenario: &Scenario, why: String) -> Report {
        Report {
            scenario: scenario.name.clone(),
            about: scenario.about.clone(),
            file: scenario.file.clone(),
            workers: scenario.workers.iter().map(|w| w.name.clone()).collect(),
            verdict: Verdict::CannotTell,
            expected: scenario.expect.clone(),
            as_expected: false,
            reason: Some(why),
            explored: Explored {
                schedules: 0,
                classes: 0,
                redundant: 0,
                steps: 0,
                exhausted: false,
                ended_by: EndedBy::LostControl,
                search: scenario.search.search.to_string(),
                seed: scenario.search.seed,
                seconds: 0.0,
                miss_bound: None,
                outcomes: 0,
                classes_hash: None,
            },
            coverage: "nothing was explored".into(),
            anomalies: Vec::new(),
            trace_hash: None,
            replay: None,
            warnings: Vec::new(),
            decisions: Vec::new(),
            part: None,
        }
    }
}
