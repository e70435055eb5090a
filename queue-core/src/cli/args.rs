//! The command line.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args as ArgGroup, Parser, Subcommand, ValueEnum};
use serde_json::value::RawValue;

use crate::error::Error;
use crate::lease::Token;
use crate::operation::Hold;
use crate::queue::Queue;
use crate::storage::{Disk, Storage};
use crate::strategy::{self, Options, writer};
use crate::task::{DEFAULT_ACCOUNT, Task};
use crate::transaction::{Durability, Settings};

/// A JSON task queue in one file, shared by any number of processes.
///
/// Standard output: one JSON object a line. Exit code: 0 done, 1 nothing to claim or unknown id, 2 usage or bad file,
/// 3 lock not had in time, 4 lease lost.
#[derive(Debug, Parser)]
#[command(name = "queue", version)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, ArgGroup)]
pub(super) struct Common {
    /// The queue file; with `--strategy sharded` the directory of the shards [default: queue.json, sharded: queues]
    #[arg(long, global = true, value_name = "PATH")]
    pub(super) file: Option<PathBuf>,
    /// How processes are kept apart. `flock`, `optimistic` and `writer` may be mixed on one queue [default: flock]
    #[arg(long, global = true, value_enum)]
    pub(super) strategy: Option<StrategyName>,
    /// The strategy of each shard, for `--strategy sharded` [default: flock]
    #[arg(long, global = true, value_enum, value_name = "STRATEGY")]
    over: Option<StrategyName>,
    /// Take an open-file-description lock instead of flock(2). All that use one queue must say the same
    #[arg(long, global = true)]
    ofd: bool,
    /// Let those go first who have waited, at the price of some throughput
    #[arg(long, global = true)]
    fair: bool,
    /// UNSAFE, for `lock-dir`: take the lock over after this time even if its owner may be alive
    #[arg(long, global = true, value_name = "TIME", value_parser = duration)]
    break_after: Option<Duration>,
    /// Write into a spare file that changes places with the queue file: quicker, but a reader that does not know of it may
    /// meet half a version. Not with `--durability data`
    #[arg(long, global = true)]
    spare: bool,
    /// Accept a file system that another machine or program serves, where locks may not hold (see `queue doctor`)
    #[arg(long, global = true)]
    network_fs: bool,
    /// What a finished operation survives: `none` a kill; `data` after a power cut a whole file, perhaps an older one;
    /// `full` a power cut
    #[arg(long, global = true, value_enum, default_value = "full")]
    durability: DurabilityName,
    /// How long to wait for a lock, such as 500ms or 10s; 0s: do not wait [default: as long as it takes]
    #[arg(long, global = true, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// The worker's name in claimed tasks [default: pid-N]
    #[arg(long, global = true, value_name = "NAME")]
    worker: Option<String>,
    /// How long a claim holds, such as 30s; then anybody may claim the task again [default: until it is completed or
    /// released]
    #[arg(long, global = true, value_name = "TIME", value_parser = duration)]
    pub(super) lease: Option<Duration>,
    /// Errors and warnings too are JSON objects, one a line, on standard error
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// How many snapshots of earlier versions to keep in any case (beyond that one a second for an hour, one a minute for
    /// a week, a gigabyte at most); 0: take none
    #[arg(long, global = true, value_name = "N", default_value_t = Settings::SNAPSHOTS)]
    snapshots: u64,
    /// Take no snapshots: the same as --snapshots 0
    #[arg(long, global = true, conflicts_with = "snapshots")]
    no_snapshots: bool,
    /// Write no audit lines
    #[arg(long, global = true)]
    no_audit: bool,
    /// The longest queue file that is read, in bytes
    #[arg(long, global = true, value_name = "N", default_value_t = Settings::MAX_BYTES)]
    max_bytes: u64,
    /// How often a task is claimed before it is put aside as `dead`; 0: without end
    #[arg(long, global = true, value_name = "N", default_value_t = Settings::MAX_ATTEMPTS)]
    max_attempts: u64,
    /// How many completed ids to remember, so that pushing one of them again adds nothing; 0: none
    #[arg(long, global = true, value_name = "N", default_value_t = Settings::DONE_KEEP)]
    done_keep: usize,
    /// For how long to remember them
    #[arg(long, global = true, value_name = "TIME", value_parser = duration, default_value = "24h")]
    done_for: Duration,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Add tasks; creates the queue if there is none. An id that is queued, claimed, dead or was completed lately is left as
    /// it is
    Push(PushArgs),
    /// Take the oldest task that is queued, or whose claim has run out
    Claim {
        /// Only tasks of this account
        #[arg(long)]
        account: Option<String>,
    },
    /// Take a finished task out of the queue
    Complete(Which),
    /// Let a claim hold for another --lease from now on
    Extend(Which),
    /// Put a claimed task back into the queue
    Release(Which),
    /// Put a dead task back into the queue, its attempts forgotten
    Revive(Which),
    /// Move a queued task to another account (needs `--strategy sharded`)
    Move {
        /// The task's id
        id: String,
        /// Its account
        #[arg(long)]
        account: String,
        /// Its new account
        #[arg(long)]
        to: String,
    },
    /// Show the tasks, one a line, without waiting for a lock. Sharded, each account's file is read at its own moment, so
    /// that all together are no snapshot
    List {
        /// Only tasks of this account
        #[arg(long)]
        account: Option<String>,
        /// Only tasks in this state, such as queued, claimed, dead
        #[arg(long)]
        state: Option<String>,
    },
    /// Open the queue in $VISUAL or $EDITOR while everybody else is kept out
    Edit,
    /// Let a command make a new version: the old text on its standard input, the new one on its standard output, while
    /// everybody else is kept out. The result is checked, and nothing is written if the command fails
    Update {
        /// The queue file
        path: PathBuf,
        /// The command and its arguments
        #[arg(last = true, value_name = "CMD", required = true)]
        command: Vec<std::ffi::OsString>,
    },
    /// Be the process that writes for all clients with `--strategy writer`, until nobody has asked anything for a while
    Serve {
        /// For how long
        #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
        idle: Duration,
    },
    /// Change the strategy of the queue file for everybody, under the lock of the present one
    Migrate {
        /// The new strategy
        #[arg(long, value_enum, value_name = "STRATEGY")]
        to: Option<StrategyName>,
    },
    /// Say what this place is good for: file system, locks, atomic renames, strategy in use
    Doctor,
    /// Take part in `noclobber bench`, which says on standard input what to do
    BenchWorker,
    /// Claim tasks and run a command for each, until none is left
    ///
    /// The command gets the task's JSON on standard input, and QUEUE_TASK_ID, QUEUE_TASK_ACCOUNT, QUEUE_TASK_ATTEMPT,
    /// QUEUE_WORKER and, if it is short enough for an environment, QUEUE_TASK (the JSON) as variables; its output goes
    /// to standard error. Exit 0 completes the task, anything else releases it, and this worker will not take it again.
    Work(WorkArgs),
}

