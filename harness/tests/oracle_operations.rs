//! Operations: several reads, changes and writes by one worker, marked or inferred.

mod oracle_support;

use noclobber::{
    oracle::{Accusation, Judge, Judgement},
    scenario::{Scenario, Serial},
};
use oracle_support::*;

fn judge(scenario: &Scenario, programs: &mut Programs, schedule: &str) -> Judgement {
    let run = programs.run(schedule);
    Judge::new(scenario, programs.initial.clone()).unwrap().judge(&run, programs).unwrap()
}

/// `r` right, `i` right with operations inferred, `s` no serial order, `u` unknown, `f` worker failed.
fn short(judgement: &Judgement) -> char {
    match judgement {
        Judgement::Right { warnings } if warnings.iter().any(|w| w.text == "operations inferred") => 'i',
        Judgement::Right { .. } => 'r',
        Judgement::Unknown(reason) => {
            assert!(reason.contains("mark operations (.noclobber/op)"), "{reason}");
            'u'
        }
        Judgement::Wrong(wrong) => match &wrong.accusations[0] {
            Accusation::Serial { .. } => 's',
            Accusation::WorkerFailed { .. } => 'f',
            other => panic!("{other:?}"),
        },
    }
}

fn grow(from: &'static str) -> impl Fn(&Mind) -> String {
    move |mind: &Mind| format!("{}{}", mind.read.get(from).cloned().unwrap_or_default(), mind.me)
}

/// One locked read-modify-write: 11 acts.
fn step() -> Vec<Act> {
    locked("lock", acts([read("q"), replace("q", "q.tmp", compute(grow("q")))]))
}

/// The same without a lock: 7 acts.
fn bare() -> Vec<Act> {
    acts([read("q"), replace("q", "q.tmp", compute(grow("q")))])
}

#[test]
fn several_locked_operations_are_right_in_any_order_and_without_the_lock_they_are_not() {
    let mut programs = programs(&[("q", ""), ("lock", "")], [acts([step(), step()]), acts([step(), step()])]);
    // A's first operation, B's first, A's second, B's second: no order of whole workers gives 0101.
    let alternating = format!("{0}{1}{0}{1}", "A".repeat(11), "B".repeat(11));
    assert_eq!(short(&judge(&scenario(2), &mut programs, &alternating)), 'i');
    let mut whole = scenario(2);
    whole.oracle.serial = Serial::Workers;
    assert_eq!(short(&judge(&whole, &mut programs, &alternating)), 's');
    // B's second operation without its lock, in the middle of A's second one.
    programs.workers[1] = acts([step(), bare()]);
    let inside = format!("{}{}AAAAA{}", "A".repeat(11), "B".repeat(11), "B".repeat(7));
    assert_eq!(short(&judge(&scenario(2), &mut programs, &inside)), 's');
}

#[test]
fn a_replacement_without_a_read_of_its_own_stays_with_the_old_read() {
    // A reads once and replaces twice: between, B's update comes and is lost.
    let stale = acts([bare(), replace("q", "q.tmp", compute(|m| format!("{}+", grow("q")(m)))), read("q")]);
    let mut programs = programs(&[("q", "")], [stale, bare()]);
    assert_eq!(short(&judge(&scenario(2), &mut programs, &format!("{}{}", "A".repeat(7), "B".repeat(7)))), 's');
}

#[test]
fn opening_again_only_to_write_is_no_new_operation() {
    let adds = |from| acts([bare(), append("q", compute(from))]);
    let mut programs = programs(&[("q", "x")], [adds(grow("q")), bare()]);
    assert_eq!(short(&judge(&scenario(2), &mut programs, &format!("{}{}", "A".repeat(7), "B".repeat(7)))), 's');
}

#[test]
fn an_early_read_goes_with_the_operation_that_used_it() {
    // A's second operation reads before it locks.
    let second = acts([read("q"), locked("lock", replace("q", "q.tmp", compute(grow("q"))))]);
    let mut programs = programs(&[("q", ""), ("lock", "")], [acts([step(), second]), acts([step(), step()])]);
    let early = format!("{}{}AAA{}", "A".repeat(11), "B".repeat(11), "B".repeat(11));
    assert_eq!(short(&judge(&scenario(2), &mut programs, &early)), 's');
}

