//! The options of `explore`, which are overrides of `run`, and what they do to a scenario.

use std::{num::NonZeroUsize, path::Path, path::PathBuf, str::FromStr, time::Duration};

use super::{ArgError, copies::set_copies};
use crate::{
    scenario::{
        Conserve, Ends, Expect, Fault, FaultKind, FaultKindError, IgnorePointer, Kind, MAX_FAULTS, Nth, Problem,
        Scenario, SearchKind, UnknownName, compile_glob, parse_disk, parse_draft, parse_duration, parse_time,
    },
    world::{DiskModel, TimeModel},
};

/// The options of `explore` and `run`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// Initial contents of the world, copied [explore: this directory without .git, target, node_modules and virtual
    /// environments, up to 64 MiB and 10,000 files].
    #[arg(long, value_name = "D", help_heading = "World")]
    pub dir: Option<PathBuf>,
    /// A path outside the world that workers share: each schedule gets a private copy (repeatable).
    #[arg(long, value_name = "P", help_heading = "World")]
    pub watch: Vec<PathBuf>,
    /// A variable for every command (repeatable).
    #[arg(long, value_name = "K=V", value_parser = variable, help_heading = "World")]
    pub env: Vec<(String, String)>,
    /// HOME is a folder in the world.
    #[arg(long, help_heading = "World")]
    pub home_in_world: bool,
    /// A shell command that prepares the world, once.
    #[arg(long, value_name = "CMD", help_heading = "World")]
    pub setup: Option<String>,
    /// Copies of each worker.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000), help_heading = "World")]
    pub copies: Option<u16>,
    /// Workers never exit: they are over when nothing changes any more.
    #[arg(long, help_heading = "World")]
    pub until_idle: bool,
    /// Faults to inject, separated by commas: kill, kill-one, errno (or errno:NAME), short-write (or short-write:N),
    /// split, pause (or pause:30s), power-cut.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = fault_word, help_heading = "World")]
    pub faults: Vec<String>,

    /// What is expected: clean, anomaly, or one or more kinds.
    #[arg(long, value_name = "KIND|clean|anomaly", help_heading = "Judging")]
    pub expect: Option<Expect>,
    /// A shell command that accepts (0) or rejects a final world.
    #[arg(long, value_name = "CMD", help_heading = "Judging")]
    pub check: Option<String>,
    /// A shell command whose output is compared instead of the files.
    #[arg(long, value_name = "CMD", help_heading = "Judging")]
    pub state: Option<String>,
    /// Files (a glob) that are not compared (repeatable).
    #[arg(long, value_name = "GLOB", value_parser = glob, help_heading = "Judging")]
    pub ignore: Vec<String>,
    /// A place in JSON files that is not compared (repeatable).
    #[arg(long, value_name = "[FILE#]/POINTER", value_parser = IgnorePointer::parse, help_heading = "Judging")]
    pub ignore_pointer: Vec<IgnorePointer>,
    /// Files (a glob) whose lines or elements may come in any order (repeatable).
    #[arg(long, value_name = "GLOB", value_parser = glob, help_heading = "Judging")]
    pub multiset: Vec<String>,
    /// Every id in the array of a JSON file is executed once or still queued; also takes pointer=/tasks, id=id and
    /// at_least_once=true.
    #[arg(long, value_name = "file=F,done=F", value_parser = conserve, help_heading = "Judging")]
    pub conserve: Option<Conserve>,
    /// A kind that is allowed (repeatable).
    #[arg(long, value_name = "KIND", value_delimiter = ',', help_heading = "Judging")]
    pub allow: Vec<Kind>,

    /// The search: auto, exhaustive, portfolio, random, pos, pct:D, timeline.
    #[arg(long, value_name = "SEARCH", help_heading = "Search")]
    pub search: Option<SearchKind>,
    /// Seed of everything random [default: 0].
    #[arg(long, value_name = "S", help_heading = "Search")]
    pub seed: Option<u64>,
    /// Budget of schedules [default: 1000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Search")]
    pub max_schedules: Option<u64>,
    /// Budget of real time, as in 60s [default: none].
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Search")]
    pub time_limit: Option<Duration>,
    /// The model of time: fair, adversarial (sleeps may end early), real [default: fair].
    #[arg(long, value_name = "MODEL", value_parser = parse_time, help_heading = "Search")]
    pub time: Option<TimeModel>,
    /// What a power cut may do: strict (what POSIX promises), ext4-ordered [default: strict].
    #[arg(long, value_name = "MODEL", value_parser = parse_disk, help_heading = "Search")]
    pub disk: Option<DiskModel>,
    /// At most so many faults in one run [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_FAULTS), help_heading = "Search")]
    pub max_faults: Option<u64>,
    /// Do not stop at the first anomaly.
    #[arg(long, help_heading = "Search")]
    pub all: bool,
    /// With budget left, go on with one more copy of a worker.
    #[arg(long, help_heading = "Search")]
    pub grow: bool,
    /// Explore orders inside a worker too: each process or thread on its own.
    #[arg(long, help_heading = "Search")]
    pub inside: bool,
    /// Schedules that run at once; the result is the same.
    #[arg(long, value_name = "N", help_heading = "Search")]
    pub jobs: Option<NonZeroUsize>,
    /// Explore only part K of N.
    #[arg(long, value_name = "K/N", help_heading = "Search")]
    pub partition: Option<Partition>,
    /// Save what was explored as a scenario.
    #[arg(long, value_name = "FILE.toml", help_heading = "Search")]
    pub save: Option<PathBuf>,
}