#[derive(Debug, ArgGroup)]
pub(super) struct PushArgs {
    /// The task's id; several add several tasks in one write [default: one made of time, pid and a number]
    #[arg(long)]
    id: Vec<String>,
    /// Whose task it is; sharded, each account has its own file
    #[arg(long, default_value = DEFAULT_ACCOUNT)]
    account: String,
    /// The task's parameters, any JSON, kept as written; `-` reads them from standard input
    #[arg(long, value_name = "JSON", default_value = "null", allow_hyphen_values = true)]
    params: String,
    /// Add the tasks that this file holds, one JSON object a line with `id`, `account` and `params`, each optional; `-`
    /// reads standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["id", "params"])]
    batch: Option<PathBuf>,
}

#[derive(Debug, ArgGroup)]
pub(super) struct Which {
    /// The task's id
    #[arg(required_unless_present = "token")]
    id: Option<String>,
    /// The task's account. Sharded, it saves a search, and two accounts may have the same id
    #[arg(long)]
    pub(super) account: Option<String>,
    /// The `attempt` that the claim gave: refuse (exit 4) if the task is not held under it any more. With --worker
    /// instead: if that worker does not hold it. With neither whoever runs the command vouches for it
    #[arg(long, value_name = "N")]
    attempt: Option<u64>,
    /// The `token` that the claim gave, in place of id and attempt
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["id", "attempt"])]
    token: Option<Token>,
}

impl Which {
    pub(super) fn id(&self) -> &str {
        match (&self.token, &self.id) {
            (Some(token), _) => &token.id,
            (None, id) => id.as_deref().unwrap_or_default(),
        }
    }

    /// The claim that the caller says to have.
    pub(super) fn hold(&self, common: &Common) -> Hold {
        match (self.token.as_ref().map(|token| token.attempt).or(self.attempt), &common.worker) {
            (Some(attempt), _) => Hold::Attempt(attempt),
            (None, Some(worker)) => Hold::Worker(worker.clone()),
            (None, None) => Hold::Any,
        }
    }
}

