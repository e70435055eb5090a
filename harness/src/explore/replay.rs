//! Schedules on disk: the same schedule again, and where a changed program leaves it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::shrink::context_switches;
use crate::{
    publish::publish,
    world::{ActorId, Choice, Injection, Op, Plan, Policy, Run, Step, TimeModel, Variant, Weakening},
};

/// The schema number of the files written now.
const SCHEMA: u32 = 1;

/// What was wrong with a replay file.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not a replay file.
    #[error("{path}: not a replay file: {source} (replay files are written beside a scenario when it fails)")]
    Format {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// It was written by another version.
    #[error("{path}: schema {found}, this version reads {SCHEMA}; find the anomaly again to write a new one")]
    Schema {
        /// The file.
        path: PathBuf,
        /// The number in it.
        found: u32,
    },
}

/// One schedule, with everything needed to run it again and to notice when it runs differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    schema: u32,
    /// The scenario it belongs to.
    pub scenario: Origin,
    /// What it shows: an anomaly kind, by its name in reports.
    pub shows: Option<String>,
    /// The model of time.
    pub time: TimeModel,
    /// The environment.
    pub variant: Variant,
    /// A protection that the programs did not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weakening: Option<Weakening>,
    /// Context switches, for people.
    pub context_switches: usize,
    /// The decisions, one for each choice point.
    pub choices: Vec<Choice>,
    /// The faults that are injected.
    #[serde(default)]
    pub faults: Vec<Injection>,
    /// What each step did.
    pub trace: Vec<Expected>,
}

/// Which scenario a schedule belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Its name.
    pub name: String,
    /// The scenario file, relative to the replay file.
    pub file: Option<PathBuf>,
    /// The workers in scenario order: their names and commands.
    pub workers: Vec<(String, String)>,
    /// The whole scenario as TOML, when there is no file (`noclobber explore`).
    pub toml: Option<String>,
}

/// What a step did when the schedule was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Whose step.
    pub actor: ActorId,
    /// What it did.
    pub op: Op,
    /// Its path, if it has one.
    pub path: Option<String>,
    /// What the call returned.
    pub ret: i64,
    /// The result in words.
    pub result: String,
    /// BLAKE3 of the bytes moved, in hex.
    pub hash: Option<String>,
}

/// The first step at which a replayed schedule did something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The step, from 0, in [`Run::steps`].
    pub step: usize,
    /// What was recorded; `None` when the recorded run had ended.
    pub expected: Option<Expected>,
    /// What happened; `None` when the run had ended.
    pub found: Option<Expected>,
}

impl Replay {
    /// The schedule of a run.
    pub fn new(scenario: Origin, shows: Option<String>, time: TimeModel, variant: Variant, run: &Run) -> Self {
        Replay {
            schema: SCHEMA,
            scenario,
            shows,
            time,
            variant,
            weakening: None,
            context_switches: context_switches(&run.choices),
            choices: run.choices.clone(),
            faults: run.faults.clone(),
            trace: run.steps.iter().map(Expected::of).collect(),
        }
    }

    /// The schedule of a run in which a protection was weakened.
    pub fn weakened(self, weakening: Option<Weakening>) -> Self {
        Replay { weakening, ..self }
    }

    /// How to run it: as far as it can be followed, then choice 0.
    pub fn plan(&self) -> Plan {
        let (prefix, variant) = (self.choices.clone(), self.variant);
        let (faults, weakening) = (self.faults.clone(), self.weakening.clone());
        Plan { prefix, lenient: true, record: true, variant, faults, weakening, ..Plan::from_policy(Policy::Stay) }
    }

    /// The first step that is not as recorded; `None` when the whole run is.
    pub fn divergence(&self, run: &Run) -> Option<Divergence> {
        let found: Vec<Expected> = run.steps.iter().map(Expected::of).collect();
        let step = (0..self.trace.len().max(found.len())).find(|i| self.trace.get(*i) != found.get(*i))?;
        Some(Divergence { step, expected: self.trace.get(step).cloned(), found: found.get(step).cloned() })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`ReplayError`], which names the file and the way out.
    pub fn read(path: &Path) -> Result<Self, ReplayError> {
        /// Enough to tell another version from another format.
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        let bytes = fs::read(path).map_err(|source| ReplayError::Io { path: path.to_owned(), source })?;
        let format = |source| ReplayError::Format { path: path.to_owned(), source };
        let Head { schema: found } = serde_json::from_slice(&bytes).map_err(format)?;
        if found != SCHEMA {
            return Err(ReplayError::Schema { path: path.to_owned(), found });
        }
        serde_json::from_slice(&bytes).map_err(format)
    }

    /// Writes a file, whole or not at all.
    ///
    /// # Errors
    /// [`ReplayError::Io`].
    pub fn write(&self, path: &Path) -> Result<(), ReplayError> {
        let io = |source| ReplayError::Io { path: path.to_owned(), source };
        let mut text = serde_json::to_string_pretty(self).map_err(|e| io(e.into()))?;
        text.push('\n');
        publish(path, text.as_bytes()).map_err(io)
    }
}

impl Expected {
    fn of(step: &Step) -> Self {
        Expected {
            actor: step.actor,
            op: step.op,
            path: step.path.clone(),
            ret: step.ret,
            result: step.result.clone(),
            hash: step.bytes.map(|hash| blake3::Hash::from_bytes(hash).to_hex().to_string()),
        }
    }
}
