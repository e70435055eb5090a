//! The lanes: time runs down, one column per actor.

use super::{
    Anomaly, Report, StepLine,
    paint::{Paint, Tone},
    rows::{Row, Rows, rows},
    text::{count, elide, line, pad, width, wrap},
};

/// A lane narrower than this cannot be read: the actor becomes a column instead.
const MIN_LANE: usize = 22;

/// Draws the trace of an anomaly in lines of at most `max` columns.
pub(super) fn lanes(report: &Report, anomaly: &Anomaly, max: usize, all: bool, paint: Paint) -> Vec<String> {
    let rows = rows(&anomaly.steps, anomaly.pivot, all);
    let actors = actors(report, anomaly);
    let grid = Grid::new(anomaly, &actors, max, paint);
    let mut out = vec![grid.heading()];
    for row in &rows.rows {
        match row {
            Row::Step(step) => out.extend(grid.step(step)),
            Row::Gap(n) => out
                .push(paint.text(Tone::Faint, &format!("{}… {} …", " ".repeat(grid.indent), count(*n as u64, "step")))),
        }
    }
    out.extend(legend(anomaly, &rows, max).into_iter().map(|l| paint.text(Tone::Faint, &l)));
    out
}

/// Actors that have a step or are named, in scenario order; those that are no worker last.
fn actors<'a>(report: &'a Report, anomaly: &'a Anomaly) -> Vec<&'a str> {
    let acts = |name: &str| anomaly.steps.iter().any(|s| s.actor == name) || anomaly.actors.iter().any(|a| a == name);
    let mut actors: Vec<&str> = report.workers.iter().map(String::as_str).filter(|name| acts(name)).collect();
    for step in &anomaly.steps {
        if !actors.contains(&step.actor.as_str()) {
            actors.push(&step.actor);
        }
    }
    actors
}

fn legend(anomaly: &Anomaly, rows: &Rows<'_>, max: usize) -> Vec<String> {
    let mut lines = Vec::new();
    if rows.left_out > 0 {
        lines.push(format!("{} left out; -v shows all", count(rows.left_out as u64, "step")));
    }
    if rows.unaffected > 0 {
        let steps = count(rows.unaffected as u64, "step");
        lines.push(format!("{steps} that no order can affect not shown; -v shows all"));
    }
    if let Some((n, m)) = anomaly.pivot {
        lines.push(format!("> these two decide: with step {m} before step {n}, all is well"));
    }
    lines.iter().flat_map(|l| wrap(l, max.saturating_sub(2))).map(|l| format!("  {l}")).collect()
}

/// Where everything stands.
struct Grid<'a> {
    anomaly: &'a Anomaly,
    actors: &'a [&'a str],
    /// Digits of the step numbers.
    number: usize,
    /// Columns of the time, 0 when it never moves.
    time: usize,
    /// Columns before the first lane.
    indent: usize,
    /// Columns of one lane; `None`: one column names the actor, the next has the step.
    lane: Option<usize>,
    /// Columns of an actor's name, without lanes.
    name: usize,
    /// Columns of the step, without lanes.
    rest: usize,
    paint: Paint,
}

