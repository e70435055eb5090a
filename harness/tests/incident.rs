//! `noclobber incident`: from copies of a file to what happened.

mod schema_support;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use noclobber::schema::Schema;
use queue_core::{Claim, Naive, Queue, Settings, Task, Work, storage::Disk};
use serde_json::{Value, json};

const T1: &str = r#"{"id":"t1","params":{"to":"ann"}}"#;
const T2: &str = r#"{"id":"t2","params":{"to":"bob"}}"#;

struct Case {
    dir: tempfile::TempDir,
}

impl Case {
    fn new() -> Case {
        let case = Case { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(case.path("copies")).unwrap();
        case
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        fs::write(self.path(name), text).unwrap();
        self
    }

    fn run(&self, args: &str) -> (i32, String, String) {
        let out = Command::new(env!("CARGO_BIN_EXE_noclobber"))
            .arg("incident")
            .args(shell_words::split(args).unwrap())
            .current_dir(self.dir.path())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (out.status.code().unwrap(), text(&out.stdout), text(&out.stderr))
    }

    fn json(&self, args: &str) -> (i32, Value) {
        let (code, out, err) = self.run(&format!("{args} --format json"));
        assert_eq!((err.as_str(), out.lines().count()), ("", 1), "{out}");
        let report = serde_json::from_str(&out).unwrap();
        schema_support::assert_valid(Schema::Incident, &report);
        (code, report)
    }
}

fn document(version: Option<u64>, tasks: &[&str]) -> String {
    let version = version.map(|v| format!("\"version\":{v},")).unwrap_or_default();
    format!("{{{version}\"tasks\":[{}]}}", tasks.join(","))
}

/// The incident: B reads at T0, A writes at T0+2 s, B writes at T0+3 s. Copies are made before each write.
fn the_incident(versions: bool) -> Case {
    let v = |version| versions.then_some(version);
    let case = Case::new();
    case.write("copies/queue-20260131T120002Z.json", document(v(17), &[T1]))
        .write("copies/queue-20260131T120003Z.json", document(v(18), &[T2]))
        .write("queue.json", document(v(18), &[]));
    let written = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_769_860_803);
    fs::File::options().write(true).open(case.path("queue.json")).unwrap().set_modified(written).unwrap();
    case
}

fn ids(list: &Value) -> Vec<(&str, &str)> {
    let list = list.as_array().unwrap();
    list.iter().map(|item| (item["id"].as_str().unwrap(), item["certainty"].as_str().unwrap())).collect()
}

#[test]
fn with_versions_and_the_live_file_it_is_certain() {
    let case = the_incident(true);
    let (code, report) = case.json("copies --current queue.json");
    assert_eq!((code, &report["schema"]), (1, &json!(1)));
    assert_eq!(ids(&report["lost"]), [("t2", "certain")]);
    assert_eq!(ids(&report["duplicated"]), [("t1", "certain")]);
    let lost = &report["lost"][0];
    assert_eq!(lost["last_seen"], "queue-20260131T120003Z.json");
    assert_eq!(lost["gone_in"], "queue.json");
    assert_eq!((&lost["stale_base"], &lost["stale_version"]), (&json!("queue-20260131T120002Z.json"), &json!(17)));
    let [from, to] = [0, 1].map(|i| lost["bytes"][i].as_u64().unwrap() as usize);
    assert_eq!(&document(Some(18), &[T2])[from..to], T2);
    assert_eq!(lost["fragment"], T2);
    assert_eq!(report["duplicated"][0]["deliveries"].as_array().unwrap().len(), 2);
    let fork = &report["forks"][0];
    assert_eq!((&fork["read_version"], &fork["certainty"]), (&json!(17), &json!("certain")));
    assert_eq!(fork["writes"].as_array().unwrap().len(), 2);
    let moments: Vec<&Value> = report["timeline"].as_array().unwrap().iter().collect();
    assert_eq!(moments.len(), 3);
    assert_eq!((&moments[2]["stale"], &moments[2]["overwritten"]), (&json!(true), &json!(["t2"])));

    let (code, text, _) = case.run("copies --current queue.json");
    assert_eq!(code, 1);
    insta::assert_snapshot!("incident_certain", text);
}

