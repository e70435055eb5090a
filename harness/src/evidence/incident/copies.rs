//! Finding the copies of one file, and their order.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use jiff::{Timestamp, tz::TimeZone};
use regex::Regex;

use super::stamp;
use crate::evidence::{EvidenceError, recording::Manifest};

/// How deep folders are searched.
const DEPTH: usize = 8;
/// At most this many files are looked at.
pub(super) const MAX_FILES: usize = 200_000;

/// Where a copy's bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A file.
    File(PathBuf),
    /// A blob of a git repository.
    Blob(String),
}

/// What a copy's time was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    /// Its name: the clock of whoever wrote it.
    Name,
    /// Its modification time: the file system's clock.
    Modified,
    /// The order of commits.
    Order,
}

/// A copy that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    /// Its name, relative to the folder.
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) time: Option<Timestamp>,
    pub(super) clock: Clock,
    /// The process that made it, if the name says so.
    pub(super) pid: Option<u64>,
}

/// The copies, in their order, and what is to be said about finding them.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) copies: Vec<Copy>,
    pub(super) notes: Vec<String>,
    pub(super) warnings: Vec<String>,
    /// A recorder made them: after each write, all by one clock, with audit lines beside them.
    pub(super) recorded: Option<Recorded>,
}

/// Copies that a recorder made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Recorded {
    /// The file that they are of.
    pub(super) file: String,
    /// Its audit lines.
    pub(super) audit: Vec<PathBuf>,
}

/// What is no copy of a JSON file, by its name.
const OTHER: [&str; 14] =
    ["jsonl", "ndjson", "log", "csv", "tsv", "lock", "tmp", "md", "toml", "html", "py", "sh", "rs", "swp"];
/// `-v17-4242-3`: version, process and number in the names that the queue gives; `pid4242` in others.
static PID: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"-v\d+-(\d+)-\d+\.|[^a-zA-Z]pid[-_.=]?(\d+)").expect("a sound pattern"));

/// Searches a folder for the copies of one file: the largest group of names that differ only in times and numbers, or
/// the group that has the name of `current`. Symbolic links are not followed.
pub(super) fn find(dir: &Path, current: Option<&Path>, zone: &TimeZone) -> Result<Found, EvidenceError> {
    let (dir, recorded) = recording(dir)?;
    let dir = &*dir;
    let mut found = Found { recorded, ..Found::default() };
    let mut files = Vec::new();
    let mut links = 0;
    walk(dir, dir, 0, &mut files, &mut links)?;
    if links > 0 {
        found.warnings.push(format!("{links} symbolic links were not followed"));
    }
    if files.len() >= MAX_FILES {
        found.warnings.push(format!("only the first {MAX_FILES} files of the folder were looked at"));
    }
    let live = current.and_then(|path| std::fs::canonicalize(path).ok());
    files.retain(|path| live.is_none() || std::fs::canonicalize(dir.join(path)).ok() != live);
    let mut groups: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        groups.entry(family(&name)).or_default().push(path);
    }
    // Beside recorded copies lies nothing else.
    let wanted = current
        .filter(|_| found.recorded.is_none())
        .map(|path| family(&path.file_name().unwrap_or_default().to_string_lossy()));
    let chosen = choose(groups, wanted.as_deref(), &mut found.warnings);
    for path in chosen {
        found.copies.push(copy(dir, &path, zone)?);
    }
    order(&mut found);
    if let Some(recorded) = &found.recorded {
        found.notes.push(format!("recorded copies of `{}`, one after each write", recorded.file));
        // One clock made the times, and they never go back.
        found.copies.iter_mut().for_each(|copy| copy.clock = Clock::Order);
    }
    if found.copies.iter().any(|c| c.clock == Clock::Name)
        && found.copies.iter().any(|c| stamp::in_name(&c.name).is_some_and(|s| !s.has_zone()))
    {
        found.notes.push("times in names that state no zone are taken as --tz says, else as UTC".to_owned());
    }
    Ok(found)
}

