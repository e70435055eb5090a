//! Which reports belong together, and what they say together.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    time::Duration,
};

use sha2::{Digest, Sha256};

use super::PartReport;
use crate::{
    explore::{Stop, Summary, coverage},
    report::{Anomaly, EndedBy, Explored, Report, Verdict, as_expected, classes_hash},
    world::{Warning, WarningKind},
};

/// Reports that cannot be joined: a mistake, exit 2.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A file that cannot be read.
    #[error("{file}: {source}")]
    Io {
        /// Which.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// A file without a report.
    #[error("{0}: no report in it; give what `--format json --partition K/N` wrote")]
    Empty(String),
    /// No JSON report.
    #[error("{place}: not a report: {source}; give what `--format json --partition K/N` wrote")]
    Format {
        /// File and line.
        place: String,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// Of another version.
    #[error("{place}: schema {found} is not of this version")]
    Schema {
        /// File and line.
        place: String,
        /// What it says.
        found: String,
    },
    /// The report of a whole search.
    #[error("{0}: the report of a whole search, not of a part: only what `--partition K/N` wrote can be joined")]
    Whole(String),
    /// A number that is none.
    #[error("{place}: part {part} of {of} does not exist")]
    Number {
        /// File and line.
        place: String,
        /// Which part it says it is.
        part: u32,
        /// Of how many.
        of: u32,
    },
    /// Parts that are not there.
    #[error("`{scenario}`: part {missing} of {of} is missing")]
    Missing {
        /// The scenario.
        scenario: String,
        /// The numbers.
        missing: String,
        /// Of how many.
        of: u32,
    },
    /// A part that is there twice.
    #[error("`{scenario}`: part {part} of {of} is there twice: {first} and {second}")]
    Twice {
        /// The scenario.
        scenario: String,
        /// Its number.
        part: u32,
        /// Of how many.
        of: u32,
        /// Where.
        first: String,
        /// And where.
        second: String,
    },
    /// Parts of different searches.
    #[error("`{scenario}`: {first} and {second} are parts of different searches: {what}")]
    Differ {
        /// The scenario.
        scenario: String,
        /// Where.
        first: String,
        /// And where.
        second: String,
        /// What differs.
        what: String,
    },
}

/// Joins the reports of parts: one report for each scenario, in the order in which they first occur.
///
/// # Errors
/// What does not belong together.
pub fn merge(reports: Vec<PartReport>) -> Result<Vec<Report>, MergeError> {
    let mut scenarios: Vec<(String, Vec<PartReport>)> = Vec::new();
    for report in reports {
        match scenarios.iter_mut().find(|(name, _)| *name == report.scenario) {
            Some((_, parts)) => parts.push(report),
            None => scenarios.push((report.scenario.clone(), vec![report])),
        }
    }
    scenarios.into_iter().map(|(_, parts)| check(parts).map(join)).collect()
}

/// The parts in their order, if each is there once and all are of one search.
fn check(mut parts: Vec<PartReport>) -> Result<Vec<PartReport>, MergeError> {
    parts.sort_by_key(|p| p.partition.part);
    let scenario = parts[0].scenario.clone();
    // One part that could not begin does not know its inputs.
    let known = parts.iter().find(|p| p.partition.inputs.is_some()).unwrap_or(&parts[0]).clone();
    let first_run = parts.iter().find(|p| p.partition.first_run.is_some()).unwrap_or(&parts[0]).clone();
    let of = known.partition.of;
    for part in &parts {
        let differ = |other: &PartReport, what: &str| {
            let (first, second) = (other.source.clone(), part.source.clone());
            MergeError::Differ { scenario: scenario.clone(), first, second, what: what.to_owned() }
        };
        let differs = |a: &Option<String>, b: &Option<String>| a.is_some() && b.is_some() && a != b;
        if part.partition.of != of {
            let what = format!("one is of {of} parts, the other of {}", part.partition.of);
            return Err(differ(&known, &what));
        }
        if differs(&part.partition.version, &known.partition.version) {
            return Err(differ(&known, "they were made by different versions of noclobber"));
        }
        if differs(&part.partition.inputs, &known.partition.inputs) || part.explored.seed != known.explored.seed {
            return Err(differ(&known, "the scenario, its files, its seed or its options are not the same"));
        }
        if differs(&part.partition.first_run, &first_run.partition.first_run) {
            return Err(differ(&first_run, "the same schedule did something else: the programs are not the same"));
        }
    }
    if let Some(pair) = parts.windows(2).find(|pair| pair[0].partition.part == pair[1].partition.part) {
        let (part, first, second) = (pair[0].partition.part, pair[0].source.clone(), pair[1].source.clone());
        return Err(MergeError::Twice { scenario, part, of, first, second });
    }
    let there: BTreeSet<u32> = parts.iter().map(|p| p.partition.part).collect();
    let missing: Vec<String> = (1..=of).filter(|k| !there.contains(k)).take(20).map(|k| k.to_string()).collect();
    if !missing.is_empty() {
        return Err(MergeError::Missing { scenario, missing: missing.join(", "), of });
    }
    Ok(parts)
}

/// What the parts say together. They are all there, in order.
fn join(parts: Vec<PartReport>) -> Report {
    let first = &parts[0];
    let sum = |of: fn(&PartReport) -> u64| parts.iter().map(of).sum::<u64>();
    let united =
        |of: fn(&PartReport) -> &Vec<String>| -> BTreeSet<String> { parts.iter().flat_map(of).cloned().collect() };
    let classes = united(|p| &p.partition.classes);
    let outcomes = united(|p| &p.partition.outcomes);
    let assumptions: Vec<String> = united(|p| &p.partition.assumptions).into_iter().collect();
    let mut anomalies: Vec<Anomaly> = Vec::new();
    for anomaly in parts.iter().flat_map(|p| &p.anomalies) {
        // Every part sees what is found at the top.
        if !anomalies.iter().any(|a| a.kind == anomaly.kind && a.summary == anomaly.summary) {
            anomalies.push(anomaly.clone());
        }
    }
    anomalies.sort_by_key(|a| a.kind);
    let reasons: BTreeSet<String> =
        parts.iter().filter(|p| p.verdict == "cannot-tell").filter_map(|p| p.reason.clone()).collect();
    let unsure = parts.iter().any(|p| p.verdict == "cannot-tell");
    let verdict = match anomalies.first() {
        Some(worst) => Verdict::Anomaly(worst.kind),
        None if unsure => Verdict::CannotTell,
        None => Verdict::Clean,
    };
    let exhausted = parts.iter().all(|p| p.explored.exhausted);
    let ended_by = ended(&parts, exhausted);
    let mut searches: Vec<&str> = Vec::new();
    for search in parts.iter().map(|p| p.explored.search.as_str()).filter(|s| !s.is_empty()) {
        // The one that went on longest names the others' beginning.
        if !searches.iter().any(|s| s.starts_with(search)) {
            searches.retain(|s| !search.starts_with(s));
            searches.push(search);
        }
    }
    let summary = Summary {
        schedules: sum(|p| p.explored.schedules),
        classes: classes.len() as u64,
        redundant: sum(|p| p.explored.redundant),
        steps: sum(|p| p.explored.steps),
        exhausted,
        stop: match ended_by {
            EndedBy::Exhausted => Some(Stop::Exhausted),
            EndedBy::Schedules => Some(Stop::Schedules),
            EndedBy::Time => Some(Stop::Time),
            EndedBy::Interrupt => Some(Stop::Interrupt),
            EndedBy::Found | EndedBy::LostControl => None,
        },
        search: searches.join("; "),
        seed: first.explored.seed,
        elapsed: Duration::ZERO,
        miss_bound: miss_bound(&parts),
        trace_hash: trace_hash(&parts),
    };
    let warning = |text: String| Warning { kind: WarningKind::Note, text };
    Report {
        scenario: first.scenario.clone(),
        file: None,
        about: String::new(),
        workers: first.partition.workers.clone(),
        verdict,
        expected: first.expected.clone(),
        as_expected: as_expected(first.expected.as_ref(), verdict),
        reason: (verdict == Verdict::CannotTell).then(|| reasons.into_iter().collect::<Vec<_>>().join("\n")),
        coverage: format!("{}; joined from {} parts", coverage(&summary, &assumptions), parts.len()),
        replay: anomalies.first().and_then(|a| a.replay.clone()),
        anomalies,
        trace_hash: summary.trace_hash,
        explored: Explored {
            schedules: summary.schedules,
            classes: summary.classes,
            redundant: summary.redundant,
            steps: summary.steps,
            exhausted,
            ended_by,
            search: summary.search,
            seed: summary.seed,
            seconds: parts.iter().map(|p| p.explored.seconds).sum(),
            miss_bound: summary.miss_bound,
            outcomes: outcomes.len() as u64,
            classes_hash: Some(classes_hash(&classes)),
        },
        warnings: united(|p| &p.warnings).into_iter().map(warning).collect(),
        decisions: Vec::new(),
        part: None,
    }
}

/// Why the whole ended: the reason that says most about what is missing.
fn ended(parts: &[PartReport], exhausted: bool) -> EndedBy {
    let any = |word: &str| parts.iter().any(|p| p.explored.ended_by == word);
    match () {
        () if any("lost-control") => EndedBy::LostControl,
        () if any("found") => EndedBy::Found,
        () if any("interrupt") => EndedBy::Interrupt,
        () if any("time") => EndedBy::Time,
        () if any("schedules") && !exhausted => EndedBy::Schedules,
        () => EndedBy::Exhausted,
    }
}

/// All runs of all parts miss a bug: the product of the parts' bounds.
fn miss_bound(parts: &[PartReport]) -> Option<BTreeMap<String, f64>> {
    let mut all: BTreeMap<String, f64> = BTreeMap::new();
    for (sampler, missed) in parts.iter().filter_map(|p| p.explored.miss_bound.as_ref()).flatten() {
        *all.entry(sampler.clone()).or_insert(1.0) *= missed;
    }
    (!all.is_empty()).then_some(all)
}

fn trace_hash(parts: &[PartReport]) -> Option<String> {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(format!("{}/{} {}\n", part.partition.part, part.partition.of, part.trace_hash.as_ref()?));
    }
    Some(hasher.finalize().iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    }))
}
