//! The search as a user meets it: any number of jobs gives one answer, every kind of search works, and budgets end it
//! within a schedule.

use std::{
    fs,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use scenarios::{Answer, answer, command, folder};
use serde_json::Value;

/// Two counters of one file, without a lock.
const COUNT: &str = "read n < count; echo $((n + 1)) > count";

fn world() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("count"), "0\n").expect("the counter");
    dir
}

fn explore(dir: &Path, options: &[&str], commands: &[&str]) -> Answer {
    answer(dir, &[&["explore"], options, &["--"], commands].concat())
}

/// Everything of a report that must not depend on how fast it was found.
fn told(answer: &Answer) -> Value {
    let mut report = answer.report().clone();
    report["explored"]["seconds"] = Value::Null;
    report
}

#[test]
fn two_jobs_tell_what_one_tells() {
    for (scenario, options) in [
        ("catalogue/max-plus-one/fixed.toml", &[][..]),
        ("catalogue/stale-break-twice/buggy.toml", &[]),
        ("catalogue/claim-by-copy-and-delete/buggy.toml", &["--all", "--max-schedules", "40"]),
        ("catalogue/naive/buggy.toml", &["--all", "--search", "exhaustive"]),
        ("catalogue/torn-append/buggy.toml", &["--search", "portfolio", "--max-schedules", "24", "--all"]),
        ("incident/lost-acknowledgement/naive.toml", &[]),
        ("faults/stale-lock/fixed.toml", &[]),
        ("faults/repair-killed/buggy.toml", &["--all"]),
    ] {
        let file = folder().join(scenario).display().to_string();
        let run = |jobs: &str| {
            let dir = tempfile::tempdir().expect("a folder");
            answer(dir.path(), &[&["run", &file, "--jobs", jobs], options].concat())
        };
        let (one, two, three) = (run("1"), run("2"), run("3"));
        assert!(one.report()["trace_hash"].is_string(), "{scenario}: {}", one.report());
        assert_eq!(told(&one), told(&two), "{scenario}");
        assert_eq!(told(&one), told(&three), "{scenario}");
        assert_eq!((one.exit, one.exit), (two.exit, three.exit), "{scenario}");
    }
}

/// The same decisions with another fault are another run: none may be taken for the other because it was ready.
#[test]
fn what_is_run_ahead_is_never_taken_for_a_run_with_another_fault() {
    for faults in ["power-cut", "kill"] {
        let run = |jobs: &str| {
            let dir = world();
            let options = ["--jobs", jobs, "--faults", faults, "--state", "true", "--max-schedules", "40"];
            explore(dir.path(), &options, &["echo a > t; mv t a", ":::", "test -e a || echo b > b"])
        };
        let (one, three) = (run("1"), run("3"));
        assert!(one.report()["explored"]["schedules"].as_u64() > Some(7), "{faults}: {}", one.report());
        assert_eq!(told(&one), told(&three), "{faults}");
    }
}

#[test]
fn every_search_works_and_says_what_it_may_have_missed() {
    let dir = world();
    for (search, words, bounds) in [
        ("exhaustive", "source-dpor", &[][..]),
        ("timeline", "timeline", &[]),
        ("random", "random walk", &[]),
        ("pos", "pos", &[]),
        ("pct:3", "pct-3", &["pct-3"]),
        ("portfolio", "portfolio", &["pct-3", "pct-4"]),
    ] {
        let options = ["--search", search, "--max-schedules", "8", "--all", "--seed", "5"];
        let answer = explore(dir.path(), &options, &[COUNT, ":::", COUNT]);
        let report = answer.report();
        let explored = &report["explored"];
        assert_eq!((&explored["search"], &explored["seed"]), (&words.into(), &5.into()), "{search}: {report}");
        let known: Vec<&str> =
            explored["miss_bound"].as_object().map(|o| o.keys().map(String::as_str).collect()).unwrap_or_default();
        assert_eq!(known, bounds, "{search}: {report}");
        for bound in bounds {
            let p = explored["miss_bound"][bound].as_f64().expect("a probability");
            assert!(p > 0.0 && p < 1.0, "{search}: {report}");
        }
        assert_eq!(explored["exhausted"], false, "{search}: {report}");
        // Eight schedules are enough for all but the one of the timeline.
        assert_eq!(report["verdict"] == "clean", search == "timeline", "{search}: {report}");
    }
}