/// The folder of recorded copies that is meant, and what they are; the folder itself if it holds none.
fn recording(dir: &Path) -> Result<(PathBuf, Option<Recorded>), EvidenceError> {
    let of = |dir: &Path| {
        let file = Manifest::read(dir)?.file;
        // Older lines first.
        let audit = ["audit.1.jsonl", "audit.jsonl"].map(|name| dir.join(name));
        let plain = |path: &PathBuf| std::fs::symlink_metadata(path).is_ok_and(|m| m.is_file());
        Some(Recorded { file, audit: audit.into_iter().filter(plain).collect() })
    };
    if let Some(recorded) = of(dir) {
        return Ok((dir.to_owned(), Some(recorded)));
    }
    let entries = std::fs::read_dir(dir).map_err(|e| EvidenceError::unreadable(dir, e))?;
    let folders = entries.filter_map(Result::ok).filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).take(MAX_FILES);
    let mut inside: Vec<(PathBuf, Recorded)> = folders.filter_map(|e| Some((e.path(), of(&e.path())?))).collect();
    inside.sort_by(|a, b| a.0.cmp(&b.0));
    match inside.len() {
        0 => Ok((dir.to_owned(), None)),
        1 => Ok(inside.remove(0)).map(|(dir, recorded)| (dir, Some(recorded))),
        n => {
            let names: Vec<String> = inside.iter().take(8).map(|(dir, _)| dir.display().to_string()).collect();
            Err(EvidenceError::Mistake(format!(
                "`{}` holds the recorded copies of {n} files\n  name one of them: {}",
                dir.display(),
                names.join(", ")
            )))
        }
    }
}

fn walk(
    root: &Path,
    dir: &Path,
    depth: usize,
    files: &mut Vec<PathBuf>,
    links: &mut usize,
) -> Result<(), EvidenceError> {
    let entries = std::fs::read_dir(dir).map_err(|e| EvidenceError::unreadable(dir, e))?;
    let mut entries: Vec<_> = entries.filter_map(Result::ok).collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        if files.len() >= MAX_FILES {
            return Ok(());
        }
        // Says what the entry itself is: a link is a link.
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_symlink() {
            *links += 1;
        } else if kind.is_dir() && depth < DEPTH && entry.file_name() != ".git" {
            // A folder inside that cannot be read is passed over: the copies may be elsewhere.
            let _ = walk(root, &path, depth + 1, files, links);
        } else if kind.is_file() {
            let name = entry.file_name().to_string_lossy().to_lowercase();
            let plain = name.strip_suffix(".gz").unwrap_or(&name);
            let extension = plain.rsplit_once('.').map_or("", |(_, extension)| extension);
            if !OTHER.contains(&extension) && !plain.contains(".jsonl") {
                files.extend(path.strip_prefix(root).map(Path::to_owned));
            }
        }
    }
    Ok(())
}

/// A name without times, numbers and words that say only that it is a copy.
fn family(name: &str) -> String {
    const COPY: [&str; 15] = [
        "bak", "backup", "copy", "snap", "snapshot", "before", "after", "pre", "post", "old", "orig", "gz", "json",
        "t", "z",
    ];
    let mut text = name.to_lowercase();
    while let Some(found) = stamp::in_name(&text) {
        text.replace_range(found.span.0..found.span.1, "#");
    }
    let number = |word: &str| {
        let digits = word.trim_start_matches("pid").trim_start_matches(['v', 't', 's', 'w']);
        !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
    };
    let hash = |word: &str| {
        word.len() >= 7 && word.bytes().all(|b| b.is_ascii_hexdigit()) && word.bytes().any(|b| b.is_ascii_digit())
    };
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty());
    words.filter(|w| !COPY.contains(w) && !number(w) && !hash(w)).collect::<Vec<_>>().join(" ")
}