/// `--partition K/N`: part K, from 1, of N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// From 1.
    pub part: u32,
    /// How many parts there are.
    pub of: u32,
}

impl FromStr for Partition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
        match numbers {
            Some((part, of)) if part >= 1 && part <= of => Ok(Partition { part, of }),
            _ => Err("write K/N with K from 1 to N, as in 1/4".into()),
        }
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".into()),
    }
}

fn glob(text: &str) -> Result<String, crate::scenario::GlobError> {
    compile_glob(text).map(|_| text.to_owned())
}

/// `file=F,done=F,...`, or the table of a scenario file in braces.
fn conserve(text: &str) -> Result<Conserve, String> {
    if !text.contains('=') {
        return Err("write file=queue.json,done=done.log".to_owned());
    }
    let table = if text.trim_start().starts_with('{') {
        text.to_owned()
    } else {
        let entry = |part: &str| match part.split_once('=') {
            Some(("at_least_once", value)) => format!("at_least_once = {value}"),
            Some((key, value)) => format!("{key} = {}", toml::Value::String(value.to_owned())),
            None => format!("{part} = true"),
        };
        format!("{{ {} }}", text.split(',').map(|part| entry(part.trim())).collect::<Vec<_>>().join(", "))
    };
    let file = format!("oracle.conserve = {table}\nworker = [{{ name = \"A\", run = \"true\" }}]");
    let draft = parse_draft(&file, Path::new("--conserve")).map_err(|e| match *e.problem {
        Problem::Syntax(_) => "write file=queue.json,done=done.log".to_owned(),
        problem => format!("{problem}; {}", problem.way_out()),
    })?;
    draft.scenario.oracle.conserve.ok_or_else(|| "write file=queue.json,done=done.log".to_owned())
}

fn fault_word(text: &str) -> Result<String, FaultKindError> {
    faults_of(text).map(|_| text.to_owned())
}

/// The kinds of faults that a word of `--faults` means: a kind as in a scenario file, or `errno` (a full disk and a
/// broken one), `short-write` and `short-read` (one byte), `pause` (30 s).
pub fn faults_of(word: &str) -> Result<Vec<FaultKind>, FaultKindError> {
    let kinds: &[&str] = match word {
        "errno" => &["errno:ENOSPC", "errno:EIO"],
        "short-write" => &["short-write:1"],
        "short-read" => &["short-read:1"],
        "pause" => &["pause:30s"],
        word => &[word],
    };
    let unknown = |e| match e {
        FaultKindError::Unknown(UnknownName { what: "kind of fault", word, .. }) => {
            let known = ["kill", "kill-one", "errno", "short-write", "short-read", "split", "pause", "power-cut"];
            FaultKindError::Unknown(UnknownName::new("kind of fault", &word, known))
        }
        e => e,
    };
    kinds.iter().map(|kind| kind.parse().map_err(unknown)).collect()
}

/// Changes a scenario as the options say. Single values replace what the scenario has; lists (`--watch`, `--env`,
/// `--faults`, `--ignore`, `--ignore-pointer`, `--multiset`, `--allow`) add to it. Relative paths are the caller's.
pub fn apply_overrides(options: &Options, caller: &Path, scenario: &mut Scenario) -> Result<(), ArgError> {
    if let Some(dir) = &options.dir {
        let dir = caller.join(dir);
        if !dir.is_dir() {
            return Err(ArgError::NoFolder(dir));
        }
        scenario.dir = Some(dir);
        scenario.dir_filtered = false;
    }
    scenario.watch.extend(options.watch.iter().map(|path| caller.join(path)));
    scenario.env.extend(options.env.iter().cloned());
    scenario.home_in_world |= options.home_in_world;
    replace(&mut scenario.setup, &options.setup);
    replace(&mut scenario.check, &options.check);
    replace(&mut scenario.expect, &options.expect);
    replace(&mut scenario.oracle.state, &options.state);
    replace(&mut scenario.oracle.conserve, &options.conserve);
    scenario.oracle.ignore.extend(options.ignore.iter().cloned());
    scenario.oracle.ignore_pointer.extend(options.ignore_pointer.iter().cloned());
    scenario.oracle.multiset.extend(options.multiset.iter().cloned());
    scenario.oracle.allow.extend(options.allow.iter().copied());
    if let Some(copies) = options.copies {
        set_copies(scenario, usize::from(copies))?;
    }
    if options.until_idle {
        scenario.workers.iter_mut().for_each(|worker| worker.ends = Ends::Idle);
    }
    for word in &options.faults {
        for kind in faults_of(word)? {
            let workers = (0..scenario.workers.len()).collect();
            scenario.faults.push(Fault { workers, kind: kind.to_string(), at: None, nth: Nth::Each });
        }
    }
    let search = &mut scenario.search;
    search.search = options.search.clone().unwrap_or_else(|| search.search.clone());
    search.seed = options.seed.unwrap_or(search.seed);
    search.max_schedules = options.max_schedules.unwrap_or(search.max_schedules);
    search.time_limit = options.time_limit.or(search.time_limit);
    search.time = options.time.unwrap_or(search.time);
    search.disk = options.disk.unwrap_or(search.disk);
    search.max_faults = options.max_faults.unwrap_or(search.max_faults);
    Ok(())
}

fn replace<T: Clone>(value: &mut Option<T>, by: &Option<T>) {
    if by.is_some() {
        value.clone_from(by);
    }
}
