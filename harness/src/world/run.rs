//! One executed schedule: the trace and how it ended.

use serde::{Deserialize, Serialize};

use super::{Access, ActorId, Choice, Injection, Outcome, Step};

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// Every actor ended.
    Done,
    /// Nobody can run, and nobody will: these actors wait, each with what it waits for.
    Deadlock(Vec<(ActorId, String)>),
    /// Nobody makes progress: these actors repeat the same steps with the same results.
    Livelock(Vec<ActorId>),
    /// Only actors in the sleep set could run: this schedule belongs to a class that was explored.
    SleepSet,
    /// The plan's prefix could not be followed at this choice point (0 = the first): that actor cannot run there.
    Infeasible(usize),
    /// A limit of the scenario was reached: its name and the number.
    Limit(String, u64),
    /// Control was lost: why. Nothing may be concluded from the run.
    LostControl(String),
}

/// What a warning is about; some forbid the verdict `clean`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum WarningKind {
    /// Worth knowing; no verdict depends on it.
    Note,
    /// Something was not controlled or not seen: `clean` becomes `cannot-tell`.
    NotControlled,
    /// A limit on what the coverage statement may say (a sleep that mattered, an inner order not explored).
    Coverage,
}

/// A warning for the report.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Warning {
    /// How much it matters.
    pub kind: WarningKind,
    /// One sentence.
    pub text: String,
}

/// A state of the disk that a power cut at some moment of a run may leave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// How many decisions come before it.
    pub at: u64,
    /// Which state, by what is lost (0: nothing).
    pub loss: u32,
    /// BLAKE3 of the tree.
    pub state: [u8; 32],
    /// The workers that had ended.
    pub ended: Vec<ActorId>,
    /// How often each worker had acknowledged what it did.
    pub said: Vec<u64>,
}

/// All power cuts of a run that differ in what they leave and in who had ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cuts {
    /// Each with the first moment at which it can happen.
    pub cuts: Vec<Cut>,
    /// Moments looked at.
    pub points: u64,
    /// States that are known and were left out, over all moments.
    pub left_out: u64,
    /// Every state of every moment is known.
    pub complete: bool,
}

/// One executed schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The trace.
    pub steps: Vec<Step>,
    /// The decisions made, one for each choice point: replaying these with the same faults gives the same run.
    pub choices: Vec<Choice>,
    /// The faults that were to be injected; a step that one hit says so ([`Step::fault`]).
    pub faults: Vec<Injection>,
    /// The first choice point at which a lenient plan's prefix could not be followed.
    pub diverged: Option<usize>,
    /// Why it ended.
    pub ended: Ended,
    /// What the next step of each actor that waits at the end would touch, if it could go on. A deadlock is a class
    /// of its own, and the acquisitions that never happened are what leads from it to the others.
    pub pending: Vec<(ActorId, Vec<Access>)>,
    /// What it left behind; `None` unless it ended by itself (`Done`), or was stopped for a deadlock or livelock.
    pub outcome: Option<Outcome>,
    /// Patterns of delays (and faults) that never matched, as written: the scenario does not fit the programs.
    pub unmatched: Vec<String>,
    /// What the report should mention.
    pub warnings: Vec<Warning>,
    /// Where the power may be cut, in runs without a fault of scenarios that ask for it.
    pub cuts: Cuts,
}
