//! Teeth for machines: one object per scenario.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::{Teeth, Tooth, json as report_json};

/// The version of the format.
const SCHEMA: u32 = 1;

/// The object of one guard.
pub fn teeth_to_json(teeth: &Teeth) -> Value {
    json!({
        "schema": SCHEMA,
        "scenario": teeth.scenario,
        "verdict": teeth.guard.verdict.name(),
        "as_expected": teeth.as_expected(),
        "reason": teeth.guard.reason,
        "explored": report_json::explored(&teeth.guard),
        "anomalies": teeth.guard.anomalies.iter().map(report_json::anomaly).collect::<Vec<_>>(),
        "protections": teeth.teeth.iter().map(tooth).collect::<Vec<_>>(),
        "notes": teeth.notes,
        "warnings": teeth.guard.warnings.iter().map(|w| w.text.as_str()).collect::<Vec<_>>(),
    })
}

fn tooth(tooth: &Tooth) -> Value {
    let first = tooth.report.anomalies.first();
    json!({
        "kind": tooth.weakening.kind.name(),
        "path": tooth.weakening.path,
        "weakened": tooth.weakening.kind.weakened(),
        "workers": tooth.workers,
        "needed": tooth.needed,
        "verdict": tooth.report.verdict.name(),
        "summary": tooth.summary(),
        "covered_by": tooth.covered_by.as_ref().map(|w| json!({"kind": w.kind.name(), "path": w.path})),
        "together": tooth.together.iter().map(|w| json!({"kind": w.kind.name(), "path": w.path})).collect::<Vec<_>>(),
        "advice": tooth.advice,
        "explored": report_json::explored(&tooth.report),
        "anomaly": first.map(report_json::anomaly),
        "replay": tooth.report.replay,
        "reason": tooth.report.reason,
    })
}

/// Writes a JSON object on a line of its own, in which every character that cannot be shown is escaped.
///
/// # Errors
/// What `out` says.
pub fn write_line(out: &mut impl Write, value: &Value) -> io::Result<()> {
    report_json::printable_json(value, out)
}
