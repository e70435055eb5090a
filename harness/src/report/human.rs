//! For people: the story first, then the lanes, the evidence, how to replay, how to fix; the last line is the coverage.

use std::io::{self, Write};

use super::{
    Anomaly, Report, Reporter, Verdict,
    advice::{advice, page_of},
    lanes::lanes,
    paint::{Paint, Tone},
    text::{count, grouped, line, listed, wrap},
};
use crate::world::WarningKind;

/// Which scenarios are shown in full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Those not as expected; of the others nothing.
    Quiet,
    /// Those not as expected; of the others one line each. For many scenarios at once.
    Brief,
    /// All of them.
    #[default]
    Full,
    /// All of them, with every step.
    Verbose,
}

/// How the human report looks.
#[derive(Clone, Copy, Debug)]
pub struct HumanOptions {
    /// What is shown in full.
    pub detail: Detail,
    /// Whether to colour.
    pub colour: bool,
    /// Columns of the terminal.
    pub width: usize,
}

impl Default for HumanOptions {
    /// Full, without colour, 80 columns.
    fn default() -> Self {
        HumanOptions { detail: Detail::Full, colour: false, width: 80 }
    }
}

/// Writes for people.
#[derive(Debug)]
pub struct Human<W> {
    out: W,
    options: HumanOptions,
    totals: Totals,
}

#[derive(Debug, Default)]
struct Totals {
    scenarios: u64,
    as_expected: u64,
    unexpected: Vec<String>,
    cannot_tell: Vec<String>,
    exhausted: u64,
    schedules: u64,
    steps: u64,
    /// The coverage of the last scenario, if it was not shown.
    hidden: Option<String>,
}

impl<W: Write> Human<W> {
    /// A reporter that writes to `out`.
    pub fn new(out: W, options: HumanOptions) -> Self {
        Human { out, options, totals: Totals::default() }
    }

    /// What was written to.
    pub fn into_inner(self) -> W {
        self.out
    }
}

impl<W: Write> Reporter for Human<W> {
    fn report(&mut self, report: &Report) -> io::Result<()> {
        let brief = report.as_expected && matches!(self.options.detail, Detail::Quiet | Detail::Brief);
        let paint = Paint(self.options.colour);
        if !brief {
            if self.totals.scenarios > 0 {
                writeln!(self.out)?;
            }
            self.out.write_all(render(report, self.options).as_bytes())?;
        } else if self.options.detail == Detail::Brief {
            let coverage = paint.text(Tone::Faint, &format!("({})", line(&report.coverage)));
            writeln!(self.out, "{} {coverage}", heading(report, paint))?;
        }
        self.totals.add(report, brief);
        self.out.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        let totals = &self.totals;
        if totals.scenarios > 1 {
            let mut parts = vec![format!("{} as expected", grouped(totals.as_expected))];
            for (names, what) in [(&totals.unexpected, "not as expected"), (&totals.cannot_tell, "cannot tell")] {
                if !names.is_empty() {
                    parts.push(format!("{} {what} ({})", grouped(names.len() as u64), names.join(", ")));
                }
            }
            writeln!(self.out, "\n{}: {}", count(totals.scenarios, "scenario"), parts.join(", "))?;
            writeln!(
                self.out,
                "coverage: every order tried in {} of {}; {}, {}",
                grouped(totals.exhausted),
                count(totals.scenarios, "scenario"),
                count(totals.schedules, "schedule"),
                count(totals.steps, "step"),
            )?;
        } else if let Some(coverage) = &totals.hidden {
            writeln!(self.out, "coverage: {coverage}")?;
        } else if totals.scenarios == 0 {
            writeln!(self.out, "coverage: nothing was run")?;
        }
        self.out.flush()
    }
}

impl Totals {
    fn add(&mut self, report: &Report, hidden: bool) {
        self.scenarios += 1;
        self.exhausted += u64::from(report.explored.exhausted);
        self.schedules += report.explored.schedules;
        self.steps += report.explored.steps;
        match report.verdict {
            _ if report.as_expected => self.as_expected += 1,
            Verdict::CannotTell => self.cannot_tell.push(line(&report.scenario)),
            _ => self.unexpected.push(line(&report.scenario)),
        }
        self.hidden = hidden.then(|| line(&report.coverage));
    }
}

