//! Joining audit lines to copies: who wrote which state, and from which.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    path::PathBuf,
};

use jiff::{SignedDuration, Timestamp};

use super::{
    bases::Bases,
    copies::Clock,
    history::{History, Made, SKEW},
    model::{Certainty, Delivery, Duplicated, Fork, Lost, Write},
};
use crate::evidence::{
    EvidenceError,
    audit::{Line, MAX_LINE},
    source::{LineEnd, next_line, open},
};

/// At most this many lines are kept.
const MAX_LINES: usize = 2_000_000;
/// More versions than these that one can have been made from are not told apart.
const MAX_RANGE: u64 = 64;
/// What takes a task: these operations' ids, where the base has them, were taken.
const TAKES: [&str; 7] = ["claim", "complete", "process", "take", "pop", "work", "execute"];

/// An audit line, as far as it is needed.
#[derive(Clone, Debug)]
pub(super) struct AuditLine {
    pub(super) at: Option<Timestamp>,
    pub(super) pid: u64,
    pub(super) op: String,
    pub(super) read: u64,
    pub(super) wrote: u64,
    read_hash: String,
    wrote_hash: String,
    ids: Vec<String>,
    /// The recorder's numbers of the versions that it read (from, to; to be sure of it) and wrote.
    recorded: Option<Recorded>,
    /// The state that it read, if a copy shows it and it is sure.
    pub(super) base: Option<usize>,
    /// The state that it wrote, if a copy shows it.
    pub(super) node: Option<usize>,
}

/// What a recorder says beyond the contract's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Recorded {
    read: u64,
    read_to: u64,
    wrote: u64,
    /// It can have been made from something that is in no copy.
    unsure: bool,
}

/// The lines about the file whose copies these are.
#[derive(Debug, Default)]
pub(super) struct Audit {
    pub(super) lines: Vec<AuditLine>,
    writers: HashMap<usize, usize>,
    /// The states that a recorder's numbers stand for.
    numbers: HashMap<u64, usize>,
}

