//! What can be wrong with audit lines.

use serde::{Serialize, Serializer};

/// The kinds of faults; one event is one fault, of the first kind that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultKind {
    /// Two lines read one version: one of the two writes is lost.
    Fork,
    /// A version below an earlier one was written.
    Regress,
    /// A version was written twice.
    Repeat,
    /// A version was read that no line wrote.
    Gap,
    /// The version is right but its content is not: somebody wrote without a line.
    Foreign,
    /// It is no audit line.
    Malformed,
}

impl FaultKind {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Fork => "fork",
            FaultKind::Regress => "regress",
            FaultKind::Repeat => "repeat",
            FaultKind::Gap => "gap",
            FaultKind::Foreign => "foreign",
            FaultKind::Malformed => "malformed",
        }
    }
}

impl Serialize for FaultKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// What it is.
    pub kind: FaultKind,
    /// The queue file that it is about; for a malformed line the audit file.
    pub file: String,
    /// The audit file that holds the line.
    pub audit: String,
    /// The line in it, from 1.
    pub line: u64,
    /// Who wrote the line, if it says so.
    pub pid: Option<u64>,
    /// What happened, in words.
    pub detail: String,
}
