//! `noclobber incident`.

use std::io::{IsTerminal, Write};

use anyhow::Context;

use super::{CopiesArg, ExitCode, Format, IncidentArgs, Output, wants_colour};
use crate::{
    evidence::incident::{CopiesMade, Request, investigate, scenario},
    publish::publish,
    report::{incident_html, incident_json, incident_text},
    scenario::printable,
};

/// Says what happened, and how sure that is: 0 nothing found, 1 something certain, 3 only possible ones, 2 evidence
/// that cannot be used.
///
/// # Errors
/// A report or scenario that cannot be written.
pub fn perform_incident(args: &IncidentArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let request = Request {
        dir: args.dir.clone(),
        git: args.git.clone(),
        current: args.current.clone(),
        made: args.copies.map(|copies| match copies {
            CopiesArg::Before => CopiesMade::Before,
            CopiesArg::After => CopiesMade::After,
        }),
        audit: args.audit.clone(),
        generated: args.generated.clone(),
        log: args.log.clone(),
        log_format: args.log_format.clone().unwrap_or_default(),
        tz: args.tz.clone(),
        pointer: args.pointer.clone(),
        id: args.id.clone(),
        mask: args.mask,
    };
    let mut found = match investigate(&request) {
        Ok(found) => found,
        Err(e) => {
            let lines: Vec<String> = e.to_string().lines().map(printable).collect();
            eprintln!("noclobber: {}", lines.join("\n"));
            return Ok(ExitCode::Usage);
        }
    };
    if let Some(path) = &args.output {
        match scenario(&found) {
            Ok((text, notes)) => {
                if let Err(e) = publish(path, text.as_bytes()) {
                    eprintln!("noclobber: `{}` cannot be written: {e}", printable(&path.to_string_lossy()));
                    return Ok(ExitCode::Usage);
                }
                found.incident.scenario = Some(path.to_string_lossy().into_owned());
                found.incident.warnings.extend(notes);
            }
            Err(why) => found.incident.warnings.push(format!("no scenario was written: {why}")),
        }
    }
    let incident = &found.incident;
    if let Some(path) = &output.html
        && let Err(e) = publish(path, incident_html(incident).as_bytes())
    {
        eprintln!("noclobber: `{}` cannot be written: {e}", printable(&path.to_string_lossy()));
        return Ok(ExitCode::Usage);
    }
    if output.junit.is_some() || output.github {
        eprintln!("noclobber: note: incident writes neither --junit nor --github: use --format json or --html");
    }
    let mut out = std::io::stdout();
    match output.format {
        Format::Json => incident_json(incident, &mut out).context("writing the report")?,
        Format::Human if output.quiet && incident.is_nothing() => {}
        Format::Human => {
            let (no_color, term) = (std::env::var_os("NO_COLOR"), std::env::var_os("TERM"));
            let colour = wants_colour(out.is_terminal(), no_color.as_deref(), term.as_deref());
            let mut text = incident_text(incident, colour, 80, output.verbose > 0);
            if let Some(path) = &incident.scenario {
                text += &format!("to see it happen: noclobber run {}\n", printable(path));
            }
            out.write_all(text.as_bytes()).context("writing the report")?;
        }
    }
    Ok(match incident {
        incident if incident.is_certain() => ExitCode::Anomaly,
        incident if incident.is_nothing() => ExitCode::AsExpected,
        _ => ExitCode::CannotTell,
    })
}
