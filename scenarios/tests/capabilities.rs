//! What real programs do: pipes, sockets, timers, signals, idle workers, every call on files, threads and children. Each
//! scenario has the right verdict and the same trace twice, at the same time on a busy machine.

use std::{collections::BTreeSet, fs, path::PathBuf, thread};

use scenarios::{Answer, folder, run};

fn scenario(name: &str) -> PathBuf {
    folder().join("capabilities").join(format!("{name}.toml"))
}

/// Runs it twice at once.
fn twice(name: &str) -> [Answer; 2] {
    let file = scenario(name);
    let other = file.clone();
    let second = thread::spawn(move || run(&[other]));
    [run(&[file]), second.join().expect("a run")]
}

/// What each scenario shows: its name says under which heading.
const CONTROLLED: [&str; 38] = [
    "calls/copy-in-kernel",
    "calls/every-call",
    "channels/fifo",
    "channels/fifo-two-writers",
    "channels/socket-add",
    "channels/socket-increment",
    "idle/inotify",
    "idle/missed",
    "idle/select",
    "idle/sleep",
    "limits/io-uring",
    "limits/memory-in-state",
    "limits/static",
    "noise/kernel-uuid",
    "noise/locked",
    "noise/lost",
    "signals/children",
    "signals/pidfile",
    "signals/pidfile-early",
    "tasks/bash-pipeline",
    "tasks/daemon",
    "tasks/exec",
    "tasks/go-pool",
    "tasks/node-pool",
    "tasks/python-pool",
    "tasks/python-pool-race",
    "tasks/threads",
    "tasks/vfork",
    "timers/alarm",
    "timers/alarm-in-python",
    "timers/posix",
    "timers/setitimer",
    "timers/timeout-fires",
    "timers/timeout-lock",
    "timers/timerfd",
    "calls/dup-keeps-lock",
    "calls/exec-drops-lock",
    "signals/interrupted-lock",
];

/// What cannot be controlled, and the words that say so.
const NAMED: [(&str, &str); 7] = [
    ("limits/compat", "32-bit system call"),
    ("limits/filter", "installs a system-call filter of its own"),
    ("limits/lease", "takes a lease"),
    ("limits/memory", "works on counter through memory only"),
    ("limits/memory-checked", "works on counter through memory only"),
    ("limits/setuid", "does not get the rights of its owner"),
    ("limits/spin", "cpu_seconds"),
];

fn check(group: &str) {
    let mut wrong = Vec::new();
    for name in CONTROLLED.iter().filter(|n| n.starts_with(group)) {
        let answers = twice(name);
        let [one, two] = &answers;
        let summary = |a: &Answer| format!("{name}: exit {:?} {:?}\n{}", a.exit, a.reports, a.stderr);
        if answers.iter().any(|a| a.exit != Some(0)) {
            wrong.push(summary(one));
        } else if one.report()["trace_hash"] != two.report()["trace_hash"] || !one.report()["trace_hash"].is_string() {
            wrong.push(format!("two traces: {}\n{}", summary(one), summary(two)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn every_call_on_files() {
    check("calls/");
}

#[test]
fn pipes_and_sockets_between_workers() {
    check("channels/");
}

#[test]
fn workers_that_wait_for_more() {
    check("idle/");
}

#[test]
fn timers_run_on_virtual_time() {
    check("timers/");
}

#[test]
fn signals_reach_waiting_workers() {
    check("signals/");
}

#[test]
fn threads_children_and_pools() {
    check("tasks/");
}

#[test]
fn noise_accuses_nobody_and_hides_nothing() {
    check("noise/");
}

#[test]
fn what_programs_fall_back_from() {
    check("limits/");
}

#[test]
fn what_cannot_be_controlled_is_named() {
    for (name, words) in NAMED {
        let answer = run(&[scenario(name)]);
        let said = format!("{}", answer.report());
        assert_eq!(answer.exit, Some(3), "{name}: {said}");
        assert_eq!(answer.report()["verdict"], "cannot-tell", "{name}");
        assert!(said.contains(words), "{name} does not say `{words}`: {said}");
    }
}

#[test]
fn every_scenario_of_the_folder_is_listed() {
    let mut found = BTreeSet::new();
    for group in fs::read_dir(folder().join("capabilities")).expect("the folder") {
        let group = group.expect("an entry").path();
        for file in fs::read_dir(&group).expect("a folder") {
            let file = file.expect("an entry").path();
            if file.extension().is_some_and(|e| e == "toml") {
                let name = |p: &std::path::Path| p.file_stem().map(|n| n.to_string_lossy().into_owned());
                found.insert(format!("{}/{}", name(&group).unwrap_or_default(), name(&file).unwrap_or_default()));
            }
        }
    }
    let listed: BTreeSet<String> =
        CONTROLLED.iter().copied().chain(NAMED.iter().map(|n| n.0)).map(str::to_owned).collect();
    assert_eq!(found, listed);
}