/// Reads the lines, keeps those of the file that the copies are of, and says which states they are about.
pub(super) fn join(
    files: &[PathBuf],
    history: &History,
    warnings: &mut Vec<String>,
    stated: &mut Vec<String>,
) -> Result<Audit, EvidenceError> {
    let mut by_file: HashMap<String, (Vec<AuditLine>, usize)> = HashMap::new();
    // Equal states were written one after the other; which of them a line read makes no difference.
    let mut states: HashMap<(u64, String), VecDeque<usize>> = HashMap::new();
    for (i, node) in history.nodes.iter().enumerate() {
        states.entry((node.version.unwrap_or(0), format!("{:08x}", node.crc))).or_default().push_back(i);
    }
    let by_copy: HashMap<&str, usize> = (0..history.nodes.len())
        .flat_map(|node| history.nodes[node].copies.iter().map(move |&copy| (&*history.copies[copy].name, node)))
        .collect();
    let mut numbers: HashMap<u64, usize> = HashMap::new();
    let (mut count, mut malformed) = (0, 0_u64);
    for file in files {
        let mut from = open(file)?;
        let mut bytes = Vec::new();
        loop {
            let end = next_line(&mut from, &mut bytes, MAX_LINE).map_err(|e| EvidenceError::unreadable(file, e))?;
            if end == LineEnd::Nothing {
                break;
            }
            if bytes.trim_ascii().is_empty() {
                continue;
            }
            let line = match Line::parse(&bytes) {
                Ok(line) if count < MAX_LINES => line,
                Ok(_) => {
                    count += 1;
                    continue;
                }
                Err(_) => {
                    malformed += 1;
                    continue;
                }
            };
            count += 1;
            let (base, node, recorded) = match line.recorded() {
                true => {
                    let node = line.copy.as_deref().and_then(|copy| by_copy.get(copy)).copied();
                    numbers.extend(node.map(|node| (line.wrote, node)));
                    let recorded = Recorded {
                        read: line.read,
                        read_to: line.read_to.unwrap_or(line.read),
                        wrote: line.wrote,
                        // Who never read the file made it from something else.
                        unsure: line.unsure || line.op == "overwrite",
                    };
                    let exact = !recorded.unsure && recorded.read == recorded.read_to;
                    (numbers.get(&line.read).copied().filter(|_| exact), node, Some(recorded))
                }
                false => {
                    let base = states.get(&(line.read, line.read_hash.to_string())).and_then(|n| n.front()).copied();
                    let node = states.get_mut(&(line.wrote, line.wrote_hash.to_string())).and_then(|nodes| {
                        nodes.rotate_left(1);
                        nodes.back().copied()
                    });
                    (base, node, None)
                }
            };
            // What the document says of its version is what people know it by.
            let version = |node: Option<usize>, said: u64| node.and_then(|n| history.nodes[n].version).unwrap_or(said);
            let (read, wrote) = (version(base, line.read), version(node, line.wrote));
            let (lines, matches) = by_file.entry(line.file.to_string()).or_default();
            *matches += usize::from(base.is_some()) + usize::from(node.is_some());
            lines.push(AuditLine {
                at: line.at.parse().ok(),
                pid: line.pid,
                op: line.op.to_string(),
                read,
                wrote,
                recorded,
                read_hash: line.read_hash.to_string(),
                wrote_hash: line.wrote_hash.to_string(),
                ids: line.ids.0.iter().map(|id| id.to_string()).collect(),
                base,
                node,
            });
        }
    }
    if malformed > 0 {
        warnings.push(format!("{malformed} audit lines cannot be read: `noclobber audit` says which"));
    }
    if count > MAX_LINES {
        warnings.push(format!("only the first {MAX_LINES} audit lines were joined"));
    }
    let files = by_file.len();
    let best = by_file.into_iter().max_by(|a, b| (a.1.1, &b.0).cmp(&(b.1.1, &a.0)));
    let Some((file, (lines, matches))) = best else { return Ok(Audit::default()) };
    if matches == 0 {
        warnings.push("no audit line names a version and hash of these copies: the lines were not joined".to_owned());
        return Ok(Audit::default());
    }
    stated.push(format!(
        "{} audit lines about `{file}`{}, joined by {}",
        lines.len(),
        match files {
            1 => String::new(),
            n => format!(" (of {n} files in them)"),
        },
        if lines.iter().all(|line| line.recorded.is_some()) { "the names of the copies" } else { "version and hash" },
    ));
    let mut audit = Audit { lines, writers: HashMap::new(), numbers };
    for (i, line) in audit.lines.iter().enumerate() {
        if let Some(node) = line.node.filter(|_| line.op != "recovered") {
            audit.writers.entry(node).or_insert(i);
        }
    }
    Ok(audit)
}

impl Audit {
    /// The line that says who wrote a state.
    pub(super) fn writer(&self, node: usize) -> Option<&AuditLine> {
        self.writers.get(&node).map(|&i| &self.lines[i])
    }

    /// Narrows the possible bases to what the lines say.
    pub(super) fn narrow(&self, history: &History, bases: &mut Bases) {
        for (&node, &line) in &self.writers {
            let line = &self.lines[line];
            match (line.base, line.recorded) {
                (Some(base), _) if base != node => {
                    bases.of[node] = vec![base];
                    bases.from_torn[node] = false;
                }
                (None, Some(Recorded { read, read_to, unsure, .. })) => {
                    let known = |n: u64| self.numbers.get(&n).copied().filter(|base| *base != node);
                    let range = read..=read_to.min(read.saturating_add(MAX_RANGE));
                    bases.of[node] = range.clone().filter_map(known).collect();
                    // Version 0 is no file at all.
                    let hidden = range.clone().any(|n| n > 0 && known(n).is_none()) || *range.end() < read_to;
                    bases.from_torn[node] = unsure || hidden;
                }
                _ if bases.of[node].is_empty() => {}
                // It was made from a state that no copy shows.
                _ => bases.from_torn[node] = true,
            }
        }
        match self.lines.iter().all(|line| line.recorded.is_some()) && !self.lines.is_empty() {
            true => self.complete(history, bases),
            false => self.find_hidden(history, bases),
        }
    }

