//! Nothing is called clean that was not looked at: what cannot be told is exit 3, a mistake is exit 2.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use scenarios::{Answer, answer, run};

/// Runs a scenario written beside `files`.
fn scenario(text: &str, folders: &[&str]) -> Answer {
    let dir = tempfile::tempdir().expect("a folder");
    folders.iter().for_each(|name| fs::create_dir(dir.path().join(name)).expect("a folder"));
    let file: PathBuf = dir.path().join("scenario.toml");
    fs::write(&file, text).expect("the scenario");
    run(&[file])
}

const PAIR: &str = r#"
expect = "clean"
[[worker]]
name = "A"
run = "queue push --id t2 --file queue.json --strategy flock --worker A"

[[worker]]
name = "B"
run = "queue push --id t3 --file queue.json --strategy flock --worker B"
"#;

fn exits(code: i32, says: &str, answer: &Answer) {
    let all = format!("{:?}{}", answer.reports, answer.stderr);
    assert_eq!(answer.exit, Some(code), "{all}");
    assert!(all.contains(says), "`{says}` is not in: {all}");
}

#[test]
fn a_worker_that_does_not_start() {
    let text = "expect = \"clean\"\n[[worker]]\nname = \"A\"\nrun = \"no-such-program x\"\n[[worker]]\nname = \"B\"\nrun = \"echo 1 > f\"\n";
    exits(3, "no-such-program", &scenario(text, &[]));
}

#[test]
fn workers_that_share_nothing() {
    let text =
        "expect = \"clean\"\n[[worker]]\nname = \"A\"\nrun = \"true\"\n[[worker]]\nname = \"B\"\nrun = \"true\"\n";
    exits(3, "share", &scenario(text, &[]));
}

#[test]
fn a_folder_without_the_file_that_the_workers_need() {
    let text = "expect = \"clean\"\ndir = \"empty\"\n\
        [[worker]]\nname = \"A\"\nrun = \"cat queue.json\"\n[[worker]]\nname = \"B\"\nrun = \"cat queue.json\"\n";
    exits(3, "queue.json", &scenario(text, &["empty"]));
}

#[test]
fn a_folder_that_is_not_there() {
    exits(2, "nowhere", &scenario(&format!("dir = \"nowhere\"\n{PAIR}"), &[]));
}

#[test]
fn a_pattern_that_never_matches() {
    let delay = "\n[[delay]]\nworker = \"A\"\nafter = \"read other.json\"\nfor = \"1s\"\n";
    exits(2, "read other.json", &scenario(&format!("{PAIR}{delay}"), &[]));
}

#[test]
fn an_unknown_key_names_the_nearest_one() {
    exits(2, "expect", &scenario(&PAIR.replace("expect", "expct"), &[]));
}

#[test]
fn a_scenario_that_is_not_there() {
    exits(2, "nowhere.toml", &run(&["nowhere.toml".into()]));
}

#[test]
fn a_delayed_worker_of_an_unknown_name() {
    let delay = "\n[[delay]]\nworker = \"C\"\nafter = \"read\"\nfor = \"1s\"\n";
    exits(2, "C", &scenario(&format!("{PAIR}{delay}"), &[]));
}

/// Runs two counting shells, with options of `explore`.
fn counting(options: &[&str], command: &str) -> Answer {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("count"), "0\n").expect("the counter");
    answer(dir.path(), &[&["explore"], options, &["--", command, ":::", command]].concat())
}

#[test]
fn a_step_let_through_unseen() {
    // A fault in control, planted: the canary's steps are not all seen.
    for call in ["openat", "read", "write", "flock"] {
        let answer = counting(&["--unseen", call], "flock lock -c 'read n < count; echo $((n + 1)) > count'");
        exits(3, "control is not working", &answer);
    }
    exits(2, "no call", &counting(&["--unseen", "nothing"], "true"));
}

#[test]
fn random_bytes_that_are_not_the_harness_s_own() {
    let worker = "/usr/bin/python3 -ISc 'import os; open(\"log\", \"a\").write(os.urandom(8).hex() + chr(10))'";
    let controlled = counting(&[], worker);
    assert_ne!(controlled.exit, Some(3), "{:?}{}", controlled.reports, controlled.stderr);
    // The same with a fault in control, planted: the double run differs.
    exits(3, "run twice, differed", &counting(&["--unseen", "getrandom"], worker));
}

#[test]
fn a_step_that_is_another_each_time() {
    // Nothing is wrong with control: somebody whom nobody controls writes outside of the world all the time.
    let moving = Moving::begin();
    exits(3, "differed", &counting(&[], &format!("cat {} >> count", moving.file().display())));
}

/// A file outside of every world that has another number in it at each look.
struct Moving {
    folder: tempfile::TempDir,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Moving {
    fn begin() -> Moving {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, next) = (folder.path().join("moving"), folder.path().join("next"));
        let over = Arc::new(AtomicBool::new(false));
        let write = move |number: u64| {
            fs::write(&next, format!("{number}\n")).and_then(|()| fs::rename(&next, &file)).expect("a moving file");
        };
        write(0);
        let seen = over.clone();
        let thread = std::thread::spawn(move || {
            for number in 1.. {
                if seen.load(Ordering::Relaxed) {
                    return;
                }
                write(number);
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        Moving { folder, over, thread: Some(thread) }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("moving")
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[test]
fn the_double_run_compares_a_fresh_start_although_a_committed_schedule_came_first() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("count"), "0\n").expect("the counter");
    let count = "read n < count; echo $((n + 1)) > count";
    let saved = answer(dir.path(), &["explore", "--save", "guard.toml", "--", count, ":::", count]);
    assert_eq!(saved.exit, Some(1), "{:?}{}", saved.reports, saved.stderr);
    assert!(dir.path().join("guard.replay.json").is_file());
    // The guarded command became one that does something else each time; its old schedule finds nothing wrong.
    let guard = dir.path().join("guard.toml");
    let text = fs::read_to_string(&guard).expect("the guard");
    let moving = Moving::begin();
    let changed = text.replace(count, &format!("cat {} >> count", moving.file().display()));
    assert_ne!(changed, text);
    fs::write(&guard, changed.replace("\"0\\n\"", "\"\"")).expect("written");
    let answer = answer(dir.path(), &["run", "guard.toml"]);
    assert_ne!(answer.exit, Some(0), "{:?}{}", answer.reports, answer.stderr);
}

/// One empties the file and writes it from another one; the reader copes with finding nothing there, and says so.
#[test]
fn a_file_that_is_found_empty() {
    let text = "expect = \"torn-read\"\nfiles = { n = \"0\\n\" }\n\
        [[worker]]\nname = \"A\"\nrun = \"echo 1 > n.a; cat n.a > n; rm n.a\"\n\
        [[worker]]\nname = \"B\"\nrun = \"read x < n; echo \\\"${x:-nothing}\\\" > seen\"\n";
    exits(0, "torn-read", &scenario(text, &[]));
}

/// Who fails after it has overwritten what another one wrote has lost that all the same.
#[test]
fn a_worker_that_overwrites_and_then_fails() {
    let worker = |name: &str| {
        let run =
            format!("set -eu; mkdir d 2>/dev/null || :; n=$(cat names); printf '%s\\\\n' $n {name} > names; rmdir d");
        format!("[[worker]]\nname = \"{name}\"\nrun = \"{run}\"\n")
    };
    let text = format!("expect = \"lost-update\"\nfiles = {{ names = \"0\\n\" }}\n{}{}", worker("A"), worker("B"));
    exits(0, "lost-update", &scenario(&text, &[]));
}
