//! The steps of a run as lines for people, with what the history knows of each.

use super::{Case, history::History, lost::lost_updates};
use crate::{
    report::StepLine,
    world::{Run, Step},
};

/// One line for each step, noted with versions where the run is recorded.
pub fn step_lines(case: &Case<'_>, run: &Run) -> Vec<StepLine> {
    let history = History::of(run, case.initial);
    let lost = lost_updates(&history, case.id_member());
    let line = |(number, step): (usize, &Step)| {
        let mut notes: Vec<String> = Vec::new();
        notes.extend(read_note(case, &history, number));
        notes.extend(write_note(&history, number));
        if let Some(kind) =
            step.fault().filter(|kind| !["kill", "pause", "power-cut"].iter().any(|told| kind.starts_with(told)))
        {
            notes.push(format!("fault: {kind}"));
        }
        for update in lost.iter().filter(|update| !update.stray && update.steps.1 == number) {
            notes.push(format!("overwrites {}'s update", case.worker(update.loser)));
        }
        StepLine {
            n: number + 1,
            actor: case.worker(usize::from(step.actor.0)).to_owned(),
            op: step.op.name().to_owned(),
            path: path_text(step),
            result: step.result.clone(),
            time_ms: step.time_us / 1000,
            note: (!notes.is_empty()).then(|| notes.join(", ")),
            // A power cut is nobody's decision, and still the point of the story.
            chosen: step.chosen || step.fault().is_some(),
        }
    };
    run.steps.iter().enumerate().map(line).collect()
}

fn path_text(step: &Step) -> String {
    match (&step.path, &step.path2) {
        (Some(from), Some(to)) => format!("{from} -> {to}"),
        (Some(path), None) | (None, Some(path)) => path.clone(),
        (None, None) => String::new(),
    }
}

/// The first read of a reading: which version it is.
fn read_note(case: &Case<'_>, history: &History, number: usize) -> Option<String> {
    let reading = &history.readings[*history.reading_of.get(&number)?];
    if reading.steps.0 != number {
        return None;
    }
    if let Some(writer) = reading.during {
        return Some(format!("reads {}'s unpublished write", case.worker(writer)));
    }
    let version = history.version(&reading.path, reading.version?)?;
    Some(format!("reads version {}", History::stated_version(version.bytes.as_deref()?)?))
}

fn write_note(history: &History, number: usize) -> Option<String> {
    let (path, version) = history.published_by.get(&number)?;
    let version = history.version(path, *version)?;
    Some(format!("writes version {}", History::stated_version(version.bytes.as_deref()?)?))
}