fn choose(
    mut groups: BTreeMap<String, Vec<PathBuf>>,
    wanted: Option<&str>,
    warnings: &mut Vec<String>,
) -> Vec<PathBuf> {
    if let Some(group) = wanted.and_then(|name| groups.remove(name)).filter(|group| group.len() > 1) {
        note_others(&groups, warnings);
        return group;
    }
    // Names that have nothing in common: the folder is the group.
    if groups.values().all(|group| group.len() == 1) {
        return groups.into_values().flatten().collect();
    }
    let largest = groups.iter().rev().max_by_key(|(_, group)| group.len()).map(|(name, _)| name.clone());
    let group = largest.and_then(|name| groups.remove(&name)).unwrap_or_default();
    note_others(&groups, warnings);
    group
}

fn note_others(groups: &BTreeMap<String, Vec<PathBuf>>, warnings: &mut Vec<String>) {
    let count: usize = groups.values().map(Vec::len).sum();
    if let Some(example) = groups.values().flatten().next() {
        warnings.push(format!(
            "{count} other files were left out, `{}` among them: their names are of another kind",
            example.display()
        ));
    }
}

fn copy(dir: &Path, path: &Path, zone: &TimeZone) -> Result<Copy, EvidenceError> {
    let name = path.to_string_lossy().into_owned();
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let full = dir.join(path);
    let pid = PID.captures(&file).and_then(|c| c.get(1).or(c.get(2))).and_then(|m| m.as_str().parse().ok());
    let pid = pid.filter(|pid| *pid != 0);
    let (time, clock) = match stamp::in_name(&file).and_then(|stamp| stamp.at(zone)) {
        Some(time) => (Some(time), Clock::Name),
        None => {
            let modified = std::fs::symlink_metadata(&full).and_then(|m| m.modified());
            let modified = modified.map_err(|e| EvidenceError::unreadable(&full, e))?;
            (Timestamp::try_from(modified).ok(), Clock::Modified)
        }
    };
    Ok(Copy { name, place: Place::File(full), time, clock, pid })
}

/// Puts the copies in order: by the times in their names if all have one, else by modification time.
fn order(found: &mut Found) {
    let named = found.copies.iter().filter(|c| c.clock == Clock::Name).count();
    if named > 0 && named < found.copies.len() {
        found.warnings.push(format!(
            "{} of {} names have no time: all copies are ordered by modification time",
            found.copies.len() - named,
            found.copies.len()
        ));
        for copy in &mut found.copies {
            if let (Clock::Name, Place::File(path)) = (copy.clock, &copy.place) {
                copy.time = std::fs::symlink_metadata(path)
                    .and_then(|m| m.modified())
                    .ok()
                    .and_then(|m| Timestamp::try_from(m).ok());
                copy.clock = Clock::Modified;
            }
        }
    }
    found.copies.sort_by(|a, b| a.time.cmp(&b.time).then_with(|| natural(&a.name).cmp(&natural(&b.name))));
    let by = if named > 0 && named == found.copies.len() { "the times in their names" } else { "modification time" };
    found.notes.push(format!("{} copies, ordered by {by}", found.copies.len()));
}

/// A key under which `2` comes before `10`.
fn natural(name: &str) -> Vec<(String, u128)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(text);
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (number, after) = after.split_at(digits);
        parts.push((word.to_owned(), number.parse().unwrap_or(0)));
        rest = after;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_file_are_one_family() {
        let cases = [
            ("20260131T120000.123456Z-v17-4242-3.json", ""),
            ("queue.json", "queue"),
            ("queue.json.2026-01-31T12:00:00Z", "queue"),
            ("queue-20260131-120000-pid77.json.gz", "queue"),
            ("queue.json.bak.3", "queue"),
            ("queue_acme-20260131.json", "queue acme"),
            ("Queue_beta-20260131.json", "queue beta"),
        ];
        for (name, expected) in cases {
            assert_eq!(family(name), expected, "{name}");
        }
    }

    #[test]
    fn numbers_in_names_are_numbers() {
        let mut names = ["q.10.json", "q.9.json", "q.2.json"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["q.2.json", "q.9.json", "q.10.json"]);
    }
}
