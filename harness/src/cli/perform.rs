//! Doing what the command line says.

use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use anyhow::Context;

use super::{
    Args, Command, ExitCode, Explore, Format, Options, Output, Replay, Run, apply_overrides,
    doctor::perform_doctor,
    init::{Written, perform_init},
    manual::{completions, man_pages},
    perform_audit, wants_colour,
};
use crate::{
    cli::{explore_scenario, split_commands},
    explore::Expected,
    guard::{GuardError, Replayed, Settings, replay, verify},
    report::{Detail, EndedBy, Explored, Github, Html, Human, HumanOptions, Json, Junit, Report, Reporter, Verdict},
    scenario::{self, Scenario, discover, printable},
    world::{Warning, WarningKind},
};

/// Where replay files of what was found go, in the caller's directory.
const REPLAY_DIR: &str = ".noclobber";

/// Runs the command and says how it ended.
///
/// # Errors
/// Internal errors: reports that cannot be written, and the like.
pub fn perform(args: &Args) -> anyhow::Result<ExitCode> {
    let interrupt = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, interrupt.clone())?;
    match &args.command {
        Command::Run(run) => perform_run(run, &args.output, interrupt),
        Command::Explore(explore) => perform_explore(explore, &args.output, interrupt),
        Command::Replay(replay) => perform_replay(replay, &args.output),
        Command::Audit(audit) => perform_audit(audit, &args.output, &interrupt),
        Command::Doctor => perform_doctor(&args.output),
        Command::Init(init) => match perform_init(init, &std::env::current_dir().context("the current directory")?)? {
            Written::Done => {
                println!("{} written; run it: noclobber run {0}", printable(&init.file.display().to_string()));
                Ok(ExitCode::AsExpected)
            }
            Written::Mistake(why) => Ok(mistake(&why)),
        },
        Command::Completions(to) => completions(to.shell, &mut std::io::stdout())
            .map(|()| ExitCode::AsExpected)
            .context("writing the completions"),
        Command::Man(man) => match man_pages(&man.folder) {
            Ok(()) => Ok(ExitCode::AsExpected),
            Err(e) => Ok(mistake(&format!("{}: {e}", man.folder.display()))),
        },
    }
}

fn perform_run(run: &Run, output: &Output, interrupt: Arc<AtomicBool>) -> anyhow::Result<ExitCode> {
    let caller = std::env::current_dir().context("the current directory")?;
    if let Some(code) = refuse_unwired(&run.options) {
        return Ok(code);
    }
    let files = match discover(&run.files) {
        Ok(files) => files,
        Err(e) => return Ok(mistake(&e)),
    };
    let settings = settings(&run.options, interrupt);
    let mut reporters = Reporters::new(output, files.len())?;
    let mut codes = Vec::new();
    for file in files {
        let loaded = scenario::load_draft(&file).and_then(|mut draft| {
            let overridden = apply_overrides(&run.options, &caller, &mut draft.scenario);
            draft.finish().map(|scenario| (scenario, overridden))
        });
        let scenario = match loaded {
            Ok((scenario, Ok(()))) => scenario,
            Ok((_, Err(e))) => {
                codes.push(mistake(&e));
                continue;
            }
            Err(e) => {
                codes.push(mistake(&e));
                continue;
            }
        };
        codes.push(answer(&scenario, &settings, &mut reporters, &[])?);
        if settings.interrupt.load(std::sync::atomic::Ordering::Relaxed) {
            break;
        }
    }
    reporters.finish()?;
    Ok(ExitCode::first_of(codes))
}

fn perform_explore(explore: &Explore, output: &Output, interrupt: Arc<AtomicBool>) -> anyhow::Result<ExitCode> {
    let caller = std::env::current_dir().context("the current directory")?;
    if let Some(code) = refuse_unwired(&explore.options) {
        return Ok(code);
    }
    let explored = match explore_scenario(explore, &caller, std::env::var_os("PATH").as_deref()) {
        Ok(explored) => explored,
        Err(e) => return Ok(mistake(&e)),
    };
    let notes: Vec<String> =
        explored.taken.iter().map(|t| format!("`{}` was taken from {}", t.word, t.path.display())).collect();
    let settings = settings(&explore.options, interrupt);
    let mut reporters = Reporters::new(output, 1)?;
    let code = answer(&explored.scenario, &settings, &mut reporters, &notes)?;
    reporters.finish()?;
    if let Some(path) = &explore.options.save {
        if let Err(e) = scenario::save_to(&explored.scenario, path) {
            return Ok(mistake(&e));
        }
    } else if output.format == Format::Human && !output.quiet {
        println!(
            "\nto keep this as a guard: run the same again with --save guard.toml, then: noclobber run guard.toml"
        );
    }
    Ok(code)
}

