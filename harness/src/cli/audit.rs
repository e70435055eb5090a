//! `noclobber audit`.

use std::{
    io::{IsTerminal, Write},
    sync::atomic::AtomicBool,
};

use anyhow::Context;

use super::{Audit, ExitCode, Format, Output, wants_colour};
use crate::{
    evidence::audit::{Fault, follow, inspect},
    report::{fault_line, inspection_end, inspection_json},
    scenario::printable,
};

/// Inspects audit files and says how that ended: 0 in order, 1 not, 2 a file that cannot be read.
///
/// # Errors
/// A report that cannot be written.
pub fn perform_audit(audit: &Audit, output: &Output, interrupt: &AtomicBool) -> anyhow::Result<ExitCode> {
    if output.junit.is_some() || output.html.is_some() || output.github {
        eprintln!("noclobber: note: audit writes neither --junit nor --html nor --github: use --format json");
    }
    let file = match (&audit.files[..], audit.follow) {
        ([one], true) => Some(one),
        (_, true) => {
            eprintln!("noclobber: --follow follows one file\n  name only the one that grows");
            return Ok(ExitCode::Usage);
        }
        _ => None,
    };
    let mut out = std::io::stdout();
    let colour =
        wants_colour(out.is_terminal(), std::env::var_os("NO_COLOR").as_deref(), std::env::var_os("TERM").as_deref());
    let human = output.format == Format::Human;
    let mut shown = 0;
    let mut written = Ok(());
    let mut show = |fault: &Fault| {
        // In following every fault is news; otherwise a page of them is enough, and the report counts the others.
        if !human || written.is_err() || (file.is_none() && shown >= 100 && output.verbose == 0) {
            return;
        }
        shown += 1;
        written = writeln!(out, "{}", fault_line(fault, colour)).and_then(|()| out.flush());
    };
    let inspected = match file {
        Some(file) => follow(file, interrupt, &mut show),
        None => inspect(&audit.files, &mut show),
    };
    written.context("writing the report")?;
    let inspection = match inspected {
        Ok(inspection) => inspection,
        Err(e) => {
            let lines: Vec<String> = e.to_string().lines().map(printable).collect();
            eprintln!("noclobber: {}", lines.join("\n"));
            return Ok(ExitCode::Usage);
        }
    };
    if !human {
        inspection_json(&inspection, &mut out)
    } else if inspection.ok() && output.quiet {
        Ok(())
    } else {
        let hidden = inspection.fault_count - shown.min(inspection.fault_count);
        let note = if hidden > 0 { format!("and {hidden} more; -v shows them\n") } else { String::new() };
        write!(out, "{note}{}", inspection_end(&inspection, colour))
    }
    .context("writing the report")?;
    Ok(if inspection.ok() { ExitCode::AsExpected } else { ExitCode::Anomaly })
}
