//! What a judge says of one run.

use super::torn_file::TornFile;
use crate::world::{ActorId, Warning, WarningKind};

/// The judgement of one run: it has three values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Some serial order explains it, and no other judge objects.
    Right {
        /// What the report should mention.
        warnings: Vec<Warning>,
    },
    /// Wrong, for these reasons.
    Wrong(Wrong),
    /// Nobody can tell: why, and the way out. `clean` becomes `cannot-tell`.
    Unknown(String),
}

/// A run that judges accuse. [`name`](super::name) gives it a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Every accusation; never empty.
    pub accusations: Vec<Accusation>,
    /// What the report should mention.
    pub warnings: Vec<Warning>,
}

/// What one judge found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accusation {
    /// No serial order gives this outcome.
    Serial {
        /// The serial order that comes nearest.
        nearest: Option<Vec<ActorId>>,
        /// What differs from it, a sentence each.
        differences: Vec<String>,
        /// A cycle of operations, when several operations a worker were considered: `A's operation 2 ...`.
        cycle: Vec<String>,
    },
    /// The outcome is right only when these workers, which failed, are left out or their failure overlooked.
    WorkerFailed {
        /// Who failed.
        workers: Vec<ActorId>,
        /// How, a sentence each.
        endings: Vec<String>,
    },
    /// Ids were lost or executed twice.
    Conserve {
        /// Generated, neither executed nor queued.
        lost: Vec<String>,
        /// Executed more than once.
        duplicated: Vec<String>,
    },
    /// A fault left files incomplete that others know.
    TornFile {
        /// Which.
        files: Vec<TornFile>,
    },
    /// After a fault the outcome is as if these workers, which ended well, had not run.
    LostAfterCrash {
        /// Whose work is gone.
        workers: Vec<ActorId>,
    },
    /// The check command rejects the final world.
    Check {
        /// Its exit code.
        exit: Option<i32>,
        /// Its output.
        output: String,
    },
    /// Nobody can run.
    Deadlock {
        /// Who waits for what.
        waiting: Vec<(ActorId, String)>,
    },
    /// Nobody can go on because of a lock that nobody alive will give back.
    StaleLock {
        /// Who waits for what.
        waiting: Vec<(ActorId, String)>,
    },
    /// These repeat the same steps for ever.
    Livelock {
        /// Who.
        actors: Vec<ActorId>,
    },
}

/// A warning that changes no verdict.
pub(super) fn note(text: impl Into<String>) -> Warning {
    Warning { kind: WarningKind::Note, text: text.into() }
}
