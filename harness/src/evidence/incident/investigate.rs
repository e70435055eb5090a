//! The whole way from evidence to findings.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use jiff::{Timestamp, tz::TimeZone};
use serde_json::Value;

use super::{
    bases::{Bases, bases, last_states},
    copies::{self, Clock, Copy, Found, Place},
    document::{self, Torn},
    findings::Finder,
    git::{self, GitPath},
    history::{CopyInfo, History, Made},
    lines::{self, Audit},
    logs::{self, Log, LogFormat},
    mask,
    model::{Certainty, Delivery, Duplicated, Incident, Lost},
    read::Reader,
    shape::Shape,
    stamp,
    timeline::timeline,
};
use crate::evidence::EvidenceError;

/// When copies were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopiesMade {
    /// Before each write: the last state is in none.
    Before,
    /// After each write.
    After,
}

/// The evidence, and what is known about it.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The folder of copies.
    pub dir: Option<PathBuf>,
    /// A file's history in git instead of, or beside, the folder.
    pub git: Option<GitPath>,
    /// The live file.
    pub current: Option<PathBuf>,
    /// When copies were made; none: inferred.
    pub made: Option<CopiesMade>,
    /// Audit files.
    pub audit: Vec<PathBuf>,
    /// Logs of what was generated.
    pub generated: Vec<PathBuf>,
    /// Logs of what was executed.
    pub log: Vec<PathBuf>,
    /// How logs are read.
    pub log_format: LogFormat,
    /// The zone of times that state none; none: UTC.
    pub tz: Option<String>,
    /// The list; none: inferred.
    pub pointer: Option<String>,
    /// What tells items apart; none: inferred.
    pub id: Option<String>,
    /// Whether ids and values are masked.
    pub mask: bool,
}

/// An incident, and what a scenario of it needs.
#[derive(Debug)]
pub struct Investigation {
    /// What is found.
    pub incident: Incident,
    pub(super) history: History,
    pub(super) bases: Bases,
    pub(super) shape: Shape,
}

/// How many copies are looked at to find the list.
const SAMPLE: usize = 16;
/// How many lost items are shown with their place and text.
const DETAILED: usize = 1_000;
/// The longest text of an item that is shown.
const MAX_FRAGMENT: usize = 64 * 1024;

