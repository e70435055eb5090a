//! What scenario files mean: table-driven over whole files.

use std::{path::Path, time::Duration};

use noclobber::{
    scenario::{
        Command, Conserve, Ends, Expect, FaultKind, IgnorePointer, Kind, Limits, Nth, Pattern, Scenario, SearchKind,
        Serial, format_duration, parse, parse_duration,
    },
    world::{Op, TimeModel},
};

fn scenario(text: &str) -> Scenario {
    parse(text, Path::new("/repo/scenarios/queue.toml")).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// A file with one worker and an expectation, and these lines at its top.
fn with(top: &str, tables: &str) -> Scenario {
    scenario(&format!("expect = \"clean\"\n{top}\n[[worker]]\nname = \"A\"\nrun = \"true\"\n{tables}"))
}

#[test]
fn the_smallest_file() {
    let s = with("", "");
    assert_eq!(s.name, "queue", "the file's name, when it has none");
    assert_eq!(s.scenario_dir, Path::new("/repo/scenarios"));
    assert_eq!(s.file.as_deref(), Some(Path::new("/repo/scenarios/queue.toml")));
    assert_eq!(s.workers.len(), 1);
    assert_eq!(s.workers[0].exit, [0]);
    assert_eq!(s.workers[0].ends, Ends::Exit);
    assert_eq!(s.search.max_schedules, 1000);
    assert_eq!(s.search.time, TimeModel::Fair);
    assert_eq!(s.oracle.serial, Serial::Operations);
    assert_eq!(s.limits, Limits::default());
    assert!(s.dir.is_none() && s.files.is_empty() && s.faults.is_empty() && s.delays.is_empty());
}

#[test]
fn every_key() {
    let s = scenario(include_str!("data/every-key.toml"));
    assert_eq!((s.name.as_str(), s.about.as_str()), ("everything", "Every key of the contract."));
    assert_eq!(s.expect, Some(Expect::Kinds(vec![Kind::LostUpdate, Kind::TornRead])));
    assert_eq!(s.dir.as_deref(), Some(Path::new("/repo/scenarios/world")));
    assert_eq!(s.files["queues/a.json"], "[]");
    assert_eq!(s.setup.as_deref(), Some("mkdir -p q"));
    assert_eq!(s.check.as_deref(), Some("test -e q"));
    assert_eq!(s.watch, [Path::new("/var/lib/x.json")]);
    assert_eq!(s.env["LC_ALL"], "C");
    assert!(s.home_in_world);

    let names: Vec<_> = s.workers.iter().map(|w| (w.name.as_str(), w.group.as_str(), w.after.as_slice())).collect();
    assert_eq!(names, [("W.1", "W", &[][..]), ("W.2", "W", &[]), ("R", "R", &[0, 1]), ("last", "last", &[1, 2])]);
    assert_eq!(
        s.workers[0].run,
        Command::Args(vec!["python3".into(), "/repo/scenarios/w.py".into(), "a b".into()]),
        "$SCENARIO_DIR at the start of an argument is the file's folder"
    );
    assert_eq!(s.workers[2].run, Command::Shell("cat $SCENARIO_DIR/x".into()), "a shell string is left to the shell");
    assert_eq!((s.workers[2].ends, s.workers[2].exit.as_slice()), (Ends::Idle, &[0, 3][..]));
    assert_eq!(s.workers[3].env["X"], "1");

    assert_eq!(s.delays.len(), 2);
    assert_eq!((s.delays[0].workers.as_slice(), s.delays[0].after, s.delays[0].nth), (&[0, 1][..], true, 2));
    assert_eq!(s.delays[0].at.op, Some(Op::Read));
    assert_eq!(s.delays[0].duration, Duration::from_secs(3));
    assert_eq!((s.delays[1].workers.as_slice(), s.delays[1].after, s.delays[1].nth), (&[1][..], false, 1));

    let faults: Vec<_> = s.faults.iter().map(|f| (f.parsed_kind().unwrap(), f.nth, f.at.is_some())).collect();
    assert_eq!(
        faults,
        [
            (FaultKind::Kill, Nth::Each, false),
            (FaultKind::Errno("ENOSPC", 28), Nth::All, true),
            (FaultKind::Pause(Duration::from_secs(30)), Nth::Number(3), true),
        ]
    );

    assert_eq!(s.search.search, SearchKind::Pct(4));
    assert_eq!((s.search.seed, s.search.max_schedules, s.search.exhaustive), (u64::MAX, 77, true));
    assert_eq!((s.search.time_limit, s.search.time), (Some(Duration::from_secs(90)), TimeModel::Adversarial));
    assert_eq!((s.search.disk, s.search.max_faults), (noclobber::world::DiskModel::Ext4Ordered, 2));
    let says: Vec<Option<&str>> = s.workers.iter().map(|w| w.acknowledges.as_deref()).collect();
    assert_eq!(says.iter().filter(|says| **says == Some("done *")).count(), 1);

    let o = &s.oracle;
    assert_eq!((o.serial, o.stdout, o.shares_nothing), (Serial::Workers, Some(false), true));
    assert_eq!(o.state.as_deref(), Some("sort c.ini"));
    assert_eq!((o.multiset.as_slice(), o.ignore.as_slice()), (&["log".to_owned()][..], &["*.tmp".to_owned()][..]));
    assert_eq!(
        o.ignore_pointer,
        [
            IgnorePointer { file: None, pointer: "/at".into() },
            IgnorePointer { file: Some("q/*.json".into()), pointer: "/tasks/0".into() },
        ]
    );
    let conserve = Conserve {
        file: "queue.json".into(),
        pointer: "/tasks".into(),
        id: "id".into(),
        done: "done.log".into(),
        at_least_once: true,
    };
    assert_eq!(o.conserve, Some(conserve));
    assert_eq!(o.allow, [Kind::WorkerFailed]);
    assert_eq!(s.limits, Limits { steps: 5, cpu_seconds: 6, output_bytes: 7 });
}

/// Scenario files as programs' reports wrote them.
#[test]
fn files_from_the_field() {
    let cases = [
        ("errno", include_str!("data/disk-full-truncates.toml"), Expect::Anomaly, 1),
        ("after", include_str!("data/orphaned-claim.toml"), Expect::Clean, 2),
        ("three workers", include_str!("data/fixed-temp-name.toml"), Expect::Anomaly, 3),
        ("escapes", include_str!("data/augtool-set.toml"), Expect::Kinds(vec![Kind::LostUpdate, Kind::BrokenLock]), 2),
        ("newlines", include_str!("data/py-jsonlines-big.toml"), Expect::Kinds(vec![Kind::TornRead]), 2),
        ("clean", include_str!("data/sh-flock-jq.toml"), Expect::Clean, 2),
    ];
    for (what, text, expect, workers) in cases {
        let s = scenario(text);
        assert_eq!(s.expect, Some(expect), "{what}");
        assert_eq!(s.workers.len(), workers, "{what}");
        assert!(s.is_judged(), "{what}");
    }
}

#[test]
fn expectations() {
    let cases = [
        ("\"clean\"", Expect::Clean),
        ("\"anomaly\"", Expect::Anomaly),
        ("\"deadlock\"", Expect::Kinds(vec![Kind::Deadlock])),
        ("[\"deadlock\", \"livelock\"]", Expect::Kinds(vec![Kind::Deadlock, Kind::Livelock])),
    ];
    for (text, expected) in cases {
        let s = scenario(&format!("expect = {text}\n[[worker]]\nname = \"A\"\nrun = \"true\""));
        assert_eq!(s.expect, Some(expected), "{text}");
    }
    for kind in Kind::ALL {
        assert_eq!(kind.name().parse::<Kind>().as_ref(), Ok(&kind));
    }
    assert!(Kind::ALL.is_sorted(), "the order is the order of severity");
}

#[test]
fn searches() {
    let cases = [
        ("auto", SearchKind::Auto),
        ("exhaustive", SearchKind::Exhaustive),
        ("portfolio", SearchKind::Portfolio),
        ("random", SearchKind::Random),
        ("pos", SearchKind::Pos),
        ("pct:3", SearchKind::Pct(3)),
        ("timeline", SearchKind::Timeline),
    ];
    for (text, kind) in cases {
        let s = with("", &format!("[search]\nsearch = \"{text}\""));
        assert_eq!(s.search.search, kind, "{text}");
        assert_eq!(kind.to_string(), text);
    }
    for wrong in ["pct", "pct:", "pct:0", "pct:-1", "pct:+3", "pct:100", "dfs", ""] {
        assert!(wrong.parse::<SearchKind>().is_err(), "{wrong}");
    }
}

#[test]
fn names_mean_copies() {
    let text = r#"
        expect = "clean"
        [[worker]]
        name = "A"
        run = "true"
        count = 1
        [[worker]]
        name = "B"
        run = "true"
        after = "A"
        [[fault]]
        kind = "kill"
    "#;
    let s = scenario(text);
    assert_eq!(s.workers[0].name, "A.1", "one copy is a copy");
    assert_eq!(s.workers[1].after, [0]);
    assert_eq!(s.faults[0].workers, [0, 1], "a fault without a worker hits each in turn");
}

/// Pattern, op, path, second path, whether it matches.
type Match = (&'static str, Op, Option<&'static str>, Option<&'static str>, bool);

#[test]
fn patterns() {
    let cases: &[Match] = &[
        ("read queue.json", Op::Read, Some("queue.json"), None, true),
        ("read queue.json", Op::Write, Some("queue.json"), None, false),
        ("read queue.json", Op::Read, Some("old/queue.json"), None, false),
        ("read", Op::Read, Some("anything"), None, true),
        ("read", Op::Read, None, None, true),
        ("* queue.json", Op::Rename, Some("tmp"), Some("queue.json"), true),
        ("*", Op::Exit, None, None, true),
        ("* *", Op::Exit, None, None, false),
        ("write *.json", Op::Write, Some("queues/a.json"), None, true),
        ("write queues/*.json", Op::Write, Some("queues/a.json"), None, true),
        ("write queues/*.json", Op::Write, Some("a.json"), None, false),
        ("write ./a.json", Op::Write, Some("a.json"), None, true),
        ("write {a,b}.json", Op::Write, Some("b.json"), None, true),
        ("flock x.lock", Op::Lock, Some("x.lock"), None, true),
        ("lock /tmp/x.lock", Op::Lock, Some("/tmp/x.lock"), None, true),
        ("  write   with space.txt ", Op::Write, Some("with space.txt"), None, true),
        ("read [ab].txt", Op::Read, Some("c.txt"), None, false),
    ];
    for (text, op, path, path2, expected) in cases {
        let matcher = Pattern::parse(text).unwrap_or_else(|e| panic!("{text}: {e}")).matcher().unwrap();
        assert_eq!(matcher.matches_parts(*op, *path, *path2), *expected, "{text} against {op} {path:?} {path2:?}");
    }
    for op in Op::ALL {
        assert_eq!(Pattern::parse(op.name()).unwrap().op, Some(op));
    }
    let wrong = [
        ("", "an empty pattern"),
        ("raed queue.json", "unknown operation `raed`; the nearest known is `read`"),
        ("read [a", "is no glob"),
        ("read {a", "is no glob"),
    ];
    for (text, message) in wrong {
        let error = Pattern::parse(text).unwrap_err().to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[test]
fn durations() {
    let cases = [
        ("0", 0),
        ("0s", 0),
        ("3s", 3_000_000),
        ("500ms", 500_000),
        ("250us", 250),
        ("250µs", 250),
        ("1m", 60_000_000),
        ("2min", 120_000_000),
        ("1m30s", 90_000_000),
        ("1h 5m", 3_900_000_000),
        ("1.5s", 1_500_000),
        ("0.000001s", 1),
        ("1.50s", 1_500_000),
        ("0.5h", 1_800_000_000),
    ];
    for (text, micros) in cases {
        let duration = parse_duration(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(duration, Duration::from_micros(micros), "{text}");
        assert_eq!(parse_duration(&format_duration(duration)), Ok(duration), "{text} there and back");
    }
    let wrong = [
        ("3", "has no unit: write `3s` or `3ms`"),
        ("", "no duration"),
        ("s", "no duration"),
        ("-3s", "no duration"),
        ("3 s", "no unit"),
        ("3d", "no duration"),
        ("1.2.3s", "no duration"),
        ("1.s", "no duration"),
        (".5s", "no duration"),
        ("3s4", "no unit"),
        ("0.0000001s", "finer than a microsecond"),
        ("0.1us", "finer than a microsecond"),
        ("99999999999999h", "longer than"),
        ("99999999999999999999999s", "longer than"),
    ];
    for (text, message) in wrong {
        let Err(error) = parse_duration(text) else { panic!("{text} was taken for a duration") };
        let fits = error.to_string().contains(message);
        assert!(fits || (message == "no unit" && error.to_string().contains("no duration")), "{text}: {error}");
    }
}

#[test]
fn pointers() {
    let pointer = |file: Option<&str>, pointer: &str| {
        Some(IgnorePointer { file: file.map(str::to_owned), pointer: pointer.to_owned() })
    };
    let cases = [
        ("/at", pointer(None, "/at")),
        ("/a/0/b~1c~0d", pointer(None, "/a/0/b~1c~0d")),
        ("q.json#/at", pointer(Some("q.json"), "/at")),
        ("q/*.json#/tasks/0", pointer(Some("q/*.json"), "/tasks/0")),
        ("/var/x.json#/at", pointer(Some("/var/x.json"), "/at")),
        ("/a#b", pointer(None, "/a#b")),
        ("q.json#", pointer(Some("q.json"), "")),
        ("*#/at", pointer(None, "/at")),
        ("#/at", pointer(None, "/at")),
        ("", None),
        ("#", None),
        ("*#", None),
        ("at", None),
        ("/a~b", None),
        ("/a~", None),
        ("q[#/at", None),
    ];
    for (text, expected) in cases {
        assert_eq!(IgnorePointer::parse(text).ok(), expected, "{text}");
    }
}

#[test]
fn kinds_of_faults() {
    let cases = ["kill", "kill-one", "errno:EIO", "short-write:7", "short-read:1", "split", "pause:30s", "power-cut"];
    for text in cases {
        assert_eq!(text.parse::<FaultKind>().map(|k| k.to_string()).as_deref(), Ok(text));
    }
    let wrong = [
        "",
        "kil",
        "kill:1",
        "errno",
        "errno:ENOSPACE",
        "errno:28",
        "short-write:0",
        "short-write:x",
        "pause:3",
        "split:2",
    ];
    for text in wrong {
        assert!(text.parse::<FaultKind>().is_err(), "{text}");
    }
}
