//! Reports to show.
#![allow(dead_code, missing_docs, unreachable_pub)]

use std::path::PathBuf;

use noclobber::{
    oracle::{Film, Frame, Holding, Reel},
    report::{Anomaly, EndedBy, Explored, Report, StepLine, Verdict, as_expected},
    scenario::{Expect, Kind},
    world::{Warning, WarningKind},
};

pub fn explored() -> Explored {
    Explored {
        schedules: 1,
        classes: 1,
        redundant: 0,
        steps: 14,
        exhausted: false,
        ended_by: EndedBy::Found,
        search: "timeline".into(),
        seed: 0,
        seconds: 0.024,
        miss_bound: None,
        outcomes: 1,
        classes_hash: None,
    }
}

pub fn report(name: &str, verdict: Verdict, expected: Option<Expect>) -> Report {
    Report {
        scenario: name.into(),
        file: Some(PathBuf::from(format!("scenarios/{name}.toml"))),
        about: "Two workers share one queue file.".into(),
        workers: vec!["A".into(), "B".into()],
        verdict,
        as_expected: as_expected(expected.as_ref(), verdict),
        expected,
        reason: None,
        explored: explored(),
        coverage: "one schedule, this window only".into(),
        anomalies: Vec::new(),
        trace_hash: Some("5f".repeat(32)),
        replay: None,
        warnings: Vec::new(),
        decisions: Vec::new(),
        part: None,
    }
}

pub fn step(n: usize, actor: &str, op: &str, path: &str, result: &str, time_ms: u64, note: Option<&str>) -> StepLine {
    StepLine {
        n,
        actor: actor.into(),
        op: op.into(),
        path: path.into(),
        result: result.into(),
        time_ms,
        note: note.map(str::to_owned),
        chosen: true,
    }
}

pub fn anomaly(kind: Kind, summary: &str, steps: Vec<StepLine>) -> Anomaly {
    Anomaly {
        kind,
        summary: summary.into(),
        lost: Vec::new(),
        duplicated: Vec::new(),
        actors: vec!["A".into(), "B".into()],
        needs: Vec::new(),
        steps,
        pivot: None,
        evidence: Vec::new(),
        replay: None,
        run: None,
        film: None,
    }
}

