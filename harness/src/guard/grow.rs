//! `--grow`: when every order of the workers was tried and budget is left, one more copy of a worker joins them. Some
//! lock faults need three: a lock that is waited for on a file that is replaced meanwhile, for instance.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::{
    shared::{GuardError, Settings},
    verify::verify,
};
use crate::{
    report::{EndedBy, Report, Verdict, as_expected},
    scenario::{Scenario, Worker},
    world::{Warning, WarningKind},
};

/// Verifies a scenario, then the same with one more worker, and so on, while every order is tried and none goes wrong.
/// The budgets of schedules and of time are those of all together.
///
/// # Errors
/// As of [`verify`].
pub fn grow(scenario: &Scenario, settings: &Settings) -> Result<Report, GuardError> {
    let mut report = verify(scenario, settings)?;
    let mut stages = vec![stage(&report)];
    let mut grown = scenario.clone();
    let mut joined = 0;
    while report.verdict == Verdict::Clean && report.explored.exhausted {
        let left = scenario.search.max_schedules.saturating_sub(report.explored.schedules);
        let spent = std::time::Duration::try_from_secs_f64(report.explored.seconds).unwrap_or_default();
        let time_left = scenario.search.time_limit.map(|limit| limit.saturating_sub(spent));
        if left == 0 || time_left.is_some_and(|left| left.is_zero()) {
            break;
        }
        join(&mut grown, joined);
        joined += 1;
        grown.search.max_schedules = left;
        grown.search.time_limit = time_left;
        let more = match verify(&grown, settings) {
            Ok(more) => more,
            Err(GuardError::CannotTell(why)) => {
                note(&mut report, format!("with {} workers: cannot tell: {why}", grown.workers.len()));
                break;
            }
            Err(e) => return Err(e),
        };
        stages.push(stage(&more));
        add(&mut report, more, scenario);
    }
    if stages.len() > 1 {
        report.coverage = stages.join("; ");
    }
    Ok(report)
}

/// What is said of one number of workers.
fn stage(report: &Report) -> String {
    let n = report.workers.len();
    let coverage = match report.verdict {
        Verdict::CannotTell => format!("cannot tell, {}", report.coverage),
        _ => report.coverage.clone(),
    };
    format!("{n} {}: {coverage}", if n == 1 { "worker" } else { "workers" })
}

fn note(report: &mut Report, text: String) {
    report.warnings.push(Warning { kind: WarningKind::Note, text });
}

/// Adds a copy of the `n`th of the different commands, in turns.
fn join(scenario: &mut Scenario, n: usize) {
    let mut different: Vec<usize> = Vec::new();
    for (i, worker) in scenario.workers.iter().enumerate() {
        if !different.iter().any(|d| scenario.workers[*d].run == worker.run) {
            different.push(i);
        }
    }
    let Some(&of) = different.get(n % different.len().max(1)) else { return };
    let new = scenario.workers.len();
    let group = scenario.workers[of].group.clone();
    let taken = |name: &String| scenario.workers.iter().any(|w| w.name == *name || w.group == *name);
    let name = (2..).map(|k| format!("{group}.{k}")).find(|name| !taken(name)).unwrap_or_default();
    let copy = Worker { name: name.clone(), group: name, ..scenario.workers[of].clone() };
    // Whoever waits for the original waits for its copy, and faults hit either.
    for worker in &mut scenario.workers {
        if worker.after.contains(&of) {
            worker.after.push(new);
        }
    }
    for fault in scenario.faults.iter_mut().filter(|f| f.workers.contains(&of)) {
        fault.workers.push(new);
    }
    scenario.workers.push(copy);
}

/// Puts what one more worker showed into the report of those before.
fn add(report: &mut Report, more: Report, scenario: &Scenario) {
    let (mut explored, workers) = (report.explored.clone(), more.workers.len());
    explored.schedules += more.explored.schedules;
    explored.classes += more.explored.classes;
    explored.redundant += more.explored.redundant;
    explored.steps += more.explored.steps;
    explored.outcomes += more.explored.outcomes;
    explored.seconds += more.explored.seconds;
    explored.exhausted &= more.explored.exhausted;
    explored.ended_by = more.explored.ended_by;
    explored.search.clone_from(&more.explored.search);
    explored.miss_bound.clone_from(&more.explored.miss_bound);
    explored.classes_hash = both(&explored.classes_hash, &more.explored.classes_hash);
    report.trace_hash = both(&report.trace_hash, &more.trace_hash);
    report.explored = explored;
    // Too many serial orders, too little budget: fewer workers were told of all the same. Lost control is another thing.
    let lost = more.explored.ended_by == EndedBy::LostControl;
    match more.verdict {
        Verdict::Clean => {}
        Verdict::CannotTell if !lost => {
            let why = more.reason.unwrap_or_default();
            note(report, format!("with {workers} workers: cannot tell: {why}"));
            report.explored.exhausted = false;
            return;
        }
        Verdict::CannotTell | Verdict::Anomaly(_) => {
            report.verdict = more.verdict;
            report.reason = more.reason;
            report.anomalies = more.anomalies;
            for anomaly in &mut report.anomalies {
                anomaly.needs.push(format!("{workers} workers"));
            }
            report.replay = more.replay;
            report.as_expected = as_expected(scenario.expect.as_ref(), report.verdict);
        }
    }
    report.workers = more.workers;
    for warning in more.warnings {
        if !report.warnings.contains(&warning) {
            report.warnings.push(warning);
        }
    }
}

/// One hash of two; none when either is missing.
fn both(a: &Option<String>, b: &Option<String>) -> Option<String> {
    let digest = Sha256::digest(format!("{}\n{}\n", a.as_ref()?, b.as_ref()?));
    Some(digest.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::parse_draft;

    #[test]
    fn the_different_commands_are_copied_in_turns() {
        let text = "[[worker]]\nname = \"A\"\nrun = \"a\"\n[[worker]]\nname = \"B\"\nrun = \"b\"\ncount = 2\n\
                    [[worker]]\nname = \"C\"\nrun = \"a\"\nafter = \"A\"\n";
        let mut scenario = parse_draft(text, Path::new("x.toml")).unwrap().scenario;
        (0..3).for_each(|n| join(&mut scenario, n));
        let names: Vec<&str> = scenario.workers.iter().map(|w| w.name.as_str()).collect();
        assert_eq!(names, ["A", "B.1", "B.2", "C", "A.2", "B.3", "A.3"]);
        assert_eq!(scenario.workers[4].run, scenario.workers[0].run);
        assert_eq!(scenario.workers[5].run, scenario.workers[1].run);
        assert_eq!(scenario.workers[3].after, [0, 4, 6]);
    }
}
