//! What the report of one part of a search says beside its results, so that parts can be joined.

use std::{collections::BTreeSet, fmt::Write as _};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// One part of a partitioned search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Which part, from 1.
    pub part: u32,
    /// How many parts there are.
    pub of: u32,
    /// The version of the program that made it.
    pub version: Option<String>,
    /// A hash of the scenario, its initial world, its seed and its options; `None` when it did not come so far.
    pub inputs: Option<String>,
    /// A hash of the schedule that every part runs first: the same programs give the same. `None` when the search has
    /// none (pure sampling).
    pub first_run: Option<String>,
    /// The workers, in scenario order.
    pub workers: Vec<String>,
    /// The names of the classes that this part executed, in hex.
    pub classes: Vec<String>,
    /// The names of the outcomes seen, in hex.
    pub outcomes: Vec<String>,
    /// What the coverage depends on.
    pub assumptions: Vec<String>,
}

/// SHA-256 over the sorted names of classes: one number for a set of classes, whoever executed them.
pub fn classes_hash(classes: &BTreeSet<String>) -> String {
    let mut hasher = Sha256::new();
    for class in classes {
        hasher.update(class.as_bytes());
        hasher.update(b"\n");
    }
    hasher.finalize().iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
