//! Conserve, lockset, sharing, torn times: each with a run that it reports and one that it must not.

mod oracle_support;

use std::collections::BTreeMap;

use noclobber::{
    oracle::{Accusation, Case, History, Judge, Judgement, LockTrace, Lockset, Sharing, witness_warnings},
    scenario::{Conserve, Scenario, Serial},
    world::{Access, ActorId, Ended, Inode, Mode, Object, Op, Run, Sync},
};
use oracle_support::*;

fn conserving(done: &str, at_least_once: bool) -> Scenario {
    let mut scenario = scenario(1);
    scenario.oracle.serial = Serial::Off;
    scenario.oracle.conserve = Some(Conserve {
        file: "q.json".into(),
        pointer: "/tasks".into(),
        id: "id".into(),
        done: done.into(),
        at_least_once,
    });
    scenario
}

#[test]
fn every_id_is_executed_once_or_still_queued() {
    let tasks = |ids: &[&str]| {
        serde_json::json!({"tasks": ids.iter().map(|id| serde_json::json!({"id": id})).collect::<Vec<_>>()}).to_string()
    };
    // Each row: ids at the start, in a version between, at the end; the log; at least once; lost; duplicated.
    type Row = (
        &'static [&'static str],
        &'static [&'static str],
        &'static [&'static str],
        &'static str,
        bool,
        &'static [&'static str],
        &'static [&'static str],
    );
    let rows: [Row; 12] = [
        (&["t1"], &["t1"], &["t1"], "", false, &[], &[]),
        (&["t1"], &[], &[], "t1\n", false, &[], &[]),
        (&["t1"], &[], &[], "{\"id\":\"t1\",\"by\":\"A\"}\n", false, &[], &[]),
        (&["t1"], &[], &[], "\"t1\"\n", false, &[], &[]),
        (&["t1"], &[], &[], "A executed t1.\n", false, &[], &[]),
        (&["t1"], &[], &[], "", false, &["t1"], &[]),
        (&[], &["t2"], &[], "", false, &["t2"], &[]),
        (&["t1"], &["t1", "t2"], &[], "t1\nt1\n", false, &["t2"], &["t1"]),
        (&["t1"], &[], &[], "t1\nt1\n", true, &[], &[]),
        (&["t1"], &[], &[], "t10\n", false, &["t1"], &[]),
        (&["t1"], &[], &["t1"], "t1\n", false, &[], &[]),
        (&["t1"], &[], &["t1"], "t9\nt9\n", false, &[], &[]),
    ];
    for (start, between, end, log, at_least_once, lost, duplicated) in rows {
        let scenario = conserving("done.log", at_least_once);
        let mut programs = programs(
            &[("q.json", &tasks(start))],
            [acts([
                rewrite("q.json", text(&tasks(between))),
                rewrite("q.json", text(&tasks(end))),
                append("done.log", text(log)),
            ])],
        );
        let run = programs.run("");
        let mut judge = Judge::new(&scenario, programs.initial.clone()).unwrap();
        assert!(judge.needs_record());
        let (was_lost, was_duplicated) = match judge.judge(&run, &mut programs).unwrap() {
            Judgement::Right { .. } => Default::default(),
            Judgement::Wrong(wrong) => match wrong.accusations.into_iter().next() {
                Some(Accusation::Conserve { lost, duplicated }) => (lost, duplicated),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        assert_eq!(
            (was_lost, was_duplicated),
            (strings(lost), strings(duplicated)),
            "{start:?} {between:?} {end:?} {log}"
        );
    }
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn executions_may_be_printed() {
    let scenario = conserving("stdout", false);
    let mut programs = programs(
        &[("q.json", r#"{"tasks":[{"id":7}]}"#)],
        [acts([rewrite("q.json", text(r#"{"tasks":[]}"#)), vec![Act::Print(text("{\"id\":7}\n"))]])],
    );
    let run = programs.run("");
    let mut judge = Judge::new(&scenario, programs.initial.clone()).unwrap();
    assert!(matches!(judge.judge(&run, &mut programs).unwrap(), Judgement::Right { .. }));
}

fn lockset(programs: &Programs, schedules: &[&str]) -> Vec<String> {
    let mut lockset = Lockset::new();
    for schedule in schedules {
        lockset.observe(&programs.run(schedule));
    }
    lockset.warnings(&["A", "B"]).into_iter().map(|warning| warning.text).collect()
}

#[test]
fn writes_that_no_common_lock_guards() {
    let guarded = || locked("l", rewrite("q", text("x")));
    let rows: [([Vec<Act>; 2], bool); 6] = [
        ([guarded(), guarded()], false),
        ([guarded(), rewrite("q", text("x"))], true),
        ([locked("other", rewrite("q", text("x"))), guarded()], true),
        ([rewrite("q", text("x")), read("q")], false),
        ([append("q", text("x")), append("q", text("x"))], false),
        ([rewrite("q", text("x")), replace("q", "tmp", text("x"))], true),
    ];
    for (number, (workers, warns)) in rows.into_iter().enumerate() {
        let programs = programs(&[("q", ""), ("l", ""), ("other", "")], workers);
        let warnings = lockset(&programs, &[""]);
        assert_eq!(!warnings.is_empty(), warns, "row {number}: {warnings:?}");
        assert!(warnings.iter().all(|warning| warning.starts_with("no common lock guards the writes of q (")));
    }
    // Over all runs: in each single run only one of them writes.
    let either = || {
        let there = std::sync::Arc::new(|mind: &Mind| !mind.failed);
        acts([
            vec![Act::Stat("first".into()), Act::SkipIf(6, there)],
            rewrite("first", text("")),
            rewrite("q", text("x")),
        ])
    };
    let programs = programs(&[("q", "")], [either(), either()]);
    assert!(lockset(&programs, &[""]).is_empty());
    assert!(!lockset(&programs, &["", "BBBBBBBB"]).is_empty());
}

#[test]
fn workers_that_share_nothing_prove_nothing() {
    let rows: [([Vec<Act>; 2], bool); 6] = [
        ([read("a"), read("a")], true),
        ([rewrite("a", text("")), rewrite("b", text(""))], false),
        ([read("a"), vec![]], false),
        // Both look for a file that is not there.
        ([read("missing"), read("missing")], false),
        // Both make files in one directory.
        ([rewrite("new1", text("")), rewrite("new2", text(""))], true),
        ([vec![Act::Stat("a".into())], vec![Act::Rename("a".into(), "c".into())]], true),
    ];
    for (number, (workers, shares)) in rows.into_iter().enumerate() {
        let mut sharing = Sharing::new();
        sharing.observe(&programs(&[("a", ""), ("b", "")], workers).run(""));
        assert_eq!(sharing.shared(), shares, "row {number}");
        assert_eq!(sharing.reason(2, false).is_some(), !shares);
        assert_eq!(sharing.reason(2, true), None);
        assert_eq!(sharing.reason(1, false), None);
    }
    let nothing = Sharing::new();
    assert!(nothing.reason(1, true).unwrap().contains("touches nothing"));
}

#[test]
fn what_readers_could_have_met() {
    let scenario = scenario(2);
    let writer = vec![
        Act::Truncate("f.json".into()),
        Act::Write("f.json".into(), text("{\"a\":")),
        Act::Write("f.json".into(), text("1}")),
        Act::Close("f.json".into()),
    ];
    let programs = programs(&[("f.json", "{}")], [writer, read("f.json")]);
    let case = Case { scenario: &scenario, initial: &programs.initial };
    let say =
        |schedule| witness_warnings(&case, &programs.run(schedule)).into_iter().map(|w| w.text).collect::<Vec<_>>();
    let met = say("AABBB");
    assert!(met.contains(&"B reads f.json (step 4) while A has not published its write".to_owned()), "{met:?}");
    assert!(
        met.contains(&"f.json was no valid JSON from step 1 to step 6 (5 ms): a reader could have met it".to_owned()),
        "{met:?}"
    );
    let apart = say("BBB");
    assert!(!apart.iter().any(|warning| warning.contains("has not published")), "{apart:?}");
}

#[test]
fn a_lock_on_a_file_that_its_name_left() {
    let replaces = acts([
        vec![Act::OpenAppend("s".into()), Act::Lock("s".into())],
        rewrite("s.tmp", text("new")),
        vec![Act::Rename("s.tmp".into(), "s".into()), Act::Unlock("s".into()), Act::Close("s".into())],
    ]);
    let programs = programs(&[("s", "old")], [replaces.clone(), replaces]);
    // B opened the old file before A replaced it.
    let trace = LockTrace::of(&programs.run("AAB").steps);
    assert_eq!(trace.misplaced.len(), 1);
    assert_eq!((trace.misplaced[0].0.as_str(), trace.misplaced[0].1), ("s", ActorId(1)));
    assert!(LockTrace::of(&programs.run("").steps).misplaced.is_empty());
}

#[test]
fn a_posix_lock_dropped_by_a_close_still_counts_for_its_owner() {
    let programs = programs(&[("db", "x")], [locked("db", vec![Act::Stat("db".into())]), locked("db", vec![])]);
    let mut run = programs.run("AAA");
    // The middle step of A becomes a close of another descriptor, which drops its record lock.
    run.steps[2].op = Op::Close;
    run.steps[2].inode = run.steps[1].inode;
    let free = |inode| Access { sync: Some(Sync::Free), ..Access::new(Object::Record(inode), Mode::Write) };
    run.steps[2].accesses = vec![free(run.steps[1].inode.unwrap())];
    // B takes it before A unlocks.
    let unlock = run.steps.remove(3);
    let close = run.steps.remove(3);
    run.steps.extend([unlock, close]);
    let trace = LockTrace::of(&run.steps);
    assert_eq!(trace.dropped.len(), 1);
    assert_eq!(trace.overlaps().len(), 1);
}

#[test]
fn hostile_contents_are_bounded_and_never_panic() {
    let deep = "[".repeat(200_000);
    let nested = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let long = format!("[{}]", "1,".repeat(200_000) + "1");
    let number = format!("1e{}", "9".repeat(50));
    let strange = r#"{"$serde_json::private::Number":"x"}"#;
    let contents: Vec<Vec<u8>> = vec![
        deep.into_bytes(),
        nested.into_bytes(),
        long.into_bytes(),
        number.into_bytes(),
        strange.as_bytes().to_vec(),
        vec![0; 1000],
        vec![0xff, 0xfe, b'{', 0],
        b"\xf0\x9f\x92\xa9 \xe2\x80\xa8 {\"id\":\"".to_vec(),
        Vec::new(),
    ];
    for left in &contents {
        for right in &contents {
            hostile(left, right);
        }
    }
}

fn hostile(left: &[u8], right: &[u8]) {
    let mut scenario = conserving("done.log", false);
    scenario.workers = oracle_support::scenario(2).workers;
    scenario.oracle.serial = Serial::Operations;
    scenario.oracle.multiset = vec!["q.json".into()];
    let node = |bytes: &[u8]| noclobber::world::Node::File { mode: 0o644, bytes: bytes.into() };
    let mut programs = programs(&[], [acts([read("q.json"), append("done.log", text("x\n"))]), read("q.json")]);
    programs.initial = BTreeMap::from([("q.json".to_owned(), node(left))]);
    let mut run = programs.run("");
    let outcome = run.outcome.as_mut().unwrap();
    outcome.files.insert("q.json".into(), node(right));
    outcome.actors[0].stdout = left.to_vec();
    outcome.actors[1].stdout = right.to_vec();
    let initial = programs.initial.clone();
    let mut judge = Judge::new(&scenario, initial.clone()).unwrap();
    let judgement = judge.judge(&run, &mut programs).unwrap();
    let case = Case { scenario: &scenario, initial: &initial };
    if let Judgement::Wrong(wrong) = judgement {
        noclobber::oracle::name(&case, &run, &wrong, &judge.references());
    }
    noclobber::oracle::step_lines(&case, &run);
    witness_warnings(&case, &run);
}

#[test]
fn a_run_without_steps_or_with_foreign_actors_is_no_panic() {
    let scenario = scenario(2);
    let mut programs = programs(&[("q", "x")], [read("q"), read("q")]);
    let mut run = programs.run("");
    run.steps.iter_mut().for_each(|step| step.actor = ActorId(9));
    run.steps[0].inode = Some(Inode(u64::MAX));
    let mut judge = Judge::new(&scenario, programs.initial.clone()).unwrap();
    judge.judge(&run, &mut programs).unwrap();
    let empty = Run {
        steps: Vec::new(),
        choices: Vec::new(),
        faults: Vec::new(),
        diverged: None,
        pending: Vec::new(),
        unmatched: Vec::new(),
        cuts: Default::default(),
        ended: Ended::Done,
        outcome: None,
        warnings: Vec::new(),
    };
    assert!(matches!(judge.judge(&empty, &mut programs).unwrap(), Judgement::Unknown(_)));
    History::of(&empty, &programs.initial);
}
