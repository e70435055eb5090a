//! `explore`'s command line as a scenario.

use std::{collections::BTreeMap, ffi::OsStr, path::Path};

use super::{
    ArgError, Explore, Taken, apply_overrides,
    commands::{split_commands, take_from_caller, worker_name},
    copies::MAX_WORKERS,
};
use crate::scenario::{Command, Ends, Limits, OracleConfig, Scenario, Search, Worker, contents, printable};

/// The scenario of an `explore` command line, and what the report must say about it.
#[derive(Clone, Debug)]
pub struct Explored {
    /// The scenario; it has no file, and no expectation unless one was given.
    pub scenario: Scenario,
    /// Words that were taken from the caller's directory.
    pub taken: Vec<Taken>,
}

/// Makes a scenario of the commands and options of `explore`. `caller` is the caller's directory (absolute), `path`
/// the value of `PATH`.
pub fn explore_scenario(explore: &Explore, caller: &Path, path: Option<&OsStr>) -> Result<Explored, ArgError> {
    let commands = split_commands(&explore.commands)?;
    if commands.len() > MAX_WORKERS {
        return Err(ArgError::TooManyWorkers { found: commands.len(), cap: MAX_WORKERS });
    }
    let in_path = |word: &str| {
        path.is_some_and(|path| std::env::split_paths(path).any(|dir| dir.is_absolute() && dir.join(word).is_file()))
    };
    let mut taken = Vec::new();
    let mut scenario = empty(caller);
    let in_world: Box<dyn Fn(&Path) -> bool> = match &explore.options.dir {
        Some(dir) => {
            let dir = caller.join(dir);
            Box::new(move |word| dir.join(word).exists())
        }
        None => {
            let contents = contents(caller)?;
            scenario.dir = Some(caller.to_owned());
            scenario.dir_filtered = true;
            Box::new(move |word| contents.contains(word))
        }
    };
    for (i, words) in commands.into_iter().enumerate() {
        let name = worker_name(i);
        let shown = shell_words::join(&words);
        let run = command(words, caller, &mut taken, &*in_world, &in_path);
        scenario.about += &format!("{}{name}: {}", if i == 0 { "" } else { "; " }, printable(&shown));
        scenario.workers.push(Worker {
            group: name.clone(),
            name,
            run,
            after: Vec::new(),
            env: BTreeMap::new(),
            ends: Ends::Exit,
            exit: vec![0],
            acknowledges: None,
        });
    }
    taken.dedup();
    apply_overrides(&explore.options, caller, &mut scenario)?;
    Ok(Explored { scenario, taken })
}

fn empty(caller: &Path) -> Scenario {
    Scenario {
        name: "explore".into(),
        about: String::new(),
        expect: None,
        file: None,
        scenario_dir: caller.to_owned(),
        dir: None,
        dir_filtered: false,
        files: BTreeMap::new(),
        setup: None,
        check: None,
        watch: Vec::new(),
        env: BTreeMap::new(),
        home_in_world: false,
        workers: Vec::new(),
        delays: Vec::new(),
        faults: Vec::new(),
        search: Search::default(),
        oracle: OracleConfig::default(),
        limits: Limits::default(),
    }
}

/// Words as an argument list. A single word with blanks or shell characters that names no file is a shell command:
/// `explore -- 'jq . a > b' ::: ./w.py`.
fn command(
    mut words: Vec<String>,
    caller: &Path,
    taken: &mut Vec<Taken>,
    in_world: &dyn Fn(&Path) -> bool,
    in_path: &dyn Fn(&str) -> bool,
) -> Command {
    let is_shell = |c: char| c.is_whitespace() || "|&;<>()$`\"'*?[]#~={}!\\".contains(c);
    match words.as_slice() {
        [text] if text.contains(is_shell) && !caller.join(text).exists() && !in_world(Path::new(text)) => {
            // A plain list of words is still a list of words if one of them has to be taken from elsewhere.
            let plain = !text.contains(|c: char| is_shell(c) && c != ' ');
            let mut parts: Vec<String> = text.split(' ').filter(|w| !w.is_empty()).map(str::to_owned).collect();
            let found = if plain { take_from_caller(&mut parts, caller, in_world, in_path) } else { Vec::new() };
            if found.is_empty() {
                return Command::Shell(text.clone());
            }
            taken.extend(found);
            Command::Args(parts)
        }
        _ => {
            taken.extend(take_from_caller(&mut words, caller, in_world, in_path));
            Command::Args(words)
        }
    }
}
