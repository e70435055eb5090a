//! The conserve judge: every id ever published in the array is executed exactly once, or still in the array.

use std::collections::{BTreeMap, BTreeSet};

use globset::GlobMatcher;

use super::{
    error::OracleError,
    history::History,
    items::{array_ids, logged_ids},
    judgement::Accusation,
    operations::is_marker,
    rules::{STDOUT, glob, pointer},
};
use crate::{
    scenario::{Acknowledging, Conserve, Worker},
    world::{ACK_MARKER, Node, Op, Outcome, Run, Step},
};

/// The last, unfinished operation of each worker that was hit: from which step on.
struct CutOperations(BTreeMap<usize, usize>);

impl CutOperations {
    fn of(run: &Run, hit: &BTreeSet<usize>) -> Self {
        let begin = |worker: &usize| {
            let own = |step: &Step| usize::from(step.actor.0) == *worker;
            let ends = |step: &Step| is_marker(step) || step.looks_up(ACK_MARKER);
            let mark = run.steps.iter().rposition(|step| own(step) && ends(step));
            (*worker, mark.unwrap_or(0))
        };
        CutOperations(hit.iter().map(begin).collect())
    }

    fn holds(&self, worker: usize, step: usize) -> bool {
        self.0.get(&worker).is_some_and(|from| step >= *from)
    }
}

/// The conserve judge of a scenario.
#[derive(Debug)]
pub(super) struct ConserveJudge {
    config: Conserve,
    files: GlobMatcher,
    /// What each worker says when an id is safe.
    says: Vec<Acknowledging>,
}

impl ConserveJudge {
    pub(super) fn new(config: &Conserve, workers: &[Worker]) -> Result<ConserveJudge, OracleError> {
        pointer("conserve.pointer", &config.pointer)?;
        let says = workers.iter().map(|worker| Acknowledging::new(worker).unwrap_or_default()).collect();
        Ok(ConserveJudge { config: config.clone(), files: glob("conserve.file", &config.file)?, says })
    }

    /// Judges a run by its history and what it left behind. Without recorded steps (`History` of an unrecorded run)
    /// ids that came and went within the run are not known to have been generated.
    ///
    /// An operation that a kill cut short before it was acknowledged may have happened or not: an id that only it put
    /// into the array is not lost, and one that it executed is not executed twice when somebody does it over. What it
    /// took away from others is lost. An id that a line of its output acknowledged is safe, or lost.
    pub(super) fn judge(
        &self,
        history: &History,
        outcome: &Outcome,
        run: &Run,
        hit: &BTreeSet<usize>,
    ) -> Option<Accusation> {
        let cut = CutOperations::of(run, hit);
        let generated = self.generated(history, &cut, outcome);
        let queued = self.queued(outcome);
        let mut executed: BTreeMap<String, usize> = BTreeMap::new();
        for id in self.executed(outcome, &generated) {
            *executed.entry(id).or_default() += 1;
        }
        let lost: Vec<String> =
            generated.iter().filter(|id| !executed.contains_key(*id) && !queued.contains(*id)).cloned().collect();
        let redone = self.executed_by(&cut, outcome, run, &generated);
        let twice = |id: &&String| {
            let times = executed.get(*id).copied().unwrap_or(0);
            !self.config.at_least_once && times.saturating_sub(redone.get(*id).copied().unwrap_or(0)) > 1
        };
        let duplicated: Vec<String> = generated.iter().filter(twice).cloned().collect();
        (!lost.is_empty() || !duplicated.is_empty()).then_some(Accusation::Conserve { lost, duplicated })
    }

    /// Ids in any published version, the last one included.
    fn generated(&self, history: &History, cut: &CutOperations, outcome: &Outcome) -> BTreeSet<String> {
        let versions = history.versions.iter().filter(|(path, _)| self.files.is_match(path)).flat_map(|(_, all)| all);
        let published: Vec<_> = versions.filter(|version| version.published).collect();
        let ids = |bytes: &[u8]| array_ids(bytes, &self.config.pointer, &self.config.id);
        let known: BTreeSet<String> =
            published.iter().filter_map(|version| ids(version.bytes.as_deref()?)).flatten().collect();
        let said = self.says.iter().zip(&outcome.actors).flat_map(|(says, end)| says.lines(&end.stdout));
        let said: BTreeSet<String> = said.flat_map(|line| logged_ids(line, &self.config.id, &known)).collect();
        published
            .into_iter()
            .filter(|version| !version.by.zip(version.step).is_some_and(|(by, at)| cut.holds(by, at)))
            .filter_map(|version| array_ids(version.bytes.as_deref()?, &self.config.pointer, &self.config.id))
            .flatten()
            .chain(said)
            .collect()
    }

    /// How often each id was executed by operations that were cut short.
    fn executed_by(
        &self,
        cut: &CutOperations,
        outcome: &Outcome,
        run: &Run,
        generated: &BTreeSet<String>,
    ) -> BTreeMap<String, usize> {
        let mut out = BTreeMap::new();
        let mut add = |bytes: &[u8]| {
            for id in logged_ids(bytes, &self.config.id, generated) {
                *out.entry(id).or_default() += 1;
            }
        };
        if self.config.done == STDOUT {
            let ends = outcome.actors.iter().enumerate().filter(|(worker, _)| cut.0.contains_key(worker));
            ends.for_each(|(_, end)| add(&end.stdout));
        } else {
            let log = |step: &Step| step.op == Op::Write && step.path.as_ref() == Some(&self.config.done);
            let steps = run.steps.iter().enumerate();
            let own = steps.filter(|(at, step)| log(step) && cut.holds(usize::from(step.actor.0), *at));
            own.filter_map(|(_, step)| step.data.as_deref()).for_each(add);
        }
        out
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
