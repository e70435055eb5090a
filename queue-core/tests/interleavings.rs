//! Any interleaving: generated operations of several processes under generated schedules.

mod support;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use queue_core::{Durability, Queue, Settings};
use support::judge::{Verdict, judge};
use support::ops::{Kind, Op, Outcome, apply, document};
use support::storage::Model;
use support::turnstile::{Run, Turnstile, run};

/// Only what the operations themselves need.
fn bare() -> Settings {
    Settings { durability: Durability::None, snapshots: 0, audit: false, ..Settings::default() }
}

/// Runs a process per list of operations, on a queue in which both accounts have one task.
fn interleave(kind: Kind, settings: &Settings, actors: &[Vec<Op>], schedule: &[u8]) -> (Verdict, Run<Vec<Outcome>>) {
    let (first, second) = (document(3, "a", &["a1"]), document(3, "b", &["b1"]));
    let world = match kind.is_sharded() {
        false => kind.world(&[("queue.json", &first)]),
        true => kind.world(&[("queues/queue_a.json", &first), ("queues/queue_b.json", &second)]),
    };
    let initial: &[&str] = if kind.is_sharded() { &["a1", "b1"] } else { &["a1"] };
    let bodies: Vec<_> = (100..)
        .zip(actors)
        .map(|(pid, ops)| {
            move |gate: Turnstile| {
                let storage = Model::new(gate, pid);
                let queue = Queue::open(storage, kind.path(), kind.strategy(), kind.settings(settings.clone()));
                ops.iter().map(|op| apply(&queue, op)).collect::<Vec<_>>()
            }
        })
        .collect();
    let bodies: Vec<&(dyn Fn(Turnstile) -> Vec<Outcome> + Sync)> =
        bodies.iter().map(|body| body as &(dyn Fn(Turnstile) -> _ + Sync)).collect();
    let run = run(world, schedule, &bodies);
    let outcomes: Vec<_> = run.results.iter().flatten().cloned().collect();
    (judge(kind, initial, &outcomes, &run.world), run)
}

fn push(id: &str) -> Op {
    Op::Push { id: id.into(), account: "a".into() }
}

/// Operations of one process: pushes of ids that nobody else pushes, claims, and work in one go.
fn ops_of(process: usize) -> impl Strategy<Value = Vec<Op>> {
    let account = || prop::sample::select(vec!["a", "b"]).prop_map(str::to_owned);
    let op = prop_oneof![
        3 => account().prop_map(|account| (account, 0)),
        2 => account().prop_map(|account| (account, 1)),
        2 => account().prop_map(|account| (account, 2)),
    ];
    prop::collection::vec(op, 1..4).prop_map(move |ops| {
        let op = |(index, (account, which)): (usize, (String, u8))| match which {
            0 => Op::Push { id: format!("p{process}-{index}"), account },
            1 => Op::Claim { account: Some(account) },
            _ => Op::Process { account, then_push: Some(format!("q{process}-{index}")) },
        };
        ops.into_iter().enumerate().map(op).collect()
    })
}

/// A schedule as how many steps are taken before somebody else goes on. In this form it shrinks well: taking out an
/// entry takes out a switch.
fn schedule(actors: u8) -> impl Strategy<Value = Vec<u8>> {
    let switches = prop::collection::vec((0..12_usize, 1..actors), 0..30);
    switches.prop_map(|switches| {
        let choices = |(steps, next)| std::iter::repeat_n(0, steps).chain([next]);
        switches.into_iter().flat_map(choices).collect()
    })
}

