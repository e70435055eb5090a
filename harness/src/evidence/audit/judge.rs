//! Judging the lines of one queue file.

use std::collections::VecDeque;

use super::{FaultKind, Line, ranges::Ranges};

/// How many lines back a fault can name the other line.
const REMEMBERED: usize = 1024;

/// Judges the lines of one queue file, in their order.
///
/// A line that continues the last one (it read the version and the content that the last one wrote) is in order unless
/// the version it wrote is not above the one it read. Any other line is an event, and one event is one fault, of the
/// first kind that fits: the lines after it that continue it are in order again.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    last: Option<Wrote>,
    read: Ranges,
    wrote: Ranges,
    highest: u64,
    recent: VecDeque<Recent>,
    /// What `recovered` lines said: a process that was slow to write its own line comes after them.
    recovered: VecDeque<(u64, Wrote)>,
    /// A malformed line may have been one of this file.
    missed: bool,
    /// The next line is the first of a rotated file.
    first: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Wrote {
    version: u64,
    hash: String,
}

#[derive(Clone, Copy, Debug)]
struct Recent {
    line: u64,
    pid: u64,
    read: u64,
    wrote: u64,
}

impl Judge {
    /// The next line is the first in a file: lines before it may have been rotated away.
    pub fn begins_file(&mut self) {
        self.first = true;
    }

    /// A line that could not be read may have been about this queue file.
    pub fn missed_one(&mut self) {
        self.missed = true;
    }

    /// Whether so many versions were seen that old ones were forgotten.
    pub fn forgot(&self) -> bool {
        self.read.forgot() || self.wrote.forgot()
    }

    /// Judges the next line, which is number `number` of its file.
    pub fn line(&mut self, line: &Line<'_>, number: u64) -> Option<(FaultKind, String)> {
        let found = self.fault(line);
        let jump_back = self.last.is_some() && line.wrote < self.highest && !self.continues(line);
        if jump_back {
            // From here on the versions above are those of a past that was given up: that they come again is no news.
            self.read.cut(line.wrote);
            self.wrote.cut(line.wrote);
        }
        self.note(line, number);
        found
    }

    fn fault(&mut self, line: &Line<'_>) -> Option<(FaultKind, String)> {
        let missed = std::mem::take(&mut self.missed);
        let first = std::mem::take(&mut self.first);
        if line.op == "recovered" || self.is_late(line) {
            return None;
        }
        let Line { read, wrote, .. } = *line;
        if self.continues(line) {
            return match wrote {
                _ if wrote > read => None,
                _ if wrote < read => {
                    Some((FaultKind::Regress, format!("wrote version {wrote}, below version {read} that it read")))
                }
                _ => Some((FaultKind::Repeat, format!("wrote version {wrote} again"))),
            };
        }
        if self.read.contains(read) {
            let other = self.named(|r| r.read == read);
            return Some((
                FaultKind::Fork,
                format!("read version {read}, as {other} did: of the two writes made from it one is lost"),
            ));
        }
        let last = self.last.as_ref()?;
        if wrote < self.highest {
            let highest = self.highest;
            return Some((FaultKind::Regress, format!("wrote version {wrote} after version {highest} was written")));
        }
        if self.wrote.contains(wrote) {
            let other = self.named(|r| r.wrote == wrote);
            return Some((FaultKind::Repeat, format!("wrote version {wrote}, as {other} did")));
        }
        if read > self.highest {
            let highest = self.highest;
            return (!missed && !first).then(|| {
                (FaultKind::Gap, format!("read version {read}, but the last that any line wrote is {highest}"))
            });
        }
        if line.read_hash.is_empty() || last.hash.is_empty() || line.read_hash == last.hash {
            return None;
        }
        Some((
            FaultKind::Foreign,
            format!(
                "read version {read} with hash {}, but the last line wrote version {} with hash {}: \
                 somebody wrote without a line",
                line.read_hash, last.version, last.hash
            ),
        ))
    }

    fn continues(&self, line: &Line<'_>) -> bool {
        self.last.as_ref().is_some_and(|last| {
            last.version == line.read
                && (last.hash == line.read_hash || last.hash.is_empty() || line.read_hash.is_empty())
        })
    }

    /// Whether another process has already said what this line says: its writer was only slow to write it.
    fn is_late(&self, line: &Line<'_>) -> bool {
        self.recovered.iter().any(|(read, wrote)| {
            *read == line.read
                && wrote.version == line.wrote
                && wrote.hash == line.wrote_hash
                && !line.wrote_hash.is_empty()
        })
    }

    fn named(&self, is: impl Fn(&Recent) -> bool) -> String {
        match self.recent.iter().rev().find(|r| is(r)) {
            Some(r) => format!("line {} (process {})", r.line, r.pid),
            None => "an earlier line".to_owned(),
        }
    }