/// Finds out what happened.
///
/// # Errors
/// [`EvidenceError`] for evidence that cannot be read, and for what cannot be a list of items.
pub fn investigate(request: &Request) -> Result<Investigation, EvidenceError> {
    let zone = match &request.tz {
        Some(text) => stamp::zone(text).map_err(EvidenceError::Mistake)?,
        None => TimeZone::UTC,
    };
    let found = find(request, &zone)?;
    let mut reader = Reader::new(request.git.as_ref());
    let mut copies = found.copies;
    let recorded = found.recorded;
    let live = request.current.as_ref().map(|path| live(path)).transpose()?;
    copies.extend(live);
    let shape = shape(request, &copies, &mut reader)?;
    let mut incident = Incident { stated: found.notes, warnings: found.warnings, ..Incident::default() };
    incident.stated.push(shape.describe());
    incident.copies = copies.len();

    let mut made = match request.made {
        Some(CopiesMade::After) => Made::After,
        Some(CopiesMade::Before) => Made::Before,
        None if recorded.is_some() => Made::After,
        None => Made::Unknown,
    };
    let history = history(&copies, &shape, made, request, &mut reader);
    if history.nodes.is_empty() {
        let why = history
            .torn
            .first()
            .map_or(String::new(), |torn| format!(" (the first, {}: {})", history.copies[torn.copy].name, torn.reason));
        return Err(EvidenceError::Mistake(format!(
            "no copy can be read{why}\n  say where the list is with --pointer, as in /tasks"
        )));
    }
    notes(&history, request, &mut made, &mut incident);

    let files = match (&request.audit[..], &recorded) {
        ([], Some(recorded)) => &recorded.audit[..],
        (said, _) => said,
    };
    let audit = match files {
        [] => Audit::default(),
        files => lines::join(files, &history, &mut incident.warnings, &mut incident.stated)?,
    };
    let mut bases = bases(&history);
    audit.narrow(&history, &mut bases);
    if let Some(offset) = audit.offset(&history, made) {
        incident.warnings.push(format!(
            "the times in the copies' names are {} s {} those of the audit lines; nothing was corrected (--tz says the \
             zone of the names)",
            offset.abs().as_secs_f64(),
            if offset.is_negative() { "behind" } else { "ahead of" }
        ));
    }
    if (bases.versions || recorded.is_some()) && !bases.complete {
        incident.warnings.extend(bases.doubts.iter().take(8).cloned());
    }
    let by_name = |node: usize| writer_by_name(&history, made, node);
    let writer = |node: usize| audit.writer(node).map(|line| line.pid).or_else(|| by_name(node));
    let show = |id: &str| match (request.mask, history.id(id)) {
        (false, _) => id.to_owned(),
        (true, Some(known)) => history.ids[known as usize].clone(),
        (true, None) => "id-in-no-copy".to_owned(),
    };
    let finder = Finder::new(&history, &bases, made, &writer);
    let findings = finder.find(&mut incident.warnings);
    let last = last_states(&history, &bases, made);
    incident.lost = findings.lost;
    incident.duplicated = findings.duplicated;
    prefer(&mut incident.lost, audit.lost(&history, &last, &show), |l| &l.id);
    prefer(&mut incident.duplicated, audit.duplicated(&history, &show), |d| &d.id);
    incident.forks = audit.forks(&history);
    let known: HashSet<u64> = incident.forks.iter().map(|fork| fork.read_version).collect();
    incident.forks.extend(findings.forks.into_iter().filter(|fork| !known.contains(&fork.read_version)));
    incident.forks.sort_by_key(|fork| fork.read_version);

    let log = logs(request, &request.log, &zone, "execution", &mut incident)?;
    let generated = logs(request, &request.generated, &zone, "generation", &mut incident)?;
    if let Some(log) = &log {
        judge_by_log(log, generated.as_ref(), &history, &last, &show, &mut incident);
    } else if let Some(generated) = &generated {
        never_seen(generated, None, &history, &last, &show, &mut incident);
    }
    if let Some(generated) = &generated {
        for duplicated in &mut incident.duplicated {
            let times = generated.count(&duplicated.id);
            if !request.mask && times > 0 {
                let said = if times == 1 { "once".to_owned() } else { format!("{times} times") };
                duplicated.why += &format!("; it was generated {said}");
            }
        }
    }
    incident.lost.sort_by_key(|l| l.certainty);
    incident.duplicated.sort_by_key(|d| d.certainty);
    details(&mut incident.lost, &copies, &history, &shape, request.mask, &mut reader);
    let asked: HashSet<String> =
        incident.lost.iter().map(|l| l.id.clone()).chain(incident.duplicated.iter().map(|d| d.id.clone())).collect();
    let is_asked = |id: &str| asked.contains(&show(id));
    incident.timeline = timeline(&history, &bases, &audit, log.as_ref(), &writer, &is_asked, &show);
    Ok(Investigation { incident, history, bases, shape })
}

fn find(request: &Request, zone: &TimeZone) -> Result<Found, EvidenceError> {
    match (&request.git, &request.dir) {
        (Some(git), None) => git::find(git),
        (None, Some(dir)) => {
            let found = copies::find(dir, request.current.as_deref(), zone)?;
            match found.copies.is_empty() {
                true => Err(EvidenceError::Mistake(format!(
                    "`{}` holds no copies\n  name the folder that the copies of the file are in",
                    dir.display()
                ))),
                false => Ok(found),
            }
        }
        (Some(_), Some(_)) => Err(EvidenceError::Mistake("a folder or --git, not both".to_owned())),
        (None, None) => Err(EvidenceError::Mistake("no copies\n  name their folder, or --git REPO:PATH".to_owned())),
    }
}

