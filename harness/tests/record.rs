//! `noclobber record`: programs run as they please, and leave evidence that `incident` and `audit` read.
#![cfg(target_os = "linux")]

use std::{
    collections::BTreeSet,
    fs,
    os::unix::{fs::MetadataExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_noclobber");
/// Nothing here takes longer, on however loaded a machine.
const PATIENCE: Duration = Duration::from_secs(120);

struct Case {
    dir: tempfile::TempDir,
}

impl Case {
    fn new() -> Case {
        Case { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> &Self {
        fs::write(self.path(name), text).unwrap();
        self
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(args).current_dir(self.dir.path());
        command
    }

    /// Runs `record --out evidence` with these options and commands.
    fn record(&self, args: &[&str]) -> Output {
        self.command(&[&["record", "--out", "evidence"], args].concat()).output().unwrap()
    }

    fn json(&self, args: &[&str]) -> (i32, Value) {
        let out = self.command(&[args, &["--format", "json"]].concat()).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let report = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}{}", stderr(&out)));
        (out.status.code().unwrap(), report)
    }

    fn wait_for(&self, name: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.path(name).exists() {
            assert!(Instant::now() < until, "{name} never came");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

fn lost(report: &Value) -> BTreeSet<String> {
    let certain = |l: &&Value| l["certainty"] == "certain";
    report["lost"].as_array().unwrap().iter().filter(certain).map(|l| l["id"].as_str().unwrap().to_owned()).collect()
}

/// Adds its name to the list after every worker has read: all but one of the additions are lost, whatever the timing.
const LIST: &str = r#"
import json, os, sys, time
name, others = sys.argv[1], sys.argv[2:]
with open("queue.json") as f:
    queue = json.load(f)
queue["tasks"].append({"id": name})
open("ready." + name, "w").close()
while not all(os.path.exists("ready." + other) for other in others):
    time.sleep(0.001)
if os.environ.get("REPLACE"):
    with open("tmp." + name, "w") as f:
        json.dump(queue, f)
    os.rename("tmp." + name, "queue.json")
else:
    # One after the other: of two that write in place at one moment only what is left counts.
    before = [other for other in others if other < name]
    while not all(os.path.exists("wrote." + other) for other in before):
        time.sleep(0.001)
    with open("queue.json", "w") as f:
        json.dump(queue, f)
    open("wrote." + name, "w").close()
"#;

#[test]
fn the_losses_that_happened_are_certain() {
    for replace in ["", "1"] {
        let case = Case::new();
        case.write("worker.py", LIST).write("queue.json", r#"{"tasks": [{"id": "zero"}]}"#);
        let args = "-- python3 worker.py aa bb cc ::: python3 worker.py bb cc aa ::: python3 worker.py cc aa bb";
        let out = case
            .command(&["record", "--out", "evidence"])
            .args(args.split(' '))
            .env("REPLACE", replace)
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
        let said = stderr(&out);
        assert!(
            said.contains("queue.json: 4 versions by 3 processes; 2 were not made from the version before it"),
            "{said}"
        );
        let kept: Value = serde_json::from_str(&case.read("queue.json")).unwrap();
        let kept = kept["tasks"][1]["id"].as_str().unwrap().to_owned();
        let expected: BTreeSet<String> =
            ["aa", "bb", "cc"].map(str::to_owned).into_iter().filter(|n| *n != kept).collect();

        let (code, report) = case.json(&["incident", "evidence"]);
        assert_eq!((code, lost(&report)), (1, expected.clone()), "{report}");
        let first = &report["lost"][0];
        assert!(first["written_by"].as_u64() > Some(1) && first["overwritten_by"].as_u64() > Some(1), "{report}");
        let fork = &report["forks"][0];
        assert_eq!((&fork["certainty"], fork["writes"].as_array().unwrap().len()), (&json!("certain"), 3), "{report}");
        // And the whole way round: a scenario of it loses the same, under control.
        let (_, written) = case.json(&["incident", "evidence", "-o", "out.toml"]);
        assert_eq!(written["scenario"], "out.toml", "{written}");
        let (code, run) = case.json(&["run", "out.toml"]);
        let again: BTreeSet<String> =
            run["anomalies"][0]["lost"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect();
        assert_eq!((code, again), (0, expected.clone()), "{run}");
        // With the live file, and with the folder of the one file, the same.
        for args in
            [&["incident", "evidence/queue.json", "--current", "queue.json"][..], &["incident", "evidence/queue.json"]]
        {
            assert_eq!(lost(&case.json(args).1), expected, "{args:?}");
        }
        let (code, audit) = case.json(&["audit", "evidence/queue.json/audit.jsonl"]);
        let kinds: Vec<&str> =
            audit["faults"].as_array().unwrap().iter().map(|f| f["kind"].as_str().unwrap()).collect();
        assert_eq!((code, kinds), (1, vec!["fork", "fork"]), "{audit}");
    }
}

#[test]
fn what_a_shell_pipeline_read_counts_for_it() {
    // `jq` reads and `mv` writes: neither does both. And the same with lines of a text and `sed -i`.
    let wait = |me: &str, other: &str| format!("touch ready.{me}; until [ -e ready.{other} ]; do sleep 0.01; done");
    let case = Case::new();
    case.write("n.json", r#"{"n": 0}"#).write("f.txt", "a=0\nb=0\n");
    let jq =
        |me: &str, other: &str| format!("jq '.{me} = 1' n.json > tmp.{me}; {}; mv tmp.{me} n.json", wait(me, other));
    let out = case.record(&["--", &jq("a", "b"), ":::", &jq("b", "a")]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let (code, report) = case.json(&["incident", "evidence"]);
    let kept = if case.read("n.json").contains("\"a\"") { "b" } else { "a" };
    assert_eq!((code, lost(&report)), (1, BTreeSet::from([kept.to_owned()])), "{report}");

    for name in ["ready.a", "ready.b"] {
        fs::remove_file(case.path(name)).unwrap();
    }
    // `sed` writes when it has read: what it read is held back by the pipe from which it learns what to do.
    let sed = |me: &str, other: &str| {
        format!("cp f.txt tmp.{me}; {}; echo {me}=1 >> tmp.{me}; mv tmp.{me} f.txt", wait(me, other))
    };
    let out =
        case.command(&["record", "--out", "lines", "--file", "f.txt", "--", &sed("a", "b"), ":::", &sed("b", "a")]);
    let out = { out }.output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let (code, report) = case.json(&["incident", "lines"]);
    let gone = if case.read("f.txt").contains("a=1") { "b=1" } else { "a=1" };
    assert_eq!((code, lost(&report)), (1, BTreeSet::from([gone.to_owned()])), "{report}");
}

#[test]
fn programs_that_lock_lose_nothing() {
    let case = Case::new();
    case.write(
        "worker.py",
        r#"
import fcntl, json, sys
for i in range(5):
    with open("queue.json", "r+") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        queue = json.load(f)
        queue["tasks"].append({"id": f"{sys.argv[1]}{i}"})
        f.seek(0)
        json.dump(queue, f)
        f.truncate()
"#,
    )
    .write("queue.json", r#"{"tasks": [{"id": "zero"}]}"#);
    let out = case.record(&[
        "--",
        "python3",
        "worker.py",
        "a",
        ":::",
        "python3",
        "worker.py",
        "b",
        ":::",
        "python3",
        "worker.py",
        "c",
    ]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert!(stderr(&out).contains("queue.json: 16 versions by 3 processes\n"), "{}", stderr(&out));
    let (code, report) = case.json(&["incident", "evidence"]);
    assert_eq!((code, &report["lost"], &report["forks"]), (0, &json!([]), &json!([])), "{report}");
    assert_eq!(case.json(&["audit", "evidence/queue.json/audit.jsonl"]).0, 0);
    // The newest copy is the file.
    let mut copies: Vec<PathBuf> =
        fs::read_dir(case.path("evidence/queue.json")).unwrap().map(|e| e.unwrap().path()).collect();
    copies.retain(|path| path.extension().is_some_and(|e| e == "json"));
    copies.sort();
    assert_eq!(fs::read(copies.last().unwrap()).unwrap(), fs::read(case.path("queue.json")).unwrap());
}

#[test]
fn exit_codes_and_output_are_the_commands_own() {
    let case = Case::new();
    let cases: [(&[&str], i32); 8] = [
        (&["--", "true"], 0),
        (&["--", "sh", "-c", "exit 7"], 7),
        (&["--", "kill -9 $$"], 137),
        (&["--", "kill -TERM $$"], 143),
        (&["--", "true", ":::", "exit 5", ":::", "exit 6"], 5),
        (&["--", "no-such-program-anywhere"], 127),
        (&["--", "./worker.py"], 127),
        (&["--"], 2),
    ];
    for (args, expected) in cases {
        let out = case.record(args);
        assert_eq!(out.status.code(), Some(expected), "{args:?}: {}", stderr(&out));
        assert_eq!(String::from_utf8_lossy(&out.stdout), "", "{args:?}");
        let _ = fs::remove_dir_all(case.path("evidence"));
    }
    let mut cat = case.command(&["record", "-q", "--", "cat; echo done >&2"]);
    let mut cat = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut cat.stdin.take().unwrap(), b"typed\n").unwrap();
    let out = cat.wait_with_output().unwrap();
    assert_eq!((out.stdout.as_slice(), stderr(&out).as_str()), (&b"typed\n"[..], "done\n"));
    // SIGPIPE ends a program as it does without us; signals that are ignored stay so.
    let out = case.record(&["-q", "--", "trap '' HUP; sh -c 'kill -HUP $$; echo alive'; yes | head -1"]);
    assert_eq!(String::from_utf8_lossy(&out.stdout), "alive\ny\n", "{}", stderr(&out));
}

fn signal(child: &Child, group: bool, signal: nix::sys::signal::Signal) {
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    match group {
        true => nix::sys::signal::killpg(pid, signal).unwrap(),
        false => nix::sys::signal::kill(pid, signal).unwrap(),
    }
}

#[test]
fn signals_reach_the_commands() {
    use nix::sys::signal::Signal::{SIGINT, SIGTERM};
    // As from a terminal, to all of the group; and as from `kill`, to us alone.
    for (group, sent) in [(true, SIGINT), (false, SIGTERM)] {
        let case = Case::new();
        case.write(
            "patient.sh",
            "trap 'echo caught > caught; exit 9' INT TERM; touch started; while :; do sleep 0.05; done",
        );
        // What was ignored when a shell began it cannot trap, and tests in the background are begun so.
        let command = "exec env --default-signal=INT,TERM sh patient.sh";
        let mut child = case.command(&["record", "-q", "--", command]);
        let mut child = child.process_group(0).spawn().unwrap();
        case.wait_for("started");
        signal(&child, group, sent);
        assert_eq!((child.wait().unwrap().code(), case.read("caught").as_str()), (Some(9), "caught\n"), "{sent}");
    }
}

#[test]
fn a_daemon_goes_on_and_is_recorded() {
    let case = Case::new();
    case.write("q.json", r#"{"tasks": [{"id": "one"}]}"#);
    let daemon = r#"until [ -e go ]; do sleep 0.02; done; echo '{"tasks": [{"id": "two"}]}' > q.json; touch wrote"#;
    case.write("daemon.sh", daemon);
    let out = case.record(&["--file", "q.json", "--", "setsid sh daemon.sh > /dev/null 2>&1 & echo started"]);
    assert_eq!((out.status.code(), out.stdout.as_slice()), (Some(0), &b"started\n"[..]), "{}", stderr(&out));
    assert!(stderr(&out).contains("still running, and recorded until they end"), "{}", stderr(&out));
    case.write("go", "");
    case.wait_for("wrote");
    let until = Instant::now() + PATIENCE;
    let summary = || -> Value { serde_json::from_str(&case.read("evidence/record.json")).unwrap() };
    while summary()["running"] != json!([]) {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(summary()["files"][0]["versions"], 2);
    let lines = case.read("evidence/q.json/audit.jsonl");
    assert!(lines.lines().last().unwrap().contains("\"op\":\"overwrite\""), "{lines}");
}

#[test]
fn evidence_is_private_bounded_and_never_mixed() {
    let case = Case::new();
    case.write("q.json", "{\"n\": 0}");
    let command = "for i in 1 2 3 4 5 6 7 8 9; do echo \"{\\\"n\\\": $i}\" > q.json; done";
    let out = case.record(&["--file", "q.json", "--keep", "3", "--", command]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert!(stderr(&out).contains("7 of the oldest copies were removed"), "{}", stderr(&out));
    let mut copies = 0;
    for entry in fs::read_dir(case.path("evidence/q.json")).unwrap().map(Result::unwrap) {
        assert_eq!(entry.metadata().unwrap().mode() & 0o077, 0, "{:?}", entry.file_name());
        copies += usize::from(entry.path().extension().is_some_and(|e| e == "json"));
    }
    assert_eq!((copies, fs::metadata(case.path("evidence")).unwrap().mode() & 0o777), (3, 0o700));
    assert_eq!(case.read("evidence/q.json/audit.jsonl").lines().count(), 10);
    // The folder is in use now; and files that nobody shares leave none.
    let out = case.record(&["--", "true"]);
    assert_eq!(out.status.code(), Some(2), "{}", stderr(&out));
    let out = case.command(&["record", "--", "echo x > alone.txt; echo y > alone.txt"]).output().unwrap();
    assert!(stderr(&out).contains("no file that more than one process opened"), "{}", stderr(&out));
    let folders: Vec<_> = fs::read_dir(case.path(".noclobber")).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(fs::read_dir(&folders[0]).unwrap().count(), 1, "only the summary");
}

#[test]
fn a_writer_that_is_not_watched_is_noticed() {
    let case = Case::new();
    case.write("q.json", r#"{"tasks": [{"id": "one"}]}"#).write("w.py", LIST.replace("queue.json", "q.json").as_str());
    let command = "cat q.json > /dev/null; echo ' ' >> q.json; touch ready; until [ -e go ]; do sleep 0.02; done; cat q.json; echo ' ' >> q.json";
    let mut record = case.command(&["record", "--out", "evidence", "--file", "q.json", "--", command]);
    let child = record.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    case.wait_for("ready");
    case.write("q.json", r#"{"tasks": [{"id": "two"}]}"#).write("go", "");
    let out = child.wait_with_output().unwrap();
    assert!(stderr(&out).contains("q.json was written by a process that is not watched"), "{}", stderr(&out));
    // Who wrote it had perhaps seen what it threw away: nothing is certain.
    let (code, report) = case.json(&["incident", "evidence"]);
    assert_ne!((code, lost(&report)), (1, BTreeSet::from(["one".to_owned()])), "{report}");
    assert!(report["warnings"].to_string().contains("not watched") || code == 3, "{report}");
}

#[test]
fn an_ordinary_user_can_record() {
    let case = Case::new();
    let own = case.path("noclobber");
    fs::copy(PROGRAM, &own).unwrap();
    case.write("q.json", r#"{"tasks": [{"id": "zero"}]}"#).write("worker.py", &LIST.replace("queue.json", "q.json"));
    let mut command = Command::new(&own);
    if nix::unistd::geteuid().is_root() {
        for path in [case.dir.path(), &case.path("q.json")] {
            std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
        }
        command.uid(65534).gid(65534);
    }
    let args = "record --out evidence -- python3 worker.py aa bb ::: python3 worker.py bb aa";
    let out = command.args(args.split(' ')).current_dir(case.dir.path()).env("REPLACE", "1").output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert_eq!(lost(&case.json(&["incident", "evidence"]).1).len(), 1);
}

/// Names with anything in them are files like others, and text in every output.
#[test]
fn hostile_names_do_no_harm() {
    let case = Case::new();
    let name = "q\u{1b}[2J\n::error::.json";
    case.write(name, "{\"n\": 0}");
    let script = "import sys\nfor i in range(2): open(sys.argv[1], 'w').write('{\"n\": %d}' % i)";
    let out = case.record(&["--file", name, "--", "python3", "-c", script, name]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let said = stderr(&out);
    assert!(!said.contains('\u{1b}') && said.lines().all(|l| !l.trim_start().starts_with("::")), "{said}");
    let folder = fs::read_dir(case.path("evidence")).unwrap().map(|e| e.unwrap().path()).find(|p| p.is_dir()).unwrap();
    let shown = Path::new(folder.file_name().unwrap()).to_str().unwrap();
    assert!(shown.chars().all(|c| c.is_ascii_graphic() && c != '/'), "{shown}");
    let out = case.command(&["incident", "evidence", "-v"]).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(!text.contains('\u{1b}') && text.lines().all(|l| !l.trim_start().starts_with("::")), "{text}");
}
