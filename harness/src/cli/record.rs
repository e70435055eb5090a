//! `noclobber record`.

use std::path::PathBuf;

use jiff::Timestamp;

use super::{Format, Output, RecordArgs, perform::mistake, split_commands};
use crate::{
    evidence::recording::Limits,
    report::{recording_json, recording_text},
    scenario::printable,
    tracer::record::{LaunchError, RecordRequest, record},
};

/// Evidence goes here, in the current folder.
const FOLDER: &str = ".noclobber";

/// Runs the commands and gives the exit code: theirs, or 2, 3, 4, 126, 127 if they could not be run.
///
/// # Errors
/// None so far; what goes wrong is told.
pub fn perform_record(args: &RecordArgs, output: &Output) -> anyhow::Result<u8> {
    let commands = match split_commands(&args.commands) {
        Ok(commands) => commands,
        Err(e) => return Ok(mistake(&e.to_string().replace("noclobber explore", "noclobber record")) as u8),
    };
    let commands: Vec<Vec<String>> =
        commands.into_iter().flat_map(|words| std::iter::repeat_n(words, usize::from(args.copies))).collect();
    let time = Timestamp::now().strftime("%Y%m%dT%H%M%S.%3fZ");
    let request = RecordRequest {
        commands,
        files: args.file.clone(),
        out: args.out.clone().unwrap_or_else(|| PathBuf::from(FOLDER).join(format!("record-{time}"))),
        limits: Limits { copies: args.keep as usize, bytes: args.max_size << 20, ..Limits::default() },
    };
    let recording = match record(&request) {
        Ok(recording) => recording,
        Err(e) => {
            let lines: Vec<String> = e.to_string().lines().map(printable).collect();
            eprintln!("noclobber: {}", lines.join("\n"));
            return Ok(match e {
                LaunchError::Mistake(_) => 2,
                LaunchError::NotAllowed(_) => 3,
                LaunchError::Internal(_) => 4,
                LaunchError::NoProgram { code, .. } => u8::try_from(code).unwrap_or(126),
            });
        }
    };
    // Standard output belongs to the commands.
    let mut err = std::io::stderr();
    let told = match output.format {
        Format::Json => recording_json(&recording, &mut err),
        Format::Human if output.quiet => Ok(()),
        Format::Human => std::io::Write::write_all(&mut err, recording_text(&recording).as_bytes()),
    };
    // Whoever closed it does not want to be told; the summary lies beside the evidence too.
    let _ = told;
    let code = recording.exits.iter().copied().find(|code| *code != 0).unwrap_or(0);
    Ok(u8::try_from(code).unwrap_or(1))
}
