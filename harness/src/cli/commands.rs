//! `CMD ::: CMD`: the commands of a command line.

use std::path::{Component, Path, PathBuf};

use super::ArgError;

/// Splits words at `:::` into commands, each a list of words.
pub fn split_commands(words: &[String]) -> Result<Vec<Vec<String>>, ArgError> {
    if words.is_empty() {
        return Err(ArgError::NoCommand);
    }
    // Taken for arguments of the first command these would leave it alone in its world, where nothing goes wrong.
    if let Some(word) = words.iter().find(|word| is_near_separator(word)) {
        return Err(ArgError::NearSeparator(word.clone()));
    }
    let commands: Vec<Vec<String>> = words.split(|word| word == ":::").map(<[String]>::to_vec).collect();
    match commands.iter().position(|c| c.iter().all(|word| word.trim().is_empty())) {
        Some(empty) => Err(ArgError::EmptyCommand(empty + 1)),
        None => Ok(commands),
    }
}

/// What somebody writes who means the separator: only colons, or only what shells join commands by.
fn is_near_separator(word: &str) -> bool {
    word != ":::"
        && (matches!(word, "||" | "&&" | "&" | ";" | "|") || word.len() > 1 && word.bytes().all(|b| b == b':'))
}

/// The name of the i-th command, from 0: A, B, ..., Z, AA, AB, ...
pub fn worker_name(mut i: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(b'A' + (i % 26) as u8);
        if i < 26 {
            break;
        }
        i = i / 26 - 1;
    }
    letters.iter().rev().map(|b| char::from(*b)).collect()
}

/// A word that is taken from the caller's directory, since the world does not have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The word as written.
    pub word: String,
    /// Where it is.
    pub path: PathBuf,
}

/// Replaces the command word and the script argument by their absolute paths when they are files in the caller's
/// directory and not in the world; a saved scenario has them as `$SCENARIO_DIR/...`.
///
/// The script argument is the first argument that is no option and names a file, in the world or in the caller's
/// directory; there is none behind `-c`, `-e` or `-m`. A command word without a slash is looked up in `PATH` first.
pub fn take_from_caller(
    words: &mut [String],
    caller: &Path,
    in_world: &dyn Fn(&Path) -> bool,
    in_path: &dyn Fn(&str) -> bool,
) -> Vec<Taken> {
    let in_world = |word: &str| inside(word).is_some_and(|path| in_world(&path));
    let in_caller = |word: &str| Path::new(word).is_relative() && !word.is_empty() && caller.join(word).is_file();
    let has_program_text = |word: &str| matches!(word, "-c" | "-e" | "-m" | "--eval" | "-p" | "--print");

    let command = words.first().filter(|word| word.contains('/') || !in_path(word)).map(|_| 0);
    let script = (1..words.len())
        .take_while(|i| !has_program_text(&words[*i]))
        .find(|i| !words[*i].starts_with('-') && (in_world(&words[*i]) || in_caller(&words[*i])));

    let mut taken = Vec::new();
    for i in command.into_iter().chain(script) {
        let word = words[i].clone();
        let path = caller.join(word.strip_prefix("./").unwrap_or(&word));
        if !in_caller(&word) || in_world(&word) {
            continue;
        }
        if let Some(text) = path.to_str() {
            words[i] = text.to_owned();
            taken.push(Taken { word, path });
        }
    }
    taken
}

/// A relative path without `.` and `..`; `None` when it leaves the world.
fn inside(word: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for part in Path::new(word).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !path.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}
