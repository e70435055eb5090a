//! Every interleaving: loom runs the real queue code over a modelled file system in which each step is a point where
//! any other process may come in between.
//!
//! The numbers are exact, and the same in every run: a change that makes the model coarser would otherwise go unseen.

mod support;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use queue_core::{Durability, Queue, Settings};
use support::judge::{Verdict, judge};
use support::loom_gate::{LoomGate, Trace};
use support::ops::{Kind, Op, Outcome, apply, document};
use support::storage::Model;

/// Two or three processes, one operation each, on a queue with some tasks.
#[derive(Clone)]
struct Case {
    kind: Kind,
    settings: Settings,
    files: Vec<(&'static str, Vec<u8>)>,
    initial: Vec<&'static str>,
    ops: Vec<Op>,
    preemptions: Option<usize>,
    /// At most so many executions, some times what the case takes with its lock. Without the lock it would take far more,
    /// and is to fail soon; a case that is cut short cannot have its exact number.
    executions: usize,
}

/// How many interleavings there were, and in how many what happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    all: usize,
    /// A task was lost, and nobody was told.
    lost: usize,
    /// A task was executed or claimed twice, and nobody was told.
    duplicated: usize,
    /// Both at once: the incident.
    both: usize,
    /// The file was damaged at the end, and nobody was told.
    torn: usize,
    /// Somebody met half a file and was told so.
    refused: usize,
}

/// What the executions of a case have come to, by interleaving: loom may come to one more than once.
type Seen = Mutex<HashMap<Trace, Verdict>>;

impl Case {
    fn new(kind: Kind, ops: &[Op]) -> Self {
        Case {
            kind,
            settings: Settings { durability: Durability::None, snapshots: 0, audit: false, ..Settings::default() },
            files: vec![(kind.file(), document(1, "a", &["t1"]))],
            initial: vec!["t1"],
            ops: ops.to_vec(),
            preemptions: None,
            executions: 10_000,
        }
    }

    /// Runs every interleaving, and prints what was seen.
    fn explore(self, name: &str) -> Count {
        let seen = Arc::new(Seen::default());
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = self.preemptions;
        builder.max_permutations = Some(self.executions);
        let bound = self.preemptions;
        let kind = self.kind;
        {
            let seen = seen.clone();
            builder.check(move || self.run_once(&seen));
        }
        let mut count = Count::default();
        for verdict in seen.lock().unwrap().values() {
            count.all += 1;
            match verdict {
                Verdict::Refused => count.refused += 1,
                Verdict::Torn => count.torn += 1,
                Verdict::Silent(fate) => {
                    count.lost += usize::from(!fate.lost.is_empty());
                    count.duplicated += usize::from(!fate.duplicated.is_empty());
                    count.both += usize::from(!fate.lost.is_empty() && !fate.duplicated.is_empty());
                }
            }
        }
        let bound = bound.map_or(String::new(), |bound| format!(" with at most {bound} preemptions"));
        println!("{kind:?}, {name}: interleavings{bound}: {count:?}");
        count
    }

    fn run_once(&self, seen: &Seen) {
        let files: Vec<_> = self.files.iter().map(|(path, bytes)| (*path, &bytes[..])).collect();
        let gate = LoomGate::new(self.kind.world(&files));
        let threads: Vec<_> = (0..)
            .zip(self.ops.clone())
            .map(|(actor, op)| {
                let storage = Model::new(gate.of(actor), 100 + actor as u32);
                let (kind, settings) = (self.kind, self.kind.settings(self.settings.clone()));
                loom::thread::spawn(move || {
                    let queue = Queue::open(storage, kind.path(), kind.strategy(), settings);
                    apply(&queue, &op)
                })
            })
            .collect();
        let outcomes: Vec<Outcome> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let (world, trace) = gate.end();
        let verdict = judge(self.kind, &self.initial, &outcomes, &world);
        seen.lock().unwrap().insert(trace, verdict);
    }
}

fn push(id: &str, account: &str) -> Op {
    Op::Push { id: id.into(), account: account.into() }
}

fn claim() -> Op {
    Op::Claim { account: Some("a".into()) }
}

