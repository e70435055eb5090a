//! The page's data and its frame.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
};

use base64::Engine;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::content::{Budget, Shown};
use crate::{
    oracle::{Film, Holding, Reel},
    report::{
        Anomaly, Report, StepLine, Verdict,
        advice::{advice, page_of},
        text::line,
    },
    scenario::printable,
    world::WarningKind,
};

pub(super) const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// One scenario on the page.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Scene {
    name: String,
    about: String,
    verdict: &'static str,
    tone: &'static str,
    expected: Option<String>,
    as_expected: bool,
    story: String,
    coverage: String,
    schedules: u64,
    seconds: f64,
    trace_hash: Option<String>,
    warnings: Vec<(&'static str, String)>,
    anomalies: Vec<Show>,
}

/// One anomaly.
#[derive(Clone, Debug, Serialize)]
struct Show {
    kind: &'static str,
    summary: String,
    lost: Vec<String>,
    duplicated: Vec<String>,
    needs: Vec<String>,
    evidence: Vec<String>,
    replay: Option<String>,
    fix: &'static str,
    more: String,
    pivot: Option<(usize, usize)>,
    lanes: Vec<String>,
    steps: Vec<StepView>,
    files: Vec<FileView>,
    contents: Vec<Shown>,
    locks: Vec<LockView>,
    arrows: Vec<(usize, usize)>,
}

#[derive(Clone, Debug, Serialize)]
struct StepView {
    n: usize,
    lane: usize,
    op: String,
    path: String,
    result: String,
    time_ms: u64,
    note: Option<String>,
    chosen: bool,
}

#[derive(Clone, Debug, Serialize)]
struct FileView {
    path: String,
    frames: Vec<FrameView>,
}

#[derive(Clone, Debug, Serialize)]
struct FrameView {
    /// After this step; 0: at the start.
    n: usize,
    /// Whose lane; absent: it was so at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<usize>,
    /// Index into the contents; absent: the path names nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<usize>,
}

#[derive(Clone, Debug, Serialize)]
struct LockView {
    name: String,
    lane: usize,
    from: usize,
    to: Option<usize>,
    shared: bool,
}

impl Scene {
    pub(super) fn of(report: &Report, budget: &mut Budget) -> Scene {
        let e = &report.explored;
        let tone = match report.verdict {
            _ if report.as_expected => "good",
            Verdict::CannotTell => "unsure",
            _ => "bad",
        };
        let story = match report.verdict {
            Verdict::Clean if e.exhausted => "No order of the workers goes wrong.".to_owned(),
            Verdict::Clean => "No order that was tried goes wrong.".to_owned(),
            Verdict::CannotTell => {
                format!("Nothing can be concluded: {}", report.reason.as_deref().unwrap_or("it could not be decided"))
            }
            Verdict::Anomaly(_) => String::new(),
        };
        let warning = |w: &crate::world::Warning| {
            let label = match w.kind {
                WarningKind::Note => "note",
                WarningKind::NotControlled => "warning",
                WarningKind::Coverage => "not covered",
            };
            (label, printable(&w.text))
        };
        Scene {
            name: printable(&report.scenario),
            about: plain_lines(&report.about),
            verdict: report.verdict.name(),
            tone,
            expected: report.expected.as_ref().map(|e| e.to_string().replace(',', " or ")),
            as_expected: report.as_expected,
            story: plain_lines(&story),
            coverage: printable(&report.coverage),
            schedules: e.schedules,
            seconds: e.seconds,
            trace_hash: report.trace_hash.clone(),
            warnings: report.warnings.iter().map(warning).collect(),
            anomalies: report.anomalies.iter().map(|a| Show::of(report, a, budget)).collect(),
        }
    }
}

/// Harmless text that keeps its lines.
fn plain_lines(text: &str) -> String {
    text.trim().lines().map(printable).collect::<Vec<_>>().join("\n")
}

