//! The torn-file judge: after a run with a fault, a file that everybody knew holds what nobody ever published.
//!
//! Judged are paths that existed at the start or were published in the run. A new file that was never published is left
//! behind, which is a warning elsewhere. A content also counts as published when any run without faults published it
//! under the same name: a worker killed after its last write and before the close left a whole file.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Case,
    history::{History, Version},
    hits::power_cut,
};
use crate::world::{Node, Op, Outcome, Run, Step};

/// Contents that runs without faults published, per path.
#[derive(Debug, Default)]
pub(super) struct Published {
    contents: BTreeMap<String, BTreeSet<[u8; 32]>>,
    /// Paths that are there when everybody has ended.
    lasting: BTreeSet<String>,
}

/// A file that a fault left incomplete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornFile {
    /// Its path.
    pub path: String,
    /// Whose change was cut short (worker number).
    pub by: usize,
    /// What it holds, in words.
    pub holds: String,
}

impl Published {
    /// Learns a run without faults.
    pub(super) fn learn(&mut self, history: &History, outcome: &Outcome) {
        self.lasting.extend(outcome.files.keys().cloned());
        for (path, versions) in &history.versions {
            for bytes in versions.iter().filter(|v| v.published).filter_map(|v| v.bytes.as_deref()) {
                self.contents.entry(path.clone()).or_default().insert(*blake3::hash(bytes).as_bytes());
            }
        }
    }

    /// Whether a power cut must leave a name whole: it was there before, or was given to a finished file. Of a temporary
    /// file, or a new one that was only closed, nobody expects that; who ended well is asked elsewhere.
    fn lasts(&self, case: &Case<'_>, path: &str, versions: &[Version], steps: &[Step]) -> bool {
        let named = |version: &Version| {
            let step = version.step.and_then(|at| steps.get(at));
            step.is_some_and(|step| matches!(step.op, Op::Rename | Op::Exchange | Op::Link))
        };
        case.initial.contains_key(path) || (self.lasting.contains(path) && versions.iter().any(named))
    }

    fn knows(&self, path: &str, bytes: &[u8]) -> bool {
        self.contents.get(path).is_some_and(|known| known.contains(blake3::hash(bytes).as_bytes()))
    }
}

/// The torn files of a run.
pub(super) fn torn_files(
    case: &Case<'_>,
    history: &History,
    outcome: &Outcome,
    known: &Published,
    run: &Run,
) -> Vec<TornFile> {
    let cut = power_cut(run).is_some();
    let mut out = Vec::new();
    for (path, versions) in history.versions.iter().filter(|(path, _)| !case.ignores(path)) {
        let Some(by) = history.cut_short(path).filter(|_| !cut || known.lasts(case, path, versions, &run.steps)) else {
            continue;
        };
        let Some(Node::File { bytes, .. }) = outcome.files.get(path) else { continue };
        let mut published = versions.iter().filter(|v| v.published && !v.absent).peekable();
        if published.peek().is_none() || known.knows(path, bytes) {
            continue;
        }
        // A version that was too large to be recorded may be the one.
        if published.any(|v| v.bytes.as_deref().is_none_or(|whole| *whole == **bytes)) {
            continue;
        }
        let holds = match bytes.len() {
            0 => "nothing".to_owned(),
            n => format!("{n} bytes that were never published"),
        };
        out.push(TornFile { path: path.clone(), by, holds });
    }
    out
}
