//! What was found stays: as a guard, as a schedule that replays, and as the question whether a repair helps.

use std::{fs, path::Path, process::Command};

use scenarios::{answer, command, programs};
use serde_json::Value;

const NAIVE: &str = "import sys\nn = int(open('count').read())\nopen('count', 'w').write(str(n + 1))\n";
const LOCKED: &str = "import fcntl\nwith open('lock', 'a') as lock:\n    fcntl.flock(lock, fcntl.LOCK_EX)\n    \
                      n = int(open('count').read())\n    with open('count', 'w') as file:\n        \
                      file.write(str(n + 1))\n";

/// A project directory with a racy and a mended worker.
fn project() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, text) in [("count", "0"), ("naive.py", NAIVE), ("locked.py", LOCKED)] {
        fs::write(dir.path().join(name), text).expect("a file");
    }
    dir
}

const PYTHON: &str = "/usr/bin/python3 -IS";

fn two(script: &str) -> Vec<String> {
    let words = format!("{PYTHON} {script} ::: {PYTHON} {script}");
    words.split(' ').map(str::to_owned).collect()
}

fn explore(dir: &Path, script: &str) -> Value {
    let words = two(script);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let found = answer(dir, &[&["explore", "--"][..], &words].concat());
    assert_eq!(found.exit, Some(1), "{:?}{}", found.reports, found.stderr);
    found.report().clone()
}

#[test]
fn explore_ends_with_the_line_that_makes_a_guard() {
    let dir = project();
    let explored = command(dir.path()).args(["explore", "--seed", "3", "--"]).args(two("naive.py")).output();
    let explored = String::from_utf8(explored.expect("noclobber starts").stdout).expect("text");
    let line = explored.lines().last().and_then(|line| line.strip_prefix("to keep this as a guard: "));
    let line = line.unwrap_or_else(|| panic!("{explored}"));
    // As it stands there, in a shell.
    let shell = Command::new("sh").args(["-c", line]).current_dir(dir.path()).env("PATH", programs().path()).output();
    let shell = shell.expect("a shell");
    let said = String::from_utf8_lossy(&shell.stdout).into_owned();
    assert!(shell.status.code() == Some(1) && said.contains("kept as guard.toml"), "{line}: {said}");
    assert!(dir.path().join("guard.toml").is_file() && dir.path().join("guard.replay.json").is_file(), "{said}");
    // The schedule that failed is tried first: nothing else need be explored.
    let guard = answer(dir.path(), &["run", "guard.toml"]);
    let report = guard.report();
    assert_eq!(guard.exit, Some(1), "{report}");
    assert_eq!((&report["expected"], &report["explored"]["schedules"]), (&"clean".into(), &0.into()), "{report}");
    // The programs are mended: the guard holds, having tried everything.
    fs::write(dir.path().join("naive.py"), LOCKED).expect("mended");
    let guard = answer(dir.path(), &["run", "guard.toml"]);
    let report = guard.report();
    assert_eq!((guard.exit, &report["explored"]["exhausted"]), (Some(0), &true.into()), "{report}{}", guard.stderr);
}

#[test]
fn a_repair_is_asked_for_the_schedule_that_failed_and_for_every_other() {
    let dir = project();
    let found = explore(dir.path(), "naive.py");
    let replay = found["replay"].as_str().expect("a replay file");
    let against = |script: &str| {
        let words = two(script);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        answer(dir.path(), &[&["replay", replay, "--"][..], &words].concat())
    };
    let same = against("naive.py");
    assert_eq!((same.exit, &same.report()["verdict"]), (Some(1), &found["verdict"]), "{}", same.report());
    let mended = against("locked.py");
    let report = mended.report();
    assert_eq!((mended.exit, &report["verdict"]), (Some(0), &"clean".into()), "{report}");
    let classes = report["explored"]["classes"].as_u64().expect("a number");
    let gone = format!("gone: 1 failing class -> 0 of {classes}");
    assert!(classes >= 2 && report["explored"]["coverage"].as_str().is_some_and(|c| c.starts_with(&gone)), "{report}");
    // A script that only the caller's directory has, and a wrong number of commands.
    let few = answer(dir.path(), &["replay", replay, "--", "true", ":::", "true", ":::", "true"]);
    assert!(few.exit == Some(2) && few.stderr.contains("3 commands for 2 workers"), "{}", few.stderr);
}

#[test]
fn a_found_schedule_replays_a_hundred_times() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("count"), "0\n").expect("a file");
    let count = "read n < count; echo $((n + 1)) > count";
    let found = answer(dir.path(), &["explore", "--", count, ":::", count]);
    assert_eq!(found.exit, Some(1), "{:?}{}", found.reports, found.stderr);
    let replay = found.report()["replay"].as_str().expect("a replay file");
    for n in 1..=100 {
        let again = answer(dir.path(), &["replay", replay]);
        let report = again.report();
        assert_eq!((again.exit, &report["verdict"]), (Some(1), &found.report()["verdict"]), "{n}: {report}");
        let coverage = report["explored"]["coverage"].as_str().unwrap_or_default();
        assert!(coverage.starts_with("one schedule, step for step as recorded"), "{n}: {report}");
    }
}

#[test]
fn replay_walks_through_the_steps_without_a_terminal_too() {
    let dir = project();
    let found = explore(dir.path(), "naive.py");
    let replay = found["replay"].as_str().expect("a replay file");
    let walked = assert_walk(dir.path(), replay, "\n\nb\n1\nq\n");
    let shown: Vec<&str> = walked.lines().filter(|line| line.contains(" s  ")).collect();
    assert!(shown.len() >= 5, "{walked}");
    assert!(!walked.contains('\u{1b}'), "plain text where there is no terminal: {walked}");
}

fn assert_walk(dir: &Path, replay: &str, keys: &str) -> String {
    fs::write(dir.join("keys"), keys).expect("written");
    let keys = fs::File::open(dir.join("keys")).expect("read");
    let output = command(dir).args(["replay", "--step", replay]).stdin(keys).output().expect("noclobber starts");
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stdout).expect("text")
}
