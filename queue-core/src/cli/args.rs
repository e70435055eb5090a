//! The command line.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ArgGroup, Parser, Subcommand, ValueEnum};
use serde_json::value::RawValue;

use crate::error::Error;
use crate::queue::Queue;
use crate::storage::{Disk, Storage};
use crate::strategy::{Flock, Naive, Sharded, Strategy};
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
    file: Option<PathBuf>,
    /// How processes are kept apart. All that use one queue must say the same
    #[arg(long, global = true, value_enum, default_value = "flock")]
    strategy: StrategyName,
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
    /// How many snapshots of earlier versions to keep; 0: take none
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
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Add a task; creates the queue if there is none. An id that is in the queue already is left as it is
    Push(PushArgs),
    /// Take the oldest task that is queued, or whose claim has run out
    Claim {
        /// Only tasks of this account
        #[arg(long)]
        account: Option<String>,
    },
    /// Take a finished task out of the queue
    Complete(Which),
    /// Put a claimed task back into the queue
    Release(Which),
    /// Show the tasks, one a line, without waiting for a lock
    List {
        /// Only tasks of this account
        #[arg(long)]
        account: Option<String>,
    },
    /// Claim tasks and run a command for each, until none is left
    ///
    /// The command gets the task's JSON on standard input, and QUEUE_TASK_ID, QUEUE_TASK_ACCOUNT, QUEUE_TASK_ATTEMPT,
    /// QUEUE_WORKER and, if it is short enough for an environment, QUEUE_TASK (the JSON) as variables; its output goes
    /// to standard error. Exit 0 completes the task, anything else releases it, and this worker will not take it again.
    Work(WorkArgs),
}

#[derive(Debug, ArgGroup)]
pub(super) struct PushArgs {
    /// The task's id [default: one made of time, pid and a number]
    #[arg(long)]
    id: Option<String>,
    /// Whose task it is; sharded, each account has its own file
    #[arg(long, default_value = DEFAULT_ACCOUNT)]
    account: String,
    /// The task's parameters, any JSON, kept as written; `-` reads them from standard input
    #[arg(long, value_name = "JSON", default_value = "null", allow_hyphen_values = true)]
    params: String,
}

#[derive(Debug, ArgGroup)]
pub(super) struct Which {
    /// The task's id
    pub(super) id: String,
    /// The task's account. Sharded, it saves a search, and two accounts may have the same id
    #[arg(long)]
    pub(super) account: Option<String>,
    /// The `attempt` that the claim gave: refuse (exit 4) if the task is not held under it any more
    #[arg(long, value_name = "N")]
    pub(super) attempt: Option<u64>,
}

#[derive(Debug, ArgGroup)]
pub(super) struct WorkArgs {
    /// Only tasks of this account
    #[arg(long)]
    pub(super) account: Option<String>,
    /// Stop after one task
    #[arg(long)]
    pub(super) once: bool,
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

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StrategyName {
    /// No protection: loses updates. To show the incident
    Naive,
    /// One file, one lock around each read-modify-write
    Flock,
    /// A file and a lock per account
    Sharded,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DurabilityName {
    None,
    Data,
    Full,
}

impl Common {
    pub(super) fn open(&self) -> Queue<Disk> {
        let (strategy, default): (Box<dyn Strategy<Disk>>, _) = match self.strategy {
            StrategyName::Naive => (Box::new(Naive), "queue.json"),
            StrategyName::Flock => (Box::new(Flock), "queue.json"),
            StrategyName::Sharded => (Box::new(<Sharded>::default()), "queues"),
        };
        let settings = Settings {
            durability: match self.durability {
                DurabilityName::None => Durability::None,
                DurabilityName::Data => Durability::Data,
                DurabilityName::Full => Durability::Full,
            },
            timeout: self.timeout,
            snapshots: if self.no_snapshots { 0 } else { self.snapshots },
            audit: !self.no_audit,
            max_bytes: self.max_bytes,
        };
        let path = self.file.clone().unwrap_or_else(|| default.into());
        Queue::open(Disk, path, strategy, settings)
    }

    pub(super) fn worker(&self) -> String {
        self.worker.clone().unwrap_or_else(|| format!("pid-{}", Disk.process().pid))
    }
}

impl PushArgs {
    pub(super) fn task(&self, queue: &Queue<Disk>) -> Result<Task, Error> {
        let id = self.id.clone().unwrap_or_else(|| super::fresh_id(queue.storage()));
        let mut text = self.params.clone();
        if text == "-" {
            text.clear();
            std::io::stdin().read_to_string(&mut text).map_err(|source| Error::Work {
                what: "cannot read the parameters from standard input".into(),
                source,
            })?;
        }
        let params: &RawValue = serde_json::from_str(&text).map_err(|error| Error::BadTask {
            what: "params",
            value: text.chars().take(80).collect(),
            reason: format!("not JSON: {error}; a text needs quotes of its own, as in --params '\"text\"'"),
        })?;
        Task::new(&id, &self.account, params)
    }
}

/// A time span with a unit: `500ms`, `3s`, `2m`, `1h30m`.
fn duration(text: &str) -> Result<Duration, String> {
    let span: jiff::SignedDuration =
        text.parse().map_err(|_| "a number and a unit is wanted, such as 500ms, 3s, 2m".to_owned())?;
    Duration::try_from(span).map_err(|_| "a time span cannot be negative".to_owned())
}