/// One report as text that ends with the coverage.
pub fn render(report: &Report, options: HumanOptions) -> String {
    let page = Page {
        report,
        width: options.width.clamp(40, 200),
        all: options.detail == Detail::Verbose,
        paint: Paint(options.colour),
    };
    let mut lines = vec![heading(report, page.paint)];
    if page.all && !report.about.is_empty() {
        lines.extend(report.about.trim().lines().flat_map(|about| page.paragraph(about, Tone::Faint)));
    }
    lines.push(String::new());
    lines.extend(page.story());
    for anomaly in &report.anomalies {
        lines.extend(page.anomaly(anomaly));
    }
    let warnings = page.warnings();
    if !warnings.is_empty() {
        lines.push(String::new());
        lines.extend(warnings);
    }
    if page.all && !report.decisions.is_empty() {
        lines.push(String::new());
        lines.extend(page.decisions());
    }
    lines.push(String::new());
    lines.push(page.coverage());
    lines.join("\n") + "\n"
}

/// Verdict, name, and whether that was expected.
fn heading(report: &Report, paint: Paint) -> String {
    let tone = match report.verdict {
        _ if report.as_expected => Tone::Good,
        Verdict::CannotTell => Tone::Unsure,
        _ => Tone::Bad,
    };
    let expected = match &report.expected {
        Some(_) if report.as_expected => "as expected".to_owned(),
        Some(expect) => format!("expected: {}", expect.to_string().replace(',', " or ")),
        None => String::new(),
    };
    let name = paint.text(Tone::Strong, &line(&report.scenario));
    let expected = paint.text(Tone::Faint, &expected);
    format!("{}  {name}  {expected}", paint.text(tone, report.verdict.name())).trim_end().to_owned()
}

struct Page<'a> {
    report: &'a Report,
    width: usize,
    all: bool,
    paint: Paint,
}

