//! Verdicts against expectations.

use std::fmt;

use super::Verdict;
use crate::scenario::Expect;

impl Verdict {
    /// The name in reports and JSON: `clean`, a kind, or `cannot-tell`.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Clean => "clean",
            Verdict::Anomaly(kind) => kind.name(),
            Verdict::CannotTell => "cannot-tell",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a verdict is what a scenario expects; without an expectation (`explore`), `clean` is. Cannot-tell is never
/// as expected: who expects something wants it shown.
pub fn as_expected(expect: Option<&Expect>, verdict: Verdict) -> bool {
    match (expect, verdict) {
        (_, Verdict::CannotTell) => false,
        (None | Some(Expect::Clean), verdict) => verdict == Verdict::Clean,
        (Some(Expect::Anomaly), verdict) => matches!(verdict, Verdict::Anomaly(_)),
        (Some(Expect::Kinds(kinds)), Verdict::Anomaly(kind)) => kinds.contains(&kind),
        (Some(Expect::Kinds(_)), Verdict::Clean) => false,
    }
}
