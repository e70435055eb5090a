//! What a benchmark found: what is shown, kept as JSON, and compared with later.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{competitor::Durability, machine::Machine};

/// A benchmark's result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// 1.
    pub schema: u32,
    /// On what.
    pub machine: Machine,
    /// How.
    pub settings: Conditions,
    /// What the system calls alone cost.
    pub floor: Vec<FloorResult>,
    /// How much the same thing differs from itself.
    pub noise: Noise,
    /// What was measured.
    pub runs: Vec<Run>,
    /// Who could not be measured.
    pub missing: Vec<Missing>,
    /// What the numbers say.
    pub advice: Vec<String>,
    /// How it ended: `done` or `interrupt`.
    pub ended_by: String,
}

/// How it was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Conditions {
    /// How often each was measured, in turns with all others.
    pub repetitions: usize,
    /// How often it was to be measured, had there been time.
    pub planned: usize,
    /// Milliseconds of each slice that count.
    pub measured_ms: u64,
    /// Milliseconds before that which do not.
    pub warm_up_ms: u64,
    /// Seconds that all of it took.
    pub seconds: f64,
}

/// A floor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FloorResult {
    /// Its name.
    pub id: String,
    /// What it is.
    pub what: String,
    /// Its median in microseconds.
    pub us: f64,
}

/// The same thing measured again and again: two slices of one strategy under one load.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Noise {
    /// How many pairs were compared.
    pub pairs: usize,
    /// Half of the pairs differ by less than this part (0.05: five in a hundred).
    pub median: Option<f64>,
    /// Nineteen of twenty pairs differ by less.
    pub p95: Option<f64>,
    /// Each strategy against itself, odd against even slices, as one would compare two strategies: the median ratio's
    /// distance from 1.
    pub a_a: Option<f64>,
}

/// Who could not be measured, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Its name.
    pub strategy: String,
    /// Why.
    pub why: String,
}

/// Times in microseconds; none where it is not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Half are not longer.
    pub p50: Option<f64>,
    /// Nine of ten.
    pub p90: Option<f64>,
    /// Ninety-nine of a hundred.
    pub p99: Option<f64>,
    /// 999 of a thousand.
    pub p999: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
}

/// One competitor under one load, over all repetitions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Who.
    pub strategy: String,
    /// Whether that is somebody else's work.
    pub peer: bool,
    /// What an operation survives.
    pub durability: Durability,
    /// Where.
    pub dir: PathBuf,
    /// On which type of file system.
    pub filesystem: String,
    /// How many workers.
    pub processes: usize,
    /// How many tasks are kept.
    pub kept: usize,
    /// How long one is.
    pub task_bytes: usize,
    /// Microseconds between operations.
    pub think_us: u64,
    /// Operations that were counted.
    pub ops: u64,
    /// Operations a second, the median of the repetitions.
    pub ops_per_s: f64,
    /// Each repetition's.
    pub repetitions: Vec<f64>,
    /// Each repetition's time of an operation, by the floor that was measured beside it. This is what is compared with
    /// another run.
    pub by_floor: Vec<f64>,
    /// Operations that failed.
    pub failed: u64,
    /// Waiting for the lock, or for the process that does the work.
    pub wait_us: Quantiles,
    /// An operation.
    pub latency_us: Quantiles,
    /// A push.
    pub push_us: Quantiles,
    /// A claim with its completion.
    pub take_us: Quantiles,
    /// From the end of one worker's operation until another one that waited has the lock.
    pub hand_over_us: Quantiles,
    /// Quantiles of the latency for a drawing: parts and microseconds.
    pub latency_curve: Vec<(f64, f64)>,
    /// Fewest operations of a worker by most.
    pub fairness: f64,
    /// The tenth percentile of the same over tenths of a second.
    pub fairness_100ms: f64,
    /// Microseconds of CPU an operation, of workers and server.
    pub cpu_us_per_op: f64,
    /// Bytes written an operation.
    pub bytes_per_op: f64,
    /// Bytes on their way to a disk an operation.
    pub disk_bytes_per_op: f64,
    /// Tasks that were acknowledged and are nowhere.
    pub lost: u64,
    /// Tasks that were handed out, or are in the queue, more than once.
    pub duplicated: u64,
    /// Tasks that nobody put in.
    pub foreign: u64,
    /// In how many repetitions the queue could not be read at the end.
    pub damaged: u64,
    /// Some of what was found wrong.
    pub examples: Vec<String>,
    /// Whether it is known to lose, so that it is no news.
    pub known_to_lose: bool,
    /// Whether it does without what only some systems have.
    pub portable: bool,
    /// The floor to compare with.
    pub floor_id: String,
    /// Time of an operation over all workers, by the floor; none if nothing was done.
    pub ratio_to_floor: Option<f64>,
    /// Why repetitions are missing.
    pub error: Option<String>,
}

impl Run {
    /// Whether something was lost, done twice or made up.
    pub fn wrong(&self) -> bool {
        self.lost + self.duplicated + self.foreign + self.damaged > 0
    }

    /// What makes runs of two benchmarks the same: everything but the speeds.
    pub fn same_as(&self, other: &Run) -> bool {
        let key = |run: &Run| {
            (
                run.strategy.clone(),
                run.durability,
                run.filesystem.clone(),
                run.processes,
                run.kept,
                run.task_bytes,
                run.think_us,
            )
        };
        key(self) == key(other)
    }

    /// What makes runs comparable side by side.
    pub fn group(&self) -> (PathBuf, Durability, usize, usize, u64, usize) {
        (self.dir.clone(), self.durability, self.kept, self.task_bytes, self.think_us, self.processes)
    }
}
