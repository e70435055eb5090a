//! Who is measured.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use serde::{Deserialize, Serialize};

/// What a finished operation survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// A kill.
    None,
    /// A power cut leaves a whole queue, perhaps an older one.
    Data,
    /// A power cut.
    Full,
}

impl Durability {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::Data => "data",
            Durability::Full => "full",
        }
    }
}

impl std::fmt::Display for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// How its processes are started.
#[derive(Clone, Debug)]
pub enum Start {
    /// A program with arguments; `{dir}` and `{durability}` in these stand for those.
    Program(PathBuf, Vec<String>),
    /// A line for the shell.
    Shell(String),
}

/// How it is found out what is in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// Its JSON files are read.
    Json,
    /// It is asked.
    Ask,
}

/// One way to keep a queue.
#[derive(Clone, Debug)]
pub struct Competitor {
    /// Its name in reports.
    pub name: String,
    /// How its processes are started.
    pub start: Start,
    /// What their environment has besides the caller's.
    pub env: Vec<(String, OsString)>,
    /// What it can be asked to survive.
    pub durabilities: Vec<Durability>,
    /// How it is found out what is in its queue.
    pub store: Store,
    /// Whether each worker has an account of its own.
    pub sharded: bool,
    /// Whether all its workers wait for one and the same lock, so that there is a hand-over.
    pub one_lock: bool,
    /// Whether it does without what only some systems have.
    pub portable: bool,
    /// Whether it is known to lose tasks, so that this is no news.
    pub loses: bool,
    /// Whether it is somebody else's work, to compare with.
    pub peer: bool,
}

impl Competitor {
    /// The command of one process.
    pub(super) fn command(&self, dir: &Path, durability: Durability) -> Command {
        let mut command = match &self.start {
            Start::Program(program, arguments) => {
                let mut command = Command::new(program);
                command.args(arguments.iter().map(|argument| {
                    // A part of the text: the folder need not be UTF-8.
                    let mut word = OsString::new();
                    for (n, piece) in argument.split("{dir}").enumerate() {
                        if n > 0 {
                            word.push(dir);
                        }
                        word.push(piece.replace("{durability}", durability.as_str()));
                    }
                    word
                }));
                command
            }
            Start::Shell(line) => {
                let mut command = Command::new("/bin/sh");
                command.arg("-c").arg(line);
                command
            }
        };
        command.env("NOCLOBBER_BENCH_DIR", dir).envs(self.env.iter().cloned());
        command
    }

    /// A command of the user's.
    pub fn of_user(name: &str, durabilities: Vec<Durability>, line: &str) -> Competitor {
        Competitor {
            name: name.to_owned(),
            start: Start::Shell(line.to_owned()),
            env: Vec::new(),
            durabilities,
            store: Store::Ask,
            sharded: false,
            one_lock: false,
            portable: true,
            loses: false,
            peer: false,
        }
    }
}
