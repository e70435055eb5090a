//! Doing what the command line says.

use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use anyhow::Context;

use super::{
    Args, Command, ExitCode, Explore, Format, Options, Output, Run, apply_overrides,
    doctor::perform_doctor,
    init::{Written, perform_init},
    keep::{keep, save_line},
    manual::{completions, man_pages},
    perform_audit, perform_incident,
    progress::Line,
    replay::perform_replay,
    wants_colour,
};
use crate::{
    cli::explore_scenario,
    guard::{GuardError, Settings, grow, verify},
    report::{Detail, Github, Html, Human, HumanOptions, Json, Junit, Part, Report, Reporter},
    scenario::{self, Scenario, discover, printable},
    world::{Warning, WarningKind},
};

/// Where replay files of what was found go, in the caller's directory.
pub(super) const REPLAY_DIR: &str = ".noclobber";

/// Runs the command and says how it ended.
///
/// # Errors
/// Internal errors: reports that cannot be written, and the like.
pub fn perform(args: &Args) -> anyhow::Result<ExitCode> {
    if let Err(e) = crate::tracer::let_through(&args.output.unseen) {
        return Ok(mistake(&e));
    }
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The first asks for what is known so far, the second is obeyed at once.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, interrupt.clone())?;
        signal_hook::flag::register(signal, interrupt.clone())?;
    }
    match &args.command {
        Command::Run(run) => perform_run(run, &args.output, interrupt),
        Command::Explore(explore) => perform_explore(explore, &args.output, interrupt),
        Command::Replay(replay) => perform_replay(replay, &args.output, interrupt),
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
        Command::Schema(schema) => {
            std::io::stdout().write_all(schema.of.text().as_bytes()).context("writing the schema")?;
            Ok(ExitCode::AsExpected)
        }
        Command::Incident(incident) => perform_incident(incident, &args.output),
        Command::Bench(bench) => super::bench::perform(bench, &args.output, interrupt),
        // Its exit code is that of the command: see `main`.
        Command::Record(_) => Ok(ExitCode::Internal),
        Command::Merge(merge) => super::merge::perform(merge, &args.output),
        Command::Teeth(teeth) => super::teeth::perform(teeth, &args.output, interrupt),
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
    let line = Line::new(output, files.len(), &interrupt);
    let settings = Settings { watch: line.watch(), ..settings(&run.options, interrupt) };
    let mut reporters = Reporters::new(output, files.len())?;
    let mut codes = Vec::new();
    let of = files.len();
    for (n, file) in files.into_iter().enumerate() {
        line.next();
        let scenario = match load(&file, &run.options, &caller) {
            Ok(scenario) => scenario,
            Err(code) => {
                codes.push(code);
                continue;
            }
        };
        codes.push(answer(&scenario, &settings, &line, &mut reporters, &[])?.code);
        if settings.interrupt.load(std::sync::atomic::Ordering::Relaxed) {
            codes.extend(left_out(of, n + 1));
            break;
        }
    }
    reporters.finish()?;
    Ok(ExitCode::first_of(codes))
}

/// After an interrupt: scenarios that were not run are no green, and it is said how many there are.
pub(super) fn left_out(of: usize, begun: usize) -> Option<ExitCode> {
    let left = of.saturating_sub(begun);
    (left > 0).then(|| {
        eprintln!("noclobber: interrupted: {left} of {of} scenarios were not run");
        ExitCode::CannotTell
    })
}

/// Reads a scenario, changed as the options say; tells of mistakes.
pub(super) fn load(file: &Path, options: &Options, caller: &Path) -> Result<Scenario, ExitCode> {
    let loaded = scenario::load_draft(file).and_then(|mut draft| {
        let overridden = apply_overrides(options, caller, &mut draft.scenario);
        draft.finish().map(|scenario| (scenario, overridden))
    });
    match loaded {
        Ok((scenario, Ok(()))) => Ok(scenario),
        Ok((_, Err(e))) => Err(mistake(&e)),
        Err(e) => Err(mistake(&e)),
    }
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
    let line = Line::new(output, 1, &interrupt);
    let settings =
        Settings { watch: line.watch(), needs_company: !explore.options.grow, ..settings(&explore.options, interrupt) };
    let mut reporters = Reporters::new(output, 1)?;
    let answered = answer(&explored.scenario, &settings, &line, &mut reporters, &notes)?;
    reporters.finish()?;
    let told = output.format == Format::Human && !output.quiet;
    match &explore.options.save {
        Some(path) => match keep(&explored.scenario, &answered.replays, path) {
            Ok(kept) if told => println!("\n{kept}"),
            Ok(_) => {}
            Err(e) => return Ok(mistake(&e)),
        },
        // What cannot be told cannot be guarded.
        None if told && answered.code != ExitCode::CannotTell => {
            println!("\nto keep this as a guard: {}", save_line(std::env::args_os(), &caller));
        }
        None => {}
    }
    Ok(answered.code)
}