#[test]
fn without_versions_it_is_possible_and_the_execution_log_settles_it() {
    let case = the_incident(false);
    let (code, report) = case.json("copies --current queue.json");
    assert_eq!(code, 3);
    assert_eq!(ids(&report["lost"]), [("t2", "possible")]);
    assert_eq!(ids(&report["duplicated"]), [("t1", "possible")]);
    for finding in [&report["lost"][0], &report["duplicated"][0]] {
        assert!(finding["settled_by"].as_str().unwrap().contains("execution log"), "{finding}");
    }
    assert!(report["lost"][0]["why"].as_str().unwrap().contains("completed"), "{report}");

    let line = |at: &str, pid: u64| format!("{{\"at\":\"2026-01-31T{at}Z\",\"id\":\"t1\",\"pid\":{pid}}}\n");
    case.write("done.log", line("12:00:01", 11) + &line("12:00:02", 12));
    let (code, report) = case.json("copies --current queue.json --log done.log");
    assert_eq!(code, 1);
    assert_eq!(ids(&report["lost"]), [("t2", "certain")]);
    assert_eq!(ids(&report["duplicated"]), [("t1", "certain")]);
    assert_eq!(report["duplicated"][0]["deliveries"][1]["pid"], 12);

    // Completed and taken out: nothing was lost.
    case.write("done.csv", "id,pid,at\nt1,11,2026-01-31 12:00:01\nt2,12,2026-01-31 12:00:02\n");
    let (code, report) = case.json("copies --current queue.json --log done.csv --log-format csv");
    assert_eq!((code, ids(&report["lost"]), ids(&report["duplicated"])), (0, vec![], vec![]), "{report}");
    case.write("done.txt", "12:00:01 [11] did t1\n12:00:02 [12] did t2\n");
    let (code, _) =
        case.json(r"copies --current queue.json --log done.txt --log-format 'regex:\[(?P<pid>\d+)\] did (?P<id>\S+)'");
    assert_eq!(code, 0);
}

