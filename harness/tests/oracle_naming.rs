//! Names and stories: the incident, and each kind with a run that shows it and one that does not.

mod oracle_support;

use std::sync::Arc;

use noclobber::{
    oracle::{Accusation, Case, Judge, Judgement, Named, Wrong, name, step_lines, witness_warnings},
    scenario::{Conserve, Kind, Scenario, Serial},
    world::{ActorId, Op, Run},
};
use oracle_support::*;
use serde_json::{Value, json};

/// Judges and names a run.
fn named(scenario: &Scenario, programs: &mut Programs, run: &Run) -> Named {
    let mut judge = Judge::new(scenario, programs.initial.clone()).unwrap();
    let judgement = judge.judge(run, programs).unwrap();
    let Judgement::Wrong(wrong) = judgement else { panic!("not wrong: {judgement:?}") };
    let initial = programs.initial.clone();
    name(&Case { scenario, initial: &initial }, run, &wrong, &judge.references())
}

fn queue(mind: &Mind) -> Value {
    serde_json::from_str(&mind.read["queue.json"]).unwrap()
}

const START: &str = r#"{"version":1,"tasks":[{"id":"t1","state":"queued"}]}"#;

/// Claims and executes the first queued task, adds the tasks given, and rewrites the file in place.
fn worker(adds: &'static [&'static str]) -> Vec<Act> {
    let claimed = |mind: &Mind| {
        let tasks = queue(mind)["tasks"].as_array().unwrap().clone();
        tasks.iter().position(|task| task["state"] == "queued")
    };
    let line = compute(move |mind| {
        claimed(mind)
            .map_or(String::new(), |at| format!("{}\n", json!({"id": queue(mind)["tasks"][at]["id"], "by": mind.me})))
    });
    let written = compute(move |mind| {
        let mut queue = queue(mind);
        if let Some(at) = claimed(mind) {
            queue["tasks"].as_array_mut().unwrap().remove(at);
        }
        for id in adds {
            queue["tasks"].as_array_mut().unwrap().push(json!({"id": id, "state": "new"}));
        }
        queue["version"] = (queue["version"].as_u64().unwrap() + 1).into();
        queue.to_string()
    });
    acts([read("queue.json"), append("done.log", line), rewrite("queue.json", written)])
}

fn incident() -> Programs {
    programs(&[("queue.json", START)], [worker(&["t2"]), worker(&[])])
}

/// B reads; A reads, executes, writes; B executes and writes its old copy.
const WINDOW: &str = "BBBAAAAAAAAABBBBBB";

#[test]
fn the_incident_loses_t2_and_delivers_t1_twice() {
    let mut programs = incident();
    let run = programs.run(WINDOW);
    let conserve = Conserve {
        file: "queue.json".into(),
        pointer: "/tasks".into(),
        id: "id".into(),
        done: "done.log".into(),
        at_least_once: false,
    };
    for conserve in [None, Some(conserve)] {
        for serial in [Serial::Operations, Serial::Off] {
            let mut scenario = scenario(2);
            scenario.oracle.conserve.clone_from(&conserve);
            scenario.oracle.serial = serial;
            if conserve.is_none() && serial == Serial::Off {
                continue;
            }
            let named = named(&scenario, &mut programs, &run);
            assert_eq!(named.kind, Kind::LostUpdate);
            assert_eq!(named.lost, ["t2"]);
            assert_eq!(named.duplicated, ["t1"]);
            assert_eq!(named.actors, ["A", "B"]);
            assert_eq!(named.object.as_deref(), Some("queue.json"));
            assert_eq!(
                named.summary,
                "B overwrote A's update of queue.json: t2 is in no later version; t1 was delivered twice"
            );
            let evidence = named.evidence.join("\n");
            for part in [
                "A wrote queue.json (step 12) -ww-> B replaced it (step 18); B had read it before that (step 2) -rw-> A",
                r#"t2 stood at bytes 22..47 of A's version: {"id":"t2","state":"new"}"#,
                "version 1 -> version 2 (A), overwritten by version 2 (B)",
                "B held no lock at step 18",
                "t1 is in done.log: A and B",
            ] {
                assert!(evidence.contains(part), "{part} is not in:\n{evidence}");
            }
        }
    }
}

#[test]
fn the_incident_one_after_the_other_is_right() {
    let mut programs = incident();
    let mut judge = Judge::new(&scenario(2), programs.initial.clone()).unwrap();
    for schedule in ["", "BBBBBBBBB"] {
        let run = programs.run(schedule);
        assert!(matches!(judge.judge(&run, &mut programs).unwrap(), Judgement::Right { .. }));
    }
}

