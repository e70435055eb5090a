//! noclobber in a Rust project's own tests.
//!
//! A [`Harness`] is a scenario written in Rust: workers (shell commands, or programs with [`cmd!`](crate::cmd)), the
//! files they find, and what is right. [`Harness::explore`] gives a [`Report`](crate::report::Report);
//! [`Harness::expect_clean`] and [`Harness::expect`] are assertions for `#[test]`, whose message is the report that the
//! command line prints, the order of steps in lanes and the line that replays it.
//!
//! Each worker is a real process. The world that they share is a private folder of the search: nothing that they do to
//! it, and to `TMPDIR`, is left afterwards. Tests may run in parallel.
//!
//! ```
//! use noclobber::Harness;
//!
//! // Two visitors are counted, each under the lock.
//! let visit = "flock lock -c 'read n < visitors; echo $((n + 1)) > visitors'";
//! Harness::new().file("visitors", "0\n").worker(visit).worker(visit).expect_clean();
//! ```
//!
//! Without the lock there is an order in which one of them is not counted, and the test fails:
//!
//! ```should_panic
//! # use noclobber::Harness;
//! let visit = "read n < visitors; echo $((n + 1)) > visitors";
//! Harness::new().file("visitors", "0\n").worker(visit).worker(visit).expect_clean();
//! ```
//!
//! Programs of the same package are best named by the path that Cargo gives to integration tests, which also builds
//! them first: `cmd!(env!("CARGO_BIN_EXE_my-program"), "--file", "queue.json")`.

mod document;
mod run;
mod steer;
mod worker;

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::{
    guard::Settings,
    scenario::{Kind, Scenario, SearchKind, Serial, format_duration, time_name},
    world::TimeModel,
};

pub use run::Error;
pub use steer::{Delay, Fault};
pub use worker::Worker;

/// A scenario written in Rust, and how to search it.
///
/// Mistakes (a worker's name given twice, a pattern that is none, ...) are told by [`explore`](Harness::explore), as
/// they are for a scenario file; the keys in their texts are those of such a file.
///
/// ```
/// use noclobber::{Harness, Kind, Verdict, cmd};
///
/// let report = Harness::new()
///     .file("n.json", r#"{"n":0}"#)
///     .worker(cmd!("sh", "-c", "jq -c '.a=1' n.json > a.tmp && mv a.tmp n.json"))
///     .worker(cmd!("sh", "-c", "jq -c '.b=1' n.json > b.tmp && mv b.tmp n.json").name("other"))
///     .without_replay_files()
///     .explore()?;
/// assert_eq!(report.verdict, Verdict::Anomaly(Kind::LostUpdate));
/// assert!(report.anomalies[0].steps.iter().any(|step| step.actor == "other" && step.op == "rename"));
/// # Ok::<(), noclobber::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Harness {
    /// What a scenario file would have, but for workers.
    table: Table,
    workers: Vec<Worker>,
    /// The scenario file that it was read from.
    file: Option<PathBuf>,
    settings: Settings,
    seed: Option<u64>,
    /// `None`: [`REPLAY_DIR`](run::REPLAY_DIR).
    replay_dir: Option<Option<PathBuf>>,
}

impl Harness {
    /// Nobody, in an empty world.
    pub fn new() -> Self {
        Harness::default()
    }

    /// What a scenario file says; everything may still be changed or added to.
    ///
    /// ```no_run
    /// noclobber::Harness::from_file("tests/guard.toml")?.max_schedules(5_000).expect_as_written();
    /// # Ok::<(), noclobber::Error>(())
    /// ```
    ///
    /// # Errors
    /// A file that cannot be read, or has a mistake.
    pub fn from_file(file: impl AsRef<Path>) -> Result<Self, Error> {
        document::read(file.as_ref())
    }

    /// The scenario's name, in reports and names of replay files. Without it, the name of the test's thread.
    pub fn name(self, name: impl Into<String>) -> Self {
        self.set("name", name.into())
    }

    /// What the scenario tells.
    pub fn about(self, about: impl Into<String>) -> Self {
        self.set("about", about.into())
    }

    /// One more worker: a shell command (a text), or a program ([`cmd!`](crate::cmd)). Who has no name is called A, B,
    /// ... in order.
    pub fn worker(mut self, worker: impl Into<Worker>) -> Self {
        self.workers.push(worker.into());
        self
    }

    /// A file that is there before the first step.
    pub fn file(mut self, path: impl Into<String>, content: impl Into<String>) -> Self {
        self.table_at("files").insert(path.into(), Value::String(content.into()));
        self
    }

    /// A folder of which the workers find a copy. A relative path is the test's, as everywhere here.
    pub fn dir(mut self, dir: impl AsRef<Path>) -> Self {
        let dir = document::path(dir.as_ref());
        self.table.insert("dir".into(), dir);
        self
    }

    /// A shell command that prepares the world, once.
    pub fn setup(self, command: impl Into<String>) -> Self {
        self.set("setup", command.into())
    }

    /// A shell command that accepts (exit 0) or rejects a final world.
    ///
    /// ```should_panic
    /// # use noclobber::Harness;
    /// // Right in some serial order, and not what is wanted.
    /// Harness::new().worker("echo a > f").worker("echo b > f").check("grep -q a f").expect_clean();
    /// ```
    pub fn check(self, command: impl Into<String>) -> Self {
        self.set("check", command.into())
    }

