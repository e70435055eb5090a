//! Operations as data.

use proptest::prelude::*;
use queue_core::storage::Storage;
use queue_core::strategy::{Options, Strategy as QueueStrategy, by_name};
use queue_core::{Claim, Durability, Error, Hold, Push, Queue, Settings, Task, Work};
use serde_json::value::RawValue;

use super::world::World;

/// A strategy, for any storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Naive,
    Flock,
    Fair,
    /// `flock` with a spare file.
    Spare,
    LockDir,
    Optimistic,
    /// Without sockets, as in the model, each client writes for itself.
    Writer,
    Sharded,
    ShardedLockDir,
}

impl Kind {
    pub(crate) const ALL: [Kind; 9] = [
        Kind::Naive,
        Kind::Flock,
        Kind::Fair,
        Kind::Spare,
        Kind::LockDir,
        Kind::Optimistic,
        Kind::Writer,
        Kind::Sharded,
        Kind::ShardedLockDir,
    ];

    /// Those that keep competing processes apart.
    pub(crate) const SAFE: [Kind; 8] = [
        Kind::Flock,
        Kind::Fair,
        Kind::Spare,
        Kind::LockDir,
        Kind::Optimistic,
        Kind::Writer,
        Kind::Sharded,
        Kind::ShardedLockDir,
    ];

    pub(crate) fn strategy<S: Storage + 'static>(self) -> Box<dyn QueueStrategy<S>> {
        let (name, over) = match self {
            Kind::Naive => ("naive", None),
            Kind::Flock | Kind::Fair | Kind::Spare => ("flock", None),
            Kind::LockDir => ("lock-dir", None),
            Kind::Optimistic => ("optimistic", None),
            Kind::Writer => ("writer", None),
            Kind::Sharded => ("sharded", None),
            Kind::ShardedLockDir => ("sharded", Some("lock-dir".to_owned())),
        };
        by_name(name, &Options { over, fair: self == Kind::Fair, ..Options::default() }).expect("a strategy")
    }

    pub(crate) fn is_sharded(self) -> bool {
        matches!(self, Kind::Sharded | Kind::ShardedLockDir)
    }

    /// The settings as this kind needs them.
    pub(crate) fn settings(self, settings: Settings) -> Settings {
        let durability = match (self, settings.durability) {
            // The two do not go together.
            (Kind::Spare, Durability::Data) => Durability::Full,
            (_, durability) => durability,
        };
        Settings { spare: self == Kind::Spare, durability, ..settings }
    }

    /// The queue's place in the modelled world.
    pub(crate) fn path(self) -> &'static str {
        if self.is_sharded() { "queues" } else { "queue.json" }
    }

    /// The file of account `a`.
    pub(crate) fn file(self) -> &'static str {
        if self.is_sharded() { "queues/queue_a.json" } else { "queue.json" }
    }

    /// A world with these files, in which the queue is used with this strategy already.
    pub(crate) fn world(self, files: &[(&str, &[u8])]) -> World {
        let used: Option<&[u8]> = match self {
            Kind::Naive => Some(b"naive\n"),
            Kind::LockDir | Kind::ShardedLockDir => Some(b"lock-dir\n"),
            _ => None,
        };
        let records: Vec<_> = files.iter().map(|(path, _)| format!("{path}.strategy")).collect();
        let records = records.iter().filter_map(|path| Some((&**path, used?)));
        World::with(&files.iter().copied().chain(records).collect::<Vec<_>>())
    }
}

/// One operation of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    Push {
        id: String,
        account: String,
    },
    Claim {
        account: Option<String>,
    },
    Complete {
        id: String,
        account: String,
        attempt: Option<u64>,
    },
    /// Lets the claim hold without end.
    Extend {
        id: String,
        account: String,
        attempt: Option<u64>,
    },
    Release {
        id: String,
        account: String,
        attempt: Option<u64>,
    },
    /// Claim, execute and complete at once; pushes the named task in the same write.
    Process {
        account: String,
        then_push: Option<String>,
    },
    List,
}

/// What it came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Pushed {
        id: String,
        new: bool,
    },
    /// The task's id and the number of the claim.
    Claimed(Option<(String, u64)>),
    Completed(String),
    Extended(String),
    Released(String),
    /// The task that was executed, and the one that was pushed.
    Processed {
        done: Option<String>,
        pushed: Option<String>,
    },
    /// Id, state and attempts of each task.
    Listed(Vec<(String, String, u64)>),
    Refused(Refusal),
}

