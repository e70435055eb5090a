//! What evidence says of an incident, for people and for machines.

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use serde::Serialize;

use super::{
    json::printable_json,
    paint::{Paint, Tone},
    text::{count, elide, line, pad, width, wrap},
};
use crate::evidence::incident::{Certainty, Duplicated, Fork, Incident, Lost, Moment, MomentKind};

/// The version of the format.
const SCHEMA: u32 = 1;
/// At most this many findings of a kind are shown to a person, and lines of the timeline, without `-v`.
const SHOWN: usize = 20;
/// A lane narrower than this cannot be read.
const MIN_LANE: usize = 24;
/// The longest fragment shown.
const MAX_FRAGMENT: usize = 300;

#[derive(Serialize)]
struct Machine<'a> {
    schema: u32,
    lost: &'a [Lost],
    duplicated: &'a [Duplicated],
    forks: &'a [Fork],
    timeline: &'a [Moment],
    scenario: &'a Option<String>,
    warnings: &'a [String],
    stated: &'a [String],
    copies: usize,
}

/// The incident as one JSON object on one line; the keys are a contract.
///
/// # Errors
/// What writing says.
pub fn incident_json(incident: &Incident, out: &mut dyn Write) -> io::Result<()> {
    let machine = Machine {
        schema: SCHEMA,
        lost: &incident.lost,
        duplicated: &incident.duplicated,
        forks: &incident.forks,
        timeline: &incident.timeline,
        scenario: &incident.scenario,
        warnings: &incident.warnings,
        stated: &incident.stated,
        copies: incident.copies,
    };
    printable_json(&machine, out)
}

/// The incident for people: findings, timeline, what was taken for granted; the last line is the sum.
pub fn incident_text(incident: &Incident, colour: bool, columns: usize, all: bool) -> String {
    let page = Page { incident, paint: Paint(colour), width: columns.clamp(40, 200), all };
    let mut lines = Vec::new();
    page.findings(&mut lines);
    page.timeline(&mut lines);
    for (head, tone, texts) in
        [("stated", Tone::Faint, &incident.stated), ("warning", Tone::Unsure, &incident.warnings)]
    {
        if !texts.is_empty() {
            lines.push(String::new());
        }
        for text in texts {
            page.paragraph(head, tone, text, &mut lines);
        }
    }
    lines.push(String::new());
    lines.push(page.sum());
    lines.join("\n") + "\n"
}

struct Page<'a> {
    incident: &'a Incident,
    paint: Paint,
    width: usize,
    all: bool,
}

