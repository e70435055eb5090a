//! A process killed at any step: nothing that was acknowledged is lost, nothing is there twice, and nobody is stuck.
//!
//! For each strategy and operation the process is killed before each of its steps in turn, and in the middle of each write.
//! Then another process works on. The world is the modelled one, in which a waiting process that nobody will ever wake is
//! a panic; the code is the queue's own.

mod support;

use queue_core::strategy::{NAMES, Options};
use queue_core::{Claim, Document, Durability, Hold, Queue, Settings};
use support::judge::left;
use support::ops::{Kind, Op, Outcome, apply, document, task};
use support::storage::{Alone, Death, Model};
use support::world::World;

/// What is done by the process that is killed, on a queue with t1 (claimed under attempt 1) and t2.
fn operations() -> Vec<Op> {
    let (id, account) = ("t1".to_owned(), "a".to_owned());
    vec![
        Op::Push { id: "p".into(), account: account.clone() },
        Op::Claim { account: Some(account.clone()) },
        Op::Complete { id: id.clone(), account: account.clone(), attempt: Some(1) },
        Op::Extend { id: id.clone(), account: account.clone(), attempt: Some(1) },
        Op::Release { id, account: account.clone(), attempt: Some(1) },
        Op::Process { account, then_push: Some("q".into()) },
    ]
}

fn queue(kind: Kind, storage: Model<Alone>, durability: Durability) -> Queue<Model<Alone>> {
    let settings = kind.settings(Settings { durability, ..Settings::default() });
    Queue::open(storage, kind.path(), kind.strategy(), settings)
}

/// A queue on which somebody has worked before, so that notes, snapshots and spares are there.
fn beginning(kind: Kind) -> World {
    let first = document(1, "a", &["t1", "t2"]);
    let gate = Alone::new(kind.world(&[(kind.file(), &first)]));
    let queue = queue(kind, Model::new(gate.clone(), 1), Durability::None);
    let claimed = queue.claim(&Claim { account: Some("a"), ..Claim::by("w") }).unwrap().unwrap();
    assert_eq!((claimed.id(), claimed.attempts()), ("t1", 1));
    // Whatever a strategy makes once is there now.
    queue.push(&task("x", "a")).unwrap();
    queue.complete("x", Some("a"), &Hold::Any).unwrap();
    gate.world()
}

/// The ids that may be there at the end, and whether the operation counts as done.
fn expected(op: &Op, done: bool) -> Vec<&'static str> {
    match (op, done) {
        (Op::Push { .. }, true) => vec!["n", "p", "t1", "t2"],
        (Op::Complete { .. }, true) => vec!["n", "t2"],
        (Op::Process { .. }, true) => vec!["n", "q", "t1"],
        _ => vec!["n", "t1", "t2"],
    }
}

fn die(kind: Kind, op: &Op, death: Death, durability: Durability) {
    let case = format!("{kind:?}, {op:?}, {death:?}, {durability:?}");
    let gate = Alone::new(beginning(kind));
    let storage = Model::new(gate.clone(), 2).killed(death);
    let mut killed = queue(kind, storage, durability);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| try_apply(&mut killed, op)));
    let acknowledged = matches!(outcome, Ok(Some(_)));

    // The next one is not kept waiting, and finds a sound queue.
    let next = queue(kind, Model::new(gate.clone(), 3), Durability::None);
    let pushed = next.push(&task("n", "a")).unwrap_or_else(|error| panic!("{case}: stuck: {error}"));
    assert_eq!(pushed, queue_core::Push::Added, "{case}");
    let world = gate.world();
    let mut ids = left(kind, &world).unwrap_or_else(|| panic!("{case}: torn"));
    ids.sort();
    let (done, not) = (expected(op, true), expected(op, false));
    match acknowledged {
        true => assert_eq!(ids, done, "{case}: acknowledged"),
        false => assert!(ids == done || ids == not, "{case}: {ids:?}"),
    }
    // Asked again, it happens once and no more.
    if let (Op::Push { id, account }, false) = (op, acknowledged) {
        next.push(&task(id, account)).unwrap();
        let mut ids = left(kind, &gate.world()).unwrap();
        ids.sort();
        assert_eq!(ids, done, "{case}: again");
    }
    // A completed task stays completed.
    if let Op::Complete { id, account, .. } = op {
        let twice = next.complete(id, Some(account), &Hold::Attempt(1));
        assert_eq!(twice.is_ok(), ids == not, "{case}");
    }
    // Every version that was kept is whole: no snapshot's inode is written again.
    for (path, bytes) in gate.world().files().filter(|(path, _)| path.to_string_lossy().contains(".snapshots/")) {
        if kind != Kind::Naive && Document::parse(bytes).is_err() {
            // One that is copied may be cut short; those that are linked or displaced never are.
            panic!("{case}: {} is torn", path.display());
        }
    }
}

