//! The words of the contract: kinds, searches, models of time. One name for one thing, and the nearest one for a
//! word that is none.

use std::{fmt, str::FromStr};

use thiserror::Error;

use super::{Ends, Expect, Kind, SearchKind};
use crate::world::{DiskModel, Op, TimeModel};

/// A word that is none of those that are known here.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown {what} `{}`; the nearest known is `{nearest}`", word.escape_debug())]
pub struct UnknownName {
    /// What kind of word was wanted: `anomaly kind`, `operation`, `search`, ...
    pub what: &'static str,
    /// The word as written.
    pub word: String,
    /// The known word that is nearest to it.
    pub nearest: String,
    /// Every known word.
    pub known: Vec<String>,
}

impl UnknownName {
    /// Makes the error from all known words.
    pub fn new<S: AsRef<str>>(what: &'static str, word: &str, known: impl IntoIterator<Item = S>) -> Self {
        let known: Vec<String> = known.into_iter().map(|k| k.as_ref().to_owned()).collect();
        let nearest = nearest(word, &known).unwrap_or_default().to_owned();
        UnknownName { what, word: word.to_owned(), nearest, known }
    }
}

/// The word of `known` that is nearest to `word` (fewest edits; the more common prefix decides between equals).
pub fn nearest<'a, S: AsRef<str>>(word: &str, known: &'a [S]) -> Option<&'a str> {
    let word = word.to_lowercase();
    let distance = |k: &str| {
        let edits = strsim::normalized_damerau_levenshtein(&word, &k.to_lowercase());
        // Floats that are never NaN, so that the order is total.
        (edits, strsim::jaro_winkler(&word, &k.to_lowercase()))
    };
    known
        .iter()
        .map(AsRef::as_ref)
        .max_by(|a, b| distance(a).partial_cmp(&distance(b)).unwrap_or(std::cmp::Ordering::Equal))
}

fn find<T: Copy>(
    what: &'static str,
    word: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, UnknownName> {
    all.iter()
        .copied()
        .find(|t| name(*t) == word)
        .ok_or_else(|| UnknownName::new(what, word, all.iter().map(|t| name(*t))))
}

impl Kind {
    /// Every kind, most severe first.
    pub const ALL: [Kind; 12] = [
        Kind::LostUpdate,
        Kind::LostAfterCrash,
        Kind::DuplicateDelivery,
        Kind::TornFile,
        Kind::TornRead,
        Kind::BrokenLock,
        Kind::Unserializable,
        Kind::Deadlock,
        Kind::StaleLock,
        Kind::Livelock,
        Kind::CheckFailed,
        Kind::WorkerFailed,
    ];

    /// The name in scenario files, reports and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::LostUpdate => "lost-update",
            Kind::LostAfterCrash => "lost-after-crash",
            Kind::DuplicateDelivery => "duplicate-delivery",
            Kind::TornFile => "torn-file",
            Kind::TornRead => "torn-read",
            Kind::BrokenLock => "broken-lock",
            Kind::Unserializable => "unserializable",
            Kind::Deadlock => "deadlock",
            Kind::StaleLock => "stale-lock",
            Kind::Livelock => "livelock",
            Kind::CheckFailed => "check-failed",
            Kind::WorkerFailed => "worker-failed",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = UnknownName;

    fn from_str(word: &str) -> Result<Self, UnknownName> {
        find("anomaly kind", word, &Kind::ALL, Kind::name)
    }
}

impl fmt::Display for Expect {
    /// As on a command line: one word, or kinds separated by commas.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expect::Clean => f.write_str("clean"),
            Expect::Anomaly => f.write_str("anomaly"),
            Expect::Kinds(kinds) => f.write_str(&kinds.iter().map(|k| k.name()).collect::<Vec<_>>().join(",")),
        }
    }
}

impl FromStr for Expect {
    type Err = UnknownName;

    /// `clean`, `anomaly`, a kind, or several kinds separated by commas.
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "clean" => Ok(Expect::Clean),
            "anomaly" => Ok(Expect::Anomaly),
            _ => {
                let kind = |word: &str| {
                    word.trim().parse::<Kind>().map_err(|e| {
                        let words = Kind::ALL.iter().map(|k| k.name());
                        UnknownName::new("expectation", &e.word, words.chain(["clean", "anomaly"]))
                    })
                };
                Ok(Expect::Kinds(text.split(',').map(kind).collect::<Result<_, _>>()?))
            }
        }
    }
}

impl fmt::Display for SearchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SearchKind::Auto => f.write_str("auto"),
            SearchKind::Exhaustive => f.write_str("exhaustive"),
            SearchKind::Portfolio => f.write_str("portfolio"),
            SearchKind::Random => f.write_str("random"),
            SearchKind::Pos => f.write_str("pos"),
            SearchKind::Pct(depth) => write!(f, "pct:{depth}"),
            SearchKind::Timeline => f.write_str("timeline"),
        }
    }
}

impl FromStr for SearchKind {
    type Err = UnknownName;

    /// `pct:D` takes a depth D from 1 to 99.
    fn from_str(word: &str) -> Result<Self, UnknownName> {
        let plain = [
            SearchKind::Auto,
            SearchKind::Exhaustive,
            SearchKind::Portfolio,
            SearchKind::Random,
            SearchKind::Pos,
            SearchKind::Timeline,
        ];
        if let Some(search) = plain.iter().find(|s| s.to_string() == word) {
            return Ok(search.clone());
        }
        let depth = word.strip_prefix("pct:").filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
        match depth.and_then(|d| d.parse().ok()) {
            Some(depth @ 1..=99) => Ok(SearchKind::Pct(depth)),
            _ => {
                let known = plain.iter().map(ToString::to_string).chain([String::from("pct:3")]);
                Err(UnknownName::new("search", word, known))
            }
        }
    }
}

/// The name of a model of time.
pub fn time_name(time: TimeModel) -> &'static str {
    match time {
        TimeModel::Fair => "fair",
        TimeModel::Adversarial => "adversarial",
        TimeModel::Real => "real",
    }
}

/// `fair`, `adversarial` or `real`.
pub fn parse_time(word: &str) -> Result<TimeModel, UnknownName> {
    find("model of time", word, &[TimeModel::Fair, TimeModel::Adversarial, TimeModel::Real], time_name)
}

/// `strict` or `ext4-ordered`.
pub fn parse_disk(word: &str) -> Result<DiskModel, UnknownName> {
    find("model of the disk", word, &DiskModel::ALL, DiskModel::name)
}

/// `exit` or `idle`.
pub(super) fn parse_ends(word: &str) -> Result<Ends, UnknownName> {
    let name = |e| match e {
        Ends::Exit => "exit",
        Ends::Idle => "idle",
    };
    find("end of a worker", word, &[Ends::Exit, Ends::Idle], name)
}

/// An operation's name; `flock` is an alias of `lock`.
pub fn parse_op(word: &str) -> Result<Op, UnknownName> {
    if word == "flock" {
        return Ok(Op::Lock);
    }
    find("operation", word, &Op::ALL, Op::name)
}
