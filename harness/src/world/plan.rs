//! What to run: the data from which one schedule follows, whole and always the same.

use serde::{Deserialize, Serialize};

use super::{Access, ActorId, Weakening};

/// One decision of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Choice {
    /// Let this actor make its next step.
    Step(ActorId),
    /// End this actor's sleep or time-out early (adversarial time only).
    Wake(ActorId),
}

/// How to decide after the prefix is used up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// Keep running the actor that ran last while it can; else the first in scenario order. (Choice 0.)
    Stay,
    /// Run these actors one after the other, each to its end.
    Serial(Vec<ActorId>),
    /// By virtual time: the first actor in scenario order that is not delayed or asleep.
    Timeline,
    /// Random walk: each enabled actor with the same probability.
    Random {
        /// Seed of the generator.
        seed: u64,
    },
    /// Partial-order sampling.
    Pos {
        /// Seed of the generator.
        seed: u64,
    },
    /// Probabilistic concurrency testing.
    Pct {
        /// Seed of the generator.
        seed: u64,
        /// Bug depth d: d - 1 priority change points.
        depth: u32,
        /// Assumed number of choice points k.
        length: u64,
    },
}

/// The model of virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeModel {
    /// A sleeper wakes only when nobody else can run.
    #[default]
    Fair,
    /// A sleep or time-out may also end early.
    Adversarial,
    /// Delays really pass, for showing a person.
    Real,
}

/// The environment of a run that must not matter: changed once to find out what is noise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Variant {
    /// 0 is the ordinary environment; any other has another epoch, pid base and random stream.
    pub number: u32,
}

/// A fault to inject in a run: one match, or every match, of one `[[fault]]` of the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Injection {
    /// Which `[[fault]]` of the scenario, from 0: it says what happens, and at which steps it could.
    pub rule: usize,
    /// Whom it hits; `None`: all workers of the rule (a full disk is full for everybody).
    pub actor: Option<ActorId>,
    /// Which match of that actor, from 1; `None`: every one. For a power cut: how many decisions come before it.
    pub nth: Option<u64>,
    /// For a power cut: which of the states that the disk may be in, by what is lost (0: nothing).
    pub loss: Option<u32>,
}

/// Everything that determines one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Decisions to make first, one for each choice point (a point with only one possibility included).
    pub prefix: Vec<Choice>,
    /// A decision of the prefix that cannot be made falls back to [`Policy::Stay`] (shrinking, replays of changed
    /// programs) instead of ending the run as `Ended::Infeasible`.
    pub lenient: bool,
    /// How to go on.
    pub then: Policy,
    /// The sleep set at the last choice point of the prefix (without a prefix: at the start): actors whose next step
    /// was explored there already, with what it touches. An actor leaves it when a step that conflicts runs, the last
    /// one of the prefix included; when only sleeping actors could run, the run is cut (`Ended::SleepSet`).
    pub sleep: Vec<(ActorId, Vec<Access>)>,
    /// Record contents and effects of each step (slower; for judging and showing one run).
    pub record: bool,
    /// The environment.
    pub variant: Variant,
    /// The faults to inject; none in serial orders.
    pub faults: Vec<Injection>,
    /// A protection that the programs do not have in this run, although they ask for it.
    pub weakening: Option<Weakening>,
}

impl Plan {
    /// A plan without prefix and sleep set.
    pub fn from_policy(then: Policy) -> Self {
        Plan {
            prefix: Vec::new(),
            lenient: false,
            then,
            sleep: Vec::new(),
            record: false,
            variant: Variant::default(),
            faults: Vec::new(),
            weakening: None,
        }
    }
}
