//! An incident for browsers: findings, and what happened as lanes, a column per process. A page without scripts.

use std::{collections::BTreeSet, fmt::Write};

use base64::Engine;
use sha2::{Digest, Sha256};

use super::page::{STYLE, escape};
use crate::{
    evidence::incident::{Certainty, Incident, MomentKind},
    report::{
        incident::{cell, rows, time},
        text::line,
    },
    scenario::printable,
};

/// At most so many findings of a kind, and lines of the timeline, are on the page.
const MOST: usize = 2_000;
/// More processes than these have no lanes of their own.
const MAX_LANES: usize = 12;
/// The longest fragment shown.
const MAX_FRAGMENT: usize = 4_000;

/// The page of an incident. Whatever the evidence holds is shown as text.
pub fn incident_html(incident: &Incident) -> String {
    let mut body = String::new();
    head(incident, &mut body);
    findings(incident, &mut body);
    timeline(incident, &mut body);
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{hash}'; \
         base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>noclobber incident</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <header><h1>noclobber incident</h1></header>\n<main><section class=\"scene\">\n{body}</section></main>\n\
         </body>\n</html>\n"
    )
}

/// Harmless text as markup.
fn text(text: &str) -> String {
    escape(&printable(text))
}

fn fact(name: &str, what: &str, body: &mut String) {
    let _ = writeln!(body, "<dt>{name}</dt><dd>{}</dd>", text(what));
}

fn head(incident: &Incident, body: &mut String) {
    let (tone, word) = match incident {
        incident if incident.is_certain() => ("bad", "certain"),
        incident if incident.is_nothing() => ("good", "nothing found"),
        _ => ("unsure", "possible"),
    };
    let _ = writeln!(
        body,
        "<div class=\"head\"><h2>{} lost, {} taken more than once, {} read by more than one writer</h2>\
         <span class=\"badge {tone}\">{word}</span></div>\n<dl class=\"facts\">",
        incident.lost.len(),
        incident.duplicated.len(),
        incident.forks.len(),
    );
    fact("copies", &incident.copies.to_string(), body);
    if let Some(scenario) = &incident.scenario {
        fact("scenario", scenario, body);
    }
    incident.stated.iter().for_each(|stated| fact("stated", stated, body));
    incident.warnings.iter().take(MOST).for_each(|warning| fact("warning", warning, body));
    body.push_str("</dl>\n");
}

fn finding(certainty: Certainty, title: &str, body: &mut String) {
    let (tone, word) = match certainty {
        Certainty::Certain => ("bad", "certain"),
        Certainty::Possible => ("unsure", "possible"),
    };
    let _ = writeln!(
        body,
        "<div class=\"head\"><span class=\"badge {tone}\">{word}</span><h3>{}</h3></div>\n<dl class=\"facts\">",
        text(title)
    );
}

fn findings(incident: &Incident, body: &mut String) {
    for lost in incident.lost.iter().take(MOST) {
        finding(lost.certainty, &format!("{} is lost", lost.id), body);
        fact("why", &lost.why, body);
        if let (Some(seen), Some([from, to])) = (&lost.last_seen, lost.bytes) {
            fact("where", &format!("bytes {from}..{to} of {seen}"), body);
        }
        if let Some(fragment) = &lost.fragment {
            let short: String = fragment.chars().take(MAX_FRAGMENT).collect();
            let _ = writeln!(body, "<dt>fragment</dt><dd><code>{}</code></dd>", text(&short));
        }
        if let Some(pid) = lost.written_by {
            fact("put in by", &format!("process {pid}"), body);
        }
        if let Some(pid) = lost.overwritten_by {
            fact("overwritten by", &format!("process {pid}"), body);
        }
        fact("settled by", &lost.settled_by, body);
        body.push_str("</dl>\n");
    }
    for duplicated in incident.duplicated.iter().take(MOST) {
        finding(duplicated.certainty, &format!("{} was taken more than once", duplicated.id), body);
        fact("why", &duplicated.why, body);
        for delivery in duplicated.deliveries.iter().take(16) {
            let seen = delivery.seen_in.as_ref().map(|name| format!("seen in {name}"));
            let by = delivery.pid.map(|pid| format!("process {pid}"));
            let parts: Vec<String> = [delivery.at.clone(), by, seen].into_iter().flatten().collect();
            fact("taken", &parts.join(", "), body);
        }
        fact("settled by", &duplicated.settled_by, body);
        body.push_str("</dl>\n");
    }
    for fork in incident.forks.iter().take(MOST) {
        finding(fork.certainty, &format!("{} writes from version {}", fork.writes.len(), fork.read_version), body);
        for write in fork.writes.iter().take(16) {
            let by = write.pid.map(|pid| format!("process {pid}"));
            let version = Some(format!("version {}", write.version));
            let parts: Vec<String> =
                [version, by, write.at.clone(), write.snapshot.clone()].into_iter().flatten().collect();
            fact("wrote", &parts.join(", "), body);
        }
        body.push_str("</dl>\n");
    }
}

fn timeline(incident: &Incident, body: &mut String) {
    let moments = &incident.timeline;
    let mut shown = rows(incident, moments.len() <= MOST);
    shown.truncate(MOST);
    if shown.is_empty() {
        return;
    }
    let pids: BTreeSet<Option<u64>> = shown.iter().flatten().map(|i| moments[*i].pid).collect();
    let lanes: Vec<Option<u64>> = match pids.len() <= MAX_LANES {
        true => pids.into_iter().collect(),
        false => Vec::new(),
    };
    let name = |pid: &Option<u64>| pid.map_or("somebody".to_owned(), |pid| format!("process {pid}"));
    body.push_str("<div class=\"scroll\"><table class=\"lanes\"><thead><tr><th>time</th>");
    match lanes.is_empty() {
        true => body.push_str("<th>what happened</th>"),
        false => lanes.iter().for_each(|pid| {
            let _ = write!(body, "<th>{}</th>", name(pid));
        }),
    }
    body.push_str("</tr></thead><tbody>\n");
    for row in &shown {
        let Some(moment) = row.map(|i| &moments[i]) else {
            let _ = writeln!(
                body,
                "<tr class=\"after\"><td class=\"n\">…</td><td colspan=\"{}\"></td></tr>",
                lanes.len().max(1)
            );
            continue;
        };
        let wrong = moment.stale || moment.kind == MomentKind::Torn;
        let mut parts: Vec<String> = cell(moment).iter().map(|part| escape(&line(part))).collect();
        if lanes.is_empty() {
            parts.insert(0, escape(&name(&moment.pid)));
        }
        let first = parts.remove(0);
        let rest: String = parts.iter().map(|part| format!("<br><span class=\"res\">{part}</span>")).collect();
        let cell = format!("<td><span class=\"act\">{first}</span>{rest}</td>");
        let before = lanes.iter().position(|pid| *pid == moment.pid).unwrap_or(0);
        let _ = writeln!(
            body,
            "<tr{}><td class=\"n\">{}</td>{}{cell}{}</tr>",
            if wrong { " class=\"pivot\"" } else { "" },
            escape(&time(moment)),
            "<td></td>".repeat(before),
            "<td></td>".repeat(lanes.len().saturating_sub(before + 1)),
        );
    }
    body.push_str("</tbody></table></div>\n");
}
