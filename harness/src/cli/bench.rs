//! `noclobber bench`.

use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

use super::{ExitCode, Format, Output, perform::mistake, wants_colour};
use crate::{
    bench::{
        Comparison, Competitor, Dimension, Durability, Loads, Need, Progress, Results, Rules, Suite, Timing, Tools,
        catalogue, compare, names,
        report::{comparison_table, csv, page, table},
        write_peers,
    },
    publish::publish,
    report::write_line,
    scenario::{nearest, parse_duration, printable},
};

/// About how long all slices of a quick benchmark together are to take.
const QUICK: Duration = Duration::from_secs(22);

/// When a quick benchmark begins no repetition any more.
const QUICK_END: Duration = Duration::from_secs(40);

/// The same of one without `--quick` and `--full`.
const USUAL: Duration = Duration::from_secs(150);

/// How long starting and ending the processes of a slice takes, about.
const OVERHEAD: Duration = Duration::from_millis(150);

/// How long each slice is that is kept for a comparison, and with peers, some of which look for a lock but every quarter
/// of a second. What disturbs a machine lasts longer than a slice, so many short slices in turns tell more than a few
/// long ones: for the same time, of a flock alone, an interval half as wide.
const GUARD: Duration = Duration::from_millis(20);
const GUARD_PEERS: Duration = Duration::from_millis(150);

/// How long starting and ending `queue`'s processes takes, and waiting until they are warm.
const GUARD_OVERHEAD: Duration = Duration::from_millis(60);

/// The most repetitions, if nobody says how many.
const GUARD_MOST: usize = 250;

/// The most workers of a slice.
const MAX_PROCESSES: usize = 256;

/// `noclobber bench`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct BenchArgs {
    /// About half a minute: one load, a few others to compare with.
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// Everything, long enough to see rare waits: the better part of an hour.
    #[arg(long)]
    pub full: bool,
    /// Who is measured: strategies of the `queue` program, peers, `own` for all of the former, `peers` for all of the
    /// latter [default: all, with --with: only that].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub strategy: Vec<String>,
    /// A command of yours that speaks the line protocol (repeatable); with @none, @data or @full after the name, what
    /// its finished operations survive [default: none].
    #[arg(long, value_name = "NAME[@DURABILITY]=CMD")]
    pub with: Vec<String>,
    /// How many workers at once.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=MAX_PROCESSES as i64))]
    pub processes: Vec<u16>,
    /// How many tasks are in the queue all the time.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub kept: Vec<u32>,
    /// About how long a task is.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub task_bytes: Vec<u32>,
    /// How long a worker pauses between two operations, such as 1ms.
    #[arg(long, value_name = "TIME", value_delimiter = ',', value_parser = parse_duration)]
    pub think: Vec<Duration>,
    /// What a finished operation survives: a kill (none), a power cut with perhaps an older queue (data), a power cut
    /// (full).
    #[arg(long, value_enum, value_name = "none|data|full", value_delimiter = ',')]
    pub durability: Vec<Durability>,
    /// Where the queues are, for the file system (repeatable) [default: here].
    #[arg(long, value_name = "DIR")]
    pub dir: Vec<PathBuf>,
    /// How often each is measured, in turns with all others.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub repetitions: Option<u16>,
    /// How long each time.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub measure: Option<Duration>,
    /// How long before that is not counted.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub warm_up: Option<Duration>,
    /// What you need, for the recommendation.
    #[arg(long, value_enum, value_name = "durable|fair|portable", value_delimiter = ',')]
    pub need: Vec<Need>,
    /// Also write a line for each run.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Keep the results, for --against.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Compare with results that were kept: exit 1 if something is slower or loses, 3 if that cannot be told.
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// How much slower has to be noticed, in per cent.
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    pub slowdown: f64,
    /// The `queue` program [default: beside noclobber, else in PATH].
    #[arg(long, value_name = "FILE")]
    pub queue: Option<PathBuf>,
    /// The Python interpreter that has the peers' packages.
    #[arg(long, value_name = "FILE", default_value = "python3")]
    pub python: PathBuf,
    /// The `node` program.
    #[arg(long, value_name = "FILE", default_value = "node")]
    pub node: PathBuf,
    /// Where the peers' Node packages are [default: from here upwards].
    #[arg(long, value_name = "DIR")]
    pub node_modules: Option<PathBuf>,
}