/// Why an operation did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Missing,
    UnknownId,
    LeaseLost,
    BadFile,
    Timeout,
}

/// Carries out an operation.
///
/// # Panics
/// On an error that no operation here should meet.
pub(crate) fn apply<S: Storage>(queue: &Queue<S>, op: &Op) -> Outcome {
    try_apply(queue, op).unwrap_or_else(|error| {
        Outcome::Refused(match error {
            Error::Missing { .. } => Refusal::Missing,
            Error::UnknownId { .. } => Refusal::UnknownId,
            Error::LeaseLost { .. } => Refusal::LeaseLost,
            Error::BadFile { .. } => Refusal::BadFile,
            Error::LockTimeout { .. } => Refusal::Timeout,
            other => panic!("{op:?}: {other}"),
        })
    })
}

fn try_apply<S: Storage>(queue: &Queue<S>, op: &Op) -> Result<Outcome, Error> {
    Ok(match op {
        Op::Push { id, account } => {
            Outcome::Pushed { id: id.clone(), new: queue.push(&task(id, account))? == Push::Added }
        }
        Op::Claim { account } => {
            let claim = Claim { account: account.as_deref(), ..Claim::by("w") };
            let claimed = queue.claim(&claim)?;
            Outcome::Claimed(claimed.map(|task| (task.id().to_owned(), task.attempts())))
        }
        Op::Complete { id, account, attempt } => {
            Outcome::Completed(queue.complete(id, Some(account), &hold(*attempt))?.id().to_owned())
        }
        Op::Extend { id, account, attempt } => {
            Outcome::Extended(queue.extend(id, Some(account), &hold(*attempt), None)?.id().to_owned())
        }
        Op::Release { id, account, attempt } => {
            Outcome::Released(queue.release(id, Some(account), &hold(*attempt))?.id().to_owned())
        }
        Op::Process { account, then_push } => {
            let claim = Claim { account: Some(account), ..Claim::by("w") };
            let done = queue
                .process(&claim, &mut |done| Ok(Work::Done(then_push.as_ref().map(|id| task(id, done.account())))))?;
            Outcome::Processed {
                pushed: done.as_ref().and(then_push.clone()),
                done: done.map(|task| task.id().to_owned()),
            }
        }
        Op::List => {
            let tasks = queue.list(None)?;
            let seen = |task: &Task| (task.id().to_owned(), task.state().as_str().to_owned(), task.attempts());
            Outcome::Listed(tasks.iter().map(seen).collect())
        }
    })
}

fn hold(attempt: Option<u64>) -> Hold {
    attempt.map_or(Hold::Any, Hold::Attempt)
}

/// A task with parameters that no machine number holds.
pub(crate) fn task(id: &str, account: &str) -> Task {
    let params = RawValue::from_string(r#"{"n":123456789012345678901234567890,"a":1.10}"#.into()).unwrap();
    Task::new(id, account, &params).unwrap()
}

/// The queue file with these tasks, all of one account and queued.
pub(crate) fn document(version: u64, account: &str, ids: &[&str]) -> Vec<u8> {
    let tasks: Vec<_> = ids.iter().map(|id| task(id, account).text().to_owned()).collect();
    format!(r#"{{"version": {version}, "tasks": [{}]}}"#, tasks.join(", ")).into_bytes()
}

/// Any operation on a few ids and accounts, so that they meet often.
pub(crate) fn any_op() -> impl Strategy<Value = Op> {
    let id = || prop::sample::select(vec!["t1", "t2", "t3", "t4"]).prop_map(str::to_owned);
    let account = || prop::sample::select(vec!["a", "b"]).prop_map(str::to_owned);
    let attempt = || prop::option::of(1..3_u64);
    prop_oneof![
        4 => (id(), account()).prop_map(|(id, account)| Op::Push { id, account }),
        3 => prop::option::of(account()).prop_map(|account| Op::Claim { account }),
        2 => (id(), account(), attempt()).prop_map(|(id, account, attempt)| Op::Complete { id, account, attempt }),
        1 => (id(), account(), attempt()).prop_map(|(id, account, attempt)| Op::Extend { id, account, attempt }),
        2 => (id(), account(), attempt()).prop_map(|(id, account, attempt)| Op::Release { id, account, attempt }),
        1 => (account(), prop::option::of(id())).prop_map(|(account, then_push)| Op::Process { account, then_push }),
        1 => Just(Op::List),
    ]
}
