//! `noclobber doctor`.

use std::{io::Write, path::Path};

use serde_json::json;

use super::{ExitCode, Format, Output};
use crate::{
    doctor::{Check, Health, advice, examine, place},
    guard::canary,
    scenario::printable,
};

/// Prints what this machine allows; cannot tell (3) when nothing can be run.
///
/// # Errors
/// Output that cannot be written.
pub(super) fn perform_doctor(output: &Output) -> anyhow::Result<ExitCode> {
    let checks = examine(canary);
    let ok = checks.iter().all(|check| check.health != Health::Missing);
    let advice = advice(place(|name| std::env::var(name).ok(), Path::new("/")));
    let mut out = std::io::stdout();
    match output.format {
        Format::Json => {
            let report = json!({"schema": 1, "ok": ok, "checks": checks, "advice": advice});
            writeln!(out, "{report}")?;
        }
        Format::Human => {
            write!(out, "{}", text(&checks, output.quiet))?;
            match ok {
                true => writeln!(out, "noclobber works here")?,
                false => writeln!(out, "noclobber does not work here\n\n{advice}")?,
            }
        }
    }
    Ok(if ok { ExitCode::AsExpected } else { ExitCode::CannotTell })
}

fn text(checks: &[Check], quiet: bool) -> String {
    let mut text = String::new();
    for check in checks.iter().filter(|check| !quiet || check.health != Health::Ok) {
        let health = match check.health {
            Health::Ok => "ok",
            Health::Limited => "limited",
            Health::Missing => "missing",
        };
        text += &format!("{health:<8} {:<11} {}\n", check.id, printable(&check.detail));
        if !check.fix.is_empty() {
            text += &format!("{:21}-> {}\n", "", check.fix);
        }
    }
    text
}
