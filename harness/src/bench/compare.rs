//! A benchmark against an earlier one: a regression guard.
//!
//! Compared is what each strategy's operation costs in floors, the bare system calls that were measured beside it in the
//! same repetition with as many processes; so another machine, or the same on a busier day, does not count as a change.
//! A strategy is *slower* when the interval of the ratio lies wholly below what is tolerated. The intervals are made so
//! wide (Bonferroni) that if nothing has changed, the whole comparison raises a false alarm with a probability of
//! [`Rules::level`] at most, however many strategies it has.
//!
//! A comparison that could not have seen the slowdown it is to see is no pass: it is *unsure*.

use serde::Serialize;
use thiserror::Error;

use super::{
    results::{Results, Run},
    stats::{Interval, ratio},
};

/// How it is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// The probability of a false alarm of the whole comparison.
    pub level: f64,
    /// A slowdown up to this is none (0.02: two in a hundred).
    pub tolerance: f64,
    /// A slowdown of this has to be excluded, or it is unsure.
    pub slowdown: f64,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { level: 0.05, tolerance: 0.02, slowdown: 0.10 }
    }
}

/// What is said of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Judgement {
    /// It does less than before.
    Slower,
    /// It lost or duplicated, which it did not before.
    Wrong,
    /// Too few or too different repetitions to tell.
    Unsure,
    /// Not slower by as much as has to be seen.
    Same,
    /// It does more than before.
    Faster,
}

/// One run compared with its earlier one.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Who.
    pub strategy: String,
    /// Under which load, in words.
    pub load: String,
    /// What is said of it.
    pub judgement: Judgement,
    /// New speed by old, in floors.
    pub ratio: Option<f64>,
    /// The interval's lower end.
    pub low: Option<f64>,
    /// Its upper end.
    pub high: Option<f64>,
    /// How many repetitions on each side would tell, about, if it is unsure.
    pub wanted: Option<u64>,
}

/// A comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Of each run that both have.
    pub rows: Vec<Row>,
    /// The probability of a false alarm of all of it.
    pub level: f64,
    /// What to know about it.
    pub warnings: Vec<String>,
}

/// Why there is nothing to compare.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum CompareError {
    /// No run is in both.
    #[error("no strategy was measured under one load in both: measure with the options of the earlier benchmark")]
    NothingInCommon,
}

impl Comparison {
    /// Whether somebody has to be told.
    pub fn alarm(&self) -> bool {
        self.rows.iter().any(|row| matches!(row.judgement, Judgement::Slower | Judgement::Wrong))
    }

    /// Whether it could not be told for all.
    pub fn unsure(&self) -> bool {
        self.rows.iter().any(|row| row.judgement == Judgement::Unsure)
    }
}

/// Compares.
///
/// # Errors
/// [`CompareError`] if they have nothing in common.
pub fn compare(old: &Results, new: &Results, rules: Rules) -> Result<Comparison, CompareError> {
    let pairs: Vec<(&Run, &Run)> =
        new.runs.iter().filter_map(|run| Some((old.runs.iter().find(|one| one.same_as(run))?, run))).collect();
    // Whoever always loses is shown for what it loses.
    let pairs: Vec<(&Run, &Run)> = pairs.into_iter().filter(|(_, new)| !new.known_to_lose).collect();
    if pairs.is_empty() {
        return Err(CompareError::NothingInCommon);
    }
    // Half of it is kept for what no repetition of one benchmark shows: how one day differs from another.
    let each = rules.level / 2.0 / pairs.len() as f64;
    let rows = pairs.iter().map(|(old, new)| row(old, new, each, rules)).collect();
    let mut warnings = Vec::new();
    let facts = |results: &Results| {
        let machine = &results.machine;
        format!("{}, {} x {}, {}", machine.kernel, machine.cpus, machine.cpu, machine.filesystem)
    };
    if facts(old) != facts(new) {
        warnings.push(format!(
            "another machine: {} then, {} now; ratios to the floor need not be the same on both",
            facts(old),
            facts(new)
        ));
    }
    if old.settings.measured_ms != new.settings.measured_ms {
        warnings
            .push(format!("slices of {} ms then, of {} ms now", old.settings.measured_ms, new.settings.measured_ms));
    }
    let lonely = |these: &Results, those: &Results, when: &str| {
        let names: Vec<String> = these
            .runs
            .iter()
            .filter(|run| !run.known_to_lose && !those.runs.iter().any(|other| other.same_as(run)))
            .map(|run| format!("{} ({})", run.strategy, load(run)))
            .collect();
        (!names.is_empty()).then(|| format!("measured only {when}: {}", names.join(", ")))
    };
    warnings.extend(lonely(old, new, "then"));
    warnings.extend(lonely(new, old, "now"));
    Ok(Comparison { rows, level: rules.level, warnings })
}

fn row(old: &Run, new: &Run, each: f64, rules: Rules) -> Row {
    // Costs, so that old by new is the speed's ratio. Of the interval only one side raises an alarm.
    let between = ratio(&new.by_floor, &old.by_floor, 2.0 * each);
    let judgement = match between {
        _ if new.wrong() && !old.wrong() => Judgement::Wrong,
        _ if new.error.is_some() => Judgement::Unsure,
        None => Judgement::Unsure,
        Some(Interval { high, .. }) if high < 1.0 - rules.tolerance => Judgement::Slower,
        Some(Interval { low, .. }) if low > 1.0 => Judgement::Faster,
        Some(Interval { low, .. }) if low > 1.0 - rules.slowdown => Judgement::Same,
        Some(_) => Judgement::Unsure,
    };
    Row {
        strategy: new.strategy.clone(),
        load: load(new),
        judgement,
        ratio: between.map(|between| between.ratio),
        low: between.map(|between| between.low),
        high: between.map(|between| between.high),
        wanted: between.filter(|_| judgement == Judgement::Unsure).map(|between| wanted(between, new, rules)),
    }
}

/// An interval narrows with the root of the repetitions; a third of the slowdown to each side is narrow enough.
fn wanted(between: Interval, new: &Run, rules: Rules) -> u64 {
    let half = (between.high / between.low).ln() / 2.0;
    let goal = -(1.0 - rules.slowdown).ln() / 2.5;
    let repetitions = new.by_floor.len() as f64 * (half / goal).powi(2);
    repetitions.ceil().clamp(3.0, 1e6) as u64
}

fn load(run: &Run) -> String {
    let think = if run.think_us == 0 { String::new() } else { format!(", think {} us", run.think_us) };
    format!("{}, {} processes, {} x {} bytes{think}", run.durability, run.processes, run.kept, run.task_bytes)
}
