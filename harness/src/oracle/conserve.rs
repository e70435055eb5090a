//! The conserve judge: every id ever published in the array is executed exactly once, or still in the array.

use std::collections::{BTreeMap, BTreeSet};

use globset::GlobMatcher;

use super::{
    error::OracleError,
    history::History,
    items::{array_ids, logged_ids},
    judgement::Accusation,
    rules::{STDOUT, glob, pointer},
};
use crate::{
    scenario::Conserve,
    world::{Node, Outcome},
};

/// The conserve judge of a scenario.
#[derive(Debug)]
pub(super) struct ConserveJudge {
    config: Conserve,
    files: GlobMatcher,
}

impl ConserveJudge {
    pub(super) fn new(config: &Conserve) -> Result<ConserveJudge, OracleError> {
        pointer("conserve.pointer", &config.pointer)?;
        Ok(ConserveJudge { config: config.clone(), files: glob("conserve.file", &config.file)? })
    }

    /// Judges a run by its history and what it left behind. Without recorded steps (`History` of an unrecorded run)
    /// ids that came and went within the run are not known to have been generated.
    pub(super) fn judge(&self, history: &History, outcome: &Outcome) -> Option<Accusation> {
        let generated = self.generated(history);
        let queued = self.queued(outcome);
        let mut executed: BTreeMap<String, usize> = BTreeMap::new();
        for id in self.executed(outcome, &generated) {
            *executed.entry(id).or_default() += 1;
        }
        let lost: Vec<String> =
            generated.iter().filter(|id| !executed.contains_key(*id) && !queued.contains(*id)).cloned().collect();
        let twice = |id: &&String| !self.config.at_least_once && executed.get(*id).is_some_and(|times| *times > 1);
        let duplicated: Vec<String> = generated.iter().filter(twice).cloned().collect();
        (!lost.is_empty() || !duplicated.is_empty()).then_some(Accusation::Conserve { lost, duplicated })
    }

    /// Ids in any published version, the last one included.
    fn generated(&self, history: &History) -> BTreeSet<String> {
        let versions = history.versions.iter().filter(|(path, _)| self.files.is_match(path)).flat_map(|(_, all)| all);
        versions
            .filter(|version| version.published)
            .filter_map(|version| array_ids(version.bytes.as_deref()?, &self.config.pointer, &self.config.id))
            .flatten()
            .collect()
    }

    fn queued(&self, outcome: &Outcome) -> BTreeSet<String> {
        let files = outcome.files.iter().filter(|(path, _)| self.files.is_match(path));
        files
            .filter_map(|(_, node)| match node {
                Node::File { bytes, .. } => array_ids(bytes, &self.config.pointer, &self.config.id),
                _ => None,
            })
            .flatten()
            .collect()
    }

    fn executed(&self, outcome: &Outcome, generated: &BTreeSet<String>) -> Vec<String> {
        if self.config.done == STDOUT {
            let outputs = outcome.actors.iter();
            return outputs.flat_map(|end| logged_ids(&end.stdout, &self.config.id, generated)).collect();
        }
        match outcome.files.get(&self.config.done) {
            Some(Node::File { bytes, .. }) => logged_ids(bytes, &self.config.id, generated),
            _ => Vec::new(),
        }
    }
}
