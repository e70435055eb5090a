//! Every strategy of the queue, every pair of operations: each order is tried, and none goes wrong.
//!
//! The scenarios are written from a table; `scenarios/queue` keeps some of them as examples. A part of the table is run
//! always; `QUEUE_PAIRS=all` runs all of it.

use std::{fmt::Write as _, fs, path::Path};

use serde_json::Value;

/// One claimed task and one queued one, so that each operation has something to do.
const TASKS: &str = r#"{"version":1,"tasks":[{"id":"t1","account":"a","params":null,"state":"claimed","attempts":1,"worker":"w"},{"id":"t2","account":"a","params":null,"state":"queued","attempts":0}]}"#;

const OPERATIONS: [&str; 5] = ["push", "claim", "complete", "extend", "release"];

/// The writer carries out what has arrived in one write: how often the file is written, and when, is not promised. What
/// the queue holds then and what each worker is told is.
const BATCHED: &str = r#"[oracle]
ignore = [".queue.json.audit.jsonl", ".queue.json.lock"]
ignore_pointer = "queue.json#/version"
"#;

fn operation(name: &str, worker: &str) -> String {
    match name {
        "push" => format!("push --id p{worker} --account a"),
        "claim" => format!("claim --worker {worker}"),
        held => format!("{held} t1 --account a --attempt 1"),
    }
}

/// A scenario: what each worker does, and by which strategy; and with whom that serves them, if anybody.
fn scenario(name: &str, workers: &[(&str, &str)], search: &str, served: bool) -> String {
    let sharded = workers.iter().any(|(_, strategy)| strategy.starts_with("sharded"));
    let file = if sharded { "queues/queue_a.json" } else { "queue.json" };
    let mut files = format!("\"{file}\" = '{TASKS}'");
    // A strategy that keeps out none but its own kind is recorded at its first use.
    if workers.iter().any(|(_, strategy)| *strategy == "lock-dir") {
        files += &format!(", \"{file}.strategy\" = \"lock-dir\\n\"");
    }
    let mut text = format!("name = \"{name}\"\nexpect = \"clean\"\nfiles = {{ {files} }}\n");
    let mut worker = |name: &str, command: &str| {
        let command = format!("queue {command} --durability none --no-snapshots");
        write!(text, "[[worker]]\nname = \"{name}\"\nrun = \"{command}\"\n").expect("a text");
    };
    for (name, (work, strategy)) in ["A", "B", "C"].iter().zip(workers) {
        worker(name, &format!("{} --strategy {strategy}", operation(work, name)));
    }
    if served {
        // How much it did is its only output, and not the point.
        worker("W", "serve --idle 2s > /dev/null");
    }
    let batched = if workers.iter().any(|(_, strategy)| *strategy == "writer") { BATCHED } else { "" };
    text + &format!("[search]\n{search}\n{batched}")
}

/// Every class of orders, and nothing less.
const ALL: &str = "max_schedules = 20000\nexhaustive = true";

/// Runs a scenario; asserts that it is clean, that all of it was seen where that is asked for, and that two workers met
/// in it: a pair that shares nothing would prove nothing.
fn clean(dir: &Path, name: &str, text: &str, all: bool) {
    let file = dir.join(format!("{}.toml", name.replace(' ', "-")));
    fs::write(&file, text).expect("a scenario");
    let answer = scenarios::run(&[file]);
    let report = answer.report();
    let explored = &report["explored"];
    let line = answer.line(name);
    println!("{line}");
    assert_eq!(answer.exit, Some(0), "{line}\n{}\n{}", report["reason"], report["anomalies"]);
    assert!(!all || explored["exhausted"] == true, "{line}");
    assert!(explored["classes"].as_u64() > Some(1), "{line}");
}

/// All pairs, or those that are run always.
fn pairs(strategy: &str, always: &[(&str, &str)], served: bool) {
    let dir = tempfile::tempdir().expect("a folder");
    let whole = std::env::var_os("QUEUE_PAIRS").is_some_and(|which| which == "all");
    let mut count = 0;
    for (n, one) in OPERATIONS.iter().enumerate() {
        for other in &OPERATIONS[n..] {
            if !whole && !always.is_empty() && !always.contains(&(*one, *other)) {
                continue;
            }
            let name = format!("{strategy} {one} and {other}{}", if served { " served" } else { "" });
            let text = scenario(&name, &[(one, strategy), (other, strategy)], ALL, served);
            clean(dir.path(), &name, &text, true);
            count += 1;
        }
    }
    assert_eq!(count, if whole || always.is_empty() { 15 } else { always.len() });
}

#[test]
fn flock_and_its_options() {
    for strategy in ["flock", "flock --ofd", "flock --fair", "flock --spare"] {
        pairs(strategy, &[], false);
    }
}

#[test]
fn optimistic() {
    pairs("optimistic", &[("push", "push"), ("claim", "claim"), ("claim", "complete"), ("extend", "release")], false);
}

#[test]
fn sharded() {
    for strategy in ["sharded", "sharded --spare"] {
        pairs(strategy, &[("push", "push"), ("push", "claim"), ("claim", "claim"), ("complete", "release")], false);
    }
}

/// A lock that is waited for with a watch and a time-out has hundreds of classes a pair.
#[test]
fn lock_dir() {
    let always =
        [("push", "push"), ("push", "claim"), ("claim", "claim"), ("complete", "release"), ("extend", "release")];
    pairs("lock-dir", &always, false);
}

/// Each client begins a writer, and one of them serves both.
#[test]
fn writer() {
    pairs("writer", &[("push", "push"), ("push", "complete"), ("claim", "claim"), ("complete", "extend")], false);
}

/// Somebody serves already, or is about to: both may be carried out in one write.
#[test]
fn writer_that_serves_both() {
    pairs("writer", &[("claim", "complete")], true);
}

#[test]
fn three_within_a_budget() {
    let dir = tempfile::tempdir().expect("a folder");
    let strategies = [
        "flock",
        "flock --ofd",
        "flock --fair",
        "flock --spare",
        "lock-dir",
        "optimistic",
        "sharded",
        "sharded --spare",
        "writer",
    ];
    for strategy in strategies {
        let workers = [("push", strategy), ("claim", strategy), ("release", strategy)];
        let name = format!("{strategy} three");
        clean(dir.path(), &name, &scenario(&name, &workers, "max_schedules = 60", false), false);
    }
}

#[test]
fn without_protection_a_pair_loses() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("naive.toml");
    let text = scenario("naive", &[("push", "naive"), ("push", "naive")], "max_schedules = 1000", false);
    // Not just half a file that is met: the search goes on until a task is gone.
    fs::write(&file, text.replace("expect = \"clean\"", "expect = \"lost-update\"")).expect("a scenario");
    let answer = scenarios::run(&[file]);
    assert_eq!((answer.exit, &answer.report()["verdict"]), (Some(0), &Value::from("lost-update")), "{answer:?}");
}
