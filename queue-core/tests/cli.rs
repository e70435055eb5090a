//! The program `queue` as a script sees it: output, exit codes, files.

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

/// A directory of its own, and what is run in it.
struct World(TempDir);

/// What a run of the program came to.
struct Ran {
    exit: i32,
    lines: Vec<Value>,
    stderr: String,
}

impl World {
    fn new() -> Self {
        World(tempfile::tempdir().unwrap())
    }

    fn queue(&self, arguments: &[&str]) -> Ran {
        self.queue_with(arguments, "", &[])
    }

    fn queue_with(&self, arguments: &[&str], stdin: &str, env: &[(&str, &str)]) -> Ran {
        let mut command = Command::cargo_bin("queue").unwrap();
        command.current_dir(self.0.path()).args(arguments).write_stdin(stdin);
        command.envs(env.iter().copied());
        let Output { status, stdout, stderr } = command.output().unwrap();
        Ran {
            exit: status.code().expect("no signal"),
            lines: String::from_utf8(stdout)
                .unwrap()
                .lines()
                .map(|line| serde_json::from_str(line).expect("a JSON object a line"))
                .collect(),
            stderr: String::from_utf8(stderr).unwrap(),
        }
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        std::fs::write(self.path(path), text).unwrap();
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.0.path().join(path)
    }

