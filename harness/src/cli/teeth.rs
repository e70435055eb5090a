//! `noclobber teeth`: would this guard notice?

use std::{
    io::Write,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

use anyhow::Context;

use super::{
    ExitCode, Format, Options, Output,
    perform::{human_options, left_out, load, mistake, refuse_unwired, settings},
    progress::Line,
};
use crate::{
    guard::{GuardError, Settings, guards, teeth},
    report::{Github, Html, Junit, Report, Reporter, Teeth, Verdict, render_teeth, teeth_to_json, write_line},
    scenario::{Scenario, discover},
};

/// `noclobber teeth`.
#[derive(Clone, Debug, clap::Args)]
pub struct TeethArgs {
    /// Scenario files that are clean, or folders to search for them.
    #[arg(required = true, value_name = "FILE|DIR")]
    pub files: Vec<PathBuf>,
    /// Instead of, or beside, what the files say.
    #[command(flatten)]
    pub options: Options,
}

pub(super) fn perform(args: &TeethArgs, output: &Output, interrupt: Arc<AtomicBool>) -> anyhow::Result<ExitCode> {
    let caller = std::env::current_dir().context("the current directory")?;
    let unfit = [
        (args.options.save.is_some(), "--save"),
        (args.options.partition.is_some(), "--partition"),
        (args.options.grow, "--grow"),
    ];
    if let Some((_, name)) = unfit.into_iter().find(|(set, _)| *set) {
        return Ok(mistake(&format!("{name} does not go with `teeth`")));
    }
    if let Some(code) = refuse_unwired(&args.options) {
        return Ok(code);
    }
    let files = match discover(&args.files) {
        Ok(files) => files,
        Err(e) => return Ok(mistake(&e)),
    };
    let line = Line::new(output, files.len(), &interrupt);
    let settings = Settings { watch: line.watch(), ..settings(&args.options, interrupt) };
    let mut junit = output.junit.as_deref().map(Junit::new);
    let mut html = output.html.as_deref().map(Html::new);
    let mut github = output.github.then(|| Github::new(std::io::stderr()));
    let mut codes = Vec::new();
    let (mut shown, mut passed_over) = (0, 0);
    for (n, file) in files.iter().enumerate() {
        line.next();
        let scenario = match load(file, &args.options, &caller) {
            Ok(scenario) => scenario,
            Err(code) => {
                codes.push(code);
                continue;
            }
        };
        if !guards(&scenario) {
            // A folder holds what is broken beside what is mended; only the latter guards anything.
            if args.files.contains(file) {
                let expected = scenario.expect.as_ref().map(ToString::to_string).unwrap_or_default();
                let what =
                    format!("{} expects {expected}: only what is clean has protections to weaken", file.display());
                codes.push(mistake(&what));
            }
            passed_over += 1;
            continue;
        }
        let answered = answer(&scenario, &settings);
        line.clear();
        let result = match answered {
            Ok(result) => result,
            Err(code) => {
                codes.push(code);
                continue;
            }
        };
        show(&result, output, files.len(), shown > 0)?;
        shown += 1;
        let summary = as_report(&result);
        let mut reporters: Vec<&mut dyn Reporter> = Vec::new();
        reporters.extend(junit.as_mut().map(|r| r as &mut dyn Reporter));
        reporters.extend(html.as_mut().map(|r| r as &mut dyn Reporter));
        reporters.extend(github.as_mut().map(|r| r as &mut dyn Reporter));
        for reporter in reporters {
            reporter.report(&summary).context("writing a report")?;
        }
        codes.push(code_of(&result));
        if settings.interrupt.load(std::sync::atomic::Ordering::Relaxed) {
            codes.extend(left_out(files.len(), n + 1));
            break;
        }
    }
    if let Some(junit) = &mut junit {
        junit.finish().context("writing a report")?;
    }
    if let Some(html) = &mut html {
        html.finish().context("writing a report")?;
    }
    if let Some(github) = &mut github {
        github.finish().context("writing a report")?;
    }
    if codes.is_empty() {
        return Ok(mistake(&"nothing here is expected to be clean: there is nothing to weaken"));
    }
    if passed_over > 0 && output.format == Format::Human && !output.quiet {
        println!("\n{passed_over} passed over: they expect an anomaly, and guard nothing");
    }
    Ok(ExitCode::first_of(codes))
}

fn answer(scenario: &Scenario, settings: &Settings) -> Result<Teeth, ExitCode> {
    match teeth(scenario, settings) {
        Ok(result) => Ok(result),
        Err(GuardError::Mistake(why)) => Err(mistake(&format!("{}: {why}", scenario.name))),
        Err(GuardError::CannotTell(why)) => Ok(Teeth {
            scenario: scenario.name.clone(),
            file: scenario.file.clone(),
            guard: Report::silent(scenario, why),
            teeth: Vec::new(),
            notes: Vec::new(),
        }),
    }
}

fn show(result: &Teeth, output: &Output, scenarios: usize, more: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match output.format {
        Format::Json => write_line(&mut out, &teeth_to_json(result)).context("writing a report")?,
        Format::Human => {
            let text = render_teeth(result, human_options(output, scenarios));
            if !text.is_empty() {
                let gap = if more { "\n" } else { "" };
                write!(out, "{gap}{text}").context("writing a report")?;
            }
        }
    }
    out.flush().context("writing a report")
}

/// The exit code of one guard: a gap wins over not knowing.
fn code_of(result: &Teeth) -> ExitCode {
    if result.as_expected() {
        ExitCode::AsExpected
    } else if result.has_gap() {
        ExitCode::Anomaly
    } else {
        ExitCode::CannotTell
    }
}

/// The guard as one report, for the formats that have a case per scenario.
fn as_report(result: &Teeth) -> Report {
    let mut report = result.guard.clone();
    report.scenario = format!("teeth: {}", result.scenario);
    report.as_expected = result.as_expected();
    if !report.as_expected && report.verdict == Verdict::Clean {
        let open = result.teeth.iter().filter(|t| t.is_gap() || t.needed.is_none());
        let why: Vec<String> = open.map(|t| format!("{}: {}", t.weakening, t.summary())).collect();
        report.reason = Some(why.join("\n"));
        report.verdict = Verdict::CannotTell;
    }
    report
}