    fn note(&mut self, line: &Line<'_>, number: u64) {
        let wrote = Wrote { version: line.wrote, hash: line.wrote_hash.to_string() };
        if self.is_late(line) {
            self.recovered.retain(|(_, known)| *known != wrote);
            return;
        }
        if line.op == "recovered" {
            keep(&mut self.recovered, (line.read, wrote.clone()));
        }
        self.read.insert(line.read);
        self.wrote.insert(line.wrote);
        self.highest = self.highest.max(line.wrote);
        self.last = Some(wrote);
        keep(&mut self.recent, Recent { line: number, pid: line.pid, read: line.read, wrote: line.wrote });
    }
}

fn keep<T>(list: &mut VecDeque<T>, item: T) {
    if list.len() == REMEMBERED {
        list.pop_front();
    }
    list.push_back(item);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `op pid read:hash wrote:hash`, or `?` for a malformed line, `|` for a new file.
    fn judge(lines: &str) -> Vec<(u64, FaultKind)> {
        let mut judge = Judge::default();
        judge.begins_file();
        let mut found = Vec::new();
        for (i, text) in lines.split(", ").enumerate() {
            match text {
                "?" => judge.missed_one(),
                "|" => judge.begins_file(),
                text => {
                    let words: Vec<&str> = text.split(' ').collect();
                    let (op, words) = if words.len() == 3 { (words[0], &words[1..]) } else { ("push", &words[..]) };
                    let part = |word: &str| {
                        let (version, hash) = word.split_once(':').unwrap_or((word, word));
                        format!("{version},\"{hash}\"")
                    };
                    let (read, wrote) = (part(words[0]), part(words[1]));
                    let (read, read_hash) = read.split_once(',').unwrap();
                    let (wrote, wrote_hash) = wrote.split_once(',').unwrap();
                    let json = format!(
                        r#"{{"schema":1,"pid":7,"file":"q","op":"{op}","read":{read},"wrote":{wrote},"read_hash":{read_hash},"wrote_hash":{wrote_hash}}}"#
                    );
                    let line = Line::parse(json.as_bytes()).unwrap();
                    found.extend(judge.line(&line, i as u64 + 1).map(|(kind, _)| (i as u64 + 1, kind)));
                }
            }
        }
        found
    }

    #[test]
    fn one_event_one_fault() {
        use FaultKind::*;
        let cases: &[(&str, &[(u64, FaultKind)])] = &[
            ("17 18, 18 19, 19 20", &[]),
            ("0 1, 1 2", &[]),
            // The incident, and what goes on after it.
            ("17 18:a, 17 18:b, 18:b 19, 19 20", &[(2, Fork)]),
            ("17 18:a, 18:a 19:a, 17 18:b, 18:b 19:b, 19:b 20", &[(3, Fork)]),
            ("17 18:a, 17 18:b, 17 18:c", &[(2, Fork), (3, Fork)]),
            // Written over from something older than any line.
            ("17 18, 18 19, 12 13, 13 14, 14 15", &[(3, Regress)]),
            ("17 18, 18 19, 18:x 19:x", &[(3, Fork)]),
            ("17 18, 18 19, 16 19:x, 19:x 20", &[(3, Repeat)]),
            ("17 18, 18 18:x, 18:x 19", &[(2, Repeat)]),
            ("17 18, 18 17:x, 17:x 18:y", &[(2, Regress)]),
            ("17 18, 20 21, 21 22", &[(2, Gap)]),
            ("17 18, 18:x 19, 19 20", &[(2, Foreign)]),
            // The version after a jump still counts as written: 19 does not come out of nowhere.
            ("17 18, 18 19:a, 17 18:b, 19:a 20", &[(3, Fork), (4, Foreign)]),
            // Put back on purpose to 18, then a true fork.
            ("17 18, 18 19, 19 20, 18 19:r, 19:r 20:r, 19:r 20:s", &[(4, Fork), (6, Fork)]),
            // Information, no fault; and the line that was only late.
            ("17 18, recovered 18 19, 19 20", &[]),
            ("17 18, recovered 18 20, 20 21", &[]),
            ("17 18, recovered 18 19:a, 19:a 20, 18 19:a, 20 21", &[]),
            ("17 18, recovered 18 19:a, 18 19:b", &[(3, Fork)]),
            // A torn line hides a version, not a content.
            ("17 18, ?, 19 20", &[]),
            ("17 18, ?, 18:x 20", &[(3, Foreign)]),
            ("17 18, ?, 18 19, 25 26", &[(4, Gap)]),
            // Lines that were rotated away.
            ("17 18, |, 30 31, 31 32", &[]),
            ("17 18, |, 18 19, 25 26", &[(4, Gap)]),
            ("17 18, |, 17 18:b", &[(3, Fork)]),
            ("17 18, |, 18:x 19", &[(3, Foreign)]),
            ("18446744073709551614 18446744073709551615, 18446744073709551614 18446744073709551615:b", &[(2, Fork)]),
        ];
        for (lines, expected) in cases {
            assert_eq!(judge(lines), *expected, "{lines}");
        }
    }
}
