//! One self-contained page. It has no script at all; a policy forbids every one, and every request to the network.

use std::fmt::Write as _;

use super::{
    super::{
        compare::{Comparison, Judgement},
        competitor::Durability,
        results::{Results, Run},
    },
    groups, load,
    plot::{Scale, Series, escape, lines},
    repeated, spread, wrong,
};

const STYLE: &str = include_str!("page.css");

/// How many colours there are.
const COLOURS: usize = 10;

/// The page.
pub fn page(results: &Results, comparison: Option<&Comparison>) -> String {
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\
         <title>noclobber bench</title><style>{STYLE}</style></head><body>"
    );
    let machine = &results.machine;
    let places: Vec<String> = machine
        .dirs
        .iter()
        .map(|place| format!("{}: {} on {} ({})", place.dir.display(), place.filesystem, place.source, place.options))
        .collect();
    let _ = write!(
        out,
        "<header><h1>What lock strategies cost here</h1><p class=\"faint\">{}, {} &#215; {}, load {:.1}. {}. {}. {}, {} ms each{}.</p></header>",
        escape(&machine.kernel),
        machine.cpus,
        escape(&machine.cpu),
        machine.load,
        escape(&places.join("; ")),
        escape(&machine.programs.join(", ")),
        repeated(&results.settings),
        results.settings.measured_ms,
        if results.ended_by == "done" { "" } else { "; <b class=\"bad\">interrupted</b>, so not all of them" }
    );
    out.push_str("<ul class=\"advice\">");
    for advice in &results.advice {
        // What stands between backticks is a name.
        let parts: Vec<String> = escape(advice)
            .split('`')
            .enumerate()
            .map(|(n, part)| if n % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() })
            .collect();
        let _ = write!(out, "<li>{}</li>", parts.concat());
    }
    if let (Some(median), Some(p95)) = (results.noise.median, results.noise.p95) {
        let _ = write!(
            out,
            "<li>Noise: two slices of one strategy differ by {:.0} % (half of {} pairs), {:.0} % (nineteen of twenty).</li>",
            median * 100.0,
            results.noise.pairs,
            p95 * 100.0
        );
    }
    out.push_str("</ul>");
    if let Some(comparison) = comparison {
        out.push_str(&compared(comparison));
    }
    out.push_str("<div class=\"plots\">");
    for durability in [Durability::None, Durability::Data, Durability::Full] {
        let runs: Vec<&Run> = results.runs.iter().filter(|run| run.durability == durability).collect();
        out.push_str(&by_processes(&runs, durability));
        out.push_str(&latencies(&runs, durability));
        out.push_str(&by_size(&runs, durability));
    }
    out.push_str("</div>");
    for group in groups(&results.runs) {
        out.push_str(&group_table(&group));
    }
    if !results.missing.is_empty() {
        out.push_str("<h2>Not measured</h2><ul>");
        for missing in &results.missing {
            let _ = write!(out, "<li>{}: {}</li>", escape(&missing.strategy), escape(&missing.why));
        }
        out.push_str("</ul>");
    }
    out.push_str("<h2>Floors</h2><div class=\"scroll\"><table><tr><th>floor</th><th>us</th><th></th></tr>");
    for floor in &results.floor {
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td class=\"text\">{}</td></tr>",
            escape(&floor.id),
            figure(Some(floor.us)),
            escape(&floor.what)
        );
    }
    out.push_str("</table></div></body></html>\n");
    out
}

/// The names in the order in which they first occur, each with a colour of its own as long as there are some.
fn series(runs: &[&Run], point: impl Fn(&Run) -> Vec<(f64, f64, bool)>) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for run in runs {
        let points = point(run);
        match all.iter_mut().find(|one| one.name == run.strategy) {
            Some(one) => one.points.extend(points),
            None => {
                let colour = all.len() % COLOURS;
                all.push(Series { name: run.strategy.clone(), colour, peer: run.peer, points });
            }
        }
    }
    for one in &mut all {
        one.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    all
}

