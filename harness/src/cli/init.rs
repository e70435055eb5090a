//! `noclobber init`.

use std::{
    fs::OpenOptions,
    io::{ErrorKind, Write},
    path::Path,
};

use anyhow::Context;

use super::{ArgError, Explore, Init, Options, explore_scenario};
use crate::scenario::{Expect, first};

const NO_COMMAND: &str = "no command to write a scenario of\n  name them after `--`, separated by `:::`: noclobber init -- \
                          ./add-task ::: ./add-task";

/// What `init` did.
#[derive(Debug)]
pub(super) enum Written {
    /// The file is there.
    Done,
    /// The user has to change something.
    Mistake(String),
}

/// Writes a commented scenario of these commands; never over a file that is there.
///
/// # Errors
/// A file that cannot be written.
pub(super) fn perform_init(init: &Init, caller: &Path) -> anyhow::Result<Written> {
    let explore = Explore { options: Options::default(), commands: init.commands.clone() };
    let explored = match explore_scenario(&explore, caller, std::env::var_os("PATH").as_deref()) {
        Ok(explored) => explored,
        Err(ArgError::NoCommand) => return Ok(Written::Mistake(NO_COMMAND.into())),
        Err(e) => return Ok(Written::Mistake(e.to_string())),
    };
    let mut scenario = explored.scenario;
    scenario.expect = Some(Expect::Clean);
    if let Some(stem) = init.file.file_stem() {
        scenario.name = stem.to_string_lossy().into_owned();
    }
    // Paths in the file are relative to it.
    let folder = init.file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    scenario.scenario_dir = std::path::absolute(caller.join(folder))?;
    let text = match first(&scenario) {
        Ok(text) => text,
        Err(e) => return Ok(Written::Mistake(e.to_string())),
    };
    match OpenOptions::new().write(true).create_new(true).open(&init.file) {
        Ok(mut file) => file.write_all(text.as_bytes()).with_context(|| init.file.display().to_string())?,
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            return Ok(Written::Mistake(format!("{} is there already: name another with --file", init.file.display())));
        }
        Err(e) => return Ok(Written::Mistake(format!("{}: {e}", init.file.display()))),
    }
    Ok(Written::Done)
}
