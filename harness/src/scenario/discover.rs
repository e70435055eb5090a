//! Finding scenarios: files are taken as they are, folders are walked.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

use super::{MAX_FILE_BYTES, Problem, ScenarioError, contents::is_left_out, error::Place};

/// The scenario files of these arguments, in their order, each once; those of a folder are sorted by path.
///
/// A folder is walked without hidden folders, `node_modules`, `target`, virtual environments and files without
/// `[[worker]]`; links to folders are not followed. A folder without any scenario is an error: a guard that finds
/// nothing to run must not pass.
pub fn discover(arguments: &[PathBuf]) -> Result<Vec<PathBuf>, ScenarioError> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for argument in arguments {
        let files = if argument.is_dir() {
            let mut files = Vec::new();
            walk(argument, &mut files)?;
            files.sort();
            if files.is_empty() {
                return Err(error(argument, Problem::NothingFound));
            }
            files
        } else {
            vec![argument.clone()]
        };
        for file in files {
            let identity = fs::canonicalize(&file).unwrap_or_else(|_| file.clone());
            if seen.insert(identity) {
                found.push(file);
            }
        }
    }
    Ok(found)
}

fn error(path: &Path, problem: Problem) -> ScenarioError {
    let place = Place { file: path.to_owned(), line: 0, column: 0, key: String::new() };
    ScenarioError { place, problem: Box::new(problem) }
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) -> Result<(), ScenarioError> {
    let unreadable = |e: std::io::Error| error(dir, Problem::Unreadable(e.to_string()));
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        let kind = entry.file_type().map_err(unreadable)?;
        if kind.is_dir() {
            let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if !hidden && !is_left_out(&path) {
                walk(&path, found)?;
            }
        } else if path.extension() == Some(OsStr::new("toml")) && path.is_file() && has_worker(&path) {
            found.push(path);
        }
    }
    Ok(())
}

/// Whether a file has a worker. It is asked of the text, so that a scenario with a mistake is still found (and the
/// mistake reported) while other TOML files are left alone. An unreadable file counts: its error will be shown.
fn has_worker(file: &Path) -> bool {
    let mut text = Vec::new();
    match File::open(file).and_then(|f| f.take(MAX_FILE_BYTES).read_to_end(&mut text)) {
        Err(_) => true,
        Ok(_) => {
            let text = String::from_utf8_lossy(&text);
            text.lines().any(|line| {
                let bare: String = line.chars().filter(|c| !c.is_whitespace()).collect();
                bare.starts_with("[[worker]]") || bare.starts_with("worker=[")
            })
        }
    }
}