    /// Lines of other writers join copies that may be anything: a version that only a line shows is a doubt.
    fn find_hidden(&self, history: &History, bases: &mut Bases) {
        let versions: Vec<u64> = history.nodes.iter().filter_map(|n| n.version).collect();
        let (lowest, highest) = (versions.iter().min().copied(), versions.iter().max().copied());
        let hidden = self.lines.iter().find(|line| {
            line.node.is_none() && Some(line.wrote) >= lowest && Some(line.wrote) <= highest && line.op != "recovered"
        });
        if let Some(line) = hidden {
            bases.doubts.push(format!(
                "process {} wrote a version {} of which there is no copy, as its audit line says",
                line.pid, line.wrote
            ));
            bases.complete = false;
        }
    }

    /// A recorder sees every write of the programs that it watches: where each state but the first has its line, and
    /// each line says what it was made from, nothing is left to be inferred.
    fn complete(&self, history: &History, bases: &mut Bases) {
        let mut doubts = Vec::new();
        let first = self.numbers.keys().min().copied().unwrap_or(0);
        for line in &self.lines {
            let Some(recorded) = line.recorded.filter(|r| r.wrote > first) else { continue };
            match line.node {
                None if line.op == "remove" => {
                    doubts.push(format!("process {} removed the file", line.pid));
                }
                None => doubts
                    .push(format!("the copy of the {} version is not there or cannot be read", nth(recorded.wrote))),
                Some(node) if line.op == "recovered" => {
                    doubts.push(format!("{} was written by somebody who was not watched", history.info(node).name))
                }
                Some(node) if bases.from_torn[node] || bases.of[node].len() > 1 => doubts.push(format!(
                    "what {} was made from is not sure: its writer read while somebody else wrote, or never",
                    history.info(node).name
                )),
                Some(_) => {}
            }
        }
        let written: usize = history.nodes.len() - usize::from(self.numbers.contains_key(&first));
        let lines =
            self.lines.iter().filter(|l| l.node.is_some() && l.recorded.is_some_and(|r| r.wrote > first)).count();
        if lines < written {
            doubts.push(format!("{} copies have no audit line", written - lines));
        }
        bases.complete = doubts.is_empty();
        bases.doubts = doubts;
        if bases.complete {
            bases.again = put_in_twice(history, bases);
            bases.shared.clear();
            bases.missing.clear();
        }
    }

    /// Lines that read one version and wrote different ones.
    pub(super) fn forks(&self, history: &History) -> Vec<Fork> {
        let mut by_read: HashMap<(u64, &str), Vec<&AuditLine>> = HashMap::new();
        for line in self.lines.iter().filter(|line| line.op != "recovered") {
            by_read.entry((line.read, &line.read_hash)).or_default().push(line);
        }
        let mut forks: Vec<Fork> = by_read
            .into_values()
            .filter(|lines| lines.len() > 1)
            .map(|lines| Fork {
                read_version: lines[0].read,
                certainty: Certainty::Certain,
                writes: lines
                    .iter()
                    .map(|line| Write {
                        pid: Some(line.pid),
                        version: line.wrote,
                        at: line.at.map(|at| at.to_string()),
                        snapshot: line.node.map(|node| history.info(node).name.clone()),
                    })
                    .collect(),
            })
            .collect();
        forks.sort_by_key(|fork| fork.read_version);
        forks
    }

    /// Items that a line put into a version that nobody read and no copy shows, and that the last state lacks.
    pub(super) fn lost(&self, history: &History, last: &[usize], show: &dyn Fn(&str) -> String) -> Vec<Lost> {
        let mut lost = Vec::new();
        if last.is_empty() {
            return lost;
        }
        let read: std::collections::HashSet<(u64, &str)> =
            self.lines.iter().map(|line| (line.read, &*line.read_hash)).collect();
        for line in self.lines.iter().filter(|l| l.node.is_none() && l.op != "recovered") {
            let Some(base) = line.base.filter(|_| !read.contains(&(line.wrote, &*line.wrote_hash))) else { continue };
            let over = self.lines.iter().rev().find(|l| l.read == line.read && l.wrote_hash != line.wrote_hash);
            let Some(over) = over else { continue };
            for id in line.ids.iter().filter(|id| history.id(id).is_none()) {
                lost.push(Lost {
                    id: show(id),
                    certainty: Certainty::Certain,
                    why: format!(
                        "process {} put it into version {}, made from version {}, as its audit line says; process {} \
                         wrote version {} from version {} too; no line read what the first one wrote, and no copy has \
                         the item",
                        line.pid, line.wrote, line.read, over.pid, over.wrote, over.read
                    ),
                    settled_by: "the audit lines".to_owned(),
                    last_seen: None,
                    gone_in: over.node.map(|node| history.info(node).name.clone()),
                    bytes: None,
                    fragment: None,
                    written_by: Some(line.pid),
                    overwritten_by: Some(over.pid),
                    stale_base: Some(history.info(base).name.clone()),
                    stale_version: Some(line.read),
                });
            }
        }
        lost
    }

