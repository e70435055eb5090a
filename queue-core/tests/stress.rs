//! Eight processes of random operations, killed at random: every acknowledged task is completed once or still queued.
//!
//! The real program on the real disk, five seconds for each strategy; `QUEUE_STRESS_SECONDS` makes it longer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

const PROCESSES: u64 = 8;

/// What is known of what happened.
#[derive(Debug, Default)]
struct Ledger {
    /// Pushed, and told so.
    pushed: BTreeSet<String>,
    /// Completed, and told so; how often.
    completed: BTreeMap<String, usize>,
    /// Perhaps completed: killed before an answer.
    perhaps: BTreeSet<String>,
    /// Whatever must not happen.
    wrong: Vec<String>,
    operations: usize,
    kills: usize,
}

/// Numbers that look random, the same in each run of one seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

struct Stress<'a> {
    directory: &'a Path,
    options: &'a [&'a str],
    ledger: &'a Mutex<Ledger>,
}

impl Stress<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_queue"));
        command.current_dir(self.directory).args(self.options).args(["--timeout", "30s"]);
        if !self.options.contains(&"--durability") {
            command.args(["--durability", "none"]);
        }
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs an operation; none: it was killed first. Otherwise its exit code and what it printed.
    fn run(&self, arguments: &[&str], random: &mut Random) -> Option<(i32, Vec<Value>)> {
        let mut child = self.command(arguments).spawn().expect("queue starts");
        let killed = random.below(3) == 0 && self.kill(&mut child, random);
        let output = child.wait_with_output().expect("it ends");
        let mut ledger = self.ledger.lock().unwrap();
        ledger.operations += 1;
        let Some(exit) = output.status.code() else {
            assert!(killed, "a signal that we did not send");
            ledger.kills += 1;
            return None;
        };
        let stderr = String::from_utf8_lossy(&output.stderr);
        if !matches!(exit, 0 | 1 | 4) {
            ledger.wrong.push(format!("{arguments:?}: exit {exit}: {stderr}"));
        }
        let text = String::from_utf8(output.stdout).expect("text");
        Some((exit, text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()))
    }

    fn kill(&self, child: &mut Child, random: &mut Random) -> bool {
        std::thread::sleep(Duration::from_micros(random.below(15_000)));
        child.kill().is_ok()
    }

    fn worker(&self, process: u64, until: Instant) {
        let mut random = Random(process * 7919 + 1);
        let account = format!("a{}", process % 3);
        for number in 0.. {
            if Instant::now() >= until {
                return;
            }
            let id = format!("{process}-{number}");
            match random.below(5) {
                0 | 1 => {
                    let pushed = self.run(&["push", "--id", &id, "--account", &account], &mut random);
                    if pushed.is_some_and(|(exit, _)| exit == 0) {
                        self.ledger.lock().unwrap().pushed.insert(id);
                    }
                }
                _ => self.claim(&id, &mut random),
            }
        }
    }

    fn claim(&self, worker: &str, random: &mut Random) {
        // Some wait for longer than their claim holds.
        let lease = if random.below(4) == 0 { "1ms" } else { "2s" };
        let Some((0, lines)) = self.run(&["claim", "--lease", lease, "--worker", worker], random) else {
            return;
        };
        let text = |key: &str| lines[0][key].as_str().expect("a text").to_owned();
        let (id, account, attempt) = (text("id"), text("account"), lines[0]["attempt"].to_string());
        let which = [&*id, "--account", &account, "--attempt", &attempt];
        if random.below(4) == 0 {
            self.run(&[&["release"], &which[..]].concat(), random);
            return;
        }
        let done = self.run(&[&["complete"], &which[..]].concat(), random);
        let mut ledger = self.ledger.lock().unwrap();
        match done {
            Some((0, _)) => *ledger.completed.entry(id).or_default() += 1,
            Some(_) => {}
            None => {
                ledger.perhaps.insert(id);
            }
        }
    }

    /// Begins to write for all, and is killed, again and again.
    fn writers(&self, until: Instant) {
        let mut random = Random(99);
        while Instant::now() < until {
            let mut child = self.command(&["serve", "--idle", "1s"]).spawn().expect("queue starts");
            std::thread::sleep(Duration::from_millis(50 + random.below(400)));
            let _ = child.kill();
            child.wait().expect("it ends");
        }
    }
}

fn stress(name: &str, options: &[&str]) {
    let seconds = std::env::var("QUEUE_STRESS_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let directory = tempfile::tempdir().unwrap();
    let ledger = Mutex::default();
    let stress = Stress { directory: directory.path(), options, ledger: &ledger };
    // So that there is something to claim from.
    for account in ["a0", "a1", "a2"] {
        let made = stress.command(&["push", "--id", account, "--account", account]).output().expect("queue starts");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    let until = Instant::now() + Duration::from_secs(seconds);
    std::thread::scope(|scope| {
        let stress = &stress;
        for process in 0..PROCESSES {
            scope.spawn(move || stress.worker(process, until));
        }
        if name.starts_with("writer") {
            scope.spawn(move || stress.writers(until));
        }
    });
    let listed = stress.run(&["list"], &mut Random(0));
    let listed = listed.or_else(|| stress.run(&["list"], &mut Random(3))).expect("not killed twice").1;
    let left: Vec<String> = listed.iter().map(|task| task["id"].as_str().expect("an id").to_owned()).collect();
    let ledger = ledger.into_inner().unwrap();
    println!(
        "{name}: {} operations, {} kills, {} pushed, {} completed, {} left",
        ledger.operations,
        ledger.kills,
        ledger.pushed.len(),
        ledger.completed.len(),
        left.len()
    );
    assert!(ledger.wrong.is_empty(), "{name}: {:#?}", ledger.wrong);
    assert!(ledger.operations > 20 && ledger.kills > 0 && !ledger.pushed.is_empty(), "{name}: {ledger:?}");
    let unique: BTreeSet<&String> = left.iter().collect();
    assert_eq!(unique.len(), left.len(), "{name}: one id twice");
    for id in &ledger.pushed {
        let completed = ledger.completed.contains_key(id) || ledger.perhaps.contains(id);
        assert!(unique.contains(id) || completed, "{name}: {id} is lost");
    }
    for (id, times) in &ledger.completed {
        assert_eq!(*times, 1, "{name}: {id} was completed {times} times");
        assert!(!unique.contains(id), "{name}: {id} is back");
    }
}

#[test]
fn nothing_is_lost_or_completed_twice() {
    for (name, options) in [
        ("flock", &["--strategy", "flock"][..]),
        ("fair", &["--strategy", "flock", "--fair"]),
        ("spare", &["--strategy", "flock", "--spare"]),
        ("ofd", &["--strategy", "flock", "--ofd"]),
        ("lock-dir", &["--strategy", "lock-dir"]),
        ("optimistic", &["--strategy", "optimistic"]),
        ("sharded", &["--strategy", "sharded"]),
        ("sharded over lock-dir", &["--strategy", "sharded", "--over", "lock-dir"]),
        ("writer", &["--strategy", "writer"]),
        // Its redo files, and what the next one makes of them.
        ("writer, full", &["--strategy", "writer", "--durability", "full"]),
    ] {
        stress(name, options);
    }
}
