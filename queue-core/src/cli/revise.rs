//! `queue edit` and `queue update`: a new text for the whole file, while everybody else is kept out.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::args::Common;
use super::{Exit, operation, report};
use crate::document::Document;
use crate::error::Error;
use crate::queue::Queue;
use crate::storage::Disk;

/// Lets a person change the file.
pub(super) fn edit(queue: &Queue<Disk>, common: &Common) -> Result<Exit, Error> {
    let editor = ["VISUAL", "EDITOR"].into_iter().find_map(|name| std::env::var_os(name).filter(|e| !e.is_empty()));
    let editor = editor.unwrap_or_else(|| "vi".into());
    let changed = operation(queue, common, |queue| queue.edit("edit", &mut |old| run_editor(&editor, old)))?;
    report::whole("edit", if changed { "edited" } else { "unchanged" }).map(|()| Exit::Done)
}

fn run_editor(editor: &OsString, old: &[u8]) -> Result<Vec<u8>, Error> {
    let path = std::env::temp_dir().join(format!("queue-edit-{}.json", std::process::id()));
    let failed = |source| Error::Io { action: "edit the queue in", path: path.clone(), source };
    let mut file = std::fs::File::create_new(&path).map_err(failed)?;
    file.write_all(old).map_err(failed)?;
    drop(file);
    // By the shell, since the variable may hold arguments.
    let status = Command::new("sh")
        .arg("-c")
        .arg("eval \"$QUEUE_EDITOR\" '\"$1\"'")
        .args(["queue-edit", &path.to_string_lossy()])
        .env("QUEUE_EDITOR", editor)
        .stdout(io::stderr())
        .status()
        .map_err(|source| Error::Work { what: format!("cannot run {}", editor.display()), source })?;
    let new = std::fs::read(&path).map_err(failed)?;
    if !status.success() {
        let _ = std::fs::remove_file(&path);
        return Err(Error::Usage(format!("{} failed ({status}); the queue is as it was", editor.display())));
    }
    if let Err(malformed) = Document::parse(&new) {
        // A person's work is not thrown away.
        return Err(Error::Usage(format!(
            "{}: {malformed}; the queue is as it was, and the edited text is kept there",
            path.display()
        )));
    }
    std::fs::remove_file(&path).map_err(failed)?;
    Ok(new)
}

/// Lets a command change the file.
pub(super) fn update(queue: &Queue<Disk>, common: &Common, command: &[OsString]) -> Result<Exit, Error> {
    let changed = operation(queue, common, |queue| queue.edit("update", &mut |old| filter(command, old)))?;
    report::whole("update", if changed { "updated" } else { "unchanged" }).map(|()| Exit::Done)
}

/// Runs a command with `old` on its standard input, and returns its standard output.
fn filter(command: &[OsString], old: &[u8]) -> Result<Vec<u8>, Error> {
    let [program, arguments @ ..] = command else {
        return Err(Error::Usage("give a command after `--`".into()));
    };
    let name = Path::new(program).display();
    let failed = |source| Error::Work { what: format!("cannot run {name}"), source };
    let mut child =
        Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let input = child.stdin.take();
    let output = std::thread::scope(|scope| {
        // Beside the reading: a command that answers before it has read everything would wait for us, and we for it.
        scope.spawn(move || input.map(|mut input| input.write_all(old)));
        child.wait_with_output()
    })
    .map_err(failed)?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(Error::Usage(format!("{name} failed ({}); the queue is as it was", output.status))),
    }
}