pub(super) fn perform(args: &BenchArgs, output: &Output, interrupt: Arc<AtomicBool>) -> anyhow::Result<ExitCode> {
    if output.junit.is_some() || output.github {
        return Ok(mistake(&"--junit and --github are for scenarios: bench has --format json, --csv and --html"));
    }
    if let Some(why) = unwritable(args, output) {
        return Ok(mistake(&why));
    }
    let earlier = match args.against.as_deref().map(read_results).transpose() {
        Ok(earlier) => earlier,
        Err(why) => return Ok(mistake(&why)),
    };
    let scratch = tempfile::tempdir().context("a folder for the peers' programs")?;
    write_peers(scratch.path()).context("the peers' programs")?;
    let suite = match suite(args, scratch.path()) {
        Ok(suite) => suite,
        Err(why) => return Ok(mistake(&why)),
    };
    let mut shown =
        Shown { bar: ProgressBar::hidden(), visible: std::io::stderr().is_terminal(), args, output, failed: None };
    let results = match suite.run(&mut shown, &interrupt) {
        Ok(results) => results,
        Err(e) => return Ok(mistake(&e)),
    };
    shown.failed.take().map_or(Ok(()), Err)?;
    let rules = Rules { slowdown: args.slowdown / 100.0, ..Rules::default() };
    let comparison = match earlier.map(|earlier| compare(&earlier, &results, rules)).transpose() {
        Ok(comparison) => comparison,
        Err(e) => return Ok(mistake(&e)),
    };
    write_files(args, output, &results, comparison.as_ref())?;
    tell(output, &results, comparison.as_ref())?;
    Ok(exit_code(&results, comparison.as_ref()))
}

/// 1: something was lost that need not be, or is slower. 3: not everything was measured, or cannot be told.
fn exit_code(results: &Results, comparison: Option<&Comparison>) -> ExitCode {
    let lost = results.runs.iter().any(|run| run.wrong() && !run.known_to_lose);
    let unsure = results.ended_by != "done"
        || results.runs.is_empty()
        || results.runs.iter().any(|run| run.error.is_some())
        || comparison.is_some_and(Comparison::unsure);
    match (lost || comparison.is_some_and(Comparison::alarm), unsure) {
        (true, _) => ExitCode::Anomaly,
        (false, true) => ExitCode::CannotTell,
        (false, false) => ExitCode::AsExpected,
    }
}

fn tell(output: &Output, results: &Results, comparison: Option<&Comparison>) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    match output.format {
        Format::Json => {
            let mut value = serde_json::to_value(results).context("the results as JSON")?;
            if let (Some(comparison), Some(object)) = (comparison, value.as_object_mut()) {
                object
                    .insert("against".to_owned(), serde_json::to_value(comparison).context("the comparison as JSON")?);
            }
            write_line(&mut out, &value).context("writing the report")?;
        }
        Format::Human => {
            let colour = wants_colour(
                out.is_terminal(),
                std::env::var_os("NO_COLOR").as_deref(),
                std::env::var_os("TERM").as_deref(),
            );
            if !output.quiet {
                write!(out, "{}", table(results, colour)).context("writing the report")?;
            }
            if let Some(comparison) = comparison {
                write!(out, "{}", comparison_table(comparison, colour)).context("writing the report")?;
            }
        }
    }
    out.flush().context("writing the report")
}

fn write_files(
    args: &BenchArgs,
    output: &Output,
    results: &Results,
    comparison: Option<&Comparison>,
) -> anyhow::Result<()> {
    if let Some(file) = &args.csv {
        write_whole(file, &csv(results).context("the results as CSV")?)?;
    }
    if let Some(file) = &args.save {
        write_whole(file, &(serde_json::to_string(results).context("the results as JSON")? + "\n"))?;
    }
    if let Some(file) = &output.html {
        write_whole(file, &page(results, comparison))?;
    }
    Ok(())
}

fn write_whole(file: &Path, text: &str) -> anyhow::Result<()> {
    publish(file, text.as_bytes()).with_context(|| format!("writing {}", file.display()))
}