fn live(path: &Path) -> Result<Copy, EvidenceError> {
    let modified = std::fs::metadata(path).and_then(|m| m.modified());
    let modified = modified.map_err(|e| EvidenceError::unreadable(path, e))?;
    Ok(Copy {
        name: path.to_string_lossy().into_owned(),
        place: Place::File(path.to_owned()),
        time: Timestamp::try_from(modified).ok(),
        clock: Clock::Order,
        pid: None,
    })
}

/// The shape as said, the rest of it from the copies: the best list in the first, the last and some between.
fn shape(request: &Request, copies: &[Copy], reader: &mut Reader) -> Result<Shape, EvidenceError> {
    if let Some(pointer) = &request.pointer {
        Shape::new(pointer, None, None).map_err(EvidenceError::Mistake)?;
    }
    let said_nothing = request.pointer.is_none() && request.id.is_none();
    let step = copies.len().div_ceil(SAMPLE).max(1);
    let mut best: Option<(u64, Shape)> = None;
    let (mut lines, mut other) = (0, 0);
    for copy in copies.iter().step_by(step).chain(copies.last()) {
        let read = reader.read(copy);
        let Ok(value) = serde_json::from_slice::<Value>(&read.bytes) else {
            let empty = read.bytes.trim_ascii().is_empty();
            lines += usize::from(Shape::is_lines(&read.bytes));
            other += usize::from(!empty && !Shape::is_lines(&read.bytes));
            continue;
        };
        let next = Shape::infer(&value, request.pointer.as_deref(), request.id.as_deref());
        best = match (best, next) {
            (Some(best), Some(next)) if next.0 > best.0 => Some(next),
            (None, next) => next,
            (best, _) => best,
        };
    }
    match best {
        // One line of JSON is a document and a line.
        best if lines > 0 && other == 0 && best.as_ref().is_none_or(|(score, _)| *score == 0) && said_nothing => {
            Ok(Shape::lines())
        }
        Some((_, shape)) => Ok(shape),
        None => Err(EvidenceError::Mistake(
            "no copy holds a list of items that an id tells apart\n  say where it is with --pointer, and what tells \
             its items apart with --id, as in --pointer /tasks --id id"
                .to_owned(),
        )),
    }
}

fn history(copies: &[Copy], shape: &Shape, made: Made, request: &Request, reader: &mut Reader) -> History {
    let mut history = History::new(made, request.mask);
    for (i, copy) in copies.iter().enumerate() {
        let live = request.current.is_some() && i + 1 == copies.len();
        let info = CopyInfo { name: copy.name.clone(), time: copy.time, clock: copy.clock, pid: copy.pid, live };
        let read = reader.read(copy);
        match (document::read(&read.bytes, shape), read.cut_off) {
            (Ok(document), None) => history.add(info, &document, crc32c::crc32c(&read.bytes)),
            (Ok(document), Some(reason)) => {
                history.add_torn(info, Torn { version: document.version, reason, ..Torn::default() });
            }
            (Err(torn), cut_off) => {
                history.add_torn(info, Torn { reason: cut_off.unwrap_or(torn.reason.clone()), ..torn });
            }
        }
    }
    history
}

/// What is to be said of the copies, and when they were made if that was not said.
fn notes(history: &History, request: &Request, made: &mut Made, incident: &mut Incident) {
    if *made == Made::Unknown
        && let Some(live) = history.live
    {
        let equal = history.nodes[live].copies.len() > 1;
        *made = if equal { Made::After } else { Made::Before };
        incident.stated.push(match equal {
            true => "copies were made after each write: the live file is equal to the last one".to_owned(),
            false => "copies were made before each write: the live file is in none of them".to_owned(),
        });
    }
    if request.current.is_none() && *made != Made::After {
        incident.warnings.push(
            "copies that are made before each write never hold the last state: give the live file with --current"
                .to_owned(),
        );
    }
    if request.current.is_some() && history.live.is_none() {
        incident.warnings.push("the live file cannot be read: what the last state is remains open".to_owned());
    }
    for torn in history.torn.iter().take(8) {
        incident.warnings.push(format!("{} cannot be read: {}", history.copies[torn.copy].name, torn.reason));
    }
    if history.torn.len() > 8 {
        incident.warnings.push(format!("{} copies in all cannot be read", history.torn.len()));
    }
    if history.without_id > 0 {
        incident.warnings.push(format!("{} items have no id and were passed over", history.without_id));
    }
    if let Some((id, copy)) = &history.twice {
        let id = if request.mask { "an id" } else { id };
        incident.warnings.push(format!("{id} stands twice in {copy}: the first one counts"));
    }
}

