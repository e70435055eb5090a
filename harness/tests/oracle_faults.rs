//! Judges of runs with a fault: torn files, what was acknowledged and is gone, and writes that were taken as atomic.

mod oracle_support;

use noclobber::{
    oracle::{Accusation, Atomic, Judge, Judgement},
    scenario::{Fault, Nth, Scenario},
    world::{Op, Run},
};
use oracle_support::*;

/// That many workers, of which A is killed somewhere.
fn faulty(workers: usize) -> Scenario {
    let mut scenario = scenario(workers);
    scenario.faults.push(Fault { workers: vec![0], kind: "kill".into(), at: None, nth: Nth::Each });
    scenario
}

/// What is said of a run, after the run without a fault was seen.
fn judge(scenario: &Scenario, whole: &mut Programs, run: &Run) -> Judgement {
    let mut judge = Judge::new(scenario, whole.initial.clone()).unwrap();
    let first = whole.run("");
    assert!(matches!(judge.judge(&first, whole).unwrap(), Judgement::Right { .. }));
    judge.judge(run, whole).unwrap()
}

fn accused(judgement: &Judgement, fits: fn(&Accusation) -> bool) -> bool {
    matches!(judgement, Judgement::Wrong(wrong) if wrong.accusations.iter().any(fits))
}

fn torn(judgement: &Judgement) -> bool {
    accused(judgement, |a| matches!(a, Accusation::TornFile { .. }))
}

/// The program with a kill in place of act number `at`.
fn killed(whole: &Programs, at: usize) -> Programs {
    let mut programs = whole.clone();
    programs.workers[0].truncate(at);
    programs.workers[0].push(Act::Die);
    programs
}

#[test]
fn a_file_that_a_kill_left_half_done_is_torn_and_no_other() {
    let start: &[(&str, &str)] = &[("f", "old")];
    // The program, where it is killed, and whether f is torn then.
    let in_place = || rewrite("f", text("new"));
    let beside = || replace("f", "t", text("new"));
    let two_writes =
        || vec![Act::Truncate("f".into()), Act::Write("f".into(), text("a")), Act::Write("f".into(), text("b"))];
    let rows: [(&str, Vec<Act>, usize, bool); 8] = [
        ("before it begins", in_place(), 0, false),
        ("emptied", in_place(), 1, true),
        // All that the run without a fault publishes is there: a close that is missing changes nothing.
        ("written, not closed", in_place(), 2, false),
        ("half of two writes", acts([two_writes(), vec![Act::Close("f".into())]]), 2, true),
        ("a temporary file", beside(), 1, false),
        ("before the rename", beside(), 3, false),
        ("after the rename", beside(), 4, false),
        ("an append is whole", acts([append("f", text("1")), append("f", text("2"))]), 3, false),
    ];
    for (name, program, at, expected) in rows {
        let mut whole = programs(start, [program]);
        let run = killed(&whole, at).run("");
        let judgement = judge(&faulty(1), &mut whole, &run);
        assert_eq!(torn(&judgement), expected, "{name}: {judgement:?}");
    }
}

#[test]
fn who_mends_a_torn_file_leaves_none() {
    let whole = |second: Vec<Act>| programs(&[("f", "old")], [rewrite("f", text("new")), second]);
    let mut mended = whole(rewrite("f", text("new")));
    assert!(!torn(&judge(&faulty(2), &mut mended.clone(), &killed(&mended, 1).run(""))), "written anew");
    assert!(torn(&judge(&faulty(2), &mut mended, &killed(&whole(read("f")), 1).run(""))), "only looked at");
}

#[test]
fn what_was_acknowledged_before_the_kill_must_be_there() {
    let lost = |judgement: &Judgement| accused(judgement, |a| matches!(a, Accusation::LostAfterCrash { .. }));
    let says = || vec![Act::Print(text("done 1\n"))];
    // It says that it is done, and how, before or after it is; where it is killed; whether that is a loss.
    let rows: [(&str, Vec<Act>, usize, bool); 6] = [
        ("said too early", acts([says(), replace("f", "t", text("new"))]), 2, true),
        ("said when done", acts([replace("f", "t", text("new")), says()]), 5, false),
        ("not said yet", acts([replace("f", "t", text("new")), says()]), 3, false),
        ("marked too early", acts([vec![Act::Acknowledge], replace("f", "t", text("new"))]), 2, true),
        ("marked when done", acts([replace("f", "t", text("new")), vec![Act::Acknowledge]]), 5, false),
        ("half a line", acts([vec![Act::Print(text("done"))], replace("f", "t", text("new"))]), 2, false),
    ];
    for (name, program, at, expected) in rows {
        let mut scenario = faulty(1);
        scenario.workers[0].acknowledges = Some("done *".into());
        let mut whole = programs(&[("f", "old")], [program]);
        let run = killed(&whole, at).run("");
        let judgement = judge(&scenario, &mut whole, &run);
        assert_eq!(lost(&judgement), expected, "{name}: {judgement:?}");
        // Without the pattern a line says nothing.
        if name == "said too early" {
            assert!(!lost(&judge(&faulty(1), &mut whole, &run)), "{name}");
        }
    }
}

/// A name, a writer, a reader, a schedule in which they meet or not, and whether it is said.
type Meeting = (&'static str, Vec<Act>, Vec<Act>, &'static str, bool);

#[test]
fn a_large_write_that_somebody_reads_without_a_lock_is_taken_as_atomic() {
    let large = || text(&"x".repeat(5000));
    let small = || text(&"x".repeat(4096));
    let rows: [Meeting; 7] = [
        ("in place", rewrite("f", large()), read("f"), "BAABB", true),
        ("one page", rewrite("f", small()), read("f"), "BAABB", false),
        ("renamed", replace("f", "t", large()), read("f"), "BAAAABB", false),
        ("appended", append("f", large()), read("f"), "BAABB", false),
        ("under one lock", locked("l", rewrite("f", large())), locked("l", read("f")), "", false),
        ("only the writer locks", locked("l", rewrite("f", large())), read("f"), "BAAAAAAABB", true),
        ("one after the other", rewrite("f", large()), read("f"), "", false),
    ];
    for (name, writer, reader, schedule, expected) in rows {
        let run = programs(&[("f", "old")], [writer, reader]).run(schedule);
        assert!(run.steps.iter().any(|step| step.op == Op::Read));
        let mut atomic = Atomic::new();
        atomic.observe(&run);
        let warnings = atomic.warnings(&["A", "B"]);
        assert_eq!(!warnings.is_empty(), expected, "{name}: {warnings:?}");
        if let Some(warning) = warnings.first() {
            let text = "calls taken as atomic: A's write of 5000 bytes into f, which B reads without a lock";
            assert!(warning.text.starts_with(text), "{}", warning.text);
        }
    }
}