/// The runs of the load that was tried with most values of what `differs`; `rest` is everything else about a load.
fn usual<'a, K: PartialEq>(runs: &[&'a Run], differs: fn(&Run) -> usize, rest: fn(&Run) -> K) -> Vec<&'a Run> {
    let mut best: Vec<&Run> = Vec::new();
    for run in runs {
        let alike: Vec<&Run> = runs.iter().copied().filter(|other| rest(other) == rest(run)).collect();
        let wealth = |runs: &[&Run]| (ticks(runs, differs).len(), runs.len());
        if wealth(&alike) > wealth(&best) {
            best = alike;
        }
    }
    best
}

fn ticks(runs: &[&Run], value: fn(&Run) -> usize) -> Vec<f64> {
    let mut values: Vec<usize> = runs.iter().map(|run| value(run)).collect();
    values.sort_unstable();
    values.dedup();
    values.into_iter().map(|value| value as f64).collect()
}

fn by_processes(runs: &[&Run], durability: Durability) -> String {
    let runs = usual(runs, |run| run.processes, |run| (run.dir.clone(), run.kept, run.task_bytes, run.think_us));
    let ticks = ticks(&runs, |run| run.processes);
    if ticks.len() < 2 {
        return String::new();
    }
    let all = series(&runs, |run| vec![(run.processes as f64, run.ops_per_s, run.wrong())]);
    let title = format!("Throughput against processes, durability {durability}, {} tasks kept", runs[0].kept);
    lines(&title, "processes", "operations a second", Scale::Log, &ticks, &all)
}

fn by_size(runs: &[&Run], durability: Durability) -> String {
    let runs = usual(runs, |run| run.kept, |run| (run.dir.clone(), run.processes, run.task_bytes, run.think_us));
    let ticks = ticks(&runs, |run| run.kept);
    if ticks.len() < 2 {
        return String::new();
    }
    let all = series(&runs, |run| vec![(run.kept as f64, 1e6 / run.ops_per_s, run.wrong())]);
    let all: Vec<Series> = all.into_iter().filter(|one| one.points.len() > 1).collect();
    let title = format!("Cost against queue size, durability {durability}, {} processes", runs[0].processes);
    lines(&title, "tasks kept", "us an operation", Scale::Log, &ticks, &all)
}

fn latencies(runs: &[&Run], durability: Durability) -> String {
    let Some(most) = runs.iter().map(|run| run.processes).max() else { return String::new() };
    let runs: Vec<&Run> = runs.iter().copied().filter(|run| run.processes == most).collect();
    // The group with the most strategies.
    let group =
        runs.iter().map(|run| runs.iter().copied().filter(|other| other.group() == run.group()).collect::<Vec<_>>());
    let Some(runs) = group.max_by_key(Vec::len) else { return String::new() };
    let all = series(&runs, |run| {
        let last = run.latency_curve.len().saturating_sub(1);
        let points = run.latency_curve.iter().enumerate();
        points.map(|(n, &(part, us))| (part, us, n == last && run.wrong())).collect()
    });
    let title = format!("Latency, durability {durability}, {most} processes, {} tasks kept", runs[0].kept);
    let ticks = [0.0, 0.5, 0.9, 0.99, 0.999, 1.0];
    lines(&title, "part of all operations", "us, no longer than", Scale::Nines, &ticks, &all)
}

