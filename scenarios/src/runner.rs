//! Running a scenario, as a user does.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::programs;

/// What `noclobber run` answered.
#[derive(Debug)]
pub struct Answer {
    /// Its exit code; none if a signal ended it.
    pub exit: Option<i32>,
    /// Its JSON reports, one per scenario.
    pub reports: Vec<Value>,
    /// What it said besides.
    pub stderr: String,
}

impl Answer {
    /// The only report.
    ///
    /// # Panics
    /// When there is none, or more than one.
    pub fn report(&self) -> &Value {
        match &self.reports[..] {
            [one] => one,
            other => panic!("{} reports: {}", other.len(), self.stderr),
        }
    }
}

/// The folder of the scenarios.
pub fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs `noclobber run --format json` with these arguments, in a folder of its own.
///
/// # Panics
/// When it does not start, or what it prints is not JSON.
pub fn run(arguments: &[PathBuf]) -> Answer {
    let here = tempfile::tempdir().expect("a folder for the replay files");
    let mut command = Command::new(programs().noclobber());
    command.args(["run", "--format", "json"]).args(arguments);
    let output = command.current_dir(&here).env("PATH", programs().path()).output().expect("noclobber starts");
    let lines = String::from_utf8_lossy(&output.stdout);
    Answer {
        exit: output.status.code(),
        reports: lines.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
