//! What an inspection of audit lines found, for people and for machines.

use std::io::{self, Write};

use serde::Serialize;

use super::{
    json::printable_json,
    paint::{Paint, Tone},
    text::{count, line, wrap},
};
use crate::evidence::audit::{Fault, Inspection};

/// The version of the format.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Machine<'a> {
    schema: u32,
    lines: u64,
    ok: bool,
    faults: &'a [Fault],
    queues: usize,
    recovered: u64,
    fault_count: u64,
    warnings: &'a [String],
}

/// The inspection as one JSON object on one line; the keys are a contract.
///
/// # Errors
/// What writing says.
pub fn inspection_json(inspection: &Inspection, out: &mut dyn Write) -> io::Result<()> {
    let machine = Machine {
        schema: SCHEMA,
        lines: inspection.lines,
        ok: inspection.ok(),
        faults: &inspection.faults,
        queues: inspection.queues,
        recovered: inspection.recovered,
        fault_count: inspection.fault_count,
        warnings: &inspection.warnings,
    };
    printable_json(&machine, out)
}

/// One fault as it is found, for people.
pub fn fault_line(fault: &Fault, colour: bool) -> String {
    let paint = Paint(colour);
    let pid = fault.pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
    let about = if fault.file == fault.audit { String::new() } else { format!("{}: ", line(&fault.file)) };
    format!(
        "{}  {about}{}  {}",
        paint.text(Tone::Bad, &format!("{:<9}", fault.kind.name())),
        line(&fault.detail),
        paint.text(Tone::Faint, &format!("{}:{}{pid}", line(&fault.audit), fault.line)),
    )
}

/// What follows the faults: warnings and the sum, for people.
pub fn inspection_end(inspection: &Inspection, colour: bool) -> String {
    let paint = Paint(colour);
    let mut out = String::new();
    for warning in &inspection.warnings {
        for (i, part) in wrap(&line(warning), 78).into_iter().enumerate() {
            let head = if i == 0 { "warning: " } else { "         " };
            out += &format!("{}{part}\n", paint.text(Tone::Unsure, head));
        }
    }
    if inspection.recovered > 0 {
        let times = count(inspection.recovered, "time");
        out += &format!("a writer died, or was slow, between its write and its line: {times} (recovered; no fault)\n");
    }
    let (tone, verdict) = match inspection.ok() {
        true => (Tone::Good, "in order".to_owned()),
        false => (Tone::Bad, count(inspection.fault_count, "fault")),
    };
    let lines = count(inspection.lines, "line");
    let queues = count(inspection.queues as u64, "file");
    out + &format!("{}: {lines} about {queues}\n", paint.text(tone, &verdict))
}
