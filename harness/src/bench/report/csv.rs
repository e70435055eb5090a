//! A line for each run, for other programs.

use super::super::results::{Quantiles, Results};

/// The runs as CSV, with a heading.
///
/// # Errors
/// None in memory, but the writer says so.
pub fn csv(results: &Results) -> Result<String, csv::Error> {
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record([
        "strategy",
        "durability",
        "dir",
        "filesystem",
        "processes",
        "kept",
        "task_bytes",
        "think_us",
        "ops",
        "ops_per_s",
        "repetitions",
        "latency_p50_us",
        "latency_p99_us",
        "latency_max_us",
        "wait_p50_us",
        "wait_p99_us",
        "wait_max_us",
        "hand_over_p50_us",
        "fairness",
        "fairness_100ms",
        "cpu_us_per_op",
        "bytes_per_op",
        "disk_bytes_per_op",
        "failed",
        "lost",
        "duplicated",
        "floor_id",
        "ratio_to_floor",
        "error",
    ])?;
    let number = |value: f64| if value.is_finite() { format!("{value}") } else { String::new() };
    let maybe = |value: Option<f64>| value.map_or(String::new(), number);
    for run in &results.runs {
        let three = |times: &Quantiles| [times.p50, times.p99, times.max].map(maybe);
        let repetitions: Vec<String> = run.repetitions.iter().map(|value| format!("{value:.3}")).collect();
        let mut fields: Vec<String> = vec![
            run.strategy.clone(),
            run.durability.to_string(),
            run.dir.display().to_string(),
            run.filesystem.clone(),
            run.processes.to_string(),
            run.kept.to_string(),
            run.task_bytes.to_string(),
            run.think_us.to_string(),
            run.ops.to_string(),
            number(run.ops_per_s),
            repetitions.join(" "),
        ];
        fields.extend(three(&run.latency_us));
        fields.extend(three(&run.wait_us));
        fields.extend([
            maybe(run.hand_over_us.p50),
            number(run.fairness),
            number(run.fairness_100ms),
            number(run.cpu_us_per_op),
            number(run.bytes_per_op),
            number(run.disk_bytes_per_op),
            run.failed.to_string(),
            run.lost.to_string(),
            run.duplicated.to_string(),
            run.floor_id.clone(),
            maybe(run.ratio_to_floor),
            run.error.clone().unwrap_or_default(),
        ]);
        out.write_record(&fields)?;
    }
    let bytes = out.into_inner().map_err(|e| csv::Error::from(std::io::Error::other(e.to_string())))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