/// A file that cannot be written is better known before than after an hour.
fn unwritable(args: &BenchArgs, output: &Output) -> Option<String> {
    let files = [("--csv", &args.csv), ("--save", &args.save), ("--html", &output.html)];
    files.into_iter().find_map(|(option, file)| {
        let file = file.as_ref()?;
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let why = match folder.metadata() {
            Ok(_) if file.is_dir() => "it is a folder".to_owned(),
            Ok(_) => return None,
            Err(e) => e.to_string(),
        };
        Some(format!("{option}: {}: {why}", printable(&file.display().to_string())))
    })
}

fn read_results(file: &Path) -> Result<Results, String> {
    let name = printable(&file.display().to_string());
    let text = std::fs::read_to_string(file).map_err(|e| format!("--against: {name}: {e}"))?;
    let results: Results = serde_json::from_str(&text)
        .map_err(|e| format!("--against: {name}: {e}\n  name a file that `noclobber bench --save` has written"))?;
    match results.schema {
        1 => Ok(results),
        other => {
            Err(format!("--against: {name}: schema {other} is not known to this version\n  measure again with --save"))
        }
    }
}

/// Shows how far it is, and keeps what is known after each repetition.
struct Shown<'a> {
    bar: ProgressBar,
    visible: bool,
    args: &'a BenchArgs,
    output: &'a Output,
    failed: Option<anyhow::Error>,
}