fn complete(id: &str) -> Op {
    Op::Complete { id: id.into(), account: "a".into(), attempt: None }
}

fn process(then_push: Option<&str>) -> Op {
    Op::Process { account: "a".into(), then_push: then_push.map(str::to_owned) }
}

/// Every kind of pair, on a queue that holds t1.
fn pairs() -> Vec<(&'static str, [Op; 2])> {
    vec![
        ("push + push", [push("p", "a"), push("q", "a")]),
        ("push + claim", [push("p", "a"), claim()]),
        ("claim + claim", [claim(), claim()]),
        ("push + complete", [push("p", "a"), complete("t1")]),
        ("process + process", [process(Some("p")), process(None)]),
        ("process + push", [process(None), push("p", "a")]),
    ]
}

/// Nothing but `all` clean interleavings.
fn clean(all: usize) -> Count {
    Count { all, ..Count::default() }
}

#[test]
fn naive_is_found_to_lose_an_update() {
    let ops = [push("p", "a"), push("q", "a")];
    let count = Case::new(Kind::Naive, &ops).explore("push + push");
    let expected = Count { lost: 420, refused: 112, ..clean(700) };
    assert_eq!(count, expected);
}

#[test]
fn naive_is_found_to_be_the_incident() {
    // B executes t1; A does so too, adds t2, and writes in between: t1 twice, t2 gone.
    let ops = [process(None), process(Some("t2"))];
    let count = Case::new(Kind::Naive, &ops).explore("the incident");
    let expected = Count { lost: 70, duplicated: 280, both: 70, torn: 140, refused: 112, ..clean(700) };
    assert_eq!(count, expected);
}

#[test]
fn locked_strategies_keep_every_task_in_every_interleaving() {
    for kind in [Kind::Flock, Kind::Spare] {
        let mut all = None;
        for (name, ops) in pairs() {
            let count = Case::new(kind, &ops).explore(name);
            // What is done under the lock makes no difference to who waits for whom.
            assert_eq!(count, clean(*all.get_or_insert(count.all)), "{kind:?}, {name}");
        }
        assert!(all >= Some(176), "{kind:?}: {all:?}");
    }
}

/// These take many steps beside each other, so that all interleavings are too many.
#[test]
fn strategies_that_work_outside_the_lock_keep_every_task() {
    for kind in [Kind::Fair, Kind::LockDir, Kind::Optimistic, Kind::Writer, Kind::Sharded] {
        for (name, ops) in pairs() {
            let mut case = Case::new(kind, &ops);
            case.preemptions = Some(2);
            case.executions = 100_000;
            let count = case.explore(name);
            assert_eq!(count, clean(count.all), "{kind:?}, {name}");
            assert!(count.all > 30, "{kind:?}, {name}: {count:?}");
        }
    }
}

#[test]
fn sharded_accounts_do_not_disturb_each_other() {
    let ops = [push("p", "a"), push("q", "b")];
    let mut case = Case::new(Kind::Sharded, &ops);
    case.preemptions = Some(3);
    case.executions = 200_000;
    let count = case.explore("two accounts");
    assert_eq!(count, clean(count.all));
    assert!(count.all > 100, "{count:?}");
}

#[test]
fn evidence_and_durability_change_nothing() {
    for (kind, all) in [(Kind::Flock, 456), (Kind::Sharded, 456)] {
        let mut case = Case::new(kind, &[push("p", "a"), claim()]);
        case.settings = Settings::default();
        let count = case.explore("push + claim with evidence");
        assert_eq!(count, clean(count.all));
        // Sharded, a claim first looks for moves that were not finished.
        assert!(count.all >= all && (kind != Kind::Flock || count.all == all), "{count:?}");
    }
}

#[test]
fn three_processes_keep_every_task() {
    for (kind, all) in [(Kind::Flock, 1196), (Kind::Sharded, 1196)] {
        let mut case = Case::new(kind, &[push("p", "a"), claim(), process(Some("q"))]);
        // All interleavings of three take minutes.
        case.preemptions = Some(2);
        let count = case.explore("push + claim + process");
        assert_eq!(count, clean(count.all));
        assert!(count.all >= all && (kind != Kind::Flock || count.all == all), "{count:?}");
    }
}