/// Who made the copy: after a write that is who wrote; before a write it is who wrote next.
fn writer_by_name(history: &History, made: Made, node: usize) -> Option<u64> {
    let copies = match made {
        Made::After => &history.nodes[node].copies,
        _ => &history.nodes[node.checked_sub(1)?].copies,
    };
    match copies[..] {
        [one] => history.copies[one].pid,
        _ => None,
    }
}

/// Replaces what is possible by what is certain, and adds what is new.
fn prefer<T>(list: &mut Vec<T>, better: Vec<T>, id: impl Fn(&T) -> &String) {
    for item in better {
        list.retain(|known| id(known) != id(&item));
        list.push(item);
    }
}

fn logs(
    request: &Request,
    files: &[PathBuf],
    zone: &TimeZone,
    what: &str,
    incident: &mut Incident,
) -> Result<Option<Log>, EvidenceError> {
    if files.is_empty() {
        return Ok(None);
    }
    let log = logs::read(files, &request.log_format, zone)?;
    if log.skipped > 0 {
        incident.warnings.push(format!("{} lines of the {what} log say no id", log.skipped));
    }
    if log.entries == 0 {
        incident
            .warnings
            .push(format!("the {what} log says nothing: it was left out (--log-format says how to read it)"));
        return Ok(None);
    }
    incident.stated.push(format!("{} entries in the {what} log", log.entries));
    Ok(Some(log))
}

/// With a log of executions it is known how often each item was executed.
fn judge_by_log(
    log: &Log,
    generated: Option<&Log>,
    history: &History,
    last: &[usize],
    show: &dyn Fn(&str) -> String,
    incident: &mut Incident,
) {
    let covers = covers(log, history);
    if !covers {
        incident.warnings.push(
            "the execution log is of another time than the copies: what it does not name may be in another part of it"
                .to_owned(),
        );
    }
    let raw = |shown: &str| history.ids.iter().position(|id| id == shown).map(|i| history.raw[i].clone());
    let count = |shown: &str| log.count(&raw(shown).unwrap_or_else(|| shown.to_owned()));
    incident.lost.retain(|lost| count(&lost.id) == 0);
    let end = if history.live.is_some() { "the live file" } else { "the last copy" };
    // An item that one of the states has which can be the last may simply be waiting.
    let gone = |shown: &str| {
        let id = raw(shown).and_then(|raw| history.id(&raw));
        !last.is_empty() && id.is_none_or(|id| last.iter().all(|&node| !history.at(id, node).is_present()))
    };
    for lost in incident.lost.iter_mut().filter(|lost| lost.certainty == Certainty::Possible && covers) {
        if gone(&lost.id) {
            lost.certainty = Certainty::Certain;
            let fact = lost.why.split("; but ").next().unwrap_or_default().to_owned();
            lost.why = format!("{fact}; the execution log does not name it, and {end} does not have it");
            lost.settled_by = "the execution log".to_owned();
        } else {
            lost.settled_by = "the live file (--current)".to_owned();
        }
    }
    never_seen(generated.unwrap_or(&Log::default()), Some((log, covers)), history, last, show, incident);
    let mut twice: Vec<Duplicated> = Vec::new();
    for (id, (entries, times)) in log.of.iter().filter(|(_, (_, times))| *times > 1) {
        let deliveries = entries
            .iter()
            .map(|e| Delivery { at: e.at.map(|at| at.to_string()), pid: e.pid, seen_in: None, from: None })
            .collect();
        let why = format!("the execution log names it {times} times");
        let settled_by = "the execution log".to_owned();
        twice.push(Duplicated { id: show(id), certainty: Certainty::Certain, why, settled_by, deliveries });
    }
    twice.sort_by(|a, b| a.id.cmp(&b.id));
    for new in &mut twice {
        if let Some(known) = incident.duplicated.iter().find(|d| d.id == new.id && d.certainty == Certainty::Certain) {
            new.why = format!("{}; {}", new.why, known.why);
        }
    }
    // Executed once at most: what the copies leave open is settled.
    incident.duplicated.retain(|d| d.certainty == Certainty::Certain || !covers);
    let contradicted = |d: &Duplicated| covers && count(&d.id) < 2;
    for duplicated in incident.duplicated.iter_mut().filter(|d| contradicted(d)) {
        duplicated.why += "; but the execution log names it at most once";
    }
    prefer(&mut incident.duplicated, twice, |d| &d.id);
}