proptest! {
    #![proptest_config(Config { cases: 300, failure_persistence: None, ..Config::default() })]

    #[test]
    fn locked_strategies_keep_every_task(
        kind in prop::sample::select(Kind::SAFE.to_vec()),
        evidence: bool,
        actors in (ops_of(0), ops_of(1), ops_of(2)),
        schedule in schedule(3),
    ) {
        let settings = if evidence { Settings::default() } else { bare() };
        let (verdict, run) = interleave(kind, &settings, &[actors.0, actors.1, actors.2], &schedule);
        prop_assert!(verdict.is_clean(), "{verdict:?}\n{:?}", run.trace);
    }

    #[test]
    fn waiting_with_a_time_out_keeps_every_task_too(
        actors in (ops_of(0), ops_of(1)),
        schedule in schedule(2),
    ) {
        // The schedule may keep the holder from going on until our time is over; then that is said.
        let settings = Settings { timeout: Some(std::time::Duration::from_millis(100)), ..bare() };
        let (verdict, run) = interleave(Kind::Flock, &settings, &[actors.0, actors.1], &schedule);
        prop_assert!(verdict.is_clean() || verdict == Verdict::Refused, "{verdict:?}\n{:?}", run.trace);
    }

    #[test]
    fn audit_lines_of_locked_writers_are_one_chain(
        kind in prop::sample::select(vec![Kind::Flock, Kind::Fair, Kind::Spare, Kind::LockDir, Kind::Optimistic]),
        actors in (ops_of(0), ops_of(1)),
        schedule in schedule(2),
    ) {
        let (_, run) = interleave(kind, &Settings::default(), &[actors.0, actors.1], &schedule);
        let lines = run.world.file(".queue.json.audit.jsonl").unwrap_or_default();
        let lines: Vec<_> = std::str::from_utf8(lines).unwrap().lines()
            .map(|line| queue_core::audit::Entry::parse(line).expect("a sound line"))
            .collect();
        for pair in lines.windows(2) {
            prop_assert_eq!(pair[0].wrote, pair[1].read);
            prop_assert_eq!(&pair[0].wrote_hash, &pair[1].read_hash);
        }
        let end = queue_core::audit::hash(run.world.file("queue.json").unwrap());
        prop_assert!(lines.last().is_none_or(|last| last.wrote_hash == end));
    }
}

#[test]
fn a_losing_interleaving_of_naive_is_found_and_shrunk() {
    let loses = |schedule: &[u8]| {
        let (verdict, run) = interleave(Kind::Naive, &bare(), &[vec![push("p")], vec![push("q")]], schedule);
        (matches!(&verdict, Verdict::Silent(fate) if !fate.lost.is_empty()), run)
    };
    let config = Config { cases: 1000, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let result = runner.run(&schedule(2), |schedule| {
        prop_assert!(!loses(&schedule).0);
        Ok(())
    });
    let Err(TestError::Fail(_, minimal)) = result else {
        panic!("no losing schedule was found: {result:?}");
    };
    let (lost, run) = loses(&minimal);
    println!("schedule {minimal:?}: {:?}", run.trace);
    assert!(lost);
    // One actor has read; the other comes in between, once, and does all it has to do.
    assert_eq!(minimal, [0, 0, 0, 0, 1]);
    let order: Vec<_> = run.trace.iter().map(|&(actor, _)| actor).collect();
    assert_eq!(order, [0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0]);
    let steps: Vec<_> = run.trace.iter().map(|&(_, step)| step).collect();
    // First the record of the strategy, then the queue.
    let whole = ["open", "read", "open", "read", "truncate", "write"];
    assert_eq!(steps, [&whole[..4], &whole[..], &whole[4..]].concat());
}

#[test]
fn the_incident_in_one_schedule() {
    let process =
        |then_push: Option<&str>| Op::Process { account: "a".into(), then_push: then_push.map(str::to_owned) };
    // B reads; A reads, executes, adds t2 and writes; B, which has executed too, writes its old copy.
    let actors = [vec![process(None)], vec![process(Some("t2"))]];
    let (verdict, _) = interleave(Kind::Naive, &bare(), &actors, &[0, 0, 0, 0, 1]);
    let Verdict::Silent(fate) = verdict else {
        panic!("nobody saw an error: {verdict:?}");
    };
    assert_eq!(fate.duplicated, ["a1"]);
    assert_eq!(fate.lost, ["t2"]);
    // Under a lock the same schedule does no harm.
    let (verdict, run) = interleave(Kind::Flock, &bare(), &actors, &[0, 0, 0, 0, 1]);
    assert!(verdict.is_clean(), "{verdict:?}\n{:?}", run.trace);
}
