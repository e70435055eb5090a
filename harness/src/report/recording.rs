//! What was recorded, for people and for machines.

use std::io::{self, Write};

use super::{
    json::printable_json,
    text::{count, line},
};
use crate::{evidence::recording::Recording, scenario::printable};

/// The recording as one JSON object on one line.
///
/// # Errors
/// What writing says.
pub fn recording_json(recording: &Recording, out: &mut dyn Write) -> io::Result<()> {
    printable_json(recording, out)
}

/// A line a file, and how to go on.
pub fn recording_text(recording: &Recording) -> String {
    let mut text = String::new();
    for file in &recording.files {
        let processes = count(file.processes as u64, "process").replace("processs", "processes");
        text += &format!("recorded: {}: {} by {processes}", line(&file.file), count(file.versions, "version"));
        if file.stale > 0 {
            let was = if file.stale == 1 { "was" } else { "were" };
            text += &format!("; {} {was} not made from the version before it", file.stale);
        }
        text += &format!("\n  noclobber incident {}\n", printable(&shell_words::quote(&file.evidence)));
    }
    if recording.files.is_empty() {
        text += "recorded: no file that more than one process opened was changed; --file names one to watch\n";
    }
    for warning in &recording.warnings {
        text += &format!("warning: {}\n", line(warning));
    }
    if !recording.running.is_empty() {
        let pids: Vec<String> = recording.running.iter().map(u32::to_string).collect();
        text += &format!("note: still running, and recorded until they end: process {}\n", pids.join(", "));
    }
    text
}