impl Page<'_> {
    /// One sentence before everything else.
    fn story(&self) -> Vec<String> {
        let report = self.report;
        let workers = listed(&report.workers.iter().map(|w| line(w)).collect::<Vec<_>>());
        match report.verdict {
            Verdict::Clean => {
                let orders = match (&report.part, report.explored.exhausted) {
                    (Some(part), true) => &format!("No order of part {} of {}", part.part, part.of),
                    (None, true) => "No order",
                    (_, false) => "No order that was tried",
                };
                self.paragraph(&format!("{orders} of {workers} goes wrong."), Tone::Plain)
            }
            Verdict::CannotTell => {
                let reason = report.reason.as_deref().unwrap_or("it was not possible to decide");
                let mut reasons = reason.lines().filter(|reason| !reason.trim().is_empty());
                let first = format!("Nothing can be concluded: {}", reasons.next().unwrap_or_default());
                let others = reasons.map(|reason| format!("Also: {reason}"));
                std::iter::once(first).chain(others).flat_map(|text| self.paragraph(&text, Tone::Plain)).collect()
            }
            // Each anomaly tells its own.
            Verdict::Anomaly(_) => Vec::new(),
        }
    }

    fn anomaly(&self, anomaly: &Anomaly) -> Vec<String> {
        let mut lines = Vec::new();
        if Verdict::Anomaly(anomaly.kind) != self.report.verdict || self.report.anomalies.len() > 1 {
            lines.push(format!("  {}", self.paint.text(Tone::Strong, anomaly.kind.name())));
        }
        let any_chosen = anomaly.steps.iter().any(|s| s.chosen);
        let chosen: Vec<&str> =
            anomaly.steps.iter().filter(|s| s.chosen || !any_chosen).map(|s| s.actor.as_str()).collect();
        let switches = chosen.windows(2).filter(|w| w[0] != w[1]).count() as u64;
        let summary = line(anomaly.summary.trim_end_matches('.'));
        let size = if anomaly.steps.is_empty() {
            String::new()
        } else {
            let switches = if switches == 1 { "1 switch".into() } else { format!("{} switches", grouped(switches)) };
            format!(" ({}, {switches} between workers)", count(chosen.len() as u64, "step"))
        };
        lines.extend(self.paragraph(&format!("{summary}{size}."), Tone::Strong));
        if !anomaly.steps.is_empty() {
            lines.push(String::new());
            lines.extend(lanes(self.report, anomaly, self.width, self.all, self.paint));
        }
        lines.push(String::new());
        let ids = |ids: &[String]| ids.iter().map(|id| line(id)).collect::<Vec<_>>().join(", ");
        lines.extend(self.entry("lost", &ids(&anomaly.lost), Tone::Bad));
        lines.extend(self.entry("executed twice", &ids(&anomaly.duplicated), Tone::Bad));
        for (i, evidence) in anomaly.evidence.iter().enumerate() {
            lines.extend(self.entry(if i == 0 { "evidence" } else { "" }, &line(evidence), Tone::Plain));
        }
        lines.extend(self.entry("needs", &ids(&anomaly.needs), Tone::Plain));
        if let Some(file) = anomaly.replay.as_ref().or(self.report.replay.as_ref()) {
            let file = line(&shell_words::quote(file));
            // Never broken, so that it can be copied.
            lines.push(format!("  {}noclobber replay {file}", self.label("replay")));
            lines.extend(self.entry("", "--step walks through it,", Tone::Faint));
            lines.extend(self.entry("", "-- CMD ::: CMD runs it with repaired programs", Tone::Faint));
        }
        lines.extend(self.entry("fix", advice(anomaly.kind), Tone::Plain));
        // Never broken either.
        lines.push(format!("  {}{}", self.label("more"), page_of(anomaly.kind)));
        lines
    }

    fn warnings(&self) -> Vec<String> {
        let warning = |w: &crate::world::Warning| {
            let label = match w.kind {
                WarningKind::Note => "note",
                WarningKind::NotControlled => "warning",
                WarningKind::Coverage => "not covered",
            };
            self.entry(label, &line(&w.text), Tone::Plain)
        };
        // What is the reason for cannot-tell was said at the top.
        let said: Vec<&str> = match self.report.verdict {
            Verdict::CannotTell => self.report.reason.iter().flat_map(|reason| reason.lines()).collect(),
            _ => Vec::new(),
        };
        self.report.warnings.iter().filter(|w| !said.contains(&w.text.as_str())).flat_map(warning).collect()
    }

    /// What was decided on the way.
    fn decisions(&self) -> Vec<String> {
        let decisions = self.report.decisions.iter().enumerate();
        decisions
            .flat_map(|(i, text)| self.entry(if i == 0 { "decided" } else { "" }, &line(text), Tone::Faint))
            .collect()
    }

    /// The last line.
    fn coverage(&self) -> String {
        let explored = &self.report.explored;
        let numbers = format!("{}, {:.2} s", count(explored.schedules, "schedule"), explored.seconds);
        format!("coverage: {} ({numbers})", line(&self.report.coverage))
    }

    fn label(&self, label: &str) -> String {
        self.paint.text(Tone::Faint, &format!("{label:<16}"))
    }

    /// A labelled text; nothing when there is none.
    fn entry(&self, label: &str, text: &str, tone: Tone) -> Vec<String> {
        if text.is_empty() {
            return Vec::new();
        }
        let lines = wrap(text, self.width.saturating_sub(18));
        let label_of = |i| if i == 0 { self.label(label) } else { " ".repeat(16) };
        lines.iter().enumerate().map(|(i, text)| format!("  {}{}", label_of(i), self.paint.text(tone, text))).collect()
    }

    fn paragraph(&self, text: &str, tone: Tone) -> Vec<String> {
        let lines = wrap(&line(text), self.width.saturating_sub(2));
        lines.iter().map(|text| format!("  {}", self.paint.text(tone, text))).collect()
    }
}