/// Two copies of one moment, no live file: the item that one of them has may be waiting still, whatever a log says.
#[test]
fn what_may_still_wait_is_not_lost() {
    let case = Case::new();
    case.write("copies/q-20260131T120001Z.json", document(Some(2), &[T1, r#"{"id":"b"}"#]))
        .write("copies/q-20260131T120002Z.json", document(Some(2), &[T1, r#"{"id":"c"}"#]))
        .write("done.log", "{\"at\":\"2026-01-31T12:00:03Z\",\"id\":\"t1\",\"pid\":3}\n");
    let (_, report) = case.json("copies --copies after --log done.log");
    let lost = ids(&report["lost"]);
    assert!(!lost.is_empty() && lost.iter().all(|(_, certainty)| *certainty == "possible"), "{report}");
    assert!(!report["lost"].to_string().contains("the live file does not have it"), "{report}");
}

#[test]
fn what_is_missing_is_named() {
    let case = the_incident(true);
    fs::remove_file(case.path("queue.json")).unwrap();
    let (code, report) = case.json("copies");
    assert_eq!(code, 0, "{report}");
    assert!(report["warnings"][0].as_str().unwrap().contains("--current"), "{report}");
    // Generated, and in no copy.
    case.write("generated.jsonl", "{\"id\":\"t1\"}\n{\"id\":\"t2\"}\n{\"id\":\"t3\"}\n")
        .write("done.jsonl", "\"t1\"\n\"t2\"\n");
    case.write("queue.json", document(Some(19), &[]));
    let (code, report) = case.json("copies --current queue.json --generated generated.jsonl");
    assert_eq!((code, ids(&report["lost"])), (3, vec![("t3", "possible")]), "{report}");
    let (code, report) = case.json("copies --current queue.json --generated generated.jsonl --log done.jsonl");
    assert_eq!((code, ids(&report["lost"])), (1, vec![("t3", "certain")]), "{report}");
}

#[test]
fn healthy_copies_in_every_form() {
    let states =
        [document(Some(17), &[T1]), document(Some(18), &[T1, T2]), document(Some(19), &[T2]), document(Some(20), &[])];
    let names: [&dyn Fn(usize) -> String; 5] = [
        &|i| format!("queue.json.2026-01-31T12:00:0{i}Z"),
        &|i| format!("queue-20260131_12000{i}.json"),
        &|i| format!("176986080{i}.json"),
        &|i| format!("20260131T12000{i}.000001Z-v{}-4242-{i}.json", 17 + i),
        // Only the modification times tell.
        &|i| format!("copy{}.json", 9 - i),
    ];
    for name in names {
        let case = Case::new();
        for (i, state) in states.iter().enumerate() {
            let path = format!("copies/{}", name(i));
            case.write(&path, state);
            let modified = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_769_860_800 + i as u64);
            fs::File::options().write(true).open(case.path(&path)).unwrap().set_modified(modified).unwrap();
        }
        let (code, report) = case.json("copies --copies after");
        assert_eq!(
            (code, &report["lost"], &report["duplicated"], &report["forks"]),
            (0, &json!([]), &json!([]), &json!([])),
            "{report}"
        );
        let order: Vec<&Value> = report["timeline"].as_array().unwrap().iter().map(|m| &m["version"]).collect();
        assert_eq!(order, [&json!(17), &json!(18), &json!(19), &json!(20)], "{}", name(0));
    }
}

#[test]
fn packed_copies_and_a_history_in_git() {
    let case = the_incident(true);
    for name in ["queue-20260131T120002Z.json", "queue-20260131T120003Z.json"] {
        let path = case.path("copies").join(name);
        let text = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let file = fs::File::create(case.path("copies").join(format!("{name}.gz"))).unwrap();
        let mut gz = flate2::write::GzEncoder::new(file, Default::default());
        std::io::Write::write_all(&mut gz, &text).unwrap();
        gz.finish().unwrap();
    }
    let (code, report) = case.json("copies --current queue.json");
    assert_eq!((code, ids(&report["lost"])), (1, vec![("t2", "certain")]), "{report}");

    let repo = case.path("repo");
    fs::create_dir(&repo).unwrap();
    let git = |args: &str| {
        let out = Command::new("git").args(shell_words::split(args).unwrap()).current_dir(&repo).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    };
    git("init -q .");
    for (version, tasks) in [(17, &[T1][..]), (18, &[T2][..]), (18, &[][..])] {
        fs::write(repo.join("queue.json"), document(Some(version), tasks)).unwrap();
        git("add queue.json");
        git("-c user.name=x -c user.email=x@example.org commit -qm x");
    }
    let (code, report) = case.json("--git repo:queue.json --copies after");
    assert_eq!(
        (code, ids(&report["lost"]), ids(&report["duplicated"])),
        (1, vec![("t2", "certain")], vec![("t1", "certain")]),
        "{report}"
    );
    assert_eq!(case.run("--git repo:none.json").0, 2);
}

fn task(id: &str) -> Task {
    Task::new(id, "acme", &serde_json::value::to_raw_value(&json!({})).unwrap()).unwrap()
}

#[test]
fn what_the_queue_itself_leaves() {
    let case = Case::new();
    let path = case.path("queue.json");
    let open = || Queue::open(Disk, &path, Box::new(Naive), Settings::default());
    open().push(&task("t0")).unwrap();
    open().push(&task("t1")).unwrap();
    open().process(&Claim::by("w"), &mut |_| Ok(Work::Done(None))).unwrap();
    // While B works on t1, A takes it too, and pushes t2.
    open()
        .process(&Claim::by("B"), &mut |_| {
            open().process(&Claim::by("A"), &mut |_| Ok(Work::Done(Some(task("t2")))))?;
            Ok(Work::Done(None))
        })
        .unwrap();
    let audit = queue_core::audit::path_of(&path);
    let snapshots = queue_core::snapshot::directory_of(&path);
    let args = format!("{} --current queue.json", snapshots.display());
    let (code, report) = case.json(&format!("{args} --audit {}", audit.display()));
    assert_eq!(
        (code, ids(&report["lost"]), ids(&report["duplicated"])),
        (1, vec![("t2", "certain")], vec![("t1", "certain")]),
        "{report}"
    );
    assert_eq!(report["forks"][0]["writes"].as_array().unwrap().len(), 2, "{report}");
    let pid = json!(std::process::id());
    assert_eq!((&report["lost"][0]["written_by"], &report["lost"][0]["overwritten_by"]), (&pid, &pid));
    // The copies alone: A's version was never copied, since each worker copies what it has read.
    let (code, report) = case.json(&args);
    assert_ne!(code, 1, "{report}");
}

#[test]
fn masked_output_names_nothing() {
    let case = the_incident(true);
    case.write("done.log", "{\"id\":\"t1\"}\n{\"id\":\"t1\"}\n");
    for args in ["--format json", "", "-o out.toml"] {
        let (code, out, _) = case.run(&format!("copies --current queue.json --log done.log --mask {args}"));
        assert_eq!(code, 1);
        let scenario = fs::read_to_string(case.path("out.toml")).unwrap_or_default();
        for text in [&out, &scenario] {
            for secret in ["t1", "\"t2", "ann", "bob"] {
                assert!(!text.contains(secret), "{secret} in {text}");
            }
        }
        assert!(out.contains("id-1") && out.contains("id-2"), "{out}");
    }
}

#[test]
fn hostile_evidence_does_no_harm() {
    let case = the_incident(true);
    let id = "\\u001b[2J<script>alert(1)</script>\\u202e::error::";
    let evil = format!(r#"{{"id":"{id}","x":{}{},"n":1e999999}}"#, "[".repeat(50_000), "]".repeat(50_000));
    case.write("copies/queue-20260131T120001Z.json", document(Some(16), &[T1, &evil]))
        .write("copies/queue-20260131T120000Z.json", "[".repeat(1_000_000))
        .write("copies/\u{1b}[31mqueue-20260131T120000Z.json", "\u{1b}]0;x\u{7}")
        .write("copies/queue-20260131T115959Z.json", [0x1f, 0x8b, 8, 0, 0, 0])
        .write(
            "copies/queue-20260131T115958Z.json",
            document(Some(u64::MAX), &["{\"id\":99999999999999999999999999}"]),
        );
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("/etc/passwd", case.path("copies/queue-20260131T120009Z.json")).unwrap();
        std::os::unix::fs::symlink("/", case.path("copies/root")).unwrap();
        nix::unistd::mkfifo(&case.path("copies/queue-20260131T120008Z.json"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    }
    for args in ["", "-v", "--format json", "-o out.toml", "--html page.html"] {
        let (code, mut out, err) = case.run(&format!("copies --current queue.json {args}"));
        assert!([0, 1, 3].contains(&code), "{code} {err}");
        if args.starts_with("--html") {
            out = fs::read_to_string(case.path("page.html")).unwrap();
            // No script at all, and what looks like one is text.
            assert!(!out.contains("<script") && out.contains("default-src 'none'"), "{out}");
        }
        assert!(!out.contains('\u{1b}') && !out.contains('\u{202e}') && !out.contains("passwd"), "{out}");
        assert!(!out.lines().any(|l| l.trim_start().starts_with("::")), "{out}");
    }
    if let Ok(text) = fs::read_to_string(case.path("out.toml")) {
        noclobber::scenario::parse(&text, Path::new("out.toml")).unwrap();
    }
}

/// The page: the same findings, and lanes.
#[test]
fn the_page_shows_findings_and_lanes() {
    let case = the_incident(true);
    let (code, out, err) = case.run("copies --current queue.json --html page.html --format json");
    assert_eq!((code, out.lines().count(), err.as_str()), (1, 1, ""), "{out}");
    let page = fs::read_to_string(case.path("page.html")).unwrap();
    for part in [
        "<span class=\"badge bad\">certain</span>",
        "<h3>t2 is lost</h3>",
        "bytes 23..56 of queue-20260131T120003Z.json",
        "<code>{&quot;id&quot;:&quot;t2&quot;",
        "<h3>t1 was taken more than once</h3>",
        "<h3>2 writes from version 17</h3>",
        "<th>time</th><th>somebody</th>",
        "<tr class=\"pivot\">",
        "overwrites t2",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // Masked evidence stays masked, and a page that cannot be written is a mistake.
    let (_, _, _) = case.run("copies --current queue.json --mask --html masked.html");
    let masked = fs::read_to_string(case.path("masked.html")).unwrap();
    assert!(!masked.contains("ann") && !masked.contains("t2 is lost") && masked.contains("is lost"), "{masked}");
    assert_eq!(case.run("copies --current queue.json --html no/such/folder.html").0, 2);
}

/// Texts and plain settings are evidence too.
#[test]
fn lines_and_settings() {
    let case = Case::new();
    // Without the line that says what a write was made from, what vanished may have been taken out.
    for (i, text) in ["one\ntwo\n", "one\ntwo\nthree\n", "one\ntwo\nfour\n"].iter().enumerate() {
        case.write(&format!("copies/todo-202601311200{i}0.bak"), text);
    }
    let (code, report) = case.json("copies --copies after");
    assert_eq!((code, ids(&report["lost"])), (3, vec![("three", "possible")]), "{report}");
    assert!(report["stated"].to_string().contains("the lines of a text"), "{report}");
    let case = Case::new();
    for (i, text) in [r#"{"n":1}"#, r#"{"n":2,"a":"x"}"#, r#"{"n":2,"b":"y"}"#].iter().enumerate() {
        case.write(&format!("copies/conf-202601311200{i}0.json"), text);
    }
    let (code, report) = case.json("copies --copies after");
    assert_eq!((code, ids(&report["lost"])), (3, vec![("a", "possible")]), "{report}");
    // Half a JSON document is no text.
    let case = Case::new();
    case.write("copies/q-20260131120000.json", "{\"tasks\":[\n{\"id\":1},\n");
    assert_eq!(case.run("copies").0, 2);
}

#[test]
fn mistakes_are_explained() {
    let case = the_incident(true);
    fs::create_dir(case.path("empty")).unwrap();
    case.write("bad.json", "{");
    let cases = [
        ("", "name their folder"),
        ("nowhere", "cannot be read"),
        ("empty", "holds no copies"),
        ("copies --current nowhere.json", "cannot be read"),
        ("copies --pointer tasks", "no JSON pointer"),
        ("copies --pointer /jobs", "--pointer"),
        ("copies --id key", "--id"),
        ("copies --tz Mars", "no time zone"),
        ("copies --log queue.json --log-format xml", "jsonl, csv or regex:RE"),
        ("copies --log queue.json --log-format regex:x", "(?P<id>"),
        ("copies --git x", "REPO:PATH"),
        ("copies --audit nowhere", "cannot be read"),
    ];
    for (args, expected) in cases {
        let (code, out, err) = case.run(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args}: {err}");
        assert!(err.contains(expected), "{args}: {err}");
    }
}

/// Runs the scenario that an incident was written to, and gives what it loses and duplicates.
#[cfg(target_os = "linux")]
fn run_scenario(case: &Case) -> (i32, Vec<String>, Vec<String>, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_noclobber"))
        .args(["run", "out.toml", "--format", "json"])
        .current_dir(case.dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let report: Value =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}{}", String::from_utf8_lossy(&out.stderr)));
    let list = |key: &str| -> Vec<String> {
        let ids = report["anomalies"][0][key].as_array().unwrap_or_else(|| panic!("{report}"));
        ids.iter().map(|id| id.as_str().unwrap().to_owned()).collect()
    };
    let hash = report["trace_hash"].as_str().expect("a hash").to_owned();
    (out.status.code().unwrap(), list("lost"), list("duplicated"), hash)
}

#[cfg(target_os = "linux")]
#[test]
fn the_scenario_loses_and_duplicates_the_same() {
    for versions in [true, false] {
        let case = the_incident(versions);
        let (_, report) = case.json("copies --current queue.json -o out.toml");
        assert_eq!(report["scenario"], "out.toml", "{report}");
        // The same trace each time: as often as one likes.
        let mut hashes = std::collections::BTreeSet::new();
        for _ in 0..3 {
            let (code, lost, duplicated, hash) = run_scenario(&case);
            let expected = (0, vec!["t2".to_owned()], vec!["t1".to_owned()]);
            assert_eq!((code, lost, duplicated), expected, "versions: {versions}");
            hashes.insert(hash);
        }
        assert_eq!(hashes.len(), 1, "{hashes:?}");
    }
}