impl Show {
    fn of(report: &Report, anomaly: &Anomaly, budget: &mut Budget) -> Show {
        let mut lanes: Vec<String> = report.workers.clone();
        let steps = anomaly.steps.iter().map(|step| step_view(step, &mut lanes)).collect();
        let film = anomaly.film.as_deref().cloned().unwrap_or_default();
        let replay = anomaly.replay.as_ref().or(report.replay.as_ref());
        let (files, contents) = files(&film, budget);
        let texts = |all: &[String]| all.iter().map(|text| printable(text)).collect();
        Show {
            kind: anomaly.kind.name(),
            summary: printable(&anomaly.summary),
            lost: texts(&anomaly.lost),
            duplicated: texts(&anomaly.duplicated),
            needs: texts(&anomaly.needs),
            evidence: texts(&anomaly.evidence),
            replay: replay.map(|file| format!("noclobber replay {}", line(&shell_words::quote(file)))),
            fix: advice(anomaly.kind),
            more: page_of(anomaly.kind),
            pivot: anomaly.pivot,
            steps,
            files,
            contents,
            locks: film.locks.iter().map(lock_view).collect(),
            arrows: film.arrows,
            lanes: lanes.iter().map(|name| printable(name)).collect(),
        }
    }
}

fn lock_view(held: &Holding) -> LockView {
    LockView { name: printable(&held.name), lane: held.by, from: held.from, to: held.to, shared: held.shared }
}

fn step_view(step: &StepLine, lanes: &mut Vec<String>) -> StepView {
    let lane = lanes.iter().position(|name| *name == step.actor).unwrap_or_else(|| {
        lanes.push(step.actor.clone());
        lanes.len() - 1
    });
    StepView {
        n: step.n,
        lane,
        op: printable(&step.op),
        path: printable(&step.path),
        result: printable(&step.result),
        time_ms: step.time_ms,
        note: step.note.as_deref().map(printable),
        chosen: step.chosen,
    }
}

/// The files, those that changed most first, so that the one that matters is on top.
fn files(film: &Film, budget: &mut Budget) -> (Vec<FileView>, Vec<Shown>) {
    let mut reels: Vec<&Reel> = film.reels.iter().collect();
    // Changed by the most workers, then there from the start, then by name.
    let workers = |reel: &Reel| reel.frames.iter().map(|frame| frame.by).collect::<BTreeSet<_>>().len();
    reels.sort_by_key(|reel| (Reverse(workers(reel)), reel.first.is_none(), &reel.path));
    let mut contents = Contents { shown: Vec::new(), known: BTreeMap::new(), budget };
    let mut files = Vec::new();
    for reel in reels {
        let first = reel.first.as_ref().map(|bytes| contents.index(Some(bytes)));
        let mut frames = vec![FrameView { n: 0, by: None, content: first }];
        for frame in &reel.frames {
            let content = (!frame.absent).then(|| contents.index(frame.bytes.as_ref()));
            frames.push(FrameView { n: frame.step + 1, by: Some(frame.by), content });
        }
        files.push(FileView { path: printable(&reel.path), frames });
    }
    (files, contents.shown)
}

/// Contents on the page, each once: a rename shows the same bytes under another name.
struct Contents<'a> {
    shown: Vec<Shown>,
    known: BTreeMap<Option<Arc<[u8]>>, usize>,
    budget: &'a mut Budget,
}

impl Contents<'_> {
    fn index(&mut self, bytes: Option<&Arc<[u8]>>) -> usize {
        *self.known.entry(bytes.cloned()).or_insert_with(|| {
            self.shown.push(Shown::of(bytes.map(|bytes| &**bytes), self.budget));
            self.shown.len() - 1
        })
    }
}

/// The whole page. `texts` are the same reports as plain text, for who has no scripts.
pub(super) fn render(scenes: &[Scene], texts: &[String]) -> io::Result<String> {
    // A JSON block ends at `</script`, and `<!--` begins a state of its own: no `<` is left in it.
    let data = serde_json::to_string(scenes)?.replace('<', "\\u003c").replace('\u{2028}', "\\u2028");
    let hash = |text: &str| base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text.as_bytes()));
    let plain: String = texts.iter().map(|text| format!("<pre>{}</pre>\n", escape(text))).collect();
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-{}'; \
         style-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>noclobber report</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <header><h1>noclobber</h1><p id=\"sum\"></p></header>\n<nav id=\"index\"></nav>\n<main id=\"main\"></main>\n\
         <noscript>\n{plain}</noscript>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        hash(SCRIPT),
        hash(STYLE),
    ))
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
