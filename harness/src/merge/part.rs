//! The report of one part, as it comes back.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::MergeError;
use crate::{
    report::{Anomaly, Part, StepLine},
    scenario::{Expect, Kind},
};

/// The schema of the reports that are read.
const SCHEMA: u64 = 1;

/// One line of a part's JSON output.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct PartReport {
    pub schema: u64,
    pub scenario: String,
    pub verdict: String,
    #[serde(deserialize_with = "expected")]
    pub expected: Option<Expect>,
    pub reason: Option<String>,
    pub explored: PartExplored,
    #[serde(deserialize_with = "anomalies")]
    pub anomalies: Vec<Anomaly>,
    pub trace_hash: Option<String>,
    pub warnings: Vec<String>,
    /// Which part it is.
    pub partition: Part,
    /// Where it was read.
    #[serde(skip)]
    pub source: String,
}

/// Its numbers.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct PartExplored {
    pub schedules: u64,
    pub redundant: u64,
    pub steps: u64,
    pub exhausted: bool,
    pub ended_by: String,
    pub search: String,
    pub seed: u64,
    pub seconds: f64,
    pub miss_bound: Option<BTreeMap<String, f64>>,
}

/// Reads the reports in a file (`-`: standard input): one JSON object a line, as `--format json` writes them.
///
/// # Errors
/// What is no report of a part, with file and line.
pub fn read_reports(file: &Path) -> Result<Vec<PartReport>, MergeError> {
    let name = file.display().to_string();
    let text = match name.as_str() {
        "-" => std::io::read_to_string(std::io::stdin()),
        _ => std::fs::read_to_string(file),
    };
    let text = text.map_err(|source| MergeError::Io { file: name.clone(), source })?;
    let mut reports = Vec::new();
    for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = format!("{name}:{}", n + 1);
        reports.push(read(line, place)?);
    }
    if reports.is_empty() {
        return Err(MergeError::Empty(name));
    }
    Ok(reports)
}

fn read(line: &str, place: String) -> Result<PartReport, MergeError> {
    let format = |source| MergeError::Format { place: place.clone(), source };
    let value: Value = serde_json::from_str(line).map_err(format)?;
    if value["schema"].as_u64().is_some_and(|found| found != SCHEMA) {
        return Err(MergeError::Schema { place, found: value["schema"].to_string() });
    }
    if value.is_object() && value.get("scenario").is_some() && value["partition"].is_null() {
        return Err(MergeError::Whole(place));
    }
    let report: PartReport = serde_json::from_value(value).map_err(format)?;
    let part = &report.partition;
    if part.part < 1 || part.part > part.of {
        return Err(MergeError::Number { place, part: part.part, of: part.of });
    }
    Ok(PartReport { source: place, ..report })
}

fn expected<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Expect>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        One(String),
        Several(Vec<String>),
    }
    let text = match Option::<Written>::deserialize(from)? {
        None => return Ok(None),
        Some(Written::One(word)) => word,
        Some(Written::Several(words)) => words.join(","),
    };
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

fn anomalies<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Anomaly>, D::Error> {
    #[derive(Deserialize)]
    struct Written {
        kind: String,
        summary: String,
        lost: Vec<String>,
        duplicated: Vec<String>,
        actors: Vec<String>,
        needs: Vec<String>,
        steps: Vec<Line>,
        pivot: Option<(usize, usize)>,
        #[serde(default)]
        evidence: Vec<String>,
        replay: Option<String>,
    }
    #[derive(Deserialize)]
    struct Line {
        n: usize,
        actor: String,
        op: String,
        path: String,
        result: String,
        time_ms: u64,
        note: Option<String>,
        #[serde(default)]
        chosen: bool,
    }
    let line = |l: Line| StepLine {
        n: l.n,
        actor: l.actor,
        op: l.op,
        path: l.path,
        result: l.result,
        time_ms: l.time_ms,
        note: l.note,
        chosen: l.chosen,
    };
    let anomaly = |w: Written| {
        Ok(Anomaly {
            kind: w.kind.parse::<Kind>().map_err(serde::de::Error::custom)?,
            summary: w.summary,
            lost: w.lost,
            duplicated: w.duplicated,
            actors: w.actors,
            needs: w.needs,
            steps: w.steps.into_iter().map(line).collect(),
            pivot: w.pivot,
            evidence: w.evidence,
            replay: w.replay,
            film: Default::default(),
            run: None,
        })
    };
    Vec::<Written>::deserialize(from)?.into_iter().map(anomaly).collect()
}
