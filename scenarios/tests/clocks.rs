//! Clocks that programs read show virtual time, whichever way they are read: through the vDSO or by system call.

use std::fs;

use scenarios::{Answer, command, run};

/// Each task has its own count of reads; a sleep moves all clocks by what it says; CPU clocks show reads only.
const PROGRAM: &str = r#"
import ctypes, threading, time
libc = ctypes.CDLL(None)
pair = (ctypes.c_long * 2)()
def raw(clock):
    assert libc.syscall(228, clock, pair) == 0
    return pair[0] * 10**9 + pair[1]
raw(0)
for clock in (time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME, time.CLOCK_PROCESS_CPUTIME_ID):
    first, second, third = time.clock_gettime_ns(clock), raw(clock), time.clock_gettime_ns(clock)
    assert (second - first, third - second) == (1000, 1000), (clock, first, second, third)
before = time.monotonic_ns()
def read_often():
    mine = [time.monotonic_ns() for _ in range(1000)]
    assert [b - a for a, b in zip(mine, mine[1:])] == [1000] * 999
thread = threading.Thread(target=read_often)
thread.start()
thread.join()
after = time.monotonic_ns()
assert after - before < 100 * 1000, "another thread's reads count"
wall, monotonic = time.time_ns(), time.monotonic_ns()
time.sleep(3)
assert 3 * 10**9 < time.time_ns() - wall < 3 * 10**9 + 10**7
assert 3 * 10**9 < time.monotonic_ns() - monotonic < 3 * 10**9 + 10**7
assert 1735689603 <= time.time() < 1735689604
open("seen", "a").write(f"{time.time_ns()}\n")
"#;

#[test]
fn every_way_to_read_a_clock_shows_the_same_time() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("clocks.py"), PROGRAM).expect("a program");
    let scenario = "name = \"clocks\"\nexpect = \"clean\"\nsetup = \"/usr/bin/python3 $SCENARIO_DIR/clocks.py\"\n\
                    [[worker]]\nname = \"A\"\nrun = \"/usr/bin/python3 $SCENARIO_DIR/clocks.py\"\n";
    let file = folder.path().join("clocks.toml");
    fs::write(&file, scenario).expect("a scenario");
    let answer = run(&[file]);
    assert_eq!(answer.exit, Some(0), "{:?} {}", answer.reports, answer.stderr);
    assert_eq!(answer.report()["verdict"], "clean");
    assert_eq!(answer.report()["explored"]["exhausted"], true);
}

/// `mktemp` makes its first name from time and address alone, and asks for random bytes only if that one is taken. Both
/// are fixed here; if they were the same for all, workers would contend for names that no two of them ever choose.
#[test]
fn names_made_from_the_time_are_nobody_elses() {
    let folder = tempfile::tempdir().expect("a folder");
    let worker = "first=$(mktemp -p .) && second=$(mktemp -p .) && echo $first $second && \
                  test $(date +%s%N) -lt $(date +%s%N)";
    let worker = |name: &str| format!("[[worker]]\nname = \"{name}\"\nrun = \"\"\"\n{worker}\n\"\"\"\n");
    let scenario = format!("name = \"names\"\nexpect = \"clean\"\n{}{}", worker("A"), worker("B"));
    let file = folder.path().join("names.toml");
    fs::write(&file, scenario).expect("a scenario");
    let answer = run(&[file]);
    assert_eq!(answer.exit, Some(0), "{:?} {}", answer.reports, answer.stderr);
    assert_eq!(answer.report()["verdict"], "clean");
    let explored = &answer.report()["explored"];
    assert_eq!((&explored["classes"], &explored["exhausted"]), (&1.into(), &true.into()), "they share no name");
}

/// ... and the address is one whatever else the caller has in its environment.
#[test]
fn names_made_from_an_address_are_the_same_for_every_caller() {
    let folder = tempfile::tempdir().expect("a folder");
    let worker = |name: &str| format!("[[worker]]\nname = \"{name}\"\nrun = \"mktemp -p . && mktemp -p .\"\n");
    let scenario = format!("name = \"names\"\nexpect = \"clean\"\n{}{}", worker("A"), worker("B"));
    fs::write(folder.path().join("names.toml"), scenario).expect("a scenario");
    let hash = |size: usize| {
        let mut noclobber = command(folder.path());
        noclobber.args(["run", "--format", "json", "names.toml"]).env("ANYTHING", "x".repeat(size));
        let answer = Answer::from(&noclobber.output().expect("noclobber starts"));
        assert_eq!(answer.exit, Some(0), "{:?} {}", answer.reports, answer.stderr);
        answer.report()["trace_hash"].as_str().expect("a hash").to_owned()
    };
    let first = hash(0);
    for size in [1, 17, 300] {
        assert_eq!(hash(size), first, "{size}");
    }
}