impl Progress for Shown<'_> {
    fn begin(&mut self, slices: usize) {
        if self.visible && !self.output.quiet {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {eta} left  {wide_msg}");
            self.bar = ProgressBar::new(slices as u64);
            self.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        }
    }

    fn slice(&mut self, label: &str) {
        self.bar.inc(1);
        self.bar.set_message(printable(label));
    }

    fn repetition(&mut self, so_far: &Results) {
        // A crash loses no more than the repetition that is under way.
        if self.failed.is_none() {
            self.failed = write_files(self.args, self.output, so_far, None).err();
        }
    }

    fn end(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// What is to be measured, from what was written.
fn suite(args: &BenchArgs, scratch: &Path) -> Result<Suite, String> {
    let caller = std::env::current_dir().map_err(|e| format!("the current directory: {e}"))?;
    let chosen = chosen(args)?;
    let needs_queue = chosen.iter().any(|name| !is_peer(name));
    let tools = Tools {
        queue: match (&args.queue, needs_queue) {
            (Some(queue), _) => absolute(&caller, queue),
            (None, true) => find_queue()?,
            (None, false) => PathBuf::from("queue"),
        },
        python: program(&caller, &args.python),
        node: program(&caller, &args.node),
        node_modules: args.node_modules.as_ref().map(|folder| absolute(&caller, folder)),
        peers: scratch.to_owned(),
    };
    if needs_queue && args.queue.is_some() && !tools.queue.is_file() {
        return Err(format!("--queue: there is no file {}", tools.queue.display()));
    }
    let mut competitors: Vec<Competitor> =
        catalogue(&tools).into_iter().filter(|one| chosen.contains(&one.name)).collect();
    for text in &args.with {
        let one = with(text)?;
        if names().contains(&one.name.as_str()) || competitors.iter().any(|other| other.name == one.name) {
            return Err(format!("--with: the name `{}` is taken", printable(&one.name)));
        }
        competitors.push(one);
    }
    let dirs: Vec<PathBuf> = match &args.dir[..] {
        [] => vec![caller.clone()],
        dirs => dirs.iter().map(|dir| absolute(&caller, dir)).collect(),
    };
    let loads = loads(args, dirs.len(), &competitors);
    let mut cases = loads.cases(&competitors);
    if args.quick {
        cases.retain(|case| is_quick(args, &competitors[case.competitor], case));
    }
    if cases.is_empty() {
        return Err(format!(
            "nothing to measure: none of the chosen strategies knows durability {}\n  choose others, or leave --durability out",
            args.durability.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        ));
    }
    let guard = args.save.is_some() || args.against.is_some();
    let (repetitions, timing) = timing(args, &cases, &competitors)?;
    if !(args.slowdown > 2.0 && args.slowdown < 100.0) {
        return Err("--slowdown: per cent between 2, which are always tolerated, and 100 are wanted".to_owned());
    }
    Ok(Suite {
        competitors,
        cases,
        dirs,
        repetitions,
        timing,
        // What is to be compared, or was asked for, is measured as often as was said.
        budget: (args.quick && !guard && args.repetitions.is_none()).then_some(QUICK_END),
        needs: args.need.clone(),
        tools,
    })
}

/// How often each case is measured, and how long.
fn timing(
    args: &BenchArgs,
    cases: &[crate::bench::Case],
    competitors: &[Competitor],
) -> Result<(usize, Timing), String> {
    let all = if args.quick { QUICK } else { USUAL };
    let slices = |repetitions: usize| u32::try_from(cases.len() * repetitions).unwrap_or(u32::MAX);
    let guard = args.save.is_some() || args.against.is_some();
    let peers = cases.iter().any(|case| competitors[case.competitor].peer);
    let (repetitions, measured) = if guard {
        let measured = args.measure.unwrap_or(if peers { GUARD_PEERS } else { GUARD });
        // Each slice has its floor beside it.
        let each = measured.saturating_mul(2).saturating_add(if peers { OVERHEAD } else { GUARD_OVERHEAD });
        let fit = all.as_millis() / each.as_millis().saturating_mul(cases.len() as u128).max(1);
        (usize::try_from(fit).unwrap_or(usize::MAX).clamp(10, GUARD_MOST), measured)
    } else {
        let repetitions = if args.quick { 3 } else { 5 };
        let most = Duration::from_millis(if args.quick { 400 } else { 1000 });
        let each = all / slices(args.repetitions.map_or(repetitions, usize::from));
        let fit = each.saturating_sub(OVERHEAD).clamp(Duration::from_millis(150), most);
        (repetitions, args.measure.unwrap_or(if args.full { Duration::from_secs(1) } else { fit }))
    };
    if measured < Duration::from_millis(10) || measured > Duration::from_secs(3600) {
        return Err("--measure: a time from 10ms to 1h is wanted".to_owned());
    }
    let least = Duration::from_millis(if guard { 10 } else { 30 });
    let warm_up = args.warm_up.unwrap_or((measured / 5).clamp(least, Duration::from_millis(300)));
    Ok((args.repetitions.map_or(repetitions, usize::from), Timing { warm_up, measured }))
}

/// The loads; the usual ones first.
fn loads(args: &BenchArgs, dirs: usize, competitors: &[Competitor]) -> Loads {
    fn dimension<T, U: Copy>(named: &[T], of: impl Fn(&T) -> U, usual: &[U]) -> Dimension<U> {
        match named {
            [] => Dimension { values: usual.to_vec(), named: false },
            named => Dimension { values: named.iter().map(of).collect(), named: true },
        }
    }
    let size = |value: &u32| usize::try_from(*value).unwrap_or(usize::MAX);
    let micros = |time: &Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let durabilities = match &args.durability[..] {
        [] => {
            let all = [Durability::None, Durability::Data, Durability::Full];
            all.into_iter().filter(|one| competitors.iter().any(|c| c.durabilities.contains(one))).collect()
        }
        named => named.to_vec(),
    };
    let (processes, kept, think): (&[usize], &[usize], &[u64]) = match (args.quick, args.full) {
        (true, _) => (&[8, 1], &[100, 1000], &[0]),
        (_, true) => (&[8, 1, 2, 4, 16], &[100, 10, 1000, 10_000], &[0, 1000]),
        _ => (&[8, 1, 2, 4], &[100, 10, 1000], &[0]),
    };
    Loads {
        dirs,
        durabilities,
        processes: dimension(&args.processes, |n| usize::from(*n), processes),
        kept: dimension(&args.kept, size, kept),
        task_bytes: dimension(&args.task_bytes, size, &[150]),
        think_us: dimension(&args.think, micros, think),
    }
}

/// What half a minute has room for: everybody under the usual load, the strategies alone and with more tasks, and with
/// other durabilities only whom the question is about there. What was named is measured in any case.
fn is_quick(args: &BenchArgs, competitor: &Competitor, case: &crate::bench::Case) -> bool {
    let usual = (args.processes.is_empty() && case.processes != 8) || (args.kept.is_empty() && case.kept != 100);
    let named = !args.durability.is_empty() || !args.with.is_empty() || !args.strategy.is_empty();
    let plain = !competitor.name.contains(' ') && !competitor.peer;
    match case.durability {
        _ if named => true,
        Durability::None => !usual || plain,
        _ if usual => false,
        Durability::Data => competitor.peer || competitor.name == "flock",
        Durability::Full => {
            ["flock", "writer"].contains(&competitor.name.as_str()) || competitor.name.starts_with("sqlite")
        }
    }
}

/// The names that were chosen.
fn chosen(args: &BenchArgs) -> Result<Vec<String>, String> {
    let known = names();
    let mut chosen: Vec<String> = Vec::new();
    for word in &args.strategy {
        let words: Vec<&str> = match word.as_str() {
            "all" => known.clone(),
            "own" => known.iter().copied().filter(|name| !is_peer(name)).collect(),
            "peers" => known.iter().copied().filter(|name| is_peer(name)).collect(),
            name if known.contains(&name) => vec![name],
            name => {
                let near = nearest(name, &known).map_or(String::new(), |near| format!("; `{near}`?"));
                return Err(format!(
                    "--strategy: `{}` is not known{near}\n  known are own, peers, all, {}",
                    printable(name),
                    known.join(", ")
                ));
            }
        };
        chosen.extend(words.into_iter().map(str::to_owned));
    }
    if args.strategy.is_empty() && args.with.is_empty() {
        chosen = known.into_iter().map(str::to_owned).collect();
    }
    Ok(chosen)
}

/// Whether a known name is somebody else's work.
fn is_peer(name: &str) -> bool {
    let first = name.split(' ').next().unwrap_or(name);
    !["naive", "flock", "lock-dir", "optimistic", "sharded", "writer"].contains(&first)
}

/// A command of the user's, from `NAME[@DURABILITY]=CMD`.
fn with(text: &str) -> Result<Competitor, String> {
    let wrong = || format!("--with: `{}` is not NAME=CMD or NAME@full=CMD", printable(text));
    let (name, command) = text.split_once('=').ok_or_else(wrong)?;
    let (name, durability) = match name.split_once('@') {
        None => (name, Durability::None),
        Some((name, word)) => (name, clap::ValueEnum::from_str(word, false).map_err(|_| wrong())?),
    };
    if name.trim().is_empty() || command.trim().is_empty() {
        return Err(wrong());
    }
    Ok(Competitor::of_user(name, vec![durability], command))
}

/// The `queue` program: where noclobber itself is, or in `PATH`.
fn find_queue() -> Result<PathBuf, String> {
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join("queue")));
    if let Some(queue) = beside.as_ref().filter(|queue| queue.is_file()) {
        return Ok(queue.clone());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("queue")).find(|queue| queue.is_file());
    found.ok_or_else(|| {
        let own = beside.map_or(String::new(), |queue| format!(" (not {}, not in PATH)", queue.display()));
        format!(
            "the program `queue`, whose strategies are to be measured, is not there{own}\n  build it (cargo build -p queue-core --bin queue) or name it with --queue; \
             --strategy peers and --with do without it"
        )
    })
}