    /// Items that two lines took from one state in which they were waiting.
    pub(super) fn duplicated(&self, history: &History, show: &dyn Fn(&str) -> String) -> Vec<Duplicated> {
        let mut takers: HashMap<(usize, &str), Vec<&AuditLine>> = HashMap::new();
        for line in self.lines.iter().filter(|line| TAKES.contains(&&*line.op)) {
            let Some(base) = line.base else { continue };
            for id in &line.ids {
                let Some(known) = history.id(id).filter(|&known| history.at(known, base).is_available()) else {
                    continue;
                };
                // A copy of what it wrote says for sure whether it took the item.
                let took = line.node.is_none_or(|node| !history.at(known, node).is_available());
                if took {
                    takers.entry((base, id)).or_default().push(line);
                }
            }
        }
        let mut found: Vec<Duplicated> = takers
            .into_iter()
            .filter(|(_, lines)| lines.len() > 1)
            .map(|((base, id), lines)| {
                let from = history.info(base).name.clone();
                let version = lines[0].read;
                let pids: Vec<String> = lines.iter().map(|line| line.pid.to_string()).collect();
                Duplicated {
                    id: show(id),
                    certainty: Certainty::Certain,
                    why: format!(
                        "processes {} each took it from version {version} ({from}), as their audit lines say",
                        pids.join(" and ")
                    ),
                    settled_by: "the audit lines".to_owned(),
                    deliveries: lines
                        .iter()
                        .map(|line| Delivery {
                            at: line.at.map(|at| at.to_string()),
                            pid: Some(line.pid),
                            seen_in: line.node.map(|node| history.info(node).name.clone()),
                            from: Some(from.clone()),
                        })
                        .collect(),
                }
            })
            .collect();
        found.sort_by(|a, b| a.id.cmp(&b.id));
        found
    }

    /// How far the clock in the copies' names is ahead of the lines' clock, if that is more than clocks differ.
    pub(super) fn offset(&self, history: &History, made: Made) -> Option<SignedDuration> {
        let mut ahead: Vec<SignedDuration> = self
            .lines
            .iter()
            .filter_map(|line| {
                // A copy made before a write is as old as that write.
                let node = if made == Made::After { line.node } else { line.base }?;
                let copies = &history.nodes[node].copies;
                let info = &history.copies[*copies.last()?];
                (info.clock == Clock::Name && copies.len() == 1 && !info.live)
                    .then(|| Some(info.time?.duration_since(line.at?)))?
            })
            .collect();
        ahead.sort();
        ahead.get(ahead.len() / 2).copied().filter(|offset| offset.abs() > SKEW)
    }
}

/// `3rd`.
fn nth(n: u64) -> String {
    let ending = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{ending}")
}

/// Ids that more than one state put in, where it is known what each was made from.
fn put_in_twice(history: &History, bases: &Bases) -> HashSet<u32> {
    let mut times: HashMap<u32, u32> = HashMap::new();
    for node in 0..history.nodes.len() {
        let base = bases.of[node].first().copied();
        let ids = match base {
            Some(base) => history.diff(base, node),
            None => (0..history.ids.len() as u32).collect(),
        };
        for id in ids {
            let new = history.at(id, node).is_present() && base.is_none_or(|base| !history.at(id, base).is_present());
            *times.entry(id).or_default() += u32::from(new);
        }
    }
    times.into_iter().filter(|(_, times)| *times > 1).map(|(id, _)| id).collect()
}