#[test]
fn the_steps_tell_versions() {
    let programs = incident();
    let scenario = scenario(2);
    let run = programs.run(WINDOW);
    let lines = step_lines(&Case { scenario: &scenario, initial: &programs.initial }, &run);
    let note = |n: usize| lines[n - 1].note.clone().unwrap_or_default();
    assert_eq!(lines.len(), 18);
    assert_eq!(note(2), "reads version 1");
    assert_eq!(note(5), "reads version 1");
    assert_eq!(note(12), "writes version 2");
    assert_eq!(note(18), "writes version 2, overwrites A's update");
    assert_eq!((lines[0].actor.as_str(), lines[0].op.as_str(), lines[0].path.as_str()), ("B", "open", "queue.json"));
    let replaced = programs_with_rename().run("");
    let lines = step_lines(&Case { scenario: &scenario, initial: &programs_with_rename().initial }, &replaced);
    assert!(lines.iter().any(|line| line.path == "n.tmp0 -> n.json"));
}

fn counts(me: &'static str, temporary: &'static str) -> Vec<Act> {
    let next = compute(move |mind| {
        let mut value: Value = serde_json::from_str(&mind.read["n.json"]).unwrap();
        value["n"] = (value["n"].as_u64().unwrap() + 1).into();
        value[me] = 1.into();
        value.to_string()
    });
    acts([read("n.json"), replace("n.json", temporary, next)])
}

