//! What was explored, kept as a guard: a scenario, and beside it the schedules that failed, which are tried first.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{
    explore::Replay,
    scenario::{Expect, Scenario, printable, save_to},
};

/// Saves a scenario and the schedules that were found with it. Returns what was done, in words.
///
/// A guard states what it expects: clean, if nothing else was said.
pub(super) fn keep(scenario: &Scenario, replays: &[PathBuf], path: &Path) -> Result<String, String> {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let mut kept = scenario.clone();
    // Schedules are found by the scenario's name, and many guards may lie in one folder.
    kept.name.clone_from(&stem);
    kept.expect.get_or_insert(Expect::Clean);
    save_to(&kept, path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut beside = Vec::new();
    for (n, from) in replays.iter().enumerate() {
        let suffix = if n == 0 { String::new() } else { format!(".{}", n + 1) };
        let to = path.with_file_name(format!("{stem}{suffix}.replay.json"));
        let mut replay = Replay::read(from).map_err(|e| e.to_string())?;
        replay.scenario.name.clone_from(&stem);
        replay.scenario.file = Some(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
        replay.write(&to).map_err(|e| e.to_string())?;
        beside.push(to.display().to_string());
    }
    let tried_first = match beside.len() {
        0 => String::new(),
        1 => format!(", and beside it {}, which is tried first", beside[0]),
        _ => format!(", and beside it {}, which are tried first", beside.join(", ")),
    };
    let name = shell_words::quote(&path.to_string_lossy()).into_owned();
    Ok(printable(&format!("kept as {}{tried_first}: noclobber run {name}", path.display())))
}

/// The command line that was given, with `--save`: what makes a guard of it.
pub(super) fn save_line(words: impl Iterator<Item = OsString>, caller: &Path) -> String {
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let mut names = (1..).map(|n| if n == 1 { "guard.toml".to_owned() } else { format!("guard-{n}.toml") });
    let free = names.find(|name| !caller.join(name).exists()).unwrap_or_default();
    // The options end at the first `--`; the commands may contain anything.
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let explore = (1..end).find(|i| words[*i] == "explore").unwrap_or(0);
    let (before, after) = words.split_at((explore + 1).min(words.len()));
    printable(&shell_words::join([before, &["--save".to_owned(), free], after].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str], caller: &Path) -> String {
        save_line(words.iter().map(OsString::from), caller)
    }

    #[test]
    fn the_line_is_the_same_command_with_save() {
        let dir = tempfile::tempdir().expect("a folder");
        let shell = "echo $((1 + 1)) > 'a b'";
        for (words, at) in [
            (&["noclobber", "explore", "--seed", "3", "--", "sh", "-c", shell, ":::", "./w"][..], 2),
            (&["noclobber", "-v", "explore", "--", "explore", ":::", "b"][..], 3),
        ] {
            let again = shell_words::split(&line(words, dir.path())).expect("a shell can read it");
            assert_eq!(again, [&words[..at], &["--save", "guard.toml"], &words[at..]].concat());
        }
    }

    #[test]
    fn a_guard_that_is_there_is_not_overwritten() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("guard.toml"), "").expect("written");
        assert!(line(&["noclobber", "explore", "--", "a"], dir.path()).contains("--save guard-2.toml --"));
    }
}