impl Page<'_> {
    /// A text under a heading at the left.
    fn paragraph(&self, head: &str, tone: Tone, text: &str, lines: &mut Vec<String>) {
        for (i, part) in wrap(&line(text), self.width - 13).into_iter().enumerate() {
            let head = if i == 0 { self.paint.text(tone, &pad(head, 11)) } else { " ".repeat(11) };
            lines.push(format!("  {head}{part}"));
        }
    }

    fn limit(&self) -> usize {
        if self.all { usize::MAX } else { SHOWN }
    }

    fn findings(&self, lines: &mut Vec<String>) {
        let tone = |c: Certainty| if c == Certainty::Certain { Tone::Bad } else { Tone::Unsure };
        let word = |c: Certainty| if c == Certainty::Certain { "certain" } else { "possible" };
        for lost in self.incident.lost.iter().take(self.limit()) {
            let title = format!("{} is lost", line(&lost.id));
            lines.push(format!(
                "{}  {}",
                self.paint.text(tone(lost.certainty), word(lost.certainty)),
                self.paint.text(Tone::Strong, &title)
            ));
            self.paragraph("why", Tone::Faint, &lost.why, lines);
            if let (Some(seen), Some([from, to])) = (&lost.last_seen, lost.bytes) {
                self.paragraph("where", Tone::Faint, &format!("bytes {from}..{to} of {seen}"), lines);
            }
            if let Some(fragment) = &lost.fragment {
                let short: String = fragment.chars().take(MAX_FRAGMENT).collect();
                let more = if short.len() < fragment.len() { "…" } else { "" };
                self.paragraph("fragment", Tone::Faint, &format!("{short}{more}"), lines);
            }
            let by = |pid: Option<u64>, did: &str| pid.map(|pid| format!("{did} by process {pid}"));
            let who: Vec<String> =
                [by(lost.written_by, "put in"), by(lost.overwritten_by, "overwritten")].into_iter().flatten().collect();
            if !who.is_empty() {
                self.paragraph("who", Tone::Faint, &who.join(", "), lines);
            }
            self.paragraph("settled by", Tone::Faint, &lost.settled_by, lines);
        }
        for duplicated in self.incident.duplicated.iter().take(self.limit()) {
            let title = format!("{} was taken more than once", line(&duplicated.id));
            let certainty = self.paint.text(tone(duplicated.certainty), word(duplicated.certainty));
            lines.push(format!("{certainty}  {}", self.paint.text(Tone::Strong, &title)));
            self.paragraph("why", Tone::Faint, &duplicated.why, lines);
            for delivery in duplicated.deliveries.iter().take(8) {
                let parts = [
                    delivery.at.clone(),
                    delivery.pid.map(|pid| format!("process {pid}")),
                    delivery.seen_in.as_ref().map(|name| format!("seen in {name}")),
                ];
                let text = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
                self.paragraph(
                    "taken",
                    Tone::Faint,
                    if text.is_empty() { "(nothing more is known)" } else { &text },
                    lines,
                );
            }
            self.paragraph("settled by", Tone::Faint, &duplicated.settled_by, lines);
        }
        for fork in self.incident.forks.iter().take(self.limit()) {
            let title = format!("{} from version {}", count(fork.writes.len() as u64, "write"), fork.read_version);
            lines.push(format!(
                "{}  {}",
                self.paint.text(tone(fork.certainty), word(fork.certainty)),
                self.paint.text(Tone::Strong, &title)
            ));
            for write in fork.writes.iter().take(8) {
                let parts = [
                    Some(format!("version {}", write.version)),
                    write.pid.map(|pid| format!("process {pid}")),
                    write.at.clone(),
                    write.snapshot.clone(),
                ];
                self.paragraph(
                    "wrote",
                    Tone::Faint,
                    &parts.into_iter().flatten().collect::<Vec<_>>().join(", "),
                    lines,
                );
            }
        }
        let counts = [self.incident.lost.len(), self.incident.duplicated.len(), self.incident.forks.len()];
        let hidden: usize = counts.into_iter().map(|n| n.saturating_sub(self.limit())).sum();
        if hidden > 0 {
            lines.push(format!("and {}; -v shows them", count(hidden as u64, "more finding")));
        }
    }

    /// The lanes: time runs down, a column per process as long as they fit.
    fn timeline(&self, lines: &mut Vec<String>) {
        let rows = rows(self.incident, self.all);
        let moments = &self.incident.timeline;
        if rows.is_empty() {
            return;
        }
        lines.push(String::new());
        let shown = || rows.iter().filter_map(|row| row.map(|i| &moments[i]));
        let pids: BTreeSet<Option<u64>> = shown().map(|m| m.pid).collect();
        let clock = shown().map(|m| time(m).len()).max().unwrap_or(0);
        let indent = 2 + clock + 2;
        let lane = (self.width.saturating_sub(indent) / pids.len().max(1)).min(60);
        let lanes: Option<Vec<Option<u64>>> = (lane >= MIN_LANE).then(|| pids.into_iter().collect());
        let name = |pid: &Option<u64>| pid.map_or("somebody".to_owned(), |pid| format!("process {pid}"));
        if let Some(lanes) = &lanes {
            let heads: Vec<String> = lanes.iter().map(|pid| pad(&name(pid), lane)).collect();
            lines.push(self.paint.text(Tone::Strong, format!("{}{}", " ".repeat(indent), heads.join("")).trim_end()));
        }
        for row in &rows {
            let Some(i) = row else {
                lines.push(self.paint.text(Tone::Faint, &format!("{}…", " ".repeat(indent))));
                continue;
            };
            let moment = &moments[*i];
            let (before, room) = match &lanes {
                Some(lanes) => (lanes.iter().position(|pid| *pid == moment.pid).unwrap_or(0) * lane, lane - 2),
                None => (0, self.width - indent),
            };
            let mut cell = cell(moment);
            if lanes.is_none() {
                cell[0] = format!("{}: {}", name(&moment.pid), cell[0]);
            }
            let tone = if moment.stale || moment.kind == MomentKind::Torn { Tone::Strong } else { Tone::Plain };
            let mut first = true;
            for text in cell.iter().flat_map(|text| wrap(&line(text), room)) {
                let head = if first { pad(&time(moment), clock) } else { " ".repeat(clock) };
                let text = self.paint.text(tone, &elide(&text, room));
                lines.push(format!("  {head}  {}{text}", " ".repeat(before)).trim_end().to_owned());
                first = false;
            }
        }
    }

    fn sum(&self) -> String {
        let incident = self.incident;
        let copies = count(incident.copies as u64, "copy").replace("copys", "copies");
        if incident.is_nothing() {
            return format!("{}: {copies}", self.paint.text(Tone::Good, "nothing found"));
        }
        let certain = |c: &Certainty| *c == Certainty::Certain;
        let part = |all: Vec<Certainty>, what: &str| {
            let sure = all.iter().filter(|c| certain(c)).count();
            let doubt = if sure < all.len() { format!(" ({sure} certain)") } else { String::new() };
            (!all.is_empty()).then(|| format!("{} {what}{doubt}", all.len()))
        };
        let parts = [
            part(incident.lost.iter().map(|l| l.certainty).collect(), "lost"),
            part(incident.duplicated.iter().map(|d| d.certainty).collect(), "taken more than once"),
            part(incident.forks.iter().map(|f| f.certainty).collect(), "read by more than one writer"),
        ];
        let text = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        let (tone, word) = if incident.is_certain() { (Tone::Bad, "certain") } else { (Tone::Unsure, "possible") };
        format!("{}: {text}; {copies}", self.paint.text(tone, word))
    }
}

