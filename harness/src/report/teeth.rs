//! Whether a guard would notice: each protection weakened in turn, and what became of it.

use std::path::PathBuf;

use super::{Report, Verdict};
use crate::world::Weakening;

/// What became of one protection when it was weakened.
#[derive(Clone, Debug, PartialEq)]
pub struct Tooth {
    /// What was weakened.
    pub weakening: Weakening,
    /// The workers that use it.
    pub workers: Vec<String>,
    /// Whether the guard goes red without it; `None`: cannot tell.
    pub needed: Option<bool>,
    /// A needed protection that everybody holds who uses this one: then no order can show that this one is missing.
    pub covered_by: Option<Weakening>,
    /// What was weakened with it: any one of them is enough, and without all the guard goes red.
    pub together: Vec<Weakening>,
    /// The search without it (and without what is in `together`).
    pub report: Report,
    /// What would show that it is missing.
    pub advice: Vec<String>,
}

impl Tooth {
    /// In one sentence.
    pub fn summary(&self) -> String {
        match (self.needed, &self.covered_by) {
            (Some(true), _) if !self.together.is_empty() => {
                let others: Vec<String> = self.together.iter().map(|w| format!("`{w}`")).collect();
                let found = self.report.anomalies.first().map_or("", |a| &a.summary);
                format!("it or {} is needed, any one is enough; without all of them: {found}", others.join(" or "))
            }
            (Some(true), _) => self.report.anomalies.first().map_or_else(String::new, |a| a.summary.clone()),
            (Some(false), Some(other)) => {
                format!("not needed as long as everybody holds `{other}`, under which each use of it lies")
            }
            (Some(false), None) => "not needed, or this guard cannot see it".into(),
            (None, _) => format!("cannot tell: {}", self.report.reason.as_deref().unwrap_or("nothing was decided")),
        }
    }

    /// The guard would stay green if the protection went missing, and nothing else stands in for it.
    pub fn is_gap(&self) -> bool {
        self.needed == Some(false) && self.covered_by.is_none()
    }
}

/// The teeth of one guard.
#[derive(Clone, Debug, PartialEq)]
pub struct Teeth {
    /// The scenario's name.
    pub scenario: String,
    /// Its file.
    pub file: Option<PathBuf>,
    /// The guard as it is, with every protection in place.
    pub guard: Report,
    /// Each protection, weakened.
    pub teeth: Vec<Tooth>,
    /// What else is worth knowing: what needs no protection, locks that keep nobody out.
    pub notes: Vec<String>,
}

impl Teeth {
    /// The guard is clean, and would go red without any one of its protections.
    pub fn as_expected(&self) -> bool {
        self.guard.verdict == Verdict::Clean && self.teeth.iter().all(|t| t.needed.is_some() && !t.is_gap())
    }

    /// Something was found that has to be mended: the guard is red, or has a gap.
    pub fn has_gap(&self) -> bool {
        matches!(self.guard.verdict, Verdict::Anomaly(_)) || self.teeth.iter().any(Tooth::is_gap)
    }
}
