//! `noclobber audit`: routine inspection of audit lines.

mod schema_support;

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use noclobber::schema::Schema;
use queue_core::{Flock, Naive, Queue, Settings, Task, storage::Disk};
use serde_json::{Value, json};

fn noclobber(args: &[&str], files: &[&Path]) -> (i32, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_noclobber")).args(args).args(files).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (out.status.code().unwrap(), text(&out.stdout), text(&out.stderr))
}

fn audit(files: &[&Path]) -> (i32, Value) {
    let (code, out, err) = noclobber(&["audit", "--format", "json"], files);
    assert_eq!(err, "");
    assert_eq!(out.lines().count(), 1, "{out}");
    let report = serde_json::from_str(&out).unwrap();
    schema_support::assert_valid(Schema::Audit, &report);
    (code, report)
}

/// A line as the format says, with a sum.
fn line(pid: u64, op: &str, read: u64, wrote: u64, hashes: (&str, &str)) -> String {
    let (from, to) = hashes;
    let body = format!(
        r#"{{"schema":1,"at":"2026-01-31T12:00:{:02}Z","host":"h","pid":{pid},"start":1,"file":"q.json","op":"{op}","read":{read},"wrote":{wrote},"read_hash":"{from}","wrote_hash":"{to}","ids":["t{wrote}"]"#,
        wrote % 60
    );
    let sum = crc32c::crc32c(body.as_bytes());
    format!("{body},\"sum\":\"{sum:08x}\"}}\n")
}

fn chain(from: u64, to: u64) -> String {
    (from..to).map(|v| line(7, "push", v, v + 1, (&v.to_string(), &(v + 1).to_string()))).collect()
}

fn kinds(report: &Value) -> Vec<(String, u64)> {
    let faults = report["faults"].as_array().unwrap();
    faults.iter().map(|f| (f["kind"].as_str().unwrap().to_owned(), f["line"].as_u64().unwrap())).collect()
}

fn task(id: &str) -> Task {
    Task::new(id, "acme", &serde_json::value::to_raw_value(&json!({})).unwrap()).unwrap()
}

#[test]
fn the_incident_is_a_fork() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("audit.jsonl");
    fs::write(&file, line(11, "process", 17, 18, ("a", "b")) + &line(12, "process", 17, 18, ("a", "c"))).unwrap();
    let (code, report) = audit(&[&file]);
    assert_eq!((code, &report["schema"], &report["ok"], &report["lines"]), (1, &json!(1), &json!(false), &json!(2)));
    let fault = &report["faults"][0];
    assert_eq!(
        (&fault["kind"], &fault["file"], &fault["line"], &fault["pid"]),
        (&json!("fork"), &json!("q.json"), &json!(2), &json!(12))
    );
    assert!(fault["detail"].as_str().unwrap().contains("line 1 (process 11)"), "{fault}");
    let (code, out, _) = noclobber(&["audit"], &[&file]);
    assert_eq!(code, 1);
    assert!(out.starts_with("fork") && out.ends_with("1 fault: 2 lines about 1 file\n"), "{out}");
}

#[test]
fn what_the_queue_itself_writes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("queue.json");
    let lines = queue_core::audit::path_of(&path);
    let queue = Queue::open(Disk, &path, Box::new(Flock::default()), Settings::default());
    for id in ["t1", "t2", "t3"] {
        queue.push(&task(id)).unwrap();
    }
    queue.claim(&queue_core::Claim::by("w")).unwrap().unwrap();
    let (code, report) = audit(&[&lines]);
    assert_eq!((code, &report["ok"], &report["lines"]), (0, &json!(true), &json!(4)), "{report}");

    // A writer that died before its line, and the next one that says so.
    let kept = fs::read(&lines).unwrap();
    queue.push(&task("t4")).unwrap();
    fs::write(&lines, kept).unwrap();
    queue.push(&task("t5")).unwrap();
    let (code, report) = audit(&[&lines]);
    assert_eq!((code, &report["recovered"]), (0, &json!(1)), "{report}");

    // A hand that edits without a line, and keeps the version.
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("t5", "t6")).unwrap();
    queue.push(&task("t7")).unwrap();
    let (code, report) = audit(&[&lines]);
    assert_eq!((code, kinds(&report)), (1, vec![("foreign".to_owned(), 7)]), "{report}");

    // Two writers without a lock.
    let before = fs::read(&path).unwrap();
    // The queue refuses to mix strategies, unless somebody lies about the one that is used.
    fs::write(dir.path().join("queue.json.strategy"), "naive\n").unwrap();
    let naive = Queue::open(Disk, &path, Box::new(Naive), Settings::default());
    naive.push(&task("t8")).unwrap();
    fs::write(&path, before).unwrap();
    naive.push(&task("t9")).unwrap();
    let (_, report) = audit(&[&lines]);
    assert_eq!(kinds(&report), [("foreign".to_owned(), 7), ("fork".to_owned(), 9)]);
}