impl<'a> Grid<'a> {
    fn new(anomaly: &'a Anomaly, actors: &'a [&'a str], max: usize, paint: Paint) -> Self {
        let number = anomaly.steps.iter().map(|s| s.n).max().unwrap_or(0).to_string().len().max(2);
        let first = anomaly.steps.first().map_or(0, |s| s.time_ms);
        let moves = anomaly.steps.iter().any(|s| s.time_ms != first);
        let time = if moves { anomaly.steps.iter().map(|s| seconds(s.time_ms).len()).max().unwrap_or(0) } else { 0 };
        // Mark, number, time, each with its gap.
        let indent = 2 + number + 3 + if time > 0 { time + 3 } else { 0 };
        let room = max.saturating_sub(indent);
        let lane = room / actors.len().max(1);
        let lane = (lane >= MIN_LANE).then_some(lane.saturating_sub(2).min(46));
        let name = actors.iter().map(|a| width(&line(a))).max().unwrap_or(0).clamp(5, 16);
        let rest = room.saturating_sub(name + 2).max(MIN_LANE);
        Grid { anomaly, actors, number, time, indent, lane, name, rest, paint }
    }

    fn heading(&self) -> String {
        let time = if self.time > 0 { pad("time", self.time + 3) } else { String::new() };
        let names: Vec<String> = match self.lane {
            Some(lane) => self.actors.iter().map(|a| pad(&elide(&line(a), lane), lane)).collect(),
            None => vec![pad("actor", self.name), "step".into()],
        };
        let text = format!("  {}   {time}{}", pad("", self.number), names.join("  "));
        self.paint.text(Tone::Strong, text.trim_end())
    }

    fn step(&self, step: &StepLine) -> Vec<String> {
        let decides = self.anomaly.pivot.is_some_and(|(n, m)| step.n == n || step.n == m);
        let mark = if decides { "> " } else { "  " };
        let time = if self.time > 0 { format!("{:>1$}   ", seconds(step.time_ms), self.time) } else { String::new() };
        let head = format!("{mark}{:>1$}   {time}", step.n, self.number);
        let (before, lane) = match self.lane {
            Some(lane) => {
                let index = self.actors.iter().position(|a| *a == step.actor).unwrap_or(0);
                (" ".repeat(index * (lane + 2)), lane)
            }
            None => (format!("{}  ", pad(&elide(&line(&step.actor), self.name), self.name)), self.rest),
        };
        let tone = if decides { Tone::Strong } else { Tone::Plain };
        let cell = self.cell(step, lane);
        let blank = " ".repeat(self.indent + width(&before));
        let mut lines = Vec::new();
        for (i, part) in cell.iter().enumerate() {
            let painted = self.paint.text(tone, part);
            lines.push(match i {
                0 => format!("{}{before}{painted}", self.paint.text(if decides { tone } else { Tone::Faint }, &head)),
                _ => format!("{blank}{painted}"),
            });
        }
        lines
    }

    /// What a step did, in lines that fit into a lane.
    fn cell(&self, step: &StepLine, lane: usize) -> Vec<String> {
        let action = line(format!("{} {}", step.op, step.path).trim());
        let detail = line(&detail(step));
        let mut lines = if detail.is_empty() {
            vec![elide(&action, lane)]
        } else if width(&action) + 2 + width(&detail) <= lane {
            vec![format!("{action}  {detail}")]
        } else {
            vec![elide(&action, lane), format!("  {}", elide(&detail, lane.saturating_sub(2)))]
        };
        if let Some(other) = self.overwritten(step) {
            let remark = format!("overwrites {}'s {}", line(&other.actor), detail);
            lines.extend(wrap(&remark, lane.saturating_sub(2)).into_iter().map(|l| format!("  {l}")));
        }
        lines
    }

    /// The earlier write of another actor that claimed the same version of the same file.
    fn overwritten(&self, step: &StepLine) -> Option<&StepLine> {
        let note = step.note.as_deref().filter(|note| version(note, "writes v").is_some())?;
        let target = |s: &'_ StepLine| s.path.rsplit(" -> ").next().map(str::to_owned);
        let earlier = self.anomaly.steps.iter().take_while(|s| s.n < step.n);
        earlier.filter(|s| s.actor != step.actor && s.note.as_deref() == Some(note) && target(s) == target(step)).last()
    }
}

/// The version if a note has one, else the note, else the result.
fn detail(step: &StepLine) -> String {
    match step.note.as_deref() {
        None => step.result.clone(),
        Some(note) => match version(note, "reads v").or_else(|| version(note, "writes v")) {
            Some(number) => format!("version {number}"),
            None => note.to_owned(),
        },
    }
}

fn version<'a>(note: &'a str, prefix: &str) -> Option<&'a str> {
    note.strip_prefix(prefix).filter(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Virtual milliseconds as seconds.
fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}
