//! Running a scenario, as a user does.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

use crate::{Format, checked, programs};

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
    /// What a finished `noclobber` said.
    ///
    /// # Panics
    /// When what it printed is not JSON, or not as the schema says.
    pub fn from(output: &Output) -> Answer {
        let lines = String::from_utf8_lossy(&output.stdout);
        Answer {
            exit: output.status.code(),
            reports: lines.lines().map(|line| checked(Format::Report, line)).collect(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

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

    /// The only report in a line, under this name.
    ///
    /// # Panics
    /// When there is none, or more than one.
    pub fn line(&self, name: &str) -> String {
        let explored = &self.report()["explored"];
        format!(
            "{name}: {} in {} classes of {} schedules, exhausted {}, {} outcomes, {:.1} s",
            self.report()["verdict"],
            explored["classes"],
            explored["schedules"],
            explored["exhausted"],
            explored["outcomes"],
            explored["seconds"].as_f64().unwrap_or_default(),
        )
    }
}

/// The folder of the scenarios.
pub fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// `noclobber`, ready to be started in a folder with the programs on its `PATH`.
pub fn command(dir: &Path) -> Command {
    let mut command = Command::new(programs().noclobber());
    command.current_dir(dir).env("PATH", programs().path());
    command
}

/// Runs `noclobber` with these arguments and `--format json`, in this folder.
///
/// # Panics
/// When it does not start, or what it prints is not JSON.
pub fn answer(dir: &Path, arguments: &[&str]) -> Answer {
    let output = command(dir).args(["--format", "json"]).args(arguments).output().expect("noclobber starts");
    Answer::from(&output)
}

/// Runs `noclobber run --format json` with these arguments, in a folder of its own.
///
/// # Panics
/// When it does not start, or what it prints is not JSON.
pub fn run(arguments: &[PathBuf]) -> Answer {
    let here = tempfile::tempdir().expect("a folder for the replay files");
    let output = command(here.path()).args(["run", "--format", "json"]).args(arguments).output();
    Answer::from(&output.expect("noclobber starts"))
}
