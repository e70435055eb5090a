//! Lost updates, proved from the history: T1 wrote a version, T2 replaced it (-ww->) although T2 had read an older one
//! (-rw->), and what T1 had changed is in no later version.

use std::{cell::OnceCell, collections::BTreeSet};

use super::{
    history::{History, Version},
    items::{Item, differing_range, items, object_range},
    json,
};

/// Versions further back than this are not looked at for what one version overwrote.
const FURTHEST: usize = 64;

/// A lost update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostUpdate {
    /// The file.
    pub path: String,
    /// Whose update is lost (worker number).
    pub loser: usize,
    /// Who overwrote it.
    pub overwriter: usize,
    /// The overwritten version and the one that replaced it (numbers in the path's history).
    pub versions: (usize, usize),
    /// The version that the overwriter had read, and the step of that read.
    pub base: (usize, usize),
    /// The step at which the overwriter looked at the file once more, and kept to what it had made of the older one.
    pub again: Option<usize>,
    /// The steps that published both (indices into the trace).
    pub steps: (usize, usize),
    /// What is in no later version: ids, else elements, else lines, else members.
    pub lost: Vec<String>,
    /// `lost` are ids.
    pub ids: bool,
    /// Where in the overwritten version the first lost thing stands, and its bytes as text.
    pub fragment: Option<((usize, usize), String)>,
    /// The overwritten content went to a file that no name leads to.
    pub stray: bool,
}

/// All lost updates of a run. `id` is the member that holds ids.
pub fn lost_updates(history: &History, id: &str) -> Vec<LostUpdate> {
    let mut out = overwritten(history, id, |path, at| Some((history.version(path, at)?.base?, None)));
    out.extend(strays(history, id));
    out.sort_by_key(|update| (!update.ids, update.stray, std::cmp::Reverse(update.steps.0)));
    out
}

/// Updates overwritten by a worker that had read the version before them, and then the update itself, too late to heed
/// it (git reads a reference again under its lock, for the log). Whoever looks, takes a lock and looks again for good
/// does the same steps: this explains a wrong run that nothing else explains, and proves nothing of any other.
pub(super) fn lost_though_read_again(history: &History, id: &str) -> Vec<LostUpdate> {
    let mut out = overwritten(history, id, |path, at| {
        let versions = &history.versions[path];
        let (by, until, last) = (versions[at].by?, versions[at].step?, versions[at].base?);
        let since = versions[..at].iter().rev().find(|version| version.by == Some(by)).and_then(|version| version.step);
        let first = history.readings.iter().find(|reading| {
            let during = since.is_none_or(|since| reading.steps.0 > since) && reading.steps.0 < until;
            during && reading.by == by && reading.path == path
        })?;
        let version = first.version.filter(|version| *version < last.0)?;
        Some(((version, first.steps.0), Some(last.1)))
    });
    out.sort_by_key(|update| (!update.ids, std::cmp::Reverse(update.steps.0)));
    out
}

/// A version and the step of its reading, and the step at which it was read again.
type Basis = ((usize, usize), Option<usize>);

/// What versions overwrote that were made from older ones. `basis` says from which, by path and number.
fn overwritten(history: &History, id: &str, basis: impl Fn(&str, usize) -> Option<Basis>) -> Vec<LostUpdate> {
    let mut out = Vec::new();
    for (path, versions) in &history.versions {
        let holdings = Holdings::new(versions, id);
        for (at, replacing) in versions.iter().enumerate() {
            if let Some(basis) = basis(path, at) {
                out.extend(replaced(path, &holdings, at, replacing, basis));
            }
        }
    }
    out
}

/// What each version of a path holds, found when it is first asked for.
struct Holdings<'a> {
    versions: &'a [Version],
    id: &'a str,
    items: Vec<OnceCell<BTreeSet<Item>>>,
}

impl<'a> Holdings<'a> {
    fn new(versions: &'a [Version], id: &'a str) -> Holdings<'a> {
        Holdings { versions, id, items: vec![OnceCell::new(); versions.len()] }
    }

    fn of(&self, number: usize) -> &BTreeSet<Item> {
        let find = || self.versions[number].bytes.as_deref().map(|bytes| items(bytes, self.id)).unwrap_or_default();
        self.items[number].get_or_init(find)
    }
}

