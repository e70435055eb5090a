//! The library as a test of another project uses it: from many threads, with every mistake told.

use std::{path::Path, thread, time::Duration};

use noclobber::{Delay, Harness, Kind, Verdict, cmd, scenario::Ends};

const ADD: &str = "read n < n; echo $((n + 1)) > n";

fn count() -> Harness {
    Harness::new().name("count").file("n", "0\n").without_replay_files()
}

#[test]
fn many_searches_at_once_agree_and_none_waits_for_another() {
    let searches: Vec<_> = (0..6)
        .map(|_| {
            thread::spawn(|| {
                // What other tests do meanwhile: descriptors that must not be kept open by an engine.
                let echoed = std::process::Command::new("echo").arg("x").output().expect("echo runs");
                assert_eq!(echoed.stdout, b"x\n");
                count().worker(ADD).worker(ADD).all().expect_anomaly().trace_hash.expect("a hash")
            })
        })
        .collect();
    let hashes: Vec<String> = searches.into_iter().map(|search| search.join().expect("no panic")).collect();
    assert_eq!(hashes, vec![hashes[0].clone(); 6]);
}

#[test]
fn a_failing_assertion_says_what_the_command_line_would() {
    let dir = tempfile::tempdir().expect("a folder");
    let replays = dir.path().join("replays");
    let failed = thread::spawn({
        let replays = replays.clone();
        move || count().replay_dir(replays).worker(ADD).worker(cmd!("sh", "-c", ADD).name("other")).expect_clean()
    });
    let message = failed.join().expect_err("it failed");
    let message = message.downcast_ref::<String>().expect("a text");
    let replay = replays.join("count.replay.json");
    for part in [
        "expected: clean",
        "       A",
        "other",
        "write n",
        "coverage: ",
        &format!("noclobber replay {}", replay.display()),
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(replay.is_file());
}

#[test]
fn an_assertion_of_an_anomaly_fails_when_there_is_none_or_another() {
    let locked = format!("flock lock -c '{ADD}'");
    for (harness, wanted) in [
        (count().worker(locked.as_str()).worker(locked.as_str()), None),
        (count().worker(ADD).worker(ADD), Some(Kind::Deadlock)),
    ] {
        let failed =
            thread::spawn(move || wanted.map_or_else(|| harness.expect_anomaly(), |kind| harness.expect(kind)));
        assert!(failed.join().is_err(), "{wanted:?}");
    }
}

#[test]
fn what_cannot_be_told_is_never_clean() {
    let apart = || count().file("x/f", "").file("y/f", "").worker("cat x/f").worker("cat y/f");
    let report = apart().explore().expect("no mistake");
    assert_eq!(report.verdict, Verdict::CannotTell, "{report}");
    assert!(thread::spawn(move || apart().expect_clean()).join().is_err());
    assert_eq!(apart().shares_nothing().expect_clean().verdict, Verdict::Clean);

    let missing = || count().worker(cmd!("no-such-program")).worker("cat n");
    let report = missing().explore().expect("no mistake of the scenario's");
    assert_eq!(report.verdict, Verdict::CannotTell, "{report}");
    assert!(report.to_string().contains("no-such-program"), "{report}");
    assert!(thread::spawn(move || missing().expect_anomaly()).join().is_err());
}

#[test]
fn mistakes_are_told_by_their_key() {
    let one_named = |name: &str| count().worker(cmd!("true").name(name)).worker(cmd!("true").name("B"));
    for (harness, parts) in [
        (Harness::new(), &["worker"][..]),
        (one_named("B"), &["`worker[2].name`", "B"]),
        (one_named("a/b"), &["`worker[1].name`", "slash"]),
        (count().worker(cmd!("true").after("nobody")), &["`worker[1].after", "nobody"]),
        (count().worker("true").file("../x", ""), &["`files", ".."]),
        (count().worker("true").ignore("[a"), &["ignore"]),
        (count().worker("true").dir("/nowhere"), &["`dir`", "/nowhere"]),
        (count().worker("true").serial(noclobber::scenario::Serial::Off), &["`serial`"]),
        (
            count().worker("cat n").delay(Delay::after("A", "eat n", Duration::from_secs(1))),
            &["`delay[1].after", "eat"],
        ),
        (
            count().worker("cat n").delay(Delay::after("A", "read m", Duration::from_secs(1))),
            &["read m", "never matched"],
        ),
    ] {
        let text = harness.explore().expect_err("a mistake").to_string();
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[test]
fn a_scenario_file_is_a_harness_and_may_be_changed() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/every-key.toml");
    // It has a seed that a TOML library cannot hold.
    assert!(Harness::from_file(&file).is_err());
    let dir = tempfile::tempdir().expect("a folder");
    let guard = dir.path().join("guard.toml");
    let text = format!(
        "expect = \"torn-read\"\nfiles = {{ n = \"0\\n\" }}\n[[worker]]\nname = \"W\"\ncount = 2\nrun = \"{ADD}\"\n"
    );
    std::fs::write(&guard, text).expect("written");
    let read = Harness::from_file(&guard).expect("no mistake").without_replay_files().seed(u64::MAX);
    let scenario = read.scenario().expect("no mistake");
    assert_eq!(scenario, {
        let mut loaded = noclobber::scenario::load(&guard).expect("no mistake");
        loaded.search.seed = u64::MAX;
        loaded
    });
    assert_eq!(read.expect_as_written().workers, ["W.1", "W.2"]);
    assert_eq!(read.worker("cat n").scenario().expect("no mistake").workers.len(), 3);
    let missing = Harness::from_file(dir.path().join("none.toml")).expect_err("no file");
    assert!(missing.to_string().contains("none.toml"), "{missing}");
}

#[test]
fn everything_of_a_scenario_file_can_be_said() {
    let dir = tempfile::tempdir().expect("a folder");
    let harness = count()
        .about("all of it")
        .dir(dir.path())
        .setup("true")
        .check("true")
        .state("cat n")
        .watch("/etc/hostname")
        .env("K", "V")
        .home_in_world()
        .worker(cmd!("cat", "n").name("R").copies(2).env("X", "1").exits_with([0, 3]))
        .worker(cmd!("cat", "n").after("R").ends(Ends::Idle))
        .search("pct:4".parse().expect("a search"))
        .max_schedules(7)
        .time_limit(Duration::from_millis(1500))
        .exhaustive()
        .time(noclobber::world::TimeModel::Adversarial)
        .serial(noclobber::scenario::Serial::Workers)
        .stdout(false)
        .ignore_pointer("q.json#/at")
        .multiset("log")
        .conserve("queue.json", "stdout")
        .allow(Kind::WorkerFailed);
    let scenario = harness.scenario().expect("no mistake");
    assert_eq!(scenario.workers.iter().map(|w| w.name.as_str()).collect::<Vec<_>>(), ["R.1", "R.2", "B"]);
    assert_eq!(scenario.workers[2].after, [0, 1]);
    assert_eq!(scenario.workers[2].ends, Ends::Idle);
    assert_eq!(scenario.workers[0].exit, [0, 3]);
    assert_eq!(scenario.search.time_limit, Some(Duration::from_millis(1500)));
    let oracle = &scenario.oracle;
    assert_eq!((oracle.stdout, oracle.ignore_pointer.len(), oracle.allow.len()), (Some(false), 1, 1));
    assert_eq!(oracle.conserve.as_ref().map(|c| c.done.as_str()), Some("stdout"));
    assert_eq!(scenario.dir.as_deref(), Some(dir.path()));
    assert_eq!(scenario.env["K"], "V");
}