    fn names(&self, directory: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(directory)).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn a_task_goes_through_the_queue() {
    for strategy in queue_core::strategy::NAMES {
        let world = World::new();
        let queue = |arguments: &[&str]| world.queue(&[&["--strategy", strategy], arguments].concat());

        let pushed = queue(&["push", "--id", "t1", "--account", "a", "--params", r#"{"n": 1.50}"#]);
        assert_eq!((pushed.exit, &pushed.lines[0]["outcome"]), (0, &"pushed".into()), "{}", pushed.stderr);
        assert_eq!(queue(&["push", "--id", "t1", "--account", "a"]).lines[0]["outcome"], "present");

        let claimed = queue(&["claim", "--worker", "w1"]);
        assert_eq!(claimed.exit, 0);
        assert_eq!(claimed.lines[0]["attempt"], 1);
        assert_eq!(claimed.lines[0]["task"]["params"].to_string(), r#"{"n":1.50}"#);
        assert_eq!(claimed.lines[0]["task"]["worker"], "w1");

        let nothing = queue(&["claim"]);
        assert_eq!((nothing.exit, &nothing.lines[0]["outcome"]), (1, &"nothing".into()));

        assert_eq!(queue(&["complete", "t1", "--attempt", "7"]).exit, 4);
        assert_eq!(queue(&["release", "t1", "--attempt", "1"]).exit, 0);
        assert_eq!(queue(&["complete", "t1", "--attempt", "1"]).exit, 4);
        assert_eq!(queue(&["claim"]).lines[0]["attempt"], 2);
        assert_eq!(queue(&["list"]).lines[0]["state"], "claimed");
        assert_eq!(queue(&["complete", "t1", "--attempt", "2"]).exit, 0);
        assert_eq!(queue(&["complete", "t1"]).exit, 1);
        let list = queue(&["list"]);
        assert_eq!((list.exit, list.lines.len()), (0, 0));
    }
}

#[test]
fn a_claim_ends_with_its_lease() {
    let world = World::new();
    world.queue(&["push", "--id", "t1"]);
    assert_eq!(world.queue(&["claim", "--lease", "1ms"]).exit, 0);
    std::thread::sleep(std::time::Duration::from_millis(5));
    let again = world.queue(&["claim", "--lease", "1h"]);
    assert_eq!(again.lines[0]["attempt"], 2);
    assert_eq!(world.queue(&["claim"]).exit, 1);
    assert_eq!(world.queue(&["complete", "t1", "--attempt", "1"]).exit, 4);
}

#[test]
fn work_runs_the_command_for_each_task() {
    let world = World::new();
    for id in ["t1", "t2", "t3"] {
        world.queue(&["push", "--id", id, "--account", "a"]);
    }
    let script = r#"cat >>stdin.log; echo "$QUEUE_TASK_ID $QUEUE_TASK_ACCOUNT $QUEUE_TASK_ATTEMPT $QUEUE_WORKER" >>env.log
        echo to-stdout; test "$QUEUE_TASK_ID" != t2"#;
    let worked = world.queue(&["--worker", "w", "work", "--done", "done.log", "--", "sh", "-c", script]);
    assert_eq!(worked.exit, 0, "{}", worked.stderr);
    let outcomes: Vec<_> = worked.lines.iter().map(|line| line["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["completed", "released", "completed"]);
    assert_eq!(worked.lines[1]["exit"], 1);
    assert_eq!(world.read("env.log"), "t1 a 1 w\nt2 a 1 w\nt3 a 1 w\n");
    assert_eq!(world.read("stdin.log").lines().count(), 3);
    assert_eq!(world.read("done.log"), "{\"id\":\"t1\",\"worker\":\"w\"}\n{\"id\":\"t3\",\"worker\":\"w\"}\n");
    assert!(worked.stderr.contains("to-stdout"));
    let left = world.queue(&["list"]);
    assert_eq!((&left.lines[0]["id"], &left.lines[0]["state"]), (&"t2".into(), &"queued".into()));

    assert_eq!(world.queue(&["work", "--once", "--", "true"]).exit, 0);
    assert_eq!(world.queue(&["work", "--", "true"]).exit, 1);
    assert_eq!(world.queue(&["work"]).exit, 2);
    assert_eq!(world.queue(&["work", "--then-push", "t9", "--", "true"]).exit, 2);
}

#[test]
fn a_command_that_cannot_run_leaves_its_task() {
    let world = World::new();
    world.queue(&["push", "--id", "t1"]);
    for mode in [&["work"][..], &["work", "--in-memory"]] {
        let failed = world.queue(&[mode, &["--", "./no-such-program"]].concat());
        assert_eq!(failed.exit, 2);
        assert!(failed.stderr.contains("no-such-program"));
        assert_eq!(world.queue(&["list"]).lines[0]["state"], "queued");
    }
}

/// The incident's worker reads once, works, and writes once.
#[test]
fn work_in_memory_is_one_write() {
    for (strategy, file) in [("naive", "queue.json"), ("flock", "queue.json"), ("sharded", "queues/queue_default.json")]
    {
        let world = World::new();
        let queue = |arguments: &[&str]| world.queue(&[&["--strategy", strategy], arguments].concat());
        queue(&["push", "--id", "t1"]);
        // What is in the file while the command runs is what was there before.
        let look = format!("cp {file} during.json");
        let worked = queue(&[
            "work",
            "--in-memory",
            "--think",
            "1ms",
            "--done",
            "done.log",
            "--then-push",
            "t2",
            "--",
            "sh",
            "-c",
            &look,
        ]);
        assert_eq!((worked.exit, &worked.lines[0]["outcome"]), (0, &"completed".into()), "{}", worked.stderr);
        let during: Value = serde_json::from_str(&world.read("during.json")).unwrap();
        assert_eq!((&during["version"], &during["tasks"][0]["state"]), (&1.into(), &"queued".into()));
        let after: Value = serde_json::from_str(&world.read(file)).unwrap();
        assert_eq!(after["version"], 2);
        assert_eq!(after["tasks"][0]["id"], "t2");
        assert_eq!(after["tasks"].as_array().unwrap().len(), 1);

        // A failing command writes nothing.
        let failed = queue(&["work", "--in-memory", "--", "false"]);
        assert_eq!((failed.exit, &failed.lines[0]["outcome"]), (0, &"released".into()));
        assert_eq!(serde_json::from_str::<Value>(&world.read(file)).unwrap(), after);

        // With nothing to claim the follow-up is pushed all the same.
        queue(&["work", "--in-memory", "--done", "done.log"]);
        let pushed = queue(&["work", "--in-memory", "--done", "done.log", "--then-push", "t3"]);
        assert_eq!((pushed.exit, &pushed.lines[1]["id"]), (0, &"t3".into()));
        assert_eq!(world.read("done.log").lines().count(), 2);
    }
}

#[test]
fn evidence_is_written_beside_the_file() {
    let world = World::new();
    for id in ["t1", "t2", "t3"] {
        world.queue(&["push", "--id", id]);
    }
    assert_eq!(
        world.names("."),
        [".queue.json.audit.jsonl", ".queue.json.lock", ".queue.json.snapshots", "queue.json"]
    );
    let snapshots = world.names(".queue.json.snapshots");
    assert_eq!(snapshots.len(), 2);
    assert!(snapshots[0].contains("-v1-") && snapshots[1].contains("-v2-"), "{snapshots:?}");

    let audit = world.read(".queue.json.audit.jsonl");
    let keys = [
        "schema",
        "at",
        "host",
        "pid",
        "start",
        "file",
        "op",
        "read",
        "wrote",
        "read_hash",
        "wrote_hash",
        "ids",
        "sum",
    ];
    let mut wrote = 0;
    for line in audit.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line.as_object().unwrap().keys().collect::<Vec<_>>(), keys);
        assert_eq!((&line["file"], &line["op"], &line["read"]), (&"queue.json".into(), &"push".into(), &wrote.into()));
        wrote = line["wrote"].as_u64().unwrap();
    }
    assert_eq!(wrote, 3);
    assert_eq!(world.queue(&["list"]).lines.len(), 3);

    let world = World::new();
    world.queue(&["--no-snapshots", "--no-audit", "push"]);
    world.queue(&["--no-snapshots", "--no-audit", "push"]);
    assert_eq!(world.names("."), [".queue.json.lock", "queue.json"]);
}

#[test]
fn a_kill_between_commit_and_audit_line_is_recovered() {
    let world = World::new();
    world.queue(&["push", "--id", "t1"]);
    let first = world.read(".queue.json.audit.jsonl");
    world.queue(&["push", "--id", "t2"]);
    let both = world.read(".queue.json.audit.jsonl");
    // Killed before its line was appended, and in the middle of it.
    for remains in [first.clone(), both[..first.len() + 40].to_owned()] {
        world.write(".queue.json.audit.jsonl", &remains);
        world.queue(&["push", "--id", "t3"]);
        let audit = world.read(".queue.json.audit.jsonl");
        assert!(audit.starts_with(&remains));
        let added = audit.lines().rev().take(2).collect::<Vec<_>>();
        let [push, recovered] = [0, 1].map(|index| queue_core::audit::Entry::parse(added[index]).unwrap());
        assert_eq!((&*recovered.op, recovered.read, recovered.wrote), ("recovered", 1, 2));
        assert_eq!((&*push.op, push.read, push.wrote), ("push", 2, 3));
        assert_eq!(push.read_hash, recovered.wrote_hash);
        world.queue(&["complete", "t3"]);
        // Back to version 2.
        let snapshots = world.names(".queue.json.snapshots");
        let second = snapshots.iter().find(|name| name.contains("-v2-")).unwrap();
        std::fs::copy(world.path(".queue.json.snapshots").join(second), world.path("queue.json")).unwrap();
    }
}

#[test]
fn bad_files_are_named_and_left_alone() {
    for (text, place) in [
        ("", "line 1 (byte 0): empty"),
        ("not json", "line 1 (byte 1)"),
        ("{\"version\": 1,\n \"tasks\": [}", "line 2 (byte 26)"),
        ("[]", "expected an object"),
        ("{\"version\": \"x\", \"tasks\": []}", "line 1 (byte 12): `version` must be a whole number"),
        ("{\"version\": 1, \"tasks\": [{\"id\":\"t\"},{\"id\":\"t\"}]}", "second task with the id \"t\""),
        ("{\"version\": 1, \"tasks\": [\0]}", "line 1 (byte 25)"),
        ("{\"version\": 18446744073709551615, \"tasks\": []}", "cannot grow"),
    ] {
        for strategy in ["naive", "flock"] {
            let world = World::new();
            world.write("queue.json", text);
            let ran = world.queue(&["--strategy", strategy, "push", "--id", "t"]);
            assert_eq!(ran.exit, 2, "{text:?}");
            assert!(ran.stderr.contains("queue.json") && ran.stderr.contains(place), "{text:?}: {}", ran.stderr);
            assert!(ran.lines.is_empty());
            assert_eq!(world.read("queue.json"), text);
        }
    }
}

#[test]
fn mistakes_are_exit_2_with_a_way_out() {
    let world = World::new();
    world.write("large.json", &format!("{{\"version\": 1, \"tasks\": [], \"x\": \"{}\"}}", "x".repeat(1000)));
    world.write("file", "");
    for (arguments, words) in [
        (&["claim"][..], "queue.json: no such queue; a push creates it"),
        (&["list"], "no such queue"),
        (&["complete", "t"], "no such queue"),
        (&["--strategy", "naive", "claim"], "no such queue"),
        (&["--strategy", "sharded", "claim"], "queues: no such queue"),
        (&["--strategy", "sharded", "list"], "queues: no such queue"),
        (&["--file", "no/queue.json", "push"], "no: no such directory"),
        (&["--file", "no/queue.json", "claim"], "no such queue"),
        (&["--strategy", "naive", "--file", "no/queue.json", "push"], "no: no such directory"),
        (&["--strategy", "sharded", "--file", "no/queues", "push"], "no: no such directory"),
        (&["--strategy", "sharded", "--file", "file", "push"], "takes the directory of the shards"),
        (&["--file", ".", "push"], "cannot"),
        (&["--file", "large.json", "--max-bytes", "1000", "push"], "--max-bytes"),
        (&["push", "--params", "{"], "not JSON"),
        (&["push", "--id", ""], "task id"),
        (&["push", "--account", ""], "account"),
        (&["--strategy", "sharded", "claim", "--account", ""], "account"),
        (&["--timeout", "3", "push"], "a unit"),
        (&["--timeout=-3s", "push"], "negative"),
        (&["--strategy", "magic", "push"], "flock"),
        (&["nonsense"], "nonsense"),
    ] {
        let ran = world.queue(arguments);
        assert_eq!(ran.exit, 2, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{arguments:?}: {}", ran.stderr);
    }
    let json = world.queue(&["--json", "list"]);
    let error: Value = serde_json::from_str(&json.stderr).unwrap();
    assert_eq!(error["exit"], 2);
    assert!(error["error"].as_str().unwrap().contains("no such queue"));
}

#[test]
fn accounts_stay_in_the_directory() {
    let world = World::new();
    for account in ["../x", "a/b", "A", "a", "..", "%2f"] {
        let ran = world.queue(&["--strategy", "sharded", "push", "--id", "t", "--account", account]);
        assert_eq!(ran.exit, 0, "{}", ran.stderr);
    }
    assert_eq!(world.names("."), ["queues"]);
    let shards: Vec<_> = world.names("queues").into_iter().filter(|name| !name.starts_with('.')).collect();
    assert_eq!(
        shards,
        [
            "queue_%252f.json",
            "queue_%41.json",
            "queue_..%2fx.json",
            "queue_...json",
            "queue_a%2fb.json",
            "queue_a.json"
        ]
    );
    let ambiguous = world.queue(&["--strategy", "sharded", "complete", "t"]);
    assert_eq!(ambiguous.exit, 2);
    assert!(ambiguous.stderr.contains("--account"));
    assert_eq!(world.queue(&["--strategy", "sharded", "complete", "t", "--account", "../x"]).exit, 0);
    let long = "x".repeat(300);
    assert_eq!(world.queue(&["--strategy", "sharded", "push", "--account", &long]).exit, 2);
}

#[test]
fn a_lock_that_is_not_had_in_time_is_exit_3() {
    use fs2::FileExt;
    let world = World::new();
    world.queue(&["push", "--id", "t1"]);
    let lock = std::fs::File::open(world.path(".queue.json.lock")).unwrap();
    lock.lock_exclusive().unwrap();
    for timeout in ["0s", "30ms"] {
        let ran = world.queue(&["--timeout", timeout, "claim"]);
        assert_eq!(ran.exit, 3);
        assert!(ran.stderr.contains(".queue.json.lock") && ran.stderr.contains("--timeout"), "{}", ran.stderr);
    }
    assert_eq!(world.queue(&["list"]).exit, 0);
    FileExt::unlock(&lock).unwrap();
    assert_eq!(world.queue(&["--timeout", "10s", "claim"]).exit, 0);
}

#[test]
fn parameters_can_come_from_standard_input() {
    let world = World::new();
    let text = r#"{"big": 123456789012345678901234567890, "b":1, "a":2.50}"#;
    assert_eq!(world.queue_with(&["push", "--id", "t", "--params", "-"], text, &[]).exit, 0);
    assert!(world.read("queue.json").contains(text));
}

#[test]
fn every_durability_works() {
    for durability in ["none", "data", "full"] {
        for strategy in ["naive", "flock", "sharded"] {
            let world = World::new();
            let queue = |arguments: &[&str]| {
                world.queue(&[&["--durability", durability, "--strategy", strategy], arguments].concat())
            };
            assert_eq!(queue(&["push"]).exit, 0);
            assert_eq!(queue(&["work", "--", "true"]).exit, 0);
        }
    }
}

#[test]
fn evidence_that_cannot_be_written_is_a_warning_or_stops_the_write() {
    // Without an audit line the operation has happened all the same.
    let world = World::new();
    world.queue(&["push", "--id", "t1"]);
    std::fs::remove_file(world.path(".queue.json.audit.jsonl")).unwrap();
    std::fs::create_dir(world.path(".queue.json.audit.jsonl")).unwrap();
    let ran = world.queue(&["push", "--id", "t2"]);
    assert_eq!(ran.exit, 0);
    assert!(ran.stderr.contains("warning") && ran.stderr.contains(".queue.json.audit.jsonl"), "{}", ran.stderr);
    assert_eq!(world.queue(&["list"]).lines.len(), 2);

    // Without a snapshot nothing is written.
    let before = world.read("queue.json");
    std::fs::remove_dir_all(world.path(".queue.json.snapshots")).unwrap();
    world.write(".queue.json.snapshots", "");
    let ran = world.queue(&["push", "--id", "t3"]);
    assert_eq!(ran.exit, 2);
    assert!(ran.stderr.contains(".queue.json.snapshots"), "{}", ran.stderr);
    assert_eq!(world.read("queue.json"), before);
    assert!(!world.names(".").iter().any(|name| name.ends_with(".tmp")));
}

#[test]
fn eight_processes_lose_nothing() {
    for (strategy, file) in [("flock", None), ("sharded", Some("queues"))] {
        let world = World::new();
        let run = |process: usize| {
            for number in 0..10 {
                let id = format!("{process}-{number}");
                let account = format!("a{}", number % 3);
                let mut arguments =
                    vec!["--strategy", strategy, "--durability", "none", "push", "--id", &id, "--account", &account];
                arguments.extend(file.map(|file| ["--file", file]).into_iter().flatten());
                assert_eq!(world.queue(&arguments).exit, 0);
            }
        };
        std::thread::scope(|scope| {
            for process in 0..8 {
                scope.spawn(move || run(process));
            }
        });
        assert_eq!(world.queue(&["--strategy", strategy, "list"]).lines.len(), 80);
        assert!(Path::new(&world.path(if file.is_some() { "queues" } else { "queue.json" })).exists());
    }
}

#[test]
fn a_lock_directory_that_a_power_cut_left_without_owner_is_nobodys() {
    let world = World::new();
    std::fs::create_dir(world.path(".queue.json.lockdir")).unwrap();
    let push = ["push", "--id", "t1", "--account", "a", "--strategy", "lock-dir", "--timeout", "5s"];
    let pushed = world.queue(&push);
    assert_eq!(pushed.exit, 0, "{}", pushed.stderr);
    assert!(!world.path(".queue.json.lockdir").exists());
    // One with a name that is none of ours in it is respected.
    std::fs::create_dir(world.path(".queue.json.lockdir")).unwrap();
    world.write(".queue.json.lockdir/notes", "");
    let refused = world.queue(&["push", "--id", "t2", "--account", "a", "--strategy", "lock-dir", "--timeout", "0s"]);
    assert_eq!(refused.exit, 3, "{}", refused.stderr);
}