fn programs_with_rename() -> Programs {
    programs(&[("n.json", r#"{"n":0}"#)], [counts("a", "n.tmp0"), counts("b", "n.tmp1")])
}

#[test]
fn members_are_lost_by_a_rename_too() {
    let mut programs = programs_with_rename();
    let run = programs.run("AAABBBBBBB");
    let named = named(&scenario(2), &mut programs, &run);
    assert_eq!((named.kind, named.lost), (Kind::LostUpdate, vec!["/b".to_owned()]));
    assert_eq!(named.summary, "A overwrote B's update of n.json: /b is in no later version");
}

#[test]
fn lines_and_elements_are_lost() {
    let lines = |path: &'static str, me: &'static str| {
        acts([read(path), rewrite(path, compute(move |mind| format!("{}{me}\n", mind.read[path])))])
    };
    let mut text = programs(&[("f", "one\n")], [lines("f", "from A"), lines("f", "from B")]);
    let run = text.run("AAABBBBBBAAA");
    assert_eq!(named(&scenario(2), &mut text, &run).lost, ["from B"]);
    let list = |me: &'static str| {
        acts([read("l"), rewrite("l", compute(move |m| m.read["l"].replace(']', &format!(",\"{me}\"]"))))])
    };
    let mut json = programs(&[("l", r#"["x"]"#)], [list("A"), list("B")]);
    let run = json.run("AAABBBBBBAAA");
    assert_eq!(named(&scenario(2), &mut json, &run).lost, ["B"]);
}

#[test]
fn an_acknowledgement_that_is_taken_back() {
    // B marks t1 done; A's older copy sets it back: nothing new is missing, what was changed is back.
    let state = |id: &'static str, to: &'static str| {
        let change = compute(move |mind| {
            let mut queue = queue(mind);
            for task in queue["tasks"].as_array_mut().unwrap() {
                if task["id"] == id {
                    task["state"] = to.into();
                }
            }
            queue.to_string()
        });
        acts([read("queue.json"), rewrite("queue.json", change)])
    };
    let start = r#"{"tasks":[{"id":"t1","state":"queued"},{"id":"t2","state":"queued"}]}"#;
    let mut programs = programs(&[("queue.json", start)], [state("t2", "claimed"), state("t1", "done")]);
    let run = programs.run("AAABBBBBBAAA");
    let named = named(&scenario(2), &mut programs, &run);
    assert_eq!(named.kind, Kind::LostUpdate);
    assert_eq!(named.lost, ["/tasks/t1/state"]);
}

#[test]
fn what_somebody_else_took_out_properly_is_not_lost() {
    // A adds t2, C executes and removes it, and B overwrites both: t2 was served, t3 was not.
    let edit = |f: fn(&mut Vec<Value>)| {
        let change = compute(move |mind: &Mind| {
            let mut queue = queue(mind);
            f(queue["tasks"].as_array_mut().unwrap());
            queue.to_string()
        });
        acts([read("queue.json"), rewrite("queue.json", change)])
    };
    let mut programs = programs(
        &[("queue.json", r#"{"tasks":[]}"#)],
        [
            edit(|tasks| tasks.extend([json!({"id": "t2"}), json!({"id": "t3"})])),
            edit(|tasks| tasks.push(json!({"id": "t4"}))),
            edit(|tasks| tasks.retain(|task| task["id"] != "t2")),
        ],
    );
    let run = programs.run("BBBAAAAAACCCCCCBBB");
    assert_eq!(named(&scenario(3), &mut programs, &run).lost, ["t3"]);
}

#[test]
fn an_append_to_a_replaced_file_is_lost() {
    let compact =
        acts([read("log"), replace("log", "log.new", compute(|mind| mind.read["log"].replace("dead\n", "")))]);
    let mut programs = programs(&[("log", "dead\nlive\n")], [append("log", text("new\n")), compact]);
    for schedule in ["ABBBBBBB", "BBBAAABBBB"] {
        let run = programs.run(schedule);
        let named = named(&scenario(2), &mut programs, &run);
        assert_eq!((named.kind, named.lost), (Kind::LostUpdate, vec!["new".to_owned()]), "{schedule}");
    }
}

/// Copies a job to its own file, then removes it.
fn claims(own: &'static str) -> Vec<Act> {
    acts([
        read("job"),
        vec![Act::SkipIf(4, Arc::new(|mind| mind.failed && !mind.read.contains_key("job")))],
        rewrite(own, compute(|mind| mind.read["job"].clone())),
        vec![Act::Unlink("job".into())],
    ])
}

#[test]
fn one_job_in_two_workers_outputs_is_a_duplicate() {
    let mut programs = programs(&[("job", "build the house")], [claims("got.a"), claims("got.b")]);
    let run = programs.run("AAABBBAAAA");
    let named = named(&scenario(2), &mut programs, &run);
    assert_eq!((named.kind, named.duplicated), (Kind::DuplicateDelivery, vec!["build the house".to_owned()]));
    assert!(named.summary.ends_with("was delivered twice: to A and B"), "{}", named.summary);
}

#[test]
fn outputs_that_are_equal_in_a_serial_order_too_are_no_duplicate() {
    let says = || acts([counts("a", "n.tmp0"), vec![Act::Print(text("ok\n"))]]);
    let mut programs = programs(&[("n.json", r#"{"n":0}"#)], [says(), says()]);
    programs.workers[1] = acts([counts("b", "n.tmp1"), vec![Act::Print(text("ok\n"))]]);
    let run = programs.run("AAABBBBBBB");
    assert!(named(&scenario(2), &mut programs, &run).duplicated.is_empty());
}

#[test]
fn a_reader_of_half_a_file_is_a_torn_read() {
    let reads = acts([read("f.json"), vec![Act::Print(compute(|mind| mind.read["f.json"].len().to_string()))]]);
    let mut programs = programs(&[("f.json", r#"{"a":1}"#)], [rewrite("f.json", text(r#"{"a":22}"#)), reads]);
    let run = programs.run("ABBBB");
    let named = named(&scenario(2), &mut programs, &run);
    assert_eq!(named.kind, Kind::TornRead);
    assert_eq!(named.summary, "B read f.json while A was writing it: it got a content that was never published");
    // The same reader that fails: its failure is the outcome, the torn read its reason.
    let mut failing = programs.clone();
    failing.workers[1] = acts([read("f.json"), vec![Act::Exit(Arc::new(|m| i32::from(m.read["f.json"].is_empty())))]]);
    let run = failing.run("ABBBB");
    assert_eq!(super_kind(&mut failing, &run), Kind::TornRead);
    // A reader that fails for another reason stays worker-failed.
    let mut run = failing.run("");
    run.outcome.as_mut().unwrap().actors[1].exit = Some(1);
    assert_eq!(super_kind(&mut failing, &run), Kind::WorkerFailed);
}

#[test]
fn what_a_worker_reads_back_of_its_own_is_no_torn_read() {
    // Each reads what the other writes, and one of them looks at its own notes before they are as it leaves them.
    let notes = || {
        let write = |content| vec![Act::Truncate("notes".into()), Act::Write("notes".into(), text(content))];
        acts([write("draft"), vec![Act::Read("notes".into())], write("fair copy"), vec![Act::Close("notes".into())]])
    };
    let grow = |from: &'static str| compute(move |mind| format!("{} and {from}", mind.read[from]));
    let a = acts([read("x"), notes(), rewrite("y", grow("x"))]);
    let b = acts([read("y"), rewrite("x", grow("y"))]);
    let mut programs = programs(&[("x", "0"), ("y", "0"), ("notes", "none")], [a, b]);
    let run = programs.run("AAABBBBBB");
    let history = noclobber::oracle::History::of(&run, &programs.initial);
    let unpublished = |bytes: &[u8]| !history.readings.iter().any(|r| r.path == "notes" && r.fits(bytes));
    assert!(unpublished(b"none") && unpublished(b"fair copy"), "{:?}", history.readings);
    assert_eq!(super_kind(&mut programs, &run), Kind::Unserializable);
}

#[test]
fn giving_up_at_a_taken_lock_file_is_worker_failed_whatever_the_owner_read() {
    // Nobody waits for the lock file; its owner reads the file, then maps it, and replaces it.
    let add = |me: &'static str| {
        let next = compute(move |mind| format!("{}{me}", mind.read["c"]));
        let gives_up = Act::SkipIf(7, Arc::new(|mind| mind.failed));
        let ends = Act::Exit(Arc::new(|mind| i32::from(!mind.read.contains_key("c"))));
        let replaces = vec![
            Act::Write("c.lock".into(), next),
            Act::Close("c.lock".into()),
            Act::Rename("c.lock".into(), "c".into()),
        ];
        acts([vec![Act::Exclusive("c.lock".into()), gives_up], read("c"), replaces, vec![ends.clone(), ends]])
    };
    let mut programs = programs(&[("c", "0")], [add("a"), add("b")]);
    let mut run = programs.run("ABBBBBBBB");
    let read = run.steps.iter().position(|step| step.op == Op::Read).unwrap();
    let map = noclobber::world::Step { op: Op::Map, data: None, offset: None, ..run.steps[read].clone() };
    run.steps.insert(read + 1, map);
    let exits: Vec<_> = run.outcome.as_ref().unwrap().actors.iter().map(|end| end.exit).collect();
    assert_eq!(exits, [Some(0), Some(1)]);
    assert_eq!(super_kind(&mut programs, &run), Kind::WorkerFailed);
    let history = noclobber::oracle::History::of(&run, &programs.initial);
    assert!(history.readings.iter().all(|reading| reading.fits(b"0")), "{:?}", history.readings);
}

fn super_kind(programs: &mut Programs, run: &Run) -> Kind {
    let mut scenario = scenario(2);
    scenario.oracle.serial = Serial::Workers;
    named(&scenario, programs, run).kind
}

#[test]
fn two_owners_of_one_lock_name_are_a_broken_lock() {
    // The lock is "stale" and broken by both; each then counts up a file that has no history to prove a loss.
    let breaks = || {
        let count = compute(|mind| (mind.read["n"].trim().parse::<u32>().unwrap() + 1).to_string());
        acts([
            vec![Act::Stat("lock".into()), Act::Unlink("lock".into()), Act::Exclusive("lock".into())],
            read("n"),
            rewrite("n", count),
            vec![Act::Unlink("lock".into())],
        ])
    };
    let mut programs = programs(&[("n", "0"), ("lock", "")], [breaks(), breaks()]);
    let run = programs.run("AAAAAABBBBBBAAABBB");
    let mut scenario = scenario(2);
    scenario.oracle.serial = Serial::Workers;
    let named = named(&scenario, &mut programs, &run);
    assert_eq!(named.kind, Kind::BrokenLock, "{named:?}");
    assert_eq!(named.summary, "A and B both owned the lock lock at once");
    // One after the other the same two are no overlap.
    let apart = programs.run("");
    let initial = programs.initial.clone();
    let case = Case { scenario: &scenario, initial: &initial };
    assert!(!witness_warnings(&case, &apart).iter().any(|warning| warning.text.contains("both owned")));
    assert!(witness_warnings(&case, &run).iter().any(|warning| warning.text.contains("both owned")));
}

/// Makes a new version, and looks at the old one again under the lock, without heeding what it is by then.
fn decides_then_locks(own: &'static str, temporary: &'static str) -> Vec<Act> {
    let made = compute(move |mind| format!("{}{own}\n", mind.read["ref"]));
    let publish = replace("ref", temporary, compute(move |mind| mind.read[own].clone()));
    acts([read("ref"), rewrite(own, made), read(own), locked("lock", acts([read("ref"), publish]))])
}

#[test]
fn reading_again_without_heeding_it_loses_an_update() {
    let workers = [decides_then_locks("a", "ref.a"), decides_then_locks("b", "ref.b")];
    let mut programs = programs(&[("ref", "0\n"), ("lock", "")], workers);
    let run = programs.run("AAAAAAAAABBBBBBBBBBBBBBBBBBBB");
    let mut scenario = scenario(2);
    scenario.oracle.serial = Serial::Workers;
    let named = named(&scenario, &mut programs, &run);
    assert_eq!((named.kind, &named.lost), (Kind::LostUpdate, &vec!["b".to_owned()]), "{named:?}");
    assert_eq!(named.summary, "A overwrote B's update of ref: b is in no later version");
    let evidence = named.evidence.join("\n");
    for part in [
        "A had read it before that (step 2) -rw-> B",
        "overwritten by content 2 (A), which did not heed what A read again at step 33",
        "A held lock at step",
    ] {
        assert!(evidence.contains(part), "{part} is not in:\n{evidence}");
    }
}

#[test]
fn a_backup_that_is_made_anew_is_no_lock() {
    // Each removes the last backup and makes its own, which stays.
    let backs_up = || acts([vec![Act::Unlink("n.old".into()), Act::Exclusive("n.old".into())], counts("a", "n.tmp")]);
    let mut programs = programs(&[("n.json", r#"{"n":0}"#), ("n.old", "")], [backs_up(), backs_up()]);
    let run = programs.run("AAAAABB");
    let initial = programs.initial.clone();
    let scenario = scenario(2);
    let case = Case { scenario: &scenario, initial: &initial };
    assert!(!witness_warnings(&case, &run).iter().any(|warning| warning.text.contains("both owned")));
    let run = programs.run("AAAAABBBBBBBBB");
    let named = named(&scenario, &mut programs, &run);
    assert!(!named.evidence.join("\n").contains("held n.old"), "{named:#?}");
}

#[test]
fn an_outcome_that_nothing_else_explains_is_unserializable() {
    // Write skew: each reads what the other writes; nothing is overwritten.
    let skew = |from: &'static str, to: &'static str| {
        acts([
            read(from),
            replace(to, if to == "x" { "x.tmp" } else { "y.tmp" }, compute(move |m| format!("{}!", m.read[from]))),
        ])
    };
    let mut programs = programs(&[("x", "a"), ("y", "b")], [skew("x", "y"), skew("y", "x")]);
    let run = programs.run("AAABBBBBBBAAAA");
    let named = named(&scenario(2), &mut programs, &run);
    assert_eq!(named.kind, Kind::Unserializable);
    assert!(named.summary.starts_with("no serial order gives this outcome: "), "{}", named.summary);
}

#[test]
fn a_rejected_check_is_named_by_the_witnesses_or_stays_check_failed() {
    let mut scenario = scenario(2);
    scenario.oracle.serial = Serial::Off;
    scenario.check = Some("test".into());
    let mut programs = programs_with_rename();
    programs.check = Some(Arc::new(|files| files["n.json"] == file(r#"{"n":2,"a":1,"b":1}"#)));
    let run = programs.run("AAABBBBBBB");
    assert_eq!(named(&scenario, &mut programs, &run).kind, Kind::LostUpdate);
    let run = programs.run("BBBBBBB");
    let named = named(&scenario, &mut programs, &run);
    assert_eq!(named.kind, Kind::CheckFailed);
    assert_eq!(named.summary, "the check rejects the final state (exit 1): checked");
}

#[test]
fn without_recording_only_the_judges_kinds_remain() {
    let mut programs = programs_with_rename();
    let mut run = programs.run("AAABBBBBBB");
    for step in &mut run.steps {
        step.effects.clear();
        step.data = None;
    }
    assert_eq!(named(&scenario(2), &mut programs, &run).kind, Kind::Unserializable);
}

#[test]
fn ends_are_named_as_they_are() {
    let scenario = scenario(2);
    let programs = incident();
    let run = programs.run(WINDOW);
    let waiting = vec![(ActorId(0), "y.lock".to_owned()), (ActorId(1), "x.lock".to_owned())];
    let case = Case { scenario: &scenario, initial: &programs.initial };
    let rows = [
        (
            Accusation::Deadlock { waiting: waiting.clone() },
            Kind::Deadlock,
            "nobody can go on: A waits for y.lock, B waits for x.lock",
        ),
        (
            Accusation::StaleLock { waiting: vec![waiting[1].clone()] },
            Kind::StaleLock,
            "a worker that is gone left its lock, and B waits for x.lock",
        ),
        (Accusation::Livelock { actors: vec![ActorId(0)] }, Kind::Livelock, "A repeats the same steps for ever"),
        (
            Accusation::WorkerFailed { workers: vec![ActorId(1)], endings: vec!["B exits with 3".into()] },
            Kind::WorkerFailed,
            "B exits with 3, though not in every order",
        ),
    ];
    for (accusation, kind, summary) in rows {
        let wrong = Wrong { accusations: vec![accusation], warnings: Vec::new() };
        let named = name(&case, &run, &wrong, &[]);
        assert_eq!((named.kind, named.summary.as_str()), (kind, summary));
    }
}