/// Whether a log is of the time of the copies, as far as both say.
fn covers(log: &Log, history: &History) -> bool {
    let times = history.copies.iter().filter(|c| !c.live).filter_map(|c| c.time);
    let (first, last) = (times.clone().min(), times.max());
    match (log.span, first, last) {
        (Some((from, to)), Some(first), Some(last)) => {
            let hour = jiff::SignedDuration::from_hours(1);
            to.duration_since(first) >= -hour && last.duration_since(from) >= -hour
        }
        _ => true,
    }
}

/// What was generated, is in no copy, and, as far as a log says, was never executed.
fn never_seen(
    generated: &Log,
    log: Option<(&Log, bool)>,
    history: &History,
    last: &[usize],
    show: &dyn Fn(&str) -> String,
    incident: &mut Incident,
) {
    let known: HashSet<String> = incident.lost.iter().map(|l| l.id.clone()).collect();
    let mut new: Vec<&String> = generated.of.keys().filter(|id| history.id(id).is_none()).collect();
    new.retain(|id| log.is_none_or(|(log, _)| log.count(id) == 0) && !known.contains(&show(id)));
    new.sort();
    for id in new {
        let certain = log.is_some_and(|(_, covers)| covers) && !last.is_empty();
        let missing = match (log.is_some(), last.is_empty()) {
            (false, true) => "the execution log (--log) and the live file (--current)",
            (false, false) => "the execution log (--log)",
            (true, true) => "the live file (--current)",
            (true, false) => "the execution log of that time",
        };
        incident.lost.push(Lost {
            id: show(id),
            certainty: if certain { Certainty::Certain } else { Certainty::Possible },
            why: match log {
                Some(_) => "it was generated, is in no copy, and the execution log does not name it".to_owned(),
                None => "it was generated and is in no copy; but it can have come and gone between two".to_owned(),
            },
            settled_by: if certain { "the generation and execution logs".to_owned() } else { missing.to_owned() },
            last_seen: None,
            gone_in: None,
            bytes: None,
            fragment: None,
            written_by: None,
            overwritten_by: None,
            stale_base: None,
            stale_version: None,
        });
    }
}

/// Where lost items stand in the copies that have them last.
fn details(lost: &mut [Lost], copies: &[Copy], history: &History, shape: &Shape, masked: bool, reader: &mut Reader) {
    let mut wanted: Vec<(usize, &mut Lost)> = lost
        .iter_mut()
        .take(DETAILED)
        .filter_map(|lost| {
            let name = lost.last_seen.as_ref()?;
            Some((history.copies.iter().position(|c| c.name == *name)?, lost))
        })
        .collect();
    wanted.sort_by_key(|(copy, _)| *copy);
    for group in wanted.chunk_by_mut(|a, b| a.0 == b.0) {
        let read = reader.read(&copies[group[0].0]);
        let Ok(document) = document::read(&read.bytes, shape) else { continue };
        for (_, lost) in group {
            let is =
                |item: &&document::Item<'_>| history.id(&item.id).is_some_and(|id| history.ids[id as usize] == lost.id);
            let Some(item) = document.items.iter().find(is) else { continue };
            lost.bytes = Some(document::range(&read.bytes, item.text));
            let text: String = item.text.chars().take(MAX_FRAGMENT).collect();
            lost.fragment = Some(if masked { mask::fragment(&text) } else { text });
        }
    }
}
