//! The serial judge on whole workers: every rule with a run that is right and one that must not be.

mod oracle_support;

use noclobber::{
    oracle::{Accusation, Judge, Judgement},
    scenario::{Conserve, IgnorePointer, OracleConfig, Scenario, Serial},
    world::{ActorId, Ended},
};
use oracle_support::*;

fn judge(scenario: &Scenario, programs: &mut Programs, schedule: &str) -> Judgement {
    let mut judge = Judge::new(scenario, programs.initial.clone()).unwrap();
    let run = programs.run(schedule);
    judge.judge(&run, programs).unwrap()
}

fn right(judgement: &Judgement) -> bool {
    matches!(judgement, Judgement::Right { .. })
}

fn wrong(judgement: &Judgement) -> &Accusation {
    match judgement {
        Judgement::Wrong(wrong) => &wrong.accusations[0],
        other => panic!("not wrong: {other:?}"),
    }
}

fn unknown(judgement: &Judgement) -> &str {
    match judgement {
        Judgement::Unknown(reason) => reason,
        other => panic!("not unknown: {other:?}"),
    }
}

fn warnings(judgement: &Judgement) -> Vec<String> {
    match judgement {
        Judgement::Right { warnings } => warnings.iter().map(|warning| warning.text.clone()).collect(),
        other => panic!("not right: {other:?}"),
    }
}

/// Adds its own number to a list in a JSON file, by reading and rewriting it.
fn adds(path: &'static str) -> Vec<Act> {
    acts([read(path), rewrite(path, compute(move |mind| add(&mind.read[path], mind.me)))])
}

fn add(list: &str, me: usize) -> String {
    let list = list.trim_matches(['[', ']']);
    if list.is_empty() { format!("[{me}]") } else { format!("[{list},{me}]") }
}

#[test]
fn an_outcome_of_some_serial_order_is_right_and_any_other_is_wrong() {
    let mut programs = programs(&[("q", "[]")], [adds("q"), adds("q")]);
    for (schedule, expected) in [("", true), ("AAAAAABBBBBB", true), ("BBBBBBAAAAAA", true), ("AAABBBAAABBB", false)] {
        let judgement = judge(&scenario(2), &mut programs, schedule);
        assert_eq!(right(&judgement), expected, "{schedule}: {judgement:?}");
    }
}

#[test]
fn the_order_of_the_conflict_graph_is_run_first() {
    let mut programs = programs(&[("q", "[]")], [adds("q"), adds("q"), adds("q")]);
    assert!(right(&judge(&scenario(3), &mut programs, "CCCCCCAAAAAABBBBBB")));
    assert_eq!(programs.runs, [(vec![2, 0, 1], 0)]);
}

#[test]
fn orders_respect_after() {
    let mut programs = programs(&[("q", "[]")], [adds("q"), adds("q")]);
    let mut scenario = scenario(2);
    scenario.oracle.serial = Serial::Workers;
    scenario.workers[0].after = vec![1];
    assert!(right(&judge(&scenario, &mut programs, "BBBBBB")));
    // The other order is no legal one, so its outcome is wrong.
    assert!(matches!(wrong(&judge(&scenario, &mut programs, "AAAAAA")), Accusation::Serial { .. }));
}

#[test]
fn distinct_outcomes_and_orders_are_run_once() {
    let mut programs = programs(&[("q", "[]")], [adds("q"), adds("q")]);
    let scenario = scenario(2);
    let mut judge = Judge::new(&scenario, programs.initial.clone()).unwrap();
    for _ in 0..3 {
        for schedule in ["", "BBBBBB", "AAABBB"] {
            let run = programs.run(schedule);
            judge.judge(&run, &mut programs).unwrap();
        }
    }
    let ordinary = programs.runs.iter().filter(|(_, variant)| *variant == 0).count();
    assert_eq!(ordinary, 2, "{:?}", programs.runs);
}

