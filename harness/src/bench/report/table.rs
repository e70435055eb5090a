//! The results on a terminal.

use super::{
    super::{
        compare::{Comparison, Judgement},
        results::{Results, Run},
    },
    groups, load, repeated, spread, wrong,
};
use crate::report::{
    paint::{Paint, Tone},
    text::{grouped, line, pad, width, wrap},
};

/// How wide the text is.
const WIDTH: usize = 110;

const HEADINGS: [&str; 10] =
    ["strategy", "ops/s", "+-%", "x floor", "p50", "p99", "longest", "fair", "0.1 s", "cpu us"];

/// The results as text.
pub fn table(results: &Results, colour: bool) -> String {
    let paint = Paint(colour);
    let mut out = String::new();
    let machine = &results.machine;
    out.push_str(&format!(
        "{}, {} x {}, {} MiB, load {:.1}\n",
        line(&machine.kernel),
        machine.cpus,
        line(&machine.cpu),
        grouped(machine.memory_mib),
        machine.load
    ));
    for place in &machine.dirs {
        let text = format!("{}: {} on {} ({})", place.dir.display(), place.filesystem, place.source, place.options);
        out.push_str(&format!("{}\n", line(&text)));
    }
    out.push_str(&format!(
        "{}\n{}, {} ms each after {} ms, {:.0} s in all{}\n",
        line(&machine.programs.join(", ")),
        repeated(&results.settings),
        results.settings.measured_ms,
        results.settings.warm_up_ms,
        results.settings.seconds,
        if results.ended_by == "done" { "" } else { "; interrupted: what was measured until then" }
    ));
    out.push_str("\nfloors, us\n");
    for floor in &results.floor {
        out.push_str(&format!("  {}{:>10}  {}\n", pad(&line(&floor.id), 26), figure(floor.us), line(&floor.what)));
    }
    for group in groups(&results.runs) {
        out.push_str(&group_table(&group, paint));
    }
    if !results.missing.is_empty() {
        out.push_str("\nnot measured\n");
        for missing in &results.missing {
            out.push_str(&format!("  {}  {}\n", pad(&line(&missing.strategy), 20), line(&missing.why)));
        }
    }
    out.push('\n');
    for advice in &results.advice {
        out.push_str(&paragraph(advice));
    }
    if let (Some(median), Some(p95)) = (results.noise.median, results.noise.p95) {
        out.push_str(&paragraph(&format!(
            "noise: two slices of one strategy differ by {:.0} % (half of {} pairs), {:.0} % (nineteen of twenty)",
            median * 100.0,
            results.noise.pairs,
            p95 * 100.0
        )));
    }
    out
}

fn group_table(group: &[&Run], paint: Paint) -> String {
    let mut rows: Vec<Vec<String>> = vec![HEADINGS.map(str::to_owned).to_vec()];
    for run in group {
        let us = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), figure);
        rows.push(vec![
            line(&run.strategy),
            grouped(run.ops_per_s.round() as u64),
            spread(run).map_or_else(|| "-".to_owned(), |spread| format!("{spread:.0}")),
            run.ratio_to_floor.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.1}")),
            us(run.latency_us.p50),
            us(run.latency_us.p99),
            us(run.latency_us.max),
            if run.processes > 1 { format!("{:.2}", run.fairness) } else { "-".to_owned() },
            if run.processes > 1 { format!("{:.2}", run.fairness_100ms) } else { "-".to_owned() },
            figure(run.cpu_us_per_op),
        ]);
    }
    let widths: Vec<usize> =
        (0..HEADINGS.len()).map(|column| rows.iter().map(|row| width(&row[column])).max().unwrap_or(0)).collect();
    let mut out = format!("\n{}\n", paint.text(Tone::Strong, &line(&load(group[0]))));
    for (n, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, &to))| match column {
                0 => pad(cell, to),
                _ => format!("{}{cell}", " ".repeat(to.saturating_sub(width(cell)))),
            })
            .collect();
        let text = cells.join("  ");
        out.push_str("  ");
        match n.checked_sub(1).map(|n| group[n]) {
            None => out.push_str(&paint.text(Tone::Faint, &format!("{text}  lost, twice"))),
            Some(run) => {
                out.push_str(&text);
                out.push_str("  ");
                out.push_str(&verdict(run, paint));
            }
        }
        out.push('\n');
    }
    out
}

fn verdict(run: &Run, paint: Paint) -> String {
    let mut told: Vec<String> = Vec::new();
    match wrong(run) {
        Some(wrong) => told.push(paint.text(Tone::Bad, &wrong)),
        None if run.ops > 0 => told.push("0".to_owned()),
        None => {}
    }
    if run.failed > 0 {
        told.push(format!("{} failed", grouped(run.failed)));
    }
    if let Some(error) = &run.error {
        told.push(paint.text(Tone::Unsure, &line(error)));
    }
    told.join("; ")
}

/// A comparison as text.
pub fn comparison_table(comparison: &Comparison, colour: bool) -> String {
    let paint = Paint(colour);
    let mut out = String::from("\nagainst the earlier benchmark: speed now by then, in floors\n");
    let name = comparison.rows.iter().map(|row| width(&line(&row.strategy))).max().unwrap_or(0);
    for row in &comparison.rows {
        let (word, tone) = match row.judgement {
            Judgement::Slower => ("slower", Tone::Bad),
            Judgement::Wrong => ("loses", Tone::Bad),
            Judgement::Unsure => ("unsure", Tone::Unsure),
            Judgement::Same => ("same", Tone::Plain),
            Judgement::Faster => ("faster", Tone::Good),
        };
        let figures = match (row.ratio, row.low, row.high) {
            (Some(ratio), Some(low), Some(high)) => format!("{ratio:.2}  ({low:.2} to {high:.2})"),
            _ => "-".to_owned(),
        };
        out.push_str(&format!(
            "  {}  {}  {}  {}\n",
            paint.text(tone, &pad(word, 6)),
            pad(&line(&row.strategy), name),
            pad(&figures, 22),
            line(&row.load)
        ));
    }
    if let Some(wanted) = comparison.rows.iter().filter_map(|row| row.wanted).max() {
        out.push_str(&paragraph(&format!(
            "Unsure: the repetitions differ too much. About {wanted} of them on both sides (--repetitions), or a quieter machine, would tell."
        )));
    }
    out.push_str(&paragraph(&format!(
        "If nothing has changed, a comparison like this raises a false alarm at most {} times in a hundred.",
        figure(comparison.level * 100.0)
    )));
    for warning in &comparison.warnings {
        out.push_str(&paragraph(&format!("warning: {warning}")));
    }
    out
}

fn paragraph(text: &str) -> String {
    wrap(&line(text), WIDTH).iter().map(|line| format!("{line}\n")).collect()
}

/// A number with as many digits as mean something.
fn figure(value: f64) -> String {
    match value {
        value if !value.is_finite() => "-".to_owned(),
        value if value >= 100.0 => grouped(value.round() as u64),
        value if value >= 10.0 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}
