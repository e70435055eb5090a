//! `queue bench-worker`: one of the processes that a benchmark of lock strategies measures.
//!
//! The process is told by a line on standard input what to do, says `ready`, is told when to begin and until when to
//! go on, and reports each operation afterwards: nothing that the benchmark does itself is in the times. The protocol is
//! that of `noclobber bench`; this program knows nothing else of it.

use std::fmt::Write as _;
use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Exit;
use super::args::{Common, StrategyName};
use super::stopwatch::{Stopwatch, Taken};
use crate::error::Error;
use crate::operation::Hold;
use crate::queue::{Claim, Queue};
use crate::storage::Disk;
use crate::strategy::{Flock, writer};
use crate::task::Task;

/// What a task's text takes beside its padding.
const FRAME: usize = 75;

/// How long a worker pauses after an operation that failed, so that the next one may meet better times.
const AFTER_FAILURE: Duration = Duration::from_micros(200);

/// The first line.
#[derive(Debug, Deserialize)]
struct Hello {
    schema: u32,
    role: String,
    worker: String,
    #[serde(default)]
    number: usize,
    accounts: usize,
    kept: usize,
    task_bytes: usize,
    #[serde(default)]
    think_us: u64,
}

impl Hello {
    /// One of the accounts, in turns.
    fn account(&self, number: usize) -> String {
        format!("a{}", number % self.accounts.max(1))
    }

    fn task(&self, id: &str, account: &str) -> Result<Task, Error> {
        let padding = self.task_bytes.saturating_sub(FRAME + id.len().saturating_sub(4));
        let params = RawValue::from_string(format!("\"{}\"", "x".repeat(padding)));
        Task::new(id, account, &params.unwrap_or_else(|error| unreachable!("a text of x: {error}")))
    }
}

/// Takes part in a benchmark.
pub(super) fn run(common: &Common) -> Result<Exit, Error> {
    let hello = line()?.ok_or_else(|| misunderstood("nothing was said"))?;
    let hello: Hello = serde_json::from_str(&hello).map_err(|error| misunderstood(&error.to_string()))?;
    if hello.schema != 1 {
        return Err(misunderstood(&format!("schema {} is not known here", hello.schema)));
    }
    match hello.role.as_str() {
        "serve" if common.strategy == Some(StrategyName::Writer) => serve(common),
        "serve" => say("none\n"),
        "fill" => fill(common, &hello),
        "worker" => work(common, &hello),
        "read" => read(common),
        // Whoever asks something new has to live without an answer.
        _ => say("none\n"),
    }?;
    Ok(Exit::Done)
}

/// Writes for all until standard input ends.
fn serve(common: &Common) -> Result<(), Error> {
    let queue = common.open()?;
    let file = queue.resolve(queue.path())?;
    let mut told = Ok(());
    let socket = crate::storage::Storage::meeting_point(queue.storage(), &file);
    std::thread::spawn(move || {
        while let Ok(Some(_)) = line() {}
        // What was answered is written, so there is nothing to wait for.
        let _ = socket.map(std::fs::remove_file);
        std::process::exit(0);
    });
    let idle = Duration::from_secs(24 * 60 * 60);
    writer::serve(&queue, Flock::new(&common.options()), idle, &mut |_| told = say("ready\n"))?;
    told
}

/// Puts in the tasks that are there from the beginning.
fn fill(common: &Common, hello: &Hello) -> Result<(), Error> {
    let queue = common.open_without_writer(Disk)?;
    let tasks: Result<Vec<Task>, Error> =
        (0..hello.kept).map(|number| hello.task(&format!("k-{number}"), &hello.account(number))).collect();
    queue.push_all(&tasks?)?;
    say("done\n")
}

/// Says what is in the queue.
fn read(common: &Common) -> Result<(), Error> {
    let queue = common.open_without_writer(Disk)?;
    let mut out: String = queue.list(None)?.iter().fold(String::new(), |all, task| all + task.id() + "\n");
    out.push_str("end\n");
    say(&out)
}

