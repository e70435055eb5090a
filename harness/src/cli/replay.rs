//! `noclobber replay`: a recorded schedule again, as it was or against repaired programs.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use anyhow::Context;

use super::{
    ExitCode, Format, Output, Replay,
    commands::{split_commands, take_from_caller},
    perform::{REPLAY_DIR, Reporters, mistake},
    progress::Line,
};
use crate::{
    explore::Expected,
    guard::{GuardError, Replayed, Settings, repaired, replay},
    report::{EndedBy, Report, Verdict},
    scenario::{self, Scenario, contents, printable},
    world::{Warning, WarningKind},
};

pub(super) fn perform_replay(args: &Replay, output: &Output, interrupt: Arc<AtomicBool>) -> anyhow::Result<ExitCode> {
    let line = Line::new(output, 1, &interrupt);
    let settings =
        Settings { replay_dir: Some(PathBuf::from(REPLAY_DIR)), interrupt, watch: line.watch(), ..Settings::default() };
    let answered = if args.commands.is_empty() {
        replay(&args.file, &settings).map(|replayed| (replayed, None))
    } else {
        let commands = match split_commands(&args.commands) {
            Ok(commands) => commands,
            Err(e) => return Ok(mistake(&e)),
        };
        let caller = std::env::current_dir().context("the current directory")?;
        let mut given = |scenario: &Scenario| {
            commands.iter().map(|words| scenario::Command::Args(from_caller(words, scenario, &caller))).collect()
        };
        repaired(&args.file, &mut given, &settings).map(|(replayed, report)| (replayed, Some(report)))
    };
    line.clear();
    let (replayed, searched) = match answered {
        Ok(answered) => answered,
        Err(GuardError::Mistake(why)) => return Ok(mistake(&why)),
        Err(GuardError::CannotTell(why)) => {
            eprintln!("noclobber: cannot tell: {}", printable(&why));
            return Ok(ExitCode::CannotTell);
        }
    };
    if args.step && output.format == Format::Human {
        super::walk::walk(&replayed.steps, &mut std::io::stdin().lock(), &mut std::io::stdout())
            .context("walking through the schedule")?;
    }
    let report = match searched {
        // The schedule itself says more than another one that fails.
        Some(report) if replayed.named.is_none() => report,
        _ => replay_report(&replayed, &args.file),
    };
    let mut reporters = Reporters::new(output, 1)?;
    reporters.report(&report)?;
    reporters.finish()?;
    Ok(ExitCode::of(&report))
}

/// The words of a command; files that the world does not have are taken from the caller's directory, as `explore` does.
fn from_caller(words: &[String], scenario: &Scenario, caller: &Path) -> Vec<String> {
    let mut words = words.to_vec();
    let filtered = scenario.dir.as_deref().filter(|_| scenario.dir_filtered).and_then(|dir| contents(dir).ok());
    let in_world = |word: &Path| match (&filtered, &scenario.dir) {
        _ if scenario.files.keys().any(|file| Path::new(file) == word) => true,
        (Some(contents), _) => contents.contains(word),
        (None, Some(dir)) => dir.join(word).exists(),
        (None, None) => false,
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = |word: &str| std::env::split_paths(&path).any(|dir| dir.is_absolute() && dir.join(word).is_file());
    take_from_caller(&mut words, caller, &in_world, &in_path);
    words
}

/// A replay as a report of one schedule.
fn replay_report(replayed: &Replayed, file: &Path) -> Report {
    let scenario = &replayed.scenario;
    let mut report = Report::silent(scenario, String::new());
    report.expected = None;
    report.reason = replayed.unknown.clone();
    report.explored.schedules = 1;
    report.explored.steps = replayed.steps.len() as u64;
    report.explored.search = "replay".into();
    report.explored.ended_by = EndedBy::Found;
    report.verdict = match (&replayed.named, &replayed.unknown) {
        (Some(named), _) => Verdict::Anomaly(named.kind),
        (None, Some(_)) => Verdict::CannotTell,
        (None, None) => Verdict::Clean,
    };
    report.as_expected = report.verdict == Verdict::Clean;
    if let Some(named) = &replayed.named {
        report.anomalies.push(crate::report::Anomaly {
            kind: named.kind,
            summary: named.summary.clone(),
            lost: named.lost.clone(),
            duplicated: named.duplicated.clone(),
            actors: named.actors.clone(),
            needs: named.needs.clone(),
            steps: replayed.steps.clone(),
            pivot: None,
            evidence: named.evidence.clone(),
            replay: Some(file.display().to_string()),
            run: None,
            film: replayed.film.clone(),
        });
    }
    let shows = replayed.shows.as_deref().unwrap_or("nothing");
    report.coverage = match &replayed.divergence {
        None => format!("one schedule, step for step as recorded (it showed {shows} then)"),
        Some(d) => {
            let show = |expected: &Option<Expected>| match expected {
                Some(e) => format!("{} {} -> {}", e.op, e.path.as_deref().unwrap_or_default(), e.result),
                None => "the end".to_owned(),
            };
            let (was, is) = (show(&d.expected), show(&d.found));
            let text = format!("step {} was `{was}` when this was recorded, and is now `{is}`", d.step + 1);
            report.warnings.push(Warning { kind: WarningKind::Note, text });
            format!("one schedule, followed as far as the programs allow (it showed {shows} then)")
        }
    };
    report
}