/// Which moments are shown: those that findings name, their neighbours, and gaps.
pub(super) fn rows(incident: &Incident, all: bool) -> Vec<Option<usize>> {
    let moments = &incident.timeline;
    if all || moments.len() <= SHOWN {
        return (0..moments.len()).map(Some).collect();
    }
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for lost in incident.lost.iter().take(SHOWN) {
        names.extend([&lost.last_seen, &lost.gone_in, &lost.stale_base].into_iter().flatten().map(String::as_str));
    }
    for duplicated in incident.duplicated.iter().take(SHOWN) {
        names.extend(duplicated.deliveries.iter().filter_map(|d| d.seen_in.as_deref()));
    }
    let asked =
        |m: &Moment| m.kind == MomentKind::Execution || m.snapshot.as_deref().is_some_and(|s| names.contains(s));
    let mut rows = Vec::new();
    let mut next = 0;
    for i in (0..moments.len()).filter(|&i| asked(&moments[i])).take(2 * SHOWN) {
        for shown in i.saturating_sub(1)..=(i + 1).min(moments.len() - 1) {
            if shown >= next {
                if shown > next {
                    rows.push(None);
                }
                rows.push(Some(shown));
                next = shown + 1;
            }
        }
    }
    if next > 0 && next < moments.len() {
        rows.push(None);
    }
    rows
}

/// The time of day; the date stands in the copies' names.
pub(super) fn time(moment: &Moment) -> String {
    let at = moment.at.as_deref().unwrap_or("");
    let clock = at.split_once('T').map_or(at, |(_, clock)| clock);
    clock.trim_end_matches('Z').chars().take(12).collect()
}

/// A moment in a few short lines.
pub(super) fn cell(moment: &Moment) -> Vec<String> {
    let mut lines = Vec::new();
    let name = moment.snapshot.as_deref().unwrap_or("");
    let version = moment.version.map(|v| format!("version {v}")).unwrap_or_default();
    lines.push(match moment.kind {
        MomentKind::Execution => "executes".to_owned(),
        MomentKind::Torn => "cannot be read".to_owned(),
        MomentKind::Live => format!("the live file {version}").trim_end().to_owned(),
        MomentKind::Write | MomentKind::Copy => format!("wrote {version}").trim_end().to_owned(),
    });
    if !name.is_empty() {
        lines.push(format!("  {name}"));
    }
    if moment.stale {
        lines.push(format!("  made from {}", moment.based_on.join(" or ")));
    }
    for (head, ids) in [
        ("+", &moment.added),
        (if moment.kind == MomentKind::Execution { "" } else { "-" }, &moment.removed),
        ("~", &moment.changed),
        ("overwrites ", &moment.overwritten),
    ] {
        if !ids.is_empty() {
            let more = if ids.len() > 6 { format!(" and {} more", ids.len() - 6) } else { String::new() };
            let names: Vec<String> = ids.iter().take(6).map(|id| format!("{head}{id}")).collect();
            lines.push(format!("  {}{more}", names.join(" ")));
        }
    }
    lines.extend(moment.note.as_ref().map(|note| format!("  ({note})")));
    lines.retain(|text| width(text) > 0);
    lines
}