/// Pushes and takes in turns for as long as it is told.
fn work(common: &Common, hello: &Hello) -> Result<(), Error> {
    let queue = common.open_without_writer(Stopwatch::new(Disk))?;
    let mut worker = Worker { queue, hello, served: common.strategy == Some(StrategyName::Writer), out: String::new() };
    say("ready\n")?;
    let go = line()?.ok_or_else(|| misunderstood("nobody said when to begin"))?;
    let mut words = go.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
    let (Some(Ok(start)), Some(Ok(until))) = (words.next(), words.next()) else {
        return Err(misunderstood(&go));
    };
    std::thread::sleep(Duration::from_nanos(start.saturating_sub(now())));
    let think = Duration::from_micros(hello.think_us);
    let mut number = 0;
    while now() < until {
        number += 1;
        worker.push(number)?;
        std::thread::sleep(think);
        if now() >= until {
            break;
        }
        worker.take();
        std::thread::sleep(think);
    }
    worker.out.push_str("end\n");
    say(&worker.out)
}

struct Worker<'a> {
    queue: Queue<Stopwatch<Disk>>,
    hello: &'a Hello,
    /// Whether another process does the work: then all of the time is waiting for it.
    served: bool,
    /// What is to be reported.
    out: String,
}

impl Worker<'_> {
    fn push(&mut self, number: u64) -> Result<(), Error> {
        let id = format!("{}-{number}", self.hello.worker);
        let task = self.hello.task(&id, &self.hello.account(self.hello.number))?;
        let start = now();
        let pushed = self.queue.push(&task);
        self.record("push", start, if pushed.is_ok() { "ok" } else { "fail" }, &id);
        Ok(())
    }

    fn take(&mut self) {
        let own = self.hello.account(self.hello.number);
        let account = (self.hello.accounts > 1).then_some(own.as_str());
        let claim = Claim { worker: &self.hello.worker, account, lease: None, except: &[] };
        let start = now();
        let task = match self.queue.claim(&claim) {
            Ok(Some(task)) => task,
            Ok(None) => return self.record("claim", start, "none", "-"),
            Err(_) => return self.record("claim", start, "fail", "-"),
        };
        self.record("claim", start, "ok", task.id());
        let start = now();
        let completed = self.queue.complete(task.id(), account, &Hold::Attempt(task.attempts()));
        self.record("complete", start, if completed.is_ok() { "ok" } else { "fail" }, task.id());
    }

    fn record(&mut self, op: &str, start: u64, result: &str, id: &str) {
        let (end, ended) = (now(), Instant::now());
        let Taken { waited, had, gave } = self.queue.storage().take();
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let waited = if self.served { end - start } else { nanoseconds(waited) };
        let _ = write!(self.out, "{op} {result} {start} {waited} {end} {id}");
        if let (Some(had), Some(gave)) = (had, gave)
            && had <= gave
        {
            let at = |moment: Instant| (end - start).saturating_sub(nanoseconds(ended.duration_since(moment)));
            let _ = write!(self.out, " {} {}", at(had), at(gave));
        }
        self.out.push('\n');
        if result == "fail" {
            std::thread::sleep(AFTER_FAILURE);
        }
        // Evidence that could not be written is no matter here.
        self.queue.take_warnings();
    }
}

/// Nanoseconds on the clock that all processes of this machine share.
fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The next line of standard input, without its end; none: there is no more.
fn line() -> Result<Option<String>, Error> {
    let mut text = String::new();
    match io::stdin().lock().read_line(&mut text) {
        Ok(0) => Ok(None),
        Ok(_) => Ok(Some(text.trim_end().to_owned())),
        Err(source) => Err(Error::Work { what: "cannot read standard input".into(), source }),
    }
}

fn say(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    let said = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    said.map_err(|source| Error::Work { what: "cannot write to standard output".into(), source })
}

fn misunderstood(what: &str) -> Error {
    Error::Usage(format!("bench-worker is for `noclobber bench`, whose protocol this is not: {what}"))
}