#[derive(Debug, ArgGroup)]
pub(super) struct WorkArgs {
    /// Only tasks of this account
    #[arg(long)]
    pub(super) account: Option<String>,
    /// Stop after one task
    #[arg(long)]
    pub(super) once: bool,
    /// Have the account (or the account `default`) for this worker alone for as long as it runs: a second one that says so
    /// too is refused (exit 3), by name
    #[arg(long)]
    pub(super) own: bool,
    /// Claim, work and complete in one read-modify-write of the file, for one task: the file is read before the work
    /// and written after it. A lock is held for the whole time; with `--strategy naive`, what others write in the
    /// meantime is lost
    #[arg(long)]
    pub(super) in_memory: bool,
    /// Let the work take this time longer, such as 3s: slept before the command runs
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) think: Option<Duration>,
    /// Record each executed task in this file: one line {"id":...,"worker":...}, appended when the work is done and before
    /// the task is taken out
    #[arg(long, value_name = "FILE")]
    pub(super) done: Option<PathBuf>,
    /// Push a task of this id when the work is done: in the write that takes out the finished task, for the same
    /// account; or by itself if there was nothing to claim. Needs --once or --in-memory
    #[arg(long, value_name = "ID")]
    pub(super) then_push: Option<String>,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub(super) command: Vec<std::ffi::OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum StrategyName {
    /// No protection: loses updates. To show the incident
    Naive,
    /// One file, one lock around each read-modify-write
    Flock,
    /// The same with a lock that is a directory
    LockDir,
    /// The new version is computed without a lock, and computed again if the file has changed
    Optimistic,
    /// A file and a lock per account
    Sharded,
    /// One process writes for all; it is started when there is none
    Writer,
}

impl StrategyName {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            StrategyName::Naive => "naive",
            StrategyName::Flock => "flock",
            StrategyName::LockDir => "lock-dir",
            StrategyName::Optimistic => "optimistic",
            StrategyName::Sharded => "sharded",
            StrategyName::Writer => "writer",
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DurabilityName {
    None,
    Data,
    Full,
}

/// For how long a writer that was started by a client serves after the last request.
const STARTED_IDLE: &str = "2s";

impl Common {
    pub(super) fn open(&self) -> Result<Queue<Disk>, Error> {
        self.open_at(self.file.clone())
    }

    /// The queue at `path`, or at the usual place.
    pub(super) fn open_at(&self, path: Option<PathBuf>) -> Result<Queue<Disk>, Error> {
        let name = self.strategy.unwrap_or(StrategyName::Flock);
        if self.over.is_some() && name != StrategyName::Sharded {
            return Err(Error::Usage("--over needs --strategy sharded".into()));
        }
        let strategy = strategy::by_name(name.as_str(), &self.options())
            .ok_or_else(|| Error::Usage("--over takes a strategy other than sharded".into()))?;
        let default = if name == StrategyName::Sharded { "queues" } else { "queue.json" };
        let queue = Queue::open(Disk, path.unwrap_or_else(|| default.into()), strategy, self.settings());
        // Each command is a process of its own. So that not all of them begin with the first account:
        queue.begin_round_at(Disk.process().pid as usize);
        Ok(queue)
    }

    /// The same on another storage, for a process that starts no writer: there is one, or each writes for itself.
    pub(super) fn open_without_writer<S: Storage + 'static>(&self, storage: S) -> Result<Queue<S>, Error> {
        let name = self.strategy.unwrap_or(StrategyName::Flock);
        let options = Options { start: writer::Start::Never, ..self.options() };
        let strategy = strategy::by_name(name.as_str(), &options)
            .ok_or_else(|| Error::Usage("--over takes a strategy other than sharded".into()))?;
        let default = if name == StrategyName::Sharded { "queues" } else { "queue.json" };
        let path = self.file.clone().unwrap_or_else(|| default.into());
        Ok(Queue::open(storage, path, strategy, self.settings()))
    }

    pub(super) fn options(&self) -> Options {
        let writer = [self.strategy, self.over].contains(&Some(StrategyName::Writer));
        Options {
            ofd: self.ofd,
            fair: self.fair,
            break_after: self.break_after,
            over: self.over.map(|over| over.as_str().to_owned()),
            start: match std::env::current_exe() {
                Ok(program) if writer => writer::Start::Program(program, self.arguments()),
                _ => writer::Start::Never,
            },
        }
    }

