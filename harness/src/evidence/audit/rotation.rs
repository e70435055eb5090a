//! Which audit files continue each other, and in which order.

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

use jiff::Timestamp;
use regex::Regex;

use super::{Line, run::MAX_LINE};
use crate::evidence::{
    EvidenceError,
    source::{LineEnd, next_line, open},
};

/// Audit files that are parts of one, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Series {
    pub(super) files: Vec<PathBuf>,
}

/// `.1`, `-20260131`, `.2026-01-31T12:00:00Z`: what rotation puts into a name.
static ROTATED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)[._-]\d[\dtz:_+-]*(?:\b|$)").expect("a sound pattern"));
static NUMBER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\.(\d{1,6})(?:\.gz)?$").expect("a sound pattern"));

/// How many lines at the beginning are looked at for a time.
const LOOK: usize = 100;

/// Groups files by folder and name without what rotation adds, and puts each group in the order of its first lines.
/// Files are named in any order on a command line, and a shell's `audit*` puts the newest first.
pub(super) fn series(files: &[PathBuf]) -> Result<Vec<Series>, EvidenceError> {
    let mut groups: Vec<((PathBuf, String), Vec<PathBuf>)> = Vec::new();
    for file in files {
        let key = (file.parent().unwrap_or(Path::new("")).to_owned(), stem(file));
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(file.clone()),
            None => groups.push((key, vec![file.clone()])),
        }
    }
    let mut all = Vec::new();
    for (_, files) in groups {
        let mut keyed = Vec::new();
        for file in files {
            let number = number(&file);
            keyed.push((first_time(&file)?, std::cmp::Reverse(number), file));
        }
        // A file whose lines say no time has only its number; those with a time come in its order.
        let timed = keyed.iter().all(|(time, ..)| time.is_some());
        keyed.sort_by(|a, b| match timed {
            true => (a.0, a.1).cmp(&(b.0, b.1)),
            false => a.1.cmp(&b.1),
        });
        all.push(Series { files: keyed.into_iter().map(|(.., file)| file).collect() });
    }
    Ok(all)
}

fn stem(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    ROTATED.replace_all(name.strip_suffix(".gz").unwrap_or(&name), "").into_owned()
}

/// The number that `logrotate` gives: higher is older; the file itself has none.
fn number(file: &Path) -> u32 {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    NUMBER.captures(&name).and_then(|found| found[1].parse().ok()).unwrap_or(0)
}

/// The time of the first sound line near the beginning.
fn first_time(file: &Path) -> Result<Option<Timestamp>, EvidenceError> {
    let mut from = open(file)?;
    let mut line = Vec::new();
    for _ in 0..LOOK {
        match next_line(&mut from, &mut line, MAX_LINE) {
            Ok(LineEnd::Nothing) | Err(_) => break,
            Ok(_) => {}
        }
        if let Ok(line) = Line::parse(&line) {
            return Ok(line.at.parse().ok());
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_what_rotation_adds() {
        let cases = [
            ("audit.jsonl", "audit.jsonl"),
            ("audit.jsonl.1", "audit.jsonl"),
            ("audit.jsonl.12.gz", "audit.jsonl"),
            ("audit.jsonl-20260131", "audit.jsonl"),
            ("audit-2026-01-31.jsonl", "audit.jsonl"),
            (".queue.json.audit.jsonl.1", ".queue.json.audit.jsonl"),
            ("audit.jsonl.2026-01-31T12:00:00Z.gz", "audit.jsonl"),
        ];
        for (name, expected) in cases {
            assert_eq!(stem(Path::new(name)), expected, "{name}");
        }
        assert_eq!([number(Path::new("a.jsonl")), number(Path::new("a.jsonl.3.gz"))], [0, 3]);
    }
}