/// What the queue file held in it.
pub fn film() -> Film {
    let frame = |step, by, text: &str| Frame { step, by, bytes: Some(text.as_bytes().into()), absent: false };
    Film {
        reels: vec![Reel {
            path: "queue.json".into(),
            first: Some(br#"{"version":1,"tasks":[{"id":"t1","state":"queued"}]}"#.as_slice().into()),
            frames: vec![
                frame(4, 0, ""),
                frame(5, 0, r#"{"version":2,"tasks":[{"id":"t1","state":"done"},{"id":"t2","state":"queued"}]}"#),
                frame(6, 1, ""),
                frame(7, 1, r#"{"version":2,"tasks":[{"id":"t1","state":"done"}]}"#),
            ],
        }],
        locks: vec![Holding { name: "b.lock".into(), by: 1, from: 7, to: Some(9), shared: false }],
        arrows: vec![(2, 5), (6, 7)],
    }
}

/// The three-second window.
pub fn incident(expected: Option<Expect>) -> Report {
    let q = "queue.json";
    let mut steps = vec![
        step(1, "B", "open", q, "ok", 0, None),
        step(2, "B", "read", q, "58 bytes", 0, Some("reads v1")),
        step(3, "A", "open", q, "ok", 1000, None),
        step(4, "A", "read", q, "58 bytes", 1000, Some("reads v1")),
        step(5, "A", "open", q, "truncated", 2000, None),
        step(6, "A", "write", q, "81 bytes", 2000, Some("writes v2")),
        step(7, "B", "open", q, "truncated", 3000, None),
        step(8, "B", "write", q, "57 bytes", 3000, Some("writes v2")),
        step(9, "B", "exit", "", "0", 3000, None),
    ];
    for quiet in [0, 2, 8] {
        steps[quiet].chosen = false;
    }
    let mut report = report("incident-naive", Verdict::Anomaly(Kind::LostUpdate), expected);
    report.replay = Some(".noclobber/incident-naive.replay.json".into());
    report.anomalies = vec![Anomaly {
        lost: vec!["t2".into()],
        duplicated: vec!["t1".into()],
        pivot: Some((4, 8)),
        evidence: vec![
            "A wrote bytes 34 to 62 of queue.json (version 2) at 2.000 s: {\"id\":\"t2\",\"state\":\"queued\"}; B's version 2 does not have them.".into(),
            "No lock was held at any of the four steps.".into(),
            "No process failed, and the file was valid JSON at every published version.".into(),
        ],
        replay: report.replay.clone(),
        film: Some(Box::new(film())),
        ..anomaly(Kind::LostUpdate, "B overwrote A's update of queue.json: t2 is in no later version", steps)
    }];
    report
}

pub fn clean() -> Report {
    let mut report = report("incident-flock", Verdict::Clean, Some(Expect::Clean));
    report.coverage = "all 14 classes".into();
    report.explored = Explored {
        schedules: 15,
        classes: 14,
        redundant: 1,
        steps: 320,
        exhausted: true,
        ended_by: EndedBy::Exhausted,
        search: "source-dpor".into(),
        seconds: 0.31,
        ..explored()
    };
    report
}

pub fn cannot_tell() -> Report {
    let mut report = report("two-caches", Verdict::CannotTell, Some(Expect::Clean));
    report.reason = Some("A and B share /var/lib/app/x.json, which is outside the world: name it with --watch".into());
    report.coverage = "control was lost after 3 schedules".into();
    report.explored.ended_by = EndedBy::LostControl;
    report.warnings = vec![
        Warning {
            kind: WarningKind::NotControlled,
            text: "A wrote /var/lib/app/x.json, which is not in the world".into(),
        },
        Warning {
            kind: WarningKind::Coverage,
            text: "A's sleep of 3 s was taken to outlast B: try --time adversarial".into(),
        },
        Warning { kind: WarningKind::Note, text: "left behind: queue.json.tmp".into() },
    ];
    report
}

pub fn deadlock() -> Report {
    let steps = vec![
        step(1, "A", "lock", "x.lock", "locked", 0, None),
        step(2, "B", "lock", "y.lock", "locked", 0, None),
        step(3, "B", "lock", "x.lock", "waits for A", 0, None),
        step(4, "A", "lock", "y.lock", "waits for B", 0, None),
    ];
    let mut report = report("two-locks", Verdict::Anomaly(Kind::Deadlock), None);
    report.file = None;
    report.coverage = "3 of at least 6 classes, until the first anomaly".into();
    let replay = Some(".noclobber/two locks.replay.json".to_owned());
    report.anomalies = vec![Anomaly {
        pivot: Some((1, 2)),
        replay: replay.clone(),
        needs: vec!["early-wake".into()],
        evidence: vec!["A holds x.lock and waits for y.lock; B holds y.lock and waits for x.lock.".into()],
        ..anomaly(Kind::Deadlock, "A and B wait for each other's lock, for ever", steps)
    }];
    report.replay = replay;
    report
}

/// Everything that comes from outside tries to break out.
pub fn hostile() -> Report {
    let evil = "\u{1b}[2J\u{1b}]0;owned\u{7}\r\n::error::forged\u{202e}txt\u{200b}<b>&\"']]>\u{0}\u{9b}31m%0A";
    let mut report = report(&format!("x{evil}"), Verdict::Anomaly(Kind::TornRead), Some(Expect::Clean));
    report.about = evil.into();
    report.file = Some(PathBuf::from(format!("a,b:c{evil}.toml")));
    report.workers = vec![format!("A{evil}"), "B".into()];
    report.coverage = evil.into();
    report.reason = Some(evil.into());
    report.replay = Some(format!("x;rm -rf $HOME {evil}"));
    report.warnings = vec![Warning { kind: WarningKind::NotControlled, text: evil.into() }];
    report.anomalies = vec![Anomaly {
        lost: vec![evil.into()],
        duplicated: vec![format!("::set-output {evil}")],
        actors: vec![format!("A{evil}")],
        needs: vec![evil.into()],
        evidence: vec![format!("::error::{evil}")],
        replay: report.replay.clone(),
        pivot: Some((1, 2)),
        ..anomaly(
            Kind::TornRead,
            evil,
            vec![
                step(1, &format!("A{evil}"), "write", evil, evil, 0, Some(evil)),
                step(2, "B", "read", &format!("very/{}/long.json", "deep/".repeat(30)), "12 bytes", 5, None),
                step(3, "somebody else", "open", "q.json", "ENOENT", 5, None),
            ],
        )
    }];
    report
}

/// More steps than anybody reads, and more actors than fit side by side.
pub fn long(actors: usize) -> Report {
    let names: Vec<String> = (0..actors).map(|i| format!("worker-{i}")).collect();
    let steps = (0..200)
        .map(|i| {
            let (op, result) = match i % 20 {
                7 => ("write", "12 bytes"),
                13 => ("lock", "EAGAIN"),
                _ => ("stat", "ok"),
            };
            step(i + 1, &names[i % actors], op, &format!("queues/queue_{}.json", i % 3), result, 0, None)
        })
        .collect();
    let mut report = report("long", Verdict::Anomaly(Kind::Unserializable), Some(Expect::Anomaly));
    report.workers = names;
    report.anomalies = vec![Anomaly {
        pivot: Some((101, 104)),
        actors: vec![],
        ..anomaly(Kind::Unserializable, "The outcome equals no serial order", steps)
    }];
    report
}