#[test]
fn rotated_parts_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let mut gz = flate2::write::GzEncoder::new(fs::File::create(at("audit.jsonl.2.gz")).unwrap(), Default::default());
    gz.write_all(chain(1, 10).as_bytes()).unwrap();
    gz.finish().unwrap();
    fs::write(at("audit.jsonl.1"), chain(10, 20)).unwrap();
    fs::write(at("audit.jsonl"), chain(20, 30)).unwrap();
    let (new, mid, old) = (at("audit.jsonl"), at("audit.jsonl.1"), at("audit.jsonl.2.gz"));
    assert_eq!(audit(&[&new, &mid, &old]).0, 0);
    // One part is gone: the first line of a part is no gap.
    let (code, report) = audit(&[&new, &old]);
    assert_eq!((code, &report["lines"]), (0, &json!(19)), "{report}");
    // But a fork across the parts is seen.
    fs::write(at("audit.jsonl"), line(9, "push", 19, 20, ("19", "x"))).unwrap();
    assert_eq!(kinds(&audit(&[&new, &mid]).1), [("fork".to_owned(), 1)]);
    // Two queues that call themselves the same are not mixed up.
    fs::create_dir(at("other")).unwrap();
    fs::write(at("other/audit.jsonl"), chain(1, 20)).unwrap();
    assert_eq!(audit(&[&mid, &at("other/audit.jsonl")]).0, 0);
}

#[test]
fn hostile_lines_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("audit.jsonl");
    let mut bytes = Vec::new();
    bytes.extend("[".repeat(100_000).bytes());
    bytes.push(b'\n');
    bytes.extend(b"\xff\xfe\n\x1b[31m\n");
    bytes.extend("x".repeat(3 << 20).bytes());
    bytes.extend(
        b"\n{\"schema\":1,\"pid\":1,\"file\":\"\\u001b[2J::error::x\",\"op\":\"push\",\"read\":1e999,\"wrote\":2}\n",
    );
    bytes.extend(
        br#"{"schema":1,"pid":1,"file":"\u001b[2J","op":"push","read":1,"wrote":2,"read_hash":"a","wrote_hash":"b"}"#,
    );
    bytes.extend(b"\n{\"schema\":1,\"pid\":1,\"file\":\"\\u001b[2J\",\"op\":\"push\",\"read\":1,\"wrote\":2}");
    fs::write(&file, bytes).unwrap();
    let (code, out, _) = noclobber(&["audit"], &[&file]);
    assert_eq!(code, 1);
    assert!(!out.contains('\u{1b}') && !out.lines().any(|l| l.starts_with("::")), "{out}");
    let (_, out, _) = noclobber(&["audit", "--format", "json"], &[&file]);
    assert!(!out.contains('\u{1b}'), "{out}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let malformed = (1..=5).map(|n| ("malformed".to_owned(), n));
    assert_eq!(kinds(&report), malformed.chain([("fork".to_owned(), 7)]).collect::<Vec<_>>());
}

#[test]
fn files_that_cannot_be_read_are_mistakes() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().join("none"), dir.path().to_owned()] {
        let (code, out, err) = noclobber(&["audit"], &[&path]);
        assert_eq!((code, &*out), (2, ""));
        assert!(err.contains("cannot be read"), "{err}");
    }
    let empty = dir.path().join("empty");
    fs::write(&empty, "").unwrap();
    let (code, report) = audit(&[&empty]);
    assert_eq!((code, &report["lines"], report["warnings"].as_array().unwrap().len()), (0, &json!(0), 1));
}

#[test]
fn a_report_that_is_not_written_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (file, page) = (folder.path().join("a.jsonl"), folder.path().join("page.html"));
    fs::write(&file, chain(0, 3)).unwrap();
    let (code, _, err) = noclobber(&["audit", "--html", page.to_str().unwrap()], &[&file]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("audit writes neither --junit nor --html") && !page.exists(), "{err}");
    let (_, _, err) = noclobber(&["audit"], &[&file]);
    assert_eq!(err, "");
}

#[cfg(unix)]
#[test]
fn a_growing_file_is_followed_through_its_rotation() {
    use std::io::{BufRead, BufReader};
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("audit.jsonl");
    fs::write(&file, chain(1, 3)).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_noclobber"))
        .args(["audit", "--follow"])
        .arg(&file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (send, lines) = std::sync::mpsc::channel();
    let out = child.stdout.take().unwrap();
    std::thread::spawn(move || BufReader::new(out).lines().for_each(|l| drop(send.send(l.unwrap()))));
    let next = || lines.recv_timeout(Duration::from_secs(30)).expect("a line within 30 s");

    let append = |text: &str| fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(text.as_bytes());
    let fork = line(8, "push", 2, 3, ("2", "x"));
    let (head, tail) = fork.split_at(40);
    append(head).unwrap();
    std::thread::sleep(Duration::from_millis(250));
    append(tail).unwrap();
    let said = next();
    assert!(said.starts_with("fork") && said.contains(":3 (process 8)"), "half a line is no fault: {said}");

    fs::rename(&file, dir.path().join("audit.jsonl.1")).unwrap();
    fs::write(&file, line(8, "push", 3, 4, ("x", "4")) + &line(8, "push", 3, 4, ("x", "y"))).unwrap();
    let said = next();
    assert!(said.starts_with("fork") && said.contains(":2 (process 8)"), "{said}");

    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    assert_eq!(next(), "2 faults: 5 lines about 1 file");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}