fn group_table(group: &[&Run]) -> String {
    let most = group.iter().map(|run| run.ops_per_s).fold(0.0, f64::max);
    let mut out =
        format!("<h2>{}</h2><div class=\"scroll\"><table><tr><th>strategy</th><th></th>", escape(&load(group[0])));
    for heading in [
        "ops/s",
        "&#177;%",
        "&#215; floor",
        "p50 us",
        "p99 us",
        "longest us",
        "wait p99 us",
        "hand-over us",
        "fair",
        "fair, 0.1 s",
        "cpu us",
        "bytes",
        "to disk",
    ] {
        let _ = write!(out, "<th>{heading}</th>");
    }
    out.push_str("<th>lost, twice</th></tr>");
    for run in group {
        let class = if run.wrong() {
            "wrong"
        } else if run.peer {
            "peer"
        } else {
            ""
        };
        let part = if most > 0.0 { run.ops_per_s / most * 100.0 } else { 0.0 };
        let _ = write!(
            out,
            "<tr class=\"{class}\"><td>{}</td><td class=\"bar\"><i style=\"width:{part:.1}%\"></i></td>",
            escape(&run.strategy)
        );
        let share = |value: f64| if run.processes > 1 { format!("{value:.2}") } else { "-".to_owned() };
        let cells = [
            figure(Some(run.ops_per_s)),
            spread(run).map_or("-".to_owned(), |spread| format!("{spread:.0}")),
            figure(run.ratio_to_floor),
            figure(run.latency_us.p50),
            figure(run.latency_us.p99),
            figure(run.latency_us.max),
            figure(run.wait_us.p99),
            figure(run.hand_over_us.p50),
            share(run.fairness),
            share(run.fairness_100ms),
            figure(Some(run.cpu_us_per_op)),
            figure(Some(run.bytes_per_op)),
            figure(Some(run.disk_bytes_per_op)),
        ];
        for cell in cells {
            let _ = write!(out, "<td>{cell}</td>");
        }
        let mut verdict = wrong(run).unwrap_or_else(|| if run.ops > 0 { "0".to_owned() } else { String::new() });
        if run.failed > 0 {
            let _ = write!(verdict, "; {} failed", run.failed);
        }
        if let Some(error) = &run.error {
            let _ = write!(verdict, " {error}");
        }
        let _ = write!(out, "<td class=\"verdict text\">{}</td></tr>", escape(&verdict));
    }
    out.push_str("</table></div>");
    let examples: Vec<String> = group
        .iter()
        .filter(|run| !run.examples.is_empty())
        .map(|run| format!("{}: {}", escape(&run.strategy), escape(&run.examples.join("; "))))
        .collect();
    if !examples.is_empty() {
        let _ = write!(out, "<p class=\"bad\">{}</p>", examples.join("<br>"));
    }
    out
}

fn compared(comparison: &Comparison) -> String {
    let mut out = String::from(
        "<h2>Against the earlier benchmark</h2><div class=\"scroll\"><table><tr><th>strategy</th><th></th><th>speed now by then</th><th>interval</th><th></th></tr>",
    );
    for row in &comparison.rows {
        let (word, class) = match row.judgement {
            Judgement::Slower => ("slower", "bad"),
            Judgement::Wrong => ("loses", "bad"),
            Judgement::Unsure => ("unsure", "faint"),
            Judgement::Same => ("same", ""),
            Judgement::Faster => ("faster", "good"),
        };
        let two = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
        let _ = write!(
            out,
            "<tr><td>{}</td><td class=\"{class}\">{word}</td><td>{}</td><td>{} to {}</td><td class=\"text\">{}</td></tr>",
            escape(&row.strategy),
            two(row.ratio),
            two(row.low),
            two(row.high),
            escape(&row.load)
        );
    }
    let _ = write!(
        out,
        "</table></div><p class=\"faint\">If nothing has changed, a comparison like this raises a false alarm at most {} times in a hundred.</p>",
        comparison.level * 100.0
    );
    for warning in &comparison.warnings {
        let _ = write!(out, "<p>Warning: {}</p>", escape(warning));
    }
    out
}

/// A number with as many digits as mean something.
fn figure(value: Option<f64>) -> String {
    match value {
        Some(value) if !value.is_finite() => "-".to_owned(),
        Some(value) if value >= 10.0 => crate::report::text::grouped(value.round() as u64),
        Some(value) => format!("{value:.1}"),
        None => "-".to_owned(),
    }
}