#[test]
fn a_read_repeated_under_the_lock_may_or_may_not_have_been_relied_on() {
    // Peek, then look again under the lock: from outside nobody can tell.
    let peeking = acts([read("q"), step()]);
    let mut programs = programs(&[("q", ""), ("lock", "")], [peeking.clone(), acts([step(), step()])]);
    programs.workers[0].extend(step());
    let between = format!("AAA{}{}{}{}", "B".repeat(11), "A".repeat(11), "B".repeat(11), "A".repeat(11));
    assert_eq!(short(&judge(&scenario(2), &mut programs, &between)), 'u');
    // Marked, the worker says itself that the peek belongs to the operation.
    programs.workers[0].insert(0, Act::Mark);
    programs.workers[1].insert(0, Act::Mark);
    programs.workers[1].insert(12, Act::Mark);
    programs.workers[0].insert(15, Act::Mark);
    let between = format!("AAAA{}{}{}{}", "B".repeat(12), "A".repeat(11), "B".repeat(12), "A".repeat(12));
    assert_eq!(short(&judge(&scenario(2), &mut programs, &between)), 's');
}

#[test]
fn marks_begin_operations_in_any_language() {
    let marked = || acts([vec![Act::Mark], bare(), vec![Act::Mark], bare()]);
    let mut programs = programs(&[("q", "")], [marked(), marked()]);
    let alternating = format!("{0}{1}{0}{1}", "A".repeat(8), "B".repeat(8));
    assert_eq!(short(&judge(&scenario(2), &mut programs, &alternating)), 'r');
    let torn = format!("{}BBBB{}", "A".repeat(12), "B".repeat(4));
    assert_eq!(short(&judge(&scenario(2), &mut programs, &torn)), 's');
}

#[test]
fn a_failed_attempt_counts_unless_it_was_tried_again() {
    let take = || vec![Act::OpenAppend("lock".into()), Act::TryLock("lock".into())];
    let gave_up = std::sync::Arc::new(|mind: &Mind| mind.failed);
    let give = || vec![Act::Unlock("lock".into()), Act::Close("lock".into())];
    // Tries once and goes on without its update: exit 0.
    let once = acts([take(), vec![Act::SkipIf(9, gave_up.clone())], bare(), give()]);
    let mut programs = programs(&[("q", ""), ("lock", "")], [step(), once]);
    assert_eq!(short(&judge(&scenario(2), &mut programs, "AAAABBB")), 's');
    // Tries again until it has the lock; two operations each, so that no whole order fits.
    let again = acts([take(), vec![Act::TryLock("lock".into())], bare(), give()]);
    programs.workers = vec![acts([step(), step()]), acts([again, step()])];
    let waits = format!("AAABB{}{}{}", "A".repeat(8), "B".repeat(10), "A".repeat(11));
    assert_eq!(short(&judge(&scenario(2), &mut programs, &waits)), 'i');
}

#[test]
fn a_worker_that_gives_up_beside_operations_is_worker_failed() {
    let once = acts([
        vec![Act::OpenAppend("lock".into()), Act::TryLock("lock".into())],
        vec![Act::Exit(std::sync::Arc::new(|mind| i32::from(mind.failed)))],
        vec![Act::SkipIf(9, std::sync::Arc::new(|mind| mind.failed))],
        bare(),
        vec![Act::Unlock("lock".into()), Act::Close("lock".into())],
    ]);
    let twice = || acts([step(), step()]);
    let mut programs = programs(&[("q", ""), ("lock", "")], [twice(), twice(), once]);
    let alternating =
        format!("{}CCCC{}{}{}{}", "A".repeat(4), "A".repeat(7), "B".repeat(11), "A".repeat(11), "B".repeat(11));
    assert_eq!(short(&judge(&scenario(3), &mut programs, &alternating)), 'f');
}