/// What version `at` overwrote that came after the one it was made from.
fn replaced(path: &str, holdings: &Holdings<'_>, at: usize, replacing: &Version, basis: Basis) -> Vec<LostUpdate> {
    let (versions, (base, again)) = (holdings.versions, basis);
    let (Some(overwriter), Some(read)) = (replacing.by, versions.get(base.0)) else { return Vec::new() };
    let id = holdings.id;
    let mut out = Vec::new();
    for over in (base.0 + 1).max(at.saturating_sub(FURTHEST))..at {
        let version = &versions[over];
        let (Some(loser), Some(bytes)) = (version.by, &version.bytes) else { continue };
        let whole = version.published || json::parse(bytes).is_some();
        let same = |other: &Version| !other.absent && other.bytes.as_deref() == Some(&**bytes);
        if loser == overwriter || !whole || same(read) || same(replacing) {
            continue;
        }
        let (before, now) = (holdings.of(base.0), holdings.of(over));
        let mut gone: BTreeSet<Item> = now.difference(before).cloned().collect();
        // What somebody took out again after reading it is not lost by the later overwriting.
        for between in (over + 1..at).filter(|between| versions[*between].by != Some(overwriter)) {
            gone.retain(|item| holdings.of(between).contains(item));
        }
        // What the update had removed, and every later version has again.
        let mut back: BTreeSet<Item> = before.difference(now).cloned().collect();
        for later in at..versions.len() {
            gone.retain(|item| !holdings.of(later).contains(item));
            back.retain(|item| holdings.of(later).contains(item));
        }
        if gone.is_empty() && back.is_empty() {
            continue;
        }
        let foremost = Item::foremost(if gone.is_empty() { &back } else { &gone });
        let ids = !gone.is_empty() && matches!(foremost.first(), Some(Item::Id(_)));
        let lost: Vec<String> = if gone.is_empty() { Vec::new() } else { labels(&foremost, path) };
        out.push(LostUpdate {
            path: path.to_owned(),
            loser,
            overwriter,
            versions: (over, at),
            base,
            again,
            steps: (version.step.unwrap_or(0), replacing.step.unwrap_or(0)),
            fragment: fragment(bytes, replacing.bytes.as_deref().unwrap_or(&[]), foremost.first().copied(), id),
            lost,
            ids,
            stray: false,
        });
    }
    out
}

/// Changes to a file that somebody else had already replaced.
fn strays(history: &History, id: &str) -> Vec<LostUpdate> {
    let mut out = Vec::new();
    for stray in &history.strays {
        let Some(versions) = history.versions.get(&stray.path) else { continue };
        let Some(after) = &stray.after else { continue };
        let before = stray.before.as_deref().map(|bytes| items(bytes, id)).unwrap_or_default();
        let mut gone: BTreeSet<Item> = items(after, id).difference(&before).cloned().collect();
        for version in versions {
            let there = version.bytes.as_deref().map(|bytes| items(bytes, id)).unwrap_or_default();
            gone.retain(|item| !there.contains(item));
        }
        let replacing = versions.iter().enumerate().rev().find(|(_, v)| v.step.is_some_and(|s| s < stray.step));
        let Some((at, replacing)) = replacing else { continue };
        let Some(overwriter) = replacing.by.filter(|by| *by != stray.by) else { continue };
        if gone.is_empty() {
            continue;
        }
        let foremost = Item::foremost(&gone);
        out.push(LostUpdate {
            path: stray.path.clone(),
            loser: stray.by,
            overwriter,
            versions: (at, at),
            base: replacing.base.unwrap_or((0, replacing.step.unwrap_or(0))),
            again: None,
            steps: (stray.step, replacing.step.unwrap_or(0)),
            fragment: fragment(after, replacing.bytes.as_deref().unwrap_or(&[]), foremost.first().copied(), id),
            lost: labels(&foremost, &stray.path),
            ids: matches!(foremost.first(), Some(Item::Id(_))),
            stray: true,
        });
    }
    out
}

fn labels(items: &[&Item], path: &str) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for item in items {
        let label = item.label(path);
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    labels
}

/// Where the lost thing stands in the overwritten version.
fn fragment(bytes: &[u8], replacing: &[u8], item: Option<&Item>, id: &str) -> Option<((usize, usize), String)> {
    let range = match item {
        Some(Item::Id(own)) => object_range(bytes, id, own)?,
        Some(Item::Line(line)) => {
            let from = bytes.windows(line.len().max(1)).position(|window| window == line.as_bytes())?;
            (from, from + line.len())
        }
        _ => differing_range(bytes, replacing),
    };
    let text = String::from_utf8_lossy(bytes.get(range.0..range.1)?).into_owned();
    Some((range, text))
}