fn absolute(caller: &Path, path: &Path) -> PathBuf {
    caller.join(path)
}

/// A program as it was named: a plain name is looked up in `PATH` when it is started.
fn program(caller: &Path, path: &Path) -> PathBuf {
    if path.components().count() > 1 { absolute(caller, path) } else { path.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_with_a_command() {
        let cases = [
            ("mine=./mine.sh --x=1", Ok(("mine", "./mine.sh --x=1", Durability::None))),
            ("pg@full=pg.py", Ok(("pg", "pg.py", Durability::Full))),
            ("=x", Err(())),
            ("x=", Err(())),
            ("x", Err(())),
            ("x@fast=y", Err(())),
        ];
        for (text, expected) in cases {
            let found = with(text);
            let found = found.as_ref().map_err(|_| ()).map(|one| match &one.start {
                crate::bench::Start::Shell(line) => (one.name.as_str(), line.as_str(), one.durabilities[0]),
                crate::bench::Start::Program(..) => unreachable!("a line for the shell"),
            });
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn names_are_known_or_the_nearest_is_told() {
        let args = |words: &[&str]| BenchArgs {
            strategy: words.iter().map(|word| (*word).to_owned()).collect(),
            ..BenchArgs::default()
        };
        assert_eq!(chosen(&args(&[])).unwrap().len(), names().len());
        let (own, peers) = (chosen(&args(&["own"])).unwrap(), chosen(&args(&["peers"])).unwrap());
        assert_eq!((own.len(), peers.len()), (10, 6));
        assert!(chosen(&args(&["flok"])).unwrap_err().contains("`flock`?"));
    }
}