/// None: the process was killed before it was told.
fn try_apply(queue: &mut Queue<Model<Alone>>, op: &Op) -> Option<Outcome> {
    // An error of a killed process is none that anybody sees.
    Some(apply(queue, op))
}

/// How many steps the operation takes if nobody is killed.
fn steps(kind: Kind, op: &Op, durability: Durability) -> usize {
    let storage = Model::new(Alone::new(beginning(kind)), 2);
    let counter = storage.counter();
    let queue = queue(kind, storage, durability);
    apply(&queue, op);
    drop(queue);
    let steps = *counter.lock().unwrap();
    assert!(steps > 5, "{kind:?}, {op:?}: {steps}");
    steps
}

#[test]
fn a_kill_at_every_step_loses_nothing_that_was_acknowledged() {
    // A killed process panics inside `apply`, on an error that no living one meets.
    std::panic::set_hook(Box::new(|info| {
        let text = info.to_string();
        if !text.contains("killed") {
            eprintln!("{text}");
        }
    }));
    let mut kills = 0;
    for kind in Kind::SAFE {
        for op in operations() {
            for durability in [Durability::None, Durability::Full] {
                for after in 0..=steps(kind, &op, durability) {
                    for within in [false, true] {
                        die(kind, &op, Death { after, within }, durability);
                        kills += 1;
                    }
                }
            }
        }
    }
    println!("{kills} kills");
    assert!(kills > 1000, "{kills}");
}

#[test]
fn naive_is_found_to_be_torn_by_a_kill() {
    let op = &operations()[0];
    let torn = (0..steps(Kind::Naive, op, Durability::None)).any(|after| {
        let gate = Alone::new(beginning(Kind::Naive));
        let storage = Model::new(gate.clone(), 2).killed(Death { after, within: true });
        let mut killed = queue(Kind::Naive, storage, Durability::None);
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| try_apply(&mut killed, op)));
        left(Kind::Naive, &gate.world()).is_none()
    });
    assert!(torn);
}

#[test]
fn a_killed_mover_leaves_the_task_in_one_place() {
    for kind in [Kind::Sharded, Kind::ShardedLockDir] {
        for after in 0..90 {
            let (first, second) = (document(1, "a", &["t1"]), document(1, "b", &["t2"]));
            let files = [("queues/queue_a.json", &first[..]), ("queues/queue_b.json", &second[..])];
            let gate = Alone::new(kind.world(&files));
            let mover =
                queue(kind, Model::new(gate.clone(), 2).killed(Death { after, within: false }), Durability::None);
            let moved = mover.relocate("t1", "a", "b");
            drop(mover);
            let next = queue(kind, Model::new(gate.clone(), 3), Durability::None);
            let mut given = Vec::new();
            while let Some(task) =
                next.claim(&Claim::by("w")).unwrap_or_else(|error| panic!("{kind:?} {after}: {error}"))
            {
                given.push((task.id().to_owned(), task.account().to_owned()));
            }
            given.sort();
            let at = |account: &str| vec![("t1".to_owned(), account.to_owned()), ("t2".to_owned(), "b".to_owned())];
            assert!(given == at("a") || given == at("b"), "{kind:?} {after}: {given:?}");
            if moved.is_ok() {
                assert_eq!(given, at("b"), "{kind:?} {after}");
            }
        }
    }
}

#[test]
fn every_strategy_is_here() {
    let here: Vec<&str> = Kind::ALL.iter().map(|kind| kind.strategy::<Model<Alone>>().name()).collect();
    for name in NAMES {
        assert!(here.contains(&name), "{name}");
    }
    assert!(queue_core::strategy::by_name::<Model<Alone>>("magic", &Options::default()).is_none());
}