    /// A shell command whose output is compared instead of the files.
    pub fn state(self, command: impl Into<String>) -> Self {
        self.oracle("state", command.into())
    }

    /// A path outside the world that the workers share: each schedule has a private copy of it.
    pub fn watch(self, path: impl AsRef<Path>) -> Self {
        let path = document::path(path.as_ref());
        self.add("watch", path)
    }

    /// A variable of all commands.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.table_at("env").insert(name.into(), Value::String(value.into()));
        self
    }

    /// HOME is a folder in the world.
    pub fn home_in_world(self) -> Self {
        self.set("home_in_world", true)
    }

    /// A window: a worker waits at a step, in virtual time. This one schedule is then run, unless a
    /// [`search`](Harness::search) is given.
    pub fn delay(self, delay: Delay) -> Self {
        self.add("delay", delay.into_table())
    }

    /// Something that goes wrong.
    pub fn fault(self, fault: Fault) -> Self {
        self.add("fault", fault.into_table())
    }

    /// The search. Without it, every class of orders as long as half of the budget lasts, then samples.
    pub fn search(self, search: SearchKind) -> Self {
        self.search_key("search", search.to_string())
    }

    /// The seed of everything random; 0 without it.
    pub fn seed(self, seed: u64) -> Self {
        // Kept apart: values of a TOML table are signed.
        Harness { seed: Some(seed), ..self }
    }

    /// The budget of schedules; 1,000 without it.
    pub fn max_schedules(self, schedules: u32) -> Self {
        self.search_key("max_schedules", i64::from(schedules))
    }

    /// A budget of real time.
    pub fn time_limit(self, limit: std::time::Duration) -> Self {
        self.search_key("time_limit", format_duration(limit))
    }

    /// Anything less than every class of orders is cannot-tell.
    pub fn exhaustive(self) -> Self {
        self.search_key("exhaustive", true)
    }

    /// The model of time; [`TimeModel::Fair`] without it.
    pub fn time(self, time: TimeModel) -> Self {
        self.search_key("time", time_name(time).to_owned())
    }

    /// What a run is compared with; [`Serial::Operations`] without it.
    pub fn serial(self, serial: Serial) -> Self {
        match serial {
            Serial::Operations => self.oracle("serial", true),
            Serial::Workers => self.oracle("serial", "workers".to_owned()),
            Serial::Off => self.oracle("serial", false),
        }
    }

    /// Whether each worker's standard output is compared; it is without this.
    pub fn stdout(self, compared: bool) -> Self {
        self.oracle("stdout", compared)
    }

    /// Files (a glob) that are not compared.
    pub fn ignore(self, glob: impl Into<String>) -> Self {
        self.add_oracle("ignore", glob.into())
    }

    /// A place in JSON files that is not compared: `/at`, `queue.json#/tasks/0/at`.
    pub fn ignore_pointer(self, pointer: impl Into<String>) -> Self {
        self.add_oracle("ignore_pointer", pointer.into())
    }

    /// Files (a glob) whose lines or elements may come in any order.
    pub fn multiset(self, glob: impl Into<String>) -> Self {
        self.add_oracle("multiset", glob.into())
    }

    /// Each id in the array `/tasks` of a JSON file is executed once (a line of the file `done`, or of `stdout`) or
    /// still queued.
    pub fn conserve(self, file: impl Into<String>, done: impl Into<String>) -> Self {
        let mut table = Table::new();
        table.insert("file".into(), Value::String(file.into()));
        table.insert("done".into(), Value::String(done.into()));
        self.oracle("conserve", table)
    }

    /// A kind of anomaly that is no fault.
    pub fn allow(self, kind: Kind) -> Self {
        self.add_oracle("allow", kind.name().to_owned())
    }

    /// The workers are meant to share nothing; without this, such a search cannot tell anything.
    pub fn shares_nothing(self) -> Self {
        self.oracle("shares_nothing", true)
    }

    /// The search goes on after the first anomaly.
    pub fn all(mut self) -> Self {
        self.settings.all = true;
        self
    }

    /// With budget left, one more copy of a worker joins.
    pub fn grow(mut self) -> Self {
        self.settings.grow = true;
        self
    }

    /// How many schedules run at once; the result is the same.
    pub fn jobs(mut self, jobs: std::num::NonZeroUsize) -> Self {
        self.settings.jobs = Some(jobs);
        self
    }

    /// Where replay files of what is found go, instead of `.noclobber` in the current directory.
    pub fn replay_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.replay_dir = Some(Some(dir.into()));
        self
    }

    /// No replay files.
    pub fn without_replay_files(mut self) -> Self {
        self.replay_dir = Some(None);
        self
    }

    /// The scenario as it will be run.
    ///
    /// # Errors
    /// A mistake in it.
    pub fn scenario(&self) -> Result<Scenario, Error> {
        document::scenario(self)
    }

    fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.table.insert(key.into(), value.into());
        self
    }

    fn add(mut self, key: &str, value: impl Into<Value>) -> Self {
        document::push(&mut self.table, key, value.into());
        self
    }

    fn table_at(&mut self, key: &str) -> &mut Table {
        document::table_at(&mut self.table, key)
    }

    fn search_key(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.table_at("search").insert(key.into(), value.into());
        self
    }

    fn oracle(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.table_at("oracle").insert(key.into(), value.into());
        self
    }

    fn add_oracle(mut self, key: &str, value: impl Into<Value>) -> Self {
        document::push(self.table_at("oracle"), key, value.into());
        self
    }
}