/// Verifies one scenario and reports it.
fn answer(
    scenario: &Scenario,
    settings: &Settings,
    reporters: &mut Reporters,
    notes: &[String],
) -> anyhow::Result<ExitCode> {
    let mut report = match verify(scenario, settings) {
        Ok(report) => report,
        Err(GuardError::Mistake(why)) => return Ok(mistake(&format!("{}: {why}", scenario.name))),
        Err(GuardError::CannotTell(why)) => silent(scenario, why),
    };
    let note = |text: &String| Warning { kind: WarningKind::Note, text: text.clone() };
    report.warnings.extend(notes.iter().map(note));
    reporters.report(&report)?;
    Ok(ExitCode::of(&report))
}

/// The report of a scenario of which nothing could be learnt.
fn silent(scenario: &Scenario, why: String) -> Report {
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
        },
        coverage: "nothing was explored".into(),
        anomalies: Vec::new(),
        trace_hash: None,
        replay: None,
        warnings: Vec::new(),
    }
}

fn perform_replay(args: &Replay, output: &Output) -> anyhow::Result<ExitCode> {
    let commands = if args.commands.is_empty() {
        Vec::new()
    } else {
        match split_commands(&args.commands) {
            Ok(commands) => commands.into_iter().map(scenario::Command::Args).collect(),
            Err(e) => return Ok(mistake(&e)),
        }
    };
    let replayed = match replay(&args.file, &commands) {
        Ok(replayed) => replayed,
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
    let report = replay_report(&replayed, &args.file);
    let mut reporters = Reporters::new(output, 1)?;
    reporters.report(&report)?;
    reporters.finish()?;
    Ok(ExitCode::of(&report))
}

/// A replay as a report of one schedule.
fn replay_report(replayed: &Replayed, file: &Path) -> Report {
    let scenario = &replayed.scenario;
    let mut report = silent(scenario, String::new());
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

fn settings(options: &Options, interrupt: Arc<AtomicBool>) -> Settings {
    Settings { all: options.all, replay_dir: Some(PathBuf::from(REPLAY_DIR)), interrupt }
}

/// Options of the contract that this version does not have yet are refused, never ignored.
fn refuse_unwired(options: &Options) -> Option<ExitCode> {
    let unwired = [
        (options.grow, "--grow"),
        (options.inside, "--inside"),
        (options.partition.is_some(), "--partition"),
        (!options.faults.is_empty(), "--faults"),
    ];
    if options.jobs.is_some_and(|jobs| jobs.get() > 1) {
        eprintln!("noclobber: --jobs: this version runs one schedule at a time; the result is the same");
    }
    let (_, name) = unwired.into_iter().find(|(set, _)| *set)?;
    Some(mistake(&format!("{name} is not in this version")))
}

fn mistake(error: &dyn std::fmt::Display) -> ExitCode {
    let text = error.to_string();
    let lines: Vec<String> = text.lines().map(printable).collect();
    eprintln!("noclobber: {}", lines.join("\n"));
    ExitCode::Usage
}

/// Everything that is told of each report.
struct Reporters(Vec<Box<dyn Reporter>>);

impl Reporters {
    fn new(output: &Output, scenarios: usize) -> anyhow::Result<Self> {
        let stdout = std::io::stdout();
        let mut all: Vec<Box<dyn Reporter>> = Vec::new();
        match output.format {
            Format::Json => all.push(Box::new(Json::new(stdout))),
            Format::Human => {
                let colour = wants_colour(
                    stdout.is_terminal(),
                    std::env::var_os("NO_COLOR").as_deref(),
                    std::env::var_os("TERM").as_deref(),
                );
                let detail = match (output.quiet, output.verbose, scenarios) {
                    (true, ..) => Detail::Quiet,
                    (_, 1.., _) => Detail::Verbose,
                    (_, _, 0..=1) => Detail::Full,
                    _ => Detail::Brief,
                };
                all.push(Box::new(Human::new(stdout, HumanOptions { detail, colour, ..HumanOptions::default() })));
            }
        }
        if let Some(file) = &output.junit {
            all.push(Box::new(Junit::new(file)));
        }
        if let Some(file) = &output.html {
            all.push(Box::new(Html::new(file)));
        }
        if output.github {
            match output.format {
                Format::Json => all.push(Box::new(Github::new(std::io::stderr()))),
                Format::Human => all.push(Box::new(Github::new(std::io::stdout()))),
            }
        }
        Ok(Reporters(all))
    }

    fn report(&mut self, report: &Report) -> anyhow::Result<()> {
        for reporter in &mut self.0 {
            reporter.report(report).context("writing a report")?;
        }
        std::io::stdout().flush().context("writing a report")
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        for reporter in &mut self.0 {
            reporter.finish().context("writing a report")?;
        }
        Ok(())
    }
}
