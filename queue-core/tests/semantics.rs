//! What a queue promises, as a script sees it: tokens, leases, dead letters, what is remembered, who may mix, what survives.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

struct World(TempDir);

struct Ran {
    exit: i32,
    lines: Vec<Value>,
    stderr: String,
}

impl World {
    fn new() -> Self {
        World(tempfile::tempdir().unwrap())
    }

    fn queue(&self, arguments: &str) -> Ran {
        self.queue_with(&arguments.split(' ').collect::<Vec<_>>(), "", &[])
    }

    fn queue_with(&self, arguments: &[&str], stdin: &str, env: &[(&str, &str)]) -> Ran {
        let mut command = Command::cargo_bin("queue").unwrap();
        command.current_dir(self.0.path()).args(["--durability", "none"]).args(arguments).write_stdin(stdin);
        let Output { status, stdout, stderr } = command.envs(env.iter().copied()).output().unwrap();
        let lines = String::from_utf8(stdout).unwrap();
        Ran {
            exit: status.code().expect("no signal"),
            lines: lines.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect(),
            stderr: String::from_utf8(stderr).unwrap(),
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        std::fs::write(self.path(path), text).unwrap();
    }
}

#[test]
fn whoever_lost_its_lease_is_refused_in_each_way_of_saying_who_it_is() {
    for strategy in ["flock", "lock-dir", "optimistic", "writer", "sharded"] {
        let world = World::new();
        let queue = |text: &str| world.queue(&format!("--strategy {strategy} {text}"));
        queue("push --id t1");
        let first = queue("claim --worker A --lease 1ms");
        let token = first.lines[0]["token"].as_str().unwrap().to_owned();
        std::thread::sleep(Duration::from_millis(5));
        let second = queue("claim --worker B --lease 1h");
        assert_eq!((second.exit, &second.lines[0]["attempt"]), (0, &2.into()), "{strategy}: {}", second.stderr);
        for command in ["complete", "extend", "release"] {
            for who in [format!("--token {token}"), "t1 --attempt 1".into(), "t1 --worker A".into()] {
                let ran = queue(&format!("{command} {who}"));
                assert_eq!(ran.exit, 4, "{strategy} {command} {who}: {}", ran.stderr);
            }
        }
        let extended = queue("extend t1 --worker B --lease 2h");
        assert_eq!((extended.exit, &extended.lines[0]["outcome"]), (0, &"extended".into()));
        assert_eq!(queue("complete t1 --worker B").exit, 0);
        assert_eq!(queue("complete t1 --worker B").exit, 1, "accepted once");
    }
}

#[test]
fn many_are_pushed_in_one_write_and_none_twice() {
    let world = World::new();
    let batch = "{\"id\":\"t1\"}\n{\"id\":\"t2\",\"params\":{\"n\":1.50}}\n\n{\"id\":\"t1\"}\n";
    let ran = world.queue_with(&["push", "--batch", "-"], batch, &[]);
    let outcomes: Vec<_> = ran.lines.iter().map(|line| line["outcome"].as_str().unwrap()).collect();
    assert_eq!((ran.exit, &outcomes[..]), (0, &["pushed", "pushed", "present"][..]), "{}", ran.stderr);
    let file: Value = serde_json::from_str(&world.read("queue.json")).unwrap();
    assert_eq!(file["version"], 1);
    assert!(world.read("queue.json").contains(r#""params":{"n":1.50}"#));

    world.queue("claim --worker w");
    world.queue("complete t1 --attempt 1");
    world.queue("claim --worker w");
    for (id, state) in [("t1", "done"), ("t2", "claimed")] {
        let again = world.queue(&format!("push --id {id}"));
        assert_eq!((&again.lines[0]["outcome"], &again.lines[0]["state"]), (&"present".into(), &state.into()));
    }
    assert_eq!(world.queue("push --id t3 --id t4").lines.len(), 2);
    for bad in ["{\"id\":7}", "nonsense", "{\"name\":\"t\"}"] {
        let ran = world.queue_with(&["push", "--batch", "-"], &format!("{{}}\n{bad}\n"), &[]);
        assert_eq!(ran.exit, 2, "{bad}");
        assert!(ran.stderr.contains("line 2"), "{}", ran.stderr);
    }
}

#[test]
fn a_task_that_fails_too_often_is_put_aside() {
    let world = World::new();
    world.queue("push --id t1");
    for attempt in 1..=2 {
        assert_eq!(world.queue("--max-attempts 2 claim").lines[0]["attempt"], attempt);
        let released = world.queue(&format!("--max-attempts 2 release t1 --attempt {attempt}"));
        assert_eq!(released.lines[0]["outcome"], if attempt == 1 { "released" } else { "dead" });
    }
    assert_eq!(world.queue("claim").exit, 1);
    assert_eq!(world.queue("list --state dead").lines[0]["id"], "t1");
    assert_eq!(world.queue("push --id t1").lines[0]["state"], "dead");
    assert_eq!(world.queue("revive t1").exit, 0);
    assert_eq!(world.queue("claim --lease 1ms").lines[0]["attempt"], 1);
    // A worker that never comes back has had its chance too.
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(world.queue("--max-attempts 1 claim").exit, 1);
    assert_eq!(world.queue("list --state dead").lines.len(), 1);
}

#[test]
fn strategies_that_keep_each_other_out_mix_and_others_are_refused_by_name() {
    let strategies = ["naive", "flock", "lock-dir", "optimistic", "writer"];
    let family = ["flock", "optimistic", "writer"];
    for used in strategies {
        for wanted in strategies {
            let world = World::new();
            assert_eq!(world.queue(&format!("--strategy {used} push --id t1")).exit, 0);
            let ran = world.queue(&format!("--strategy {wanted} --timeout 10s push --id t2"));
            let mixes = used == wanted || family.contains(&used) && family.contains(&wanted);
            assert_eq!(ran.exit, if mixes { 0 } else { 2 }, "{used}, then {wanted}: {}", ran.stderr);
            if !mixes {
                let named = if family.contains(&used) { "flock" } else { used };
                assert!(ran.stderr.contains(named) && ran.stderr.contains(wanted), "{}", ran.stderr);
                assert_eq!(world.queue("list").lines.len(), 1);
                // Until it is changed for everybody.
                let migrated = world.queue(&format!("--timeout 10s migrate --to {wanted}"));
                assert_eq!(migrated.exit, 0, "{used} to {wanted}: {}", migrated.stderr);
                assert_eq!(world.queue(&format!("--strategy {wanted} --timeout 10s push --id t2")).exit, 0);
                assert_eq!(world.queue(&format!("--strategy {used} push --id t3")).exit, 2);
            }
        }
    }
}

#[test]
fn links_modes_and_hand_edits_survive() {
    for strategy in ["flock", "flock --spare", "lock-dir", "optimistic", "writer"] {
        let world = World::new();
        std::fs::create_dir(world.path("real")).unwrap();
        world.write("real/q.json", "{\"note\": 1e400, \"version\": 7,\n \"tasks\": []}");
        std::fs::set_permissions(world.path("real/q.json"), PermissionsExt::from_mode(0o640)).unwrap();
        symlink("real/q.json", world.path("queue.json")).unwrap();
        for id in ["t1", "t2", "t3"] {
            let ran = world.queue(&format!("--strategy {strategy} push --id {id}"));
            assert_eq!(ran.exit, 0, "{strategy}: {}", ran.stderr);
            // Somebody edits the file by hand in between.
            let text = world.read("real/q.json");
            assert!(text.starts_with("{\"note\": 1e400, \"version\": "), "{text}");
            world.write("real/q.json", &text.replace("\"params\":null", "\"params\":true"));
        }
        assert!(std::fs::symlink_metadata(world.path("queue.json")).unwrap().is_symlink(), "{strategy}");
        let mode = std::fs::metadata(world.path("real/q.json")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640, "{strategy}");
        assert_eq!(world.read("real/q.json").matches("\"params\":true").count(), 3, "{strategy}");
        // What lies beside it lies beside the file, so that every name of it has the same lock.
        assert!(!world.path(".queue.json.lock").exists());
    }
}

#[test]
fn a_foreign_writer_is_reported() {
    let world = World::new();
    world.queue("push --id t1");
    let text = world.read("queue.json").replace("\"params\":null", "\"params\":7");
    world.write("queue.json", &text);
    let ran = world.queue("push --id t2");
    assert_eq!(ran.exit, 0);
    assert!(ran.stderr.contains("warning") && ran.stderr.contains("somebody else"), "{}", ran.stderr);
    assert_eq!(world.queue("push --id t3").stderr, "");
}

#[test]
fn any_script_can_make_the_next_version() {
    for strategy in ["flock", "lock-dir", "optimistic", "writer"] {
        let world = World::new();
        let update = |script: &str| {
            let arguments = ["--strategy", strategy, "update", "queue.json", "--", "sh", "-c", script];
            world.queue_with(&arguments, "", &[])
        };
        assert_eq!(update("cat").exit, 2, "there is none yet");
        world.queue(&format!("--strategy {strategy} push --id t1"));
        let ran = update("sed s/t1/t2/");
        assert_eq!((ran.exit, &ran.lines[0]["outcome"]), (0, &"updated".into()), "{strategy}: {}", ran.stderr);
        let file: Value = serde_json::from_str(&world.read("queue.json")).unwrap();
        assert_eq!((&file["version"], &file["tasks"][0]["id"]), (&2.into(), &"t2".into()), "{strategy}");
        let audit = world.read(".queue.json.audit.jsonl");
        let last = queue_core::audit::Entry::parse(audit.lines().last().unwrap()).unwrap();
        assert_eq!(
            (&*last.op, last.read, last.wrote, last.ids),
            ("update", 1, 2, vec!["t2".to_owned(), "t1".to_owned()])
        );
        let before = world.read("queue.json");
        for script in ["cat; exit 3", "echo nonsense", "true", "head -c 20"] {
            assert_eq!(update(script).exit, 2, "{script}");
            assert_eq!(world.read("queue.json"), before);
        }
        assert_eq!(update("cat").lines[0]["outcome"], "unchanged");
    }
    let world = World::new();
    world.queue("push --id t1");
    let edit = |editor: &str| world.queue_with(&["edit"], "", &[("EDITOR", editor), ("VISUAL", "")]);
    assert_eq!(edit("sed -i s/t1/t9/").exit, 0);
    assert_eq!(world.queue("list").lines[0]["id"], "t9");
    let bad = edit("sed -i s/tasks/task/");
    assert_eq!(bad.exit, 2);
    assert!(bad.stderr.contains("kept there"), "{}", bad.stderr);
    assert_eq!(world.queue("list").lines[0]["id"], "t9");
}

#[test]
fn an_account_can_be_owned_and_a_task_moved() {
    let world = World::new();
    for (id, account) in [("t1", "a"), ("t2", "a"), ("t2", "b")] {
        world.queue(&format!("--strategy sharded push --id {id} --account {account}"));
    }
    // While A works it looks for another owner.
    let queue = assert_cmd::cargo::cargo_bin("queue");
    let second = format!(
        "{} --strategy sharded work --own --account a --worker B -- true 2>second; echo $? >code",
        queue.display()
    );
    let arguments = [
        "--strategy",
        "sharded",
        "work",
        "--once",
        "--own",
        "--account",
        "a",
        "--worker",
        "A",
        "--",
        "sh",
        "-c",
        &second,
    ];
    assert_eq!(world.queue_with(&arguments, "", &[]).exit, 0);
    assert_eq!(world.read("code"), "3\n");
    assert!(world.read("second").contains("worker A"), "{}", world.read("second"));
    // Nobody owns it any more.
    let refused = world.queue("--strategy sharded move t2 --account a --to b");
    assert_eq!(refused.exit, 2, "the target has one of this id");
    assert_eq!(world.queue("--strategy sharded move t2 --account a --to c").exit, 0);
    assert_eq!(world.queue("--strategy sharded list --account c").lines[0]["account"], "c");
    assert_eq!(world.queue("--strategy sharded list --account a").lines.len(), 0);
    assert_eq!(world.queue("--strategy sharded claim --account c").lines[0]["id"], "t2");
    assert_eq!(world.queue("move t2 --account a --to b").exit, 2);
    // A task in another account's file is passed over, and said to be.
    world.write("queues/queue_d.json", r#"{"version": 1, "tasks": [{"id":"s","account":"x"}]}"#);
    let stray = world.queue("--strategy sharded claim --account x");
    assert_eq!(stray.exit, 2);
    let stray = world.queue("--strategy sharded claim");
    assert_eq!(stray.lines[0]["id"], "t2");
    let stray = world.queue("--strategy sharded claim");
    assert_eq!(stray.exit, 1);
    assert!(stray.stderr.contains("another file: s"), "{}", stray.stderr);
}

#[test]
fn the_writer_serves_and_is_replaced() {
    let world = World::new();
    for number in 0..5 {
        let ran = world.queue(&format!("--strategy writer --timeout 20s push --id t{number}"));
        assert_eq!((ran.exit, &ran.lines[0]["outcome"]), (0, &"pushed".into()), "{}", ran.stderr);
    }
    // While it serves, it has the lock.
    let lock = std::fs::File::open(world.path(".queue.json.lock")).unwrap();
    assert!(fs2::FileExt::try_lock_exclusive(&lock).is_err());
    assert_eq!(world.queue("--strategy flock --timeout 0s push").exit, 3);
    // When nobody asks any more, it gives it up.
    assert_eq!(world.queue("--strategy flock --timeout 20s push --id t9").exit, 0);
    assert_eq!(world.queue("--strategy writer --timeout 20s list").lines.len(), 6);
    assert_eq!(world.queue("--strategy writer --timeout 20s claim").lines[0]["id"], "t0");
}

#[test]
fn the_doctor_knows_this_place() {
    let world = World::new();
    let ran = world.queue("doctor");
    let said = &ran.lines[0];
    assert_eq!(
        (ran.exit, &said["flock"], &said["rename_new"], &said["strategy"]),
        (0, &true.into(), &true.into(), &"flock".into()),
        "{said}"
    );
    assert_eq!(std::fs::read_dir(world.path(".")).unwrap().count(), 0, "it leaves nothing");
    assert_eq!(world.queue("--spare --durability data push").exit, 2);
}