/// How a scenario was answered.
struct Answered {
    code: ExitCode,
    /// The replay files of what was found.
    replays: Vec<PathBuf>,
}

/// Verifies one scenario and reports it.
fn answer(
    scenario: &Scenario,
    settings: &Settings,
    line: &Line,
    reporters: &mut Reporters,
    notes: &[String],
) -> anyhow::Result<Answered> {
    let verified = if settings.grow { grow(scenario, settings) } else { verify(scenario, settings) };
    line.clear();
    let mut report = match verified {
        Ok(report) => report,
        Err(GuardError::Mistake(why)) => {
            return Ok(Answered { code: mistake(&format!("{}: {why}", scenario.name)), replays: Vec::new() });
        }
        Err(GuardError::CannotTell(why)) => {
            // A part that could not begin is a part of the whole all the same.
            let workers = scenario.workers.iter().map(|w| w.name.clone()).collect();
            let part = settings.part.map(|(part, of)| Part { part, of, workers, ..Part::default() });
            Report { part, ..Report::silent(scenario, why) }
        }
    };
    let note = |text: &String| Warning { kind: WarningKind::Note, text: text.clone() };
    report.warnings.extend(notes.iter().map(note));
    reporters.report(&report)?;
    let replays = report.anomalies.iter().filter_map(|a| a.replay.as_ref()).map(PathBuf::from).collect();
    Ok(Answered { code: ExitCode::of(&report), replays })
}

pub(super) fn settings(options: &Options, interrupt: Arc<AtomicBool>) -> Settings {
    // Parts that run in one folder keep their replay files apart.
    let suffix = options.partition.map(|p| format!(".part-{}-of-{}", p.part, p.of)).unwrap_or_default();
    Settings {
        all: options.all,
        grow: options.grow,
        part: options.partition.map(|p| (p.part, p.of)),
        replay_dir: Some(PathBuf::from(REPLAY_DIR)),
        replay_suffix: suffix,
        interrupt,
        jobs: options.jobs,
        needs_company: false,
        watch: None,
        place: 0,
    }
}

/// Options of the contract that this version does not have yet are refused, never ignored.
pub(super) fn refuse_unwired(options: &Options) -> Option<ExitCode> {
    if options.grow && options.partition.is_some() {
        return Some(mistake(&"--grow and --partition do not go together: partition the scenario with more copies"));
    }
    if options.inside {
        let why = "--inside is not in this version: the order among the processes and threads of one worker is fixed, \
                   and the report says where there was a choice; make them workers of their own to explore it";
        return Some(mistake(&why));
    }
    None
}

pub(super) fn mistake(error: &dyn std::fmt::Display) -> ExitCode {
    let text = error.to_string();
    let lines: Vec<String> = text.lines().map(printable).collect();
    eprintln!("noclobber: {}", lines.join("\n"));
    ExitCode::Usage
}

/// How the reports of so many scenarios look to a person.
pub(super) fn human_options(output: &Output, scenarios: usize) -> HumanOptions {
    let colour = wants_colour(
        std::io::stdout().is_terminal(),
        std::env::var_os("NO_COLOR").as_deref(),
        std::env::var_os("TERM").as_deref(),
    );
    let detail = match (output.quiet, output.verbose, scenarios) {
        (true, ..) => Detail::Quiet,
        (_, 1.., _) => Detail::Verbose,
        (_, _, 0..=1) => Detail::Full,
        _ => Detail::Brief,
    };
    HumanOptions { detail, colour, ..HumanOptions::default() }
}

/// Everything that is told of each report.
pub(super) struct Reporters(Vec<Box<dyn Reporter>>);

impl Reporters {
    pub(super) fn new(output: &Output, scenarios: usize) -> anyhow::Result<Self> {
        let stdout = std::io::stdout();
        let mut all: Vec<Box<dyn Reporter>> = Vec::new();
        match output.format {
            Format::Json => all.push(Box::new(Json::new(stdout))),
            Format::Human => {
                all.push(Box::new(Human::new(stdout, human_options(output, scenarios))));
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

    pub(super) fn report(&mut self, report: &Report) -> anyhow::Result<()> {
        for reporter in &mut self.0 {
            reporter.report(report).context("writing a report")?;
        }
        std::io::stdout().flush().context("writing a report")
    }

    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        for reporter in &mut self.0 {
            reporter.finish().context("writing a report")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_interrupt_leaves_out_is_no_green() {
        assert_eq!(left_out(3, 3), None);
        let codes = std::iter::once(ExitCode::AsExpected).chain(left_out(3, 1));
        assert_eq!(ExitCode::first_of(codes), ExitCode::CannotTell);
    }
}