#[test]
fn options_override_what_the_file_says() {
    let dir = world();
    let file = dir.path().join("two.toml");
    let worker = |name: &str| format!("[[worker]]\nname = \"{name}\"\nrun = \"{COUNT}\"\n");
    let search = "[search]\nsearch = \"random\"\nseed = 7\nmax_schedules = 3\n";
    fs::write(&file, format!("expect = \"clean\"\ndir = \".\"\n{search}{}{}", worker("A"), worker("B")))
        .expect("the scenario");
    let file = file.display().to_string();
    let as_written = answer(dir.path(), &["run", &file, "--all"]);
    let explored = &as_written.report()["explored"];
    assert_eq!(explored["search"], "random walk", "{explored}");
    assert_eq!((&explored["seed"], &explored["schedules"]), (&7.into(), &3.into()), "{explored}");
    let options = ["--search", "pos", "--seed", "8", "--max-schedules", "5"];
    let overridden = answer(dir.path(), &[&["run", &file, "--all"][..], &options].concat());
    let explored = &overridden.report()["explored"];
    assert_eq!((&explored["search"], &explored["seed"]), (&"pos".into(), &8.into()), "{explored}");
    assert_eq!(explored["schedules"], 5, "{explored}");
}

/// A worker whose one schedule takes minutes.
const LONG: &str = "i=0; while [ $i -lt 100000000 ]; do i=$((i + 1)); done; echo $i > count";

#[test]
fn a_time_limit_ends_the_search_within_a_schedule_and_nothing_is_called_clean() {
    let dir = world();
    let began = Instant::now();
    let options = ["--time-limit", "300ms"];
    let answer = explore(dir.path(), &options, &[LONG, ":::", COUNT]);
    let report = answer.report();
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}: {report}", began.elapsed());
    assert_eq!(answer.exit, Some(3), "{report}");
    assert_eq!(
        (&report["verdict"], &report["explored"]["ended_by"]),
        (&"cannot-tell".into(), &"time".into()),
        "{report}"
    );
    assert_eq!(report["explored"]["classes"], 0, "{report}");
    assert!(report["trace_hash"].is_null(), "{report}");
}

/// In every explored order this sees one file of the other's two, and ends at once; in the serial order it sees both.
const QUICK_BESIDE: &str = "if [ -e b1 ]; then if [ -e b2 ]; then i=0; while [ $i -lt 100000000 ]; do i=$((i + 1)); \
                            done; fi; echo one > seen; else echo none > seen; fi";

#[test]
fn a_time_limit_that_is_reached_while_a_schedule_is_judged_is_no_loss_of_control() {
    let dir = world();
    let began = Instant::now();
    let options = ["--time-limit", "3s"];
    let answer = explore(dir.path(), &options, &[QUICK_BESIDE, ":::", "echo > b1; sleep 1; echo > b2"]);
    let report = answer.report();
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}: {report}", began.elapsed());
    assert_eq!(
        (answer.exit, &report["verdict"], &report["explored"]["ended_by"]),
        (Some(3), &"cannot-tell".into(), &"time".into()),
        "{report}"
    );
    assert!(report["reason"].as_str().is_some_and(|why| why.contains("the time limit was reached while")), "{report}");
    // The first order was judged and is counted; the one that was not is not.
    assert_eq!(report["explored"]["classes"], 1, "{report}");
    assert!(report["trace_hash"].is_null(), "{report}");
}

#[test]
fn an_interrupt_gives_what_is_known_so_far() {
    let dir = world();
    let mut child = command(dir.path())
        .args(["explore", "--format", "json", "--", LONG, ":::", COUNT])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("noclobber starts");
    let catches = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).map(str::to_owned);
        mask.and_then(|mask| u64::from_str_radix(&mask, 16).ok()).is_some_and(|mask| mask >> 1 & 1 == 1)
    };
    let began = Instant::now();
    while !catches() {
        assert!(began.elapsed() < Duration::from_secs(60), "it never caught interrupts");
        std::thread::sleep(Duration::from_millis(20));
    }
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(killed.success());
    let began = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        assert!(began.elapsed() < Duration::from_secs(60), "it goes on after an interrupt");
        std::thread::sleep(Duration::from_millis(20));
    }
    let answer = Answer::from(&child.wait_with_output().expect("its report"));
    let report = answer.report();
    assert_eq!(answer.exit, Some(3), "{report}");
    assert_eq!(report["explored"]["ended_by"], "interrupt", "{report}");
    assert!(report["trace_hash"].is_null(), "{report}");
}
