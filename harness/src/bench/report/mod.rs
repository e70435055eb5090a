//! A benchmark's results for readers: a table, JSON, CSV, and a page.

mod csv;
mod html;
mod plot;
mod table;

pub use self::{
    csv::csv,
    html::page,
    table::{comparison_table, table},
};

use super::{
    results::{Conditions, Run},
    stats::median,
};

/// Runs that are compared with each other, in the order in which they were measured.
fn groups(runs: &[Run]) -> Vec<Vec<&Run>> {
    let mut groups: Vec<Vec<&Run>> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|group| group[0].group() == run.group()) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    groups
}

/// A group's load in words.
fn load(run: &Run) -> String {
    let processes = if run.processes == 1 { "1 process".to_owned() } else { format!("{} processes", run.processes) };
    let think = match run.think_us {
        0 => String::new(),
        us => format!(", {us} us between operations"),
    };
    format!(
        "durability {}, {processes}, {} tasks of {} bytes{think}, {}",
        run.durability, run.kept, run.task_bytes, run.filesystem
    )
}

/// Half of the repetitions lie within this of the median, in per cent of it.
fn spread(run: &Run) -> Option<f64> {
    let distances: Vec<f64> = run.repetitions.iter().map(|value| (value - run.ops_per_s).abs()).collect();
    let half = median(&distances).filter(|_| run.repetitions.len() > 1 && run.ops_per_s > 0.0)?;
    Some(half / run.ops_per_s * 100.0)
}

/// How often it was measured.
fn repeated(settings: &Conditions) -> String {
    match settings.repetitions == settings.planned {
        true => format!("{} repetitions in turns", settings.repetitions),
        false => format!("{} repetitions in turns (for more there was no time)", settings.repetitions),
    }
}

/// What was wrong with a run, in a few words; nothing: nothing.
fn wrong(run: &Run) -> Option<String> {
    let parts =
        [(run.lost, "lost"), (run.duplicated, "twice"), (run.foreign, "from nobody"), (run.damaged, "unreadable")];
    let told: Vec<String> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    (!told.is_empty()).then(|| told.join(", "))
}
