//! A schedule that failed, against programs that were mended since.

use std::path::Path;

use super::{
    replay::{Replayed, again, load},
    shared::{GuardError, Settings},
    verify::verify,
};
use crate::{
    explore::Replay,
    report::{Report, Verdict},
    scenario::{Command, Scenario},
};

/// Runs the scenario of a replay file with other commands, made by `commands` from the scenario: one for each worker,
/// or one for each group of copies. First its schedule, as far as these programs follow it, then every order.
///
/// # Errors
/// A file or commands that cannot be used, or a machine on which nothing can be told.
pub fn repaired(
    file: &Path,
    commands: &mut dyn FnMut(&Scenario) -> Vec<Command>,
    settings: &Settings,
) -> Result<(Replayed, Report), GuardError> {
    let recorded = Replay::read(file).map_err(|e| GuardError::Mistake(e.to_string()))?;
    let mut scenario = load(&recorded, file)?;
    let commands = commands(&scenario);
    give(&mut scenario, &commands)?;
    // The search is for any anomaly; what the old programs were expected to do does not matter.
    scenario.expect = None;
    scenario.file = None;
    scenario.search.time = recorded.time;
    let replayed = again(&recorded, scenario.clone(), settings)?;
    let mut report = verify(&scenario, settings)?;
    if replayed.named.is_none() {
        report.coverage = match report.verdict {
            Verdict::Clean => format!("gone: 1 failing class -> 0 of {}; {}", report.explored.classes, report.coverage),
            Verdict::Anomaly(_) => {
                format!("this schedule passes, but another order of these programs fails; {}", report.coverage)
            }
            Verdict::CannotTell => report.coverage,
        };
    }
    Ok((replayed, report))
}

fn give(scenario: &mut Scenario, commands: &[Command]) -> Result<(), GuardError> {
    let mut groups: Vec<&str> = scenario.workers.iter().map(|w| w.group.as_str()).collect();
    groups.dedup();
    let of_groups: Vec<usize> = scenario
        .workers
        .iter()
        .map(|w| groups.iter().position(|group| *group == w.group).unwrap_or_default())
        .collect();
    let workers = scenario.workers.len();
    let which: Vec<usize> = match commands.len() {
        n if n == workers => (0..workers).collect(),
        n if n == groups.len() => of_groups,
        n => {
            return Err(GuardError::Mistake(format!(
                "{n} commands for {workers} workers: give one for each, separated by `:::`"
            )));
        }
    };
    for (worker, command) in scenario.workers.iter_mut().zip(which) {
        worker.run = commands[command].clone();
    }
    Ok(())
}
