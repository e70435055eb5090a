//! What is said of an incident: findings, how certain they are, and the timeline. How it is printed is not said here.

use serde::Serialize;

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// True in every history that fits the evidence.
    Certain,
    /// True in some.
    Possible,
}

/// An item that was in the file and is gone though nobody took it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Which.
    pub id: String,
    /// How sure that is.
    pub certainty: Certainty,
    /// Why.
    pub why: String,
    /// What evidence settles it.
    pub settled_by: String,
    /// The last copy that has it; none if it is in no copy.
    pub last_seen: Option<String>,
    /// The next copy, which does not have it.
    pub gone_in: Option<String>,
    /// Where it stands in `last_seen` (unpacked): first byte, and the one after the last.
    pub bytes: Option<[u64; 2]>,
    /// Its text there.
    pub fragment: Option<String>,
    /// The process that put it in.
    pub written_by: Option<u64>,
    /// The process that wrote `gone_in`.
    pub overwritten_by: Option<u64>,
    /// The copy that `gone_in` was made from, if only one fits.
    pub stale_base: Option<String>,
    /// The version of that copy.
    pub stale_version: Option<u64>,
}

/// One time that an item was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Delivery {
    /// When, RFC 3339.
    pub at: Option<String>,
    /// By which process.
    pub pid: Option<u64>,
    /// The copy in which it is taken or gone, if a copy shows it.
    pub seen_in: Option<String>,
    /// The copy that this one was made from, if only one fits.
    pub from: Option<String>,
}

/// An item that was taken more than once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Duplicated {
    /// Which.
    pub id: String,
    /// How sure that is.
    pub certainty: Certainty,
    /// Why.
    pub why: String,
    /// What evidence settles it.
    pub settled_by: String,
    /// Each time, as far as known.
    pub deliveries: Vec<Delivery>,
}

/// A write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Write {
    /// By which process.
    pub pid: Option<u64>,
    /// The version that it wrote.
    pub version: u64,
    /// When, RFC 3339.
    pub at: Option<String>,
    /// The copy that shows it.
    pub snapshot: Option<String>,
}

/// Writes that were made from one version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fork {
    /// The version that all of them read.
    pub read_version: u64,
    /// How sure that is.
    pub certainty: Certainty,
    /// The writes.
    pub writes: Vec<Write>,
}

/// What a line of the timeline is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MomentKind {
    /// A state of the file, shown by a copy.
    Copy,
    /// A copy that cannot be read as a whole.
    Torn,
    /// The live file.
    Live,
    /// A write that only an audit line shows.
    Write,
    /// An execution in the log.
    Execution,
}

/// A line of the timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// When, RFC 3339.
    pub at: Option<String>,
    /// What.
    pub kind: MomentKind,
    /// The copy.
    pub snapshot: Option<String>,
    /// The version that it carries or that was written.
    pub version: Option<u64>,
    /// Who wrote it.
    pub pid: Option<u64>,
    /// The copies that it can have been made from; one if that is sure.
    pub based_on: Vec<String>,
    /// Items that are there and were not in what it was made from.
    pub added: Vec<String>,
    /// Items that are not there and were in what it was made from.
    pub removed: Vec<String>,
    /// Items that are another text than in what it was made from.
    pub changed: Vec<String>,
    /// Items of the copy before that this one was made without seeing.
    pub overwritten: Vec<String>,
    /// It was made from something older than the copy before.
    pub stale: bool,
    /// Anything else.
    pub note: Option<String>,
}

/// All that is said of an incident.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Incident {
    /// Items that are lost, certain ones first.
    pub lost: Vec<Lost>,
    /// Items that were taken more than once, certain ones first.
    pub duplicated: Vec<Duplicated>,
    /// Writes that were made from one version.
    pub forks: Vec<Fork>,
    /// What happened, in order.
    pub timeline: Vec<Moment>,
    /// What was taken for granted or inferred: the shape, the order, how copies were made.
    pub stated: Vec<String>,
    /// What limits this.
    pub warnings: Vec<String>,
    /// Copies that were read.
    pub copies: usize,
    /// The scenario that reproduces it, once written.
    pub scenario: Option<String>,
}

impl Incident {
    /// Whether something is certain.
    pub fn is_certain(&self) -> bool {
        let certain = |c: Certainty| c == Certainty::Certain;
        self.lost.iter().any(|l| certain(l.certainty))
            || self.duplicated.iter().any(|d| certain(d.certainty))
            || self.forks.iter().any(|f| certain(f.certainty))
    }

    /// Whether nothing was found at all.
    pub fn is_nothing(&self) -> bool {
        self.lost.is_empty() && self.duplicated.is_empty() && self.forks.is_empty()
    }
}