#[test]
fn exit_codes_and_stdout_are_compared() {
    let claim = |path: &'static str| {
        acts([
            read(path),
            vec![Act::Print(compute(move |mind| mind.read[path].clone())), Act::Unlink(path.into())],
            vec![Act::Exit(std::sync::Arc::new(|mind| i32::from(mind.failed)))],
        ])
    };
    let mut scenario = scenario(2);
    let mut programs = programs(&[("job", "one")], [claim("job"), vec![]]);
    programs.workers[1] = vec![Act::Stat("job".into()), Act::Print(compute(|m| format!("{}", m.failed)))];
    assert!(right(&judge(&scenario, &mut programs, "B")));
    // Stdout that no order gives.
    let mut odd = programs.run("");
    odd.outcome.as_mut().unwrap().actors[1].stdout = b"perhaps".to_vec();
    // Without a cycle in the conflict graph the trace itself is a proof; whole workers demand the outcome.
    scenario.oracle.serial = Serial::Workers;
    let mut judge = Judge::new(&scenario, programs.initial.clone()).unwrap();
    let judgement = judge.judge(&odd, &mut programs).unwrap();
    let Accusation::Serial { differences, .. } = wrong(&judgement) else { panic!() };
    assert!(differences[0].contains("output of B"), "{differences:?}");
    scenario.oracle.stdout = Some(false);
    let mut judge = Judge::new(&scenario, programs.initial.clone()).unwrap();
    assert!(right(&judge.judge(&odd, &mut programs).unwrap()));
}