    pub(super) fn settings(&self) -> Settings {
        Settings {
            durability: match self.durability {
                DurabilityName::None => Durability::None,
                DurabilityName::Data => Durability::Data,
                DurabilityName::Full => Durability::Full,
            },
            timeout: self.timeout,
            snapshots: if self.no_snapshots { 0 } else { self.snapshots },
            audit: !self.no_audit,
            max_bytes: self.max_bytes,
            max_attempts: self.max_attempts,
            done_keep: self.done_keep,
            done_age: self.done_for,
            spare: self.spare,
            network_fs: self.network_fs,
        }
    }

    /// What the writer is told that we start: the rules are then the same, whoever writes.
    fn arguments(&self) -> Vec<std::ffi::OsString> {
        let durability = match self.durability {
            DurabilityName::None => "none",
            DurabilityName::Data => "data",
            DurabilityName::Full => "full",
        };
        let mut arguments: Vec<String> = [
            ("--idle", STARTED_IDLE.to_owned()),
            ("--durability", durability.to_owned()),
            ("--max-bytes", self.max_bytes.to_string()),
            ("--max-attempts", self.max_attempts.to_string()),
            ("--done-keep", self.done_keep.to_string()),
            ("--done-for", format!("{}s", self.done_for.as_secs())),
            // If another one has the lock, this one is not needed; but it may be about to give it up.
            ("--timeout", "100ms".to_owned()),
        ]
        .into_iter()
        .flat_map(|(option, value)| [option.to_owned(), value])
        .collect();
        match self.no_snapshots {
            true => arguments.push("--no-snapshots".into()),
            false => arguments.extend(["--snapshots".into(), self.snapshots.to_string()]),
        }
        let flags = [
            ("--no-audit", self.no_audit),
            ("--ofd", self.ofd),
            ("--spare", self.spare),
            ("--network-fs", self.network_fs),
        ];
        arguments.extend(flags.into_iter().filter(|(_, set)| *set).map(|(flag, _)| flag.to_owned()));
        arguments.into_iter().map(Into::into).collect()
    }

    pub(super) fn worker(&self) -> String {
        self.worker.clone().unwrap_or_else(|| format!("pid-{}", Disk.process().pid))
    }
}

impl PushArgs {
    pub(super) fn tasks(&self, queue: &Queue<Disk>) -> Result<Vec<Task>, Error> {
        let fresh = || super::fresh_id(queue.storage());
        if let Some(path) = &self.batch {
            return self.batch(path, &fresh);
        }
        let mut text = self.params.clone();
        if text == "-" {
            text = read_all(Path::new("-"))?;
        }
        let params = parameters(&text)?;
        match &self.id[..] {
            [] => Ok(vec![Task::new(&fresh(), &self.account, params)?]),
            ids => ids.iter().map(|id| Task::new(id, &self.account, params)).collect(),
        }
    }

    fn batch(&self, path: &Path, fresh: &dyn Fn() -> String) -> Result<Vec<Task>, Error> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Line {
            id: Option<String>,
            account: Option<String>,
            params: Option<Box<RawValue>>,
        }
        let text = read_all(path)?;
        let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
        let task = |(line, number): (&str, usize)| {
            let wrong = |error| Error::Usage(format!("{}, line {number}: {error}", path.display()));
            let line: Line = serde_json::from_str(line).map_err(wrong)?;
            let params = line.params.as_deref().unwrap_or(RawValue::NULL);
            Task::new(&line.id.unwrap_or_else(fresh), line.account.as_deref().unwrap_or(&self.account), params)
        };
        lines.map(task).collect()
    }
}

fn parameters(text: &str) -> Result<&RawValue, Error> {
    serde_json::from_str(text).map_err(|error| Error::BadTask {
        what: "params",
        value: text.chars().take(80).collect(),
        reason: format!("not JSON: {error}; a text needs quotes of its own, as in --params '\"text\"'"),
    })
}

/// A file's text; `-` is standard input.
fn read_all(path: &Path) -> Result<String, Error> {
    if path == Path::new("-") {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        return read.map(|_| text).map_err(|source| Error::Work { what: "cannot read standard input".into(), source });
    }
    std::fs::read_to_string(path).map_err(|source| Error::Io {
        action: "read the tasks",
        path: path.to_owned(),
        source,
    })
}

/// A time span with a unit: `500ms`, `3s`, `2m`, `1h30m`.
fn duration(text: &str) -> Result<Duration, String> {
    let span: jiff::SignedDuration =
        text.parse().map_err(|_| "a number and a unit is wanted, such as 500ms, 3s, 2m".to_owned())?;
    Duration::try_from(span).map_err(|_| "a time span cannot be negative".to_owned())
}