#[test]
fn comparison_rules() {
    let list = |sorted: &'static str| rewrite("q.json", text(sorted));
    // Each row: configuration, what a serial order leaves, what the run left, whether that is right.
    let config = |change: fn(&mut OracleConfig)| {
        let mut scenario = scenario(1);
        scenario.oracle.serial = Serial::Workers;
        change(&mut scenario.oracle);
        scenario
    };
    type Row = (fn(&mut OracleConfig), &'static str, &'static str, bool);
    let pointer = |oracle: &mut OracleConfig| {
        oracle.ignore_pointer = vec![IgnorePointer { file: Some("*.json".into()), pointer: "/tasks/*/at".into() }];
    };
    let rows: [Row; 17] = [
        (|_| (), r#"{"a":1,"b":[1,2]}"#, "{\"b\": [1, 2],\n \"a\": 1.0}", true),
        (|_| (), r#"{"a":1}"#, r#"{"a":2}"#, false),
        (|_| (), r#"{"a":12345678901234567890123}"#, r#"{"a":12345678901234567890124}"#, false),
        (|_| (), r#"{"a":100}"#, r#"{"a":1e2}"#, true),
        (|_| (), r#"[1,2]"#, r#"[2,1]"#, false),
        (|o| o.multiset = vec!["q.json".into()], r#"[1,2,2]"#, r#"[2,1,2]"#, true),
        (|o| o.multiset = vec!["q.json".into()], r#"[1,2,2]"#, r#"[2,1,1]"#, false),
        (
            |o| o.multiset = vec!["q.json#/tasks".into()],
            r#"{"tasks":[1,2],"l":[1,2]}"#,
            r#"{"tasks":[2,1],"l":[1,2]}"#,
            true,
        ),
        (
            |o| o.multiset = vec!["q.json#/tasks".into()],
            r#"{"tasks":[1,2],"l":[1,2]}"#,
            r#"{"tasks":[2,1],"l":[2,1]}"#,
            false,
        ),
        (|o| o.multiset = vec!["*".into()], "x\ny\n", "y\nx\n", true),
        (|o| o.multiset = vec!["*".into()], "x\ny\n", "y\ny\n", false),
        (|_| (), "x\ny\n", "y\nx\n", false),
        (|o| o.ignore = vec!["*.json".into()], "x", "y", true),
        (|o| o.ignore = vec!["other".into()], "x", "y", false),
        (pointer, r#"{"tasks":[{"id":1,"at":5}]}"#, r#"{"tasks":[{"id":1,"at":6}]}"#, true),
        (pointer, r#"{"tasks":[{"id":1,"at":5}]}"#, r#"{"tasks":[{"id":1}]}"#, true),
        (pointer, r#"{"tasks":[{"id":1,"at":5}]}"#, r#"{"tasks":[{"id":2,"at":5}]}"#, false),
    ];
    for (change, expected, left, is_right) in rows {
        let scenario = config(change);
        let mut programs = programs(&[("q.json", "")], [list(expected)]);
        let mut run = programs.run("");
        run.outcome.as_mut().unwrap().files.insert("q.json".into(), file(left));
        let mut judge = Judge::new(&scenario, programs.initial.clone()).unwrap();
        let judgement = judge.judge(&run, &mut programs).unwrap();
        assert_eq!(right(&judgement), is_right, "{expected} and {left}: {judgement:?}");
    }
}

#[test]
fn names_types_and_permissions_are_compared() {
    use noclobber::world::Node;
    let mut scenario = scenario(1);
    scenario.oracle.serial = Serial::Workers;
    let mut programs = programs(&[("f", "x")], [read("f")]);
    let rows: [(&str, Option<Node>, bool); 7] = [
        ("f", Some(file("x")), true),
        ("f", None, false),
        ("g", Some(file("")), false),
        ("f", Some(Node::File { mode: 0o600, bytes: (*b"x").into() }), false),
        ("f", Some(Node::Symlink { target: "x".into() }), false),
        ("__pycache__/m.pyc", Some(file("compiled")), true),
        ("sub/__pycache__", Some(Node::Dir { mode: 0o755 }), true),
    ];
    for (path, node, is_right) in rows {
        let mut run = programs.run("");
        let files = &mut run.outcome.as_mut().unwrap().files;
        match node {
            Some(node) => drop(files.insert(path.into(), node)),
            None => drop(files.remove(path)),
        }
        let mut judge = Judge::new(&scenario, programs.initial.clone()).unwrap();
        assert_eq!(right(&judge.judge(&run, &mut programs).unwrap()), is_right, "{path}");
    }
}

#[test]
fn the_state_is_compared_instead_of_the_files() {
    let mut scenario = scenario(1);
    scenario.oracle.serial = Serial::Workers;
    struct WithState(Programs);
    impl noclobber::oracle::SerialRunner for WithState {
        fn run_serial(
            &mut self,
            order: &[ActorId],
            variant: noclobber::world::Variant,
        ) -> Result<noclobber::world::Run, noclobber::oracle::RunError> {
            let mut run = self.0.run_serial(order, variant)?;
            run.outcome.as_mut().unwrap().state = Some((Some(0), b"{\"n\": 1}".to_vec()));
            Ok(run)
        }
    }
    let programs = programs(&[("f", "x")], [read("f")]);
    for (state, is_right) in [("{\"n\":1}", true), ("{\"n\":2}", false)] {
        let mut run = programs.run("");
        let outcome = run.outcome.as_mut().unwrap();
        outcome.files.insert("whatever".into(), file("noise"));
        outcome.state = Some((Some(0), state.as_bytes().to_vec()));
        let mut judge = Judge::new(&scenario, programs.initial.clone()).unwrap();
        let judgement = judge.judge(&run, &mut WithState(programs.clone())).unwrap();
        assert_eq!(right(&judgement), is_right, "{state}");
    }
}

/// Takes a lock file or gives up with exit 1; writes under it.
fn or_gives_up(code: i32) -> Vec<Act> {
    let gave_up = std::sync::Arc::new(|mind: &Mind| mind.failed);
    acts([
        vec![Act::Exclusive("lock".into()), Act::Exit(std::sync::Arc::new(move |m| if m.failed { code } else { 0 }))],
        vec![Act::SkipIf(8, gave_up)],
        adds("q"),
        vec![Act::Unlink("lock".into()), Act::Close("lock".into())],
    ])
}

#[test]
fn a_worker_that_gives_up_is_worker_failed_unless_its_exit_allows_it() {
    let mut programs = programs(&[("q", "[]")], [or_gives_up(1), or_gives_up(1)]);
    let scenario = scenario(2);
    let judgement = judge(&scenario, &mut programs, "AAAB");
    let Accusation::WorkerFailed { workers, .. } = wrong(&judgement) else { panic!("{judgement:?}") };
    assert_eq!(workers, &[ActorId(1)]);
    // With exit 0 the worker did not do its work and did not say so.
    let mut silent = programs.clone();
    silent.workers = vec![or_gives_up(0), or_gives_up(0)];
    assert!(matches!(wrong(&judge(&scenario, &mut silent, "AAAB")), Accusation::Serial { .. }));
    // An allowed exit code is compared like any other: no serial order has it.
    let mut allowed = scenario.clone();
    allowed.workers.iter_mut().for_each(|worker| worker.exit = vec![0, 1]);
    assert!(matches!(wrong(&judge(&allowed, &mut programs, "AAAB")), Accusation::Serial { .. }));
}

#[test]
fn when_everybody_gives_up_the_initial_world_is_the_reference() {
    let gives_up = || vec![Act::Open("busy".into()), Act::Exit(std::sync::Arc::new(|mind| i32::from(!mind.failed)))];
    let mut programs = programs(&[("q", "[]")], [gives_up(), gives_up()]);
    let mut scenario = scenario(2);
    scenario.oracle.serial = Serial::Workers;
    let mut run = programs.run("");
    run.outcome.as_mut().unwrap().actors.iter_mut().for_each(|end| end.exit = Some(1));
    let mut judge = Judge::new(&scenario, programs.initial.clone()).unwrap();
    let judgement = judge.judge(&run, &mut programs).unwrap();
    let Accusation::WorkerFailed { workers, .. } = wrong(&judgement) else { panic!("{judgement:?}") };
    assert_eq!(workers.len(), 2);
}

#[test]
fn a_killed_worker_counts_as_run_or_not_run() {
    let mut programs = programs(&[("q", "[]")], [adds("q"), adds("q")]);
    let mut scenario = scenario(2);
    scenario.oracle.serial = Serial::Workers;
    for (left, is_right) in [("[1]", true), ("[0,1]", true), ("[1,0]", true), ("[0]", false), ("[]", false)] {
        let mut run = programs.run("");
        let outcome = run.outcome.as_mut().unwrap();
        outcome.files.insert("q".into(), file(left));
        (outcome.actors[0].exit, outcome.actors[0].signal) = (None, Some(9));
        outcome.actors[0].ended_by = Some("kill".into());
        let mut judge = Judge::new(&scenario, programs.initial.clone()).unwrap();
        assert_eq!(right(&judge.judge(&run, &mut programs).unwrap()), is_right, "{left}");
    }
}

#[test]
fn an_idle_workers_exit_is_not_compared() {
    let mut programs = programs(&[("q", "[]")], [adds("q"), read("q")]);
    let mut scenario = scenario(2);
    scenario.oracle.serial = Serial::Workers;
    for (ended_by, is_right) in [(Some("idle"), true), (None, false)] {
        let mut run = programs.run("");
        let end = &mut run.outcome.as_mut().unwrap().actors[1];
        (end.exit, end.signal, end.ended_by) = (None, Some(15), ended_by.map(str::to_owned));
        let mut judge = Judge::new(&scenario, programs.initial.clone()).unwrap();
        assert_eq!(right(&judge.judge(&run, &mut programs).unwrap()), is_right, "{ended_by:?}");
    }
}

#[test]
fn files_of_failed_workers_are_left_behind_unless_somebody_opened_them() {
    let fails = acts([
        vec![Act::Exclusive("lock".into()), Act::SkipIf(3, std::sync::Arc::new(|mind| !mind.failed))],
        rewrite("b.tmp", text("half")),
        vec![Act::SkipIf(2, std::sync::Arc::new(|m| m.read.is_empty() && m.me == 9))],
        vec![Act::Exit(std::sync::Arc::new(|_| 0))],
    ]);
    let holder = vec![Act::Exclusive("lock".into()), Act::Unlink("lock".into())];
    let mut programs = programs(&[("q", "[]")], [holder, fails]);
    let mut run = programs.run("AB");
    run.outcome.as_mut().unwrap().actors[1].exit = Some(1);
    let mut scenario = scenario(2);
    scenario.oracle.serial = Serial::Workers;
    let mut judge = Judge::new(&scenario, programs.initial.clone()).unwrap();
    let judgement = judge.judge(&run, &mut programs).unwrap();
    assert!(matches!(wrong(&judgement), Accusation::WorkerFailed { .. }), "{judgement:?}");
    let Judgement::Wrong(told) = &judgement else { unreachable!() };
    assert!(told.warnings.iter().any(|warning| warning.text == "left behind: b.tmp"), "{told:?}");
    // A file of a worker that did not fail is a difference.
    let mut odd = run.clone();
    odd.outcome.as_mut().unwrap().files.insert("c.tmp".into(), file(""));
    assert!(matches!(wrong(&judge.judge(&odd, &mut programs).unwrap()), Accusation::Serial { .. }));
}

#[test]
fn infeasible_orders_are_dropped_and_without_any_nobody_can_tell() {
    let mut programs = programs(&[("q", "[]")], [adds("q"), adds("q")]);
    programs.infeasible.insert(1);
    assert!(right(&judge(&scenario(2), &mut programs, "")));
    // Only B first would explain this, and B cannot finish alone.
    let mut scenario = scenario(2);
    scenario.oracle.serial = Serial::Workers;
    assert!(matches!(wrong(&judge(&scenario, &mut programs, "BBBBBB")), Accusation::Serial { .. }));
    programs.infeasible.insert(0);
    assert!(unknown(&judge(&scenario, &mut programs, "")).contains("no serial order is feasible"));
}

#[test]
fn at_most_120_orders_are_run() {
    let worker = || acts([read("q"), append("q", compute(|mind| format!("{}\n", mind.me)))]);
    let mut programs = programs(&[("q", "")], [worker(), worker(), worker(), worker(), worker(), worker()]);
    let mut scenario = scenario(6);
    scenario.oracle.serial = Serial::Workers;
    let mut run = programs.run("");
    run.outcome.as_mut().unwrap().files.insert("q".into(), file("0\n"));
    let mut judge = Judge::new(&scenario, programs.initial.clone()).unwrap();
    assert!(unknown(&judge.judge(&run, &mut programs).unwrap()).contains("120"));
    assert_eq!(programs.runs.iter().filter(|(_, variant)| *variant == 0).count(), 120);
    // Five workers have exactly 120 orders: then it is an accusation.
    programs.workers.pop();
    programs.runs.clear();
    scenario.workers.pop();
    let mut run = programs.run("");
    run.outcome.as_mut().unwrap().files.insert("q".into(), file("0\n"));
    let mut judge = Judge::new(&scenario, programs.initial.clone()).unwrap();
    assert!(matches!(wrong(&judge.judge(&run, &mut programs).unwrap()), Accusation::Serial { .. }));
}

#[test]
fn with_conserve_the_serial_judge_abstains_beyond_its_limit() {
    let worker = || acts([read("q"), append("log", compute(|mind| format!("{}\n", mind.me)))]);
    let mut programs = programs(&[("q", "[]")], [worker(), worker(), worker(), worker(), worker(), worker()]);
    let mut scenario = scenario(6);
    scenario.oracle.serial = Serial::Workers;
    scenario.oracle.conserve = Some(Conserve {
        file: "q".into(),
        pointer: String::new(),
        id: "id".into(),
        done: "log".into(),
        at_least_once: false,
    });
    let mut run = programs.run("");
    run.outcome.as_mut().unwrap().files.insert("log".into(), file("0\n"));
    let mut judge = Judge::new(&scenario, programs.initial.clone()).unwrap();
    assert!(right(&judge.judge(&run, &mut programs).unwrap()));
}

#[test]
fn without_serial_the_first_run_says_which_exits_are_right() {
    let mut scenario = scenario(2);
    scenario.oracle.serial = Serial::Off;
    scenario.oracle.state = Some("true".into());
    let mut programs = programs(&[("q", "[]")], [or_gives_up(1), or_gives_up(1)]);
    let mut judge = Judge::new(&scenario, programs.initial.clone()).unwrap();
    let first = programs.run("");
    assert_eq!(judge.first_reference(&first, &mut programs).unwrap(), None);
    assert!(right(&judge.judge(&first, &mut programs).unwrap()));
    let failing = programs.run("AAAB");
    assert!(matches!(wrong(&judge.judge(&failing, &mut programs).unwrap()), Accusation::WorkerFailed { .. }));
    assert!(programs.runs.is_empty());

    // Where a check decides it sees how each worker ended: a failure that it accepts is worth a warning.
    scenario.check = Some("true".into());
    programs.check = Some(std::sync::Arc::new(|files| files.contains_key("q")));
    let mut judge = Judge::new(&scenario, programs.initial.clone()).unwrap();
    assert_eq!(judge.first_reference(&programs.run(""), &mut programs).unwrap(), None);
    match judge.judge(&programs.run("AAAB"), &mut programs).unwrap() {
        Judgement::Right { warnings } => assert!(warnings[0].text.contains("the check accepts that"), "{warnings:?}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_check_that_rejects_or_was_not_run() {
    let mut scenario = scenario(2);
    scenario.check = Some("test".into());
    let mut programs = programs(&[("q", "[]")], [adds("q"), adds("q")]);
    assert!(unknown(&judge(&scenario, &mut programs, "")).contains("check"));
    programs.check = Some(std::sync::Arc::new(|files| files["q"] == file("[0,1]")));
    assert!(right(&judge(&scenario, &mut programs, "")));
    assert!(matches!(wrong(&judge(&scenario, &mut programs, "BBBBBB")), Accusation::Check { exit: Some(1), .. }));
}

#[test]
fn a_worker_that_fails_in_every_serial_order_is_cannot_tell() {
    let fails = |when: fn(&Mind) -> bool| {
        vec![Act::Open("missing".into()), Act::Exit(std::sync::Arc::new(move |mind| i32::from(when(mind))))]
    };
    let mut scenario = scenario(2);
    let mut programs = programs(&[("q", "[]")], [fails(|_| true), adds("q")]);
    let first = programs.run("");
    let reference = |scenario: &Scenario, programs: &mut Programs, first| {
        Judge::new(scenario, programs.initial.clone()).unwrap().first_reference(first, programs).unwrap()
    };
    let reason = reference(&scenario, &mut programs, &first).unwrap();
    assert!(reason.starts_with("A fails in every serial order"), "{reason}");
    scenario.workers[0].exit = vec![0, 1];
    assert_eq!(reference(&scenario, &mut programs, &first), None);
    // It fails only when it is first: that is for the search to find.
    scenario.workers[0].exit = vec![0];
    programs.workers = vec![fails(|mind| mind.failed), rewrite("missing", text("x"))];
    assert_eq!(reference(&scenario, &mut programs, &first), None);
}

#[test]
fn ends_nobody_wants() {
    let mut scenario = scenario(2);
    scenario.oracle.serial = Serial::Workers;
    let mut programs = programs(&[("x", ""), ("y", "")], [locked("x", read("q")), locked("y", read("q"))]);
    let mut judge = Judge::new(&scenario, programs.initial.clone()).unwrap();
    let mut run = programs.run("AABB");
    run.steps.truncate(4);
    let ends = &mut run.outcome.as_mut().unwrap().actors;
    ends.iter_mut().for_each(|end| (end.exit, end.ended_by) = (None, Some("deadlock".into())));
    run.ended = Ended::Deadlock(vec![(ActorId(0), "y".into()), (ActorId(1), "x".into())]);
    assert!(matches!(wrong(&judge.judge(&run, &mut programs).unwrap()), Accusation::Deadlock { .. }));
    // The owner of x is gone without giving it back.
    run.outcome.as_mut().unwrap().actors[0].exit = Some(0);
    run.outcome.as_mut().unwrap().actors[0].ended_by = None;
    run.ended = Ended::Deadlock(vec![(ActorId(1), "flock x".into())]);
    assert!(matches!(wrong(&judge.judge(&run, &mut programs).unwrap()), Accusation::StaleLock { .. }));
    run.ended = Ended::Livelock(vec![ActorId(1)]);
    assert!(matches!(wrong(&judge.judge(&run, &mut programs).unwrap()), Accusation::Livelock { .. }));
    for (ended, part) in [
        (Ended::Limit("steps".into(), 5), "steps = 5"),
        (Ended::LostControl("a mapping".into()), "a mapping"),
        (Ended::SleepSet, "cut"),
    ] {
        run.ended = ended;
        assert!(unknown(&judge.judge(&run, &mut programs).unwrap()).contains(part));
    }
}

/// Writes a stamp of the environment beside a list.
fn stamps() -> Vec<Act> {
    acts([
        read("q.json"),
        rewrite(
            "q.json",
            compute(|mind| {
                let old: serde_json::Value = serde_json::from_str(&mind.read["q.json"]).unwrap();
                let mut ids: Vec<serde_json::Value> = old["ids"].as_array().unwrap().clone();
                ids.push(format!("t{} at {}", mind.me, 1000 + mind.variant).into());
                serde_json::json!({"ids": ids, "pid": 77 + mind.variant, "same": 1}).to_string()
            }),
        ),
    ])
}

#[test]
fn noise_is_masked_and_a_loss_beside_it_is_still_seen() {
    let mut programs = programs(&[("q.json", r#"{"ids":[],"pid":1,"same":1}"#)], [stamps(), stamps()]);
    let scenario = scenario(2);
    // A stamp that depends on the order of the run: equal to no serial order but for the mask.
    let mut run = programs.run("");
    let stamped = r#"{"ids":["t0 at 5","t1 at 6"],"pid":9,"same":1}"#;
    run.outcome.as_mut().unwrap().files.insert("q.json".into(), file(stamped));
    let mut judge = Judge::new(&scenario, programs.initial.clone()).unwrap();
    let judgement = judge.judge(&run, &mut programs).unwrap();
    assert!(warnings(&judgement).iter().any(|w| w.contains("q.json /pid")), "{judgement:?}");
    // A mask over all of /ids, or over whole strings in it, would hide each of these.
    for lost in [
        r#"{"ids":["t1 at 6"],"pid":9,"same":1}"#,
        r#"{"ids":["t1 at 5","t1 at 6"],"pid":9,"same":1}"#,
        r#"{"ids":["t0 at 5","t1 at 6"],"pid":9,"same":2}"#,
        r#"{"ids":["t0 at 5","t1 at 6"],"pid":"9","same":1}"#,
    ] {
        let mut run = programs.run("AAABBB");
        run.outcome.as_mut().unwrap().files.insert("q.json".into(), file(lost));
        let judgement = judge.judge(&run, &mut programs).unwrap();
        assert!(matches!(wrong(&judgement), Accusation::Serial { .. }), "{lost}");
    }
}

#[test]
fn a_file_masked_by_more_than_half_says_nothing() {
    let stamp = rewrite("stamp", compute(|mind| format!("{} {} same", 1000 + mind.variant, 2000 + mind.variant)));
    let mut scenario = scenario(1);
    scenario.oracle.serial = Serial::Workers;
    let mut programs = programs(&[], [stamp]);
    let mut run = programs.run("");
    run.outcome.as_mut().unwrap().files.insert("stamp".into(), file("1 2 same"));
    let mut judge = Judge::new(&scenario, programs.initial.clone()).unwrap();
    assert!(unknown(&judge.judge(&run, &mut programs).unwrap()).contains("give state ="));
    run.outcome.as_mut().unwrap().files.insert("stamp".into(), file("1 2 other"));
    assert!(matches!(wrong(&judge.judge(&run, &mut programs).unwrap()), Accusation::Serial { .. }));
}

#[test]
fn an_environment_that_changes_names_or_steps_masks_nothing() {
    let stamp = |extra: bool| {
        let mut acts = rewrite("stamp", compute(|mind| format!("a b c d {}", mind.variant)));
        if extra {
            acts.push(Act::SkipIf(1, std::sync::Arc::new(|mind| mind.variant == 0)));
            acts.push(Act::Stat("stamp".into()));
        }
        acts
    };
    let mut scenario = scenario(1);
    scenario.oracle.serial = Serial::Workers;
    for (extra, is_right) in [(false, true), (true, false)] {
        let mut programs = programs(&[], [stamp(extra)]);
        let mut run = programs.run("");
        run.outcome.as_mut().unwrap().files.insert("stamp".into(), file("a b c d 9"));
        let mut judge = Judge::new(&scenario, programs.initial.clone()).unwrap();
        let judgement = judge.judge(&run, &mut programs).unwrap();
        assert_eq!(right(&judgement), is_right, "{extra}");
        if let Judgement::Wrong(wrong) = judgement {
            let warning = "nothing is masked as environment: A makes other steps in another environment";
            assert_eq!(wrong.warnings[0].text, warning);
        }
    }
}
