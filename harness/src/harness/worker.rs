//! Who runs.

use std::ffi::{OsStr, OsString};

use toml::{Table, Value};

use crate::scenario::Ends;

/// A worker: a command with all its processes and threads.
///
/// A text is a shell command; [`cmd!`](crate::cmd) is a program with its arguments.
#[derive(Clone, Debug)]
pub struct Worker {
    run: Run,
    /// The other keys of `[[worker]]`.
    table: Table,
}

#[derive(Clone, Debug)]
enum Run {
    Shell(String),
    Program(Vec<OsString>),
    /// As it stands in a file.
    Written,
}

/// A program and its arguments as a [`Worker`], run without a shell. A program without a slash is looked for in `PATH`,
/// one with a relative path in the world.
///
/// ```
/// use noclobber::{Harness, cmd};
///
/// let worker = |id: &str| cmd!("sh", "-c", "echo $0 >> log", id);
/// Harness::new().worker(worker("1")).worker(worker("2")).multiset("log").expect_clean();
/// ```
#[macro_export]
macro_rules! cmd {
    ($program:expr $(, $arg:expr)* $(,)?) => {
        $crate::Worker::program($program)$(.arg($arg))*
    };
}

impl Worker {
    /// A program, without arguments yet.
    pub fn program(program: impl AsRef<OsStr>) -> Self {
        Worker { run: Run::Program(vec![program.as_ref().to_owned()]), table: Table::new() }
    }

    /// A command for `/bin/sh -c`.
    pub fn shell(command: impl Into<String>) -> Self {
        Worker { run: Run::Shell(command.into()), table: Table::new() }
    }

    /// One more argument; for a shell command, one more word.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        match &mut self.run {
            Run::Program(words) => words.push(arg.as_ref().to_owned()),
            Run::Shell(text) => {
                text.push(' ');
                text.push_str(&shell_words::quote(&arg.as_ref().to_string_lossy()));
            }
            Run::Written => {}
        }
        self
    }

    /// Its name, in reports and for [`Delay`](super::Delay), [`Fault`](super::Fault) and [`after`](Worker::after).
    pub fn name(self, name: impl Into<String>) -> Self {
        self.set("name", name.into())
    }

    /// This many copies, called `W.1`, `W.2`, ...; `W` then means each.
    pub fn copies(self, copies: u32) -> Self {
        self.set("count", i64::from(copies))
    }

    /// It starts when this worker has ended.
    pub fn after(mut self, worker: impl Into<String>) -> Self {
        super::document::push(&mut self.table, "after", Value::String(worker.into()));
        self
    }

    /// A variable of its environment.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        super::document::table_at(&mut self.table, "env").insert(name.into(), Value::String(value.into()));
        self
    }

    /// Exit codes that are no failure, instead of 0 alone.
    pub fn exits_with(self, codes: impl IntoIterator<Item = u8>) -> Self {
        let codes: Vec<Value> = codes.into_iter().map(|code| Value::Integer(i64::from(code))).collect();
        self.set("exit", codes)
    }

    /// When it is over.
    pub fn ends(self, ends: Ends) -> Self {
        let word = match ends {
            Ends::Exit => "exit",
            Ends::Idle => "idle",
        };
        self.set("ends", word.to_owned())
    }

    fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.table.insert(key.into(), value.into());
        self
    }

    /// One from a file.
    pub(super) fn written(table: Table) -> Self {
        Worker { run: Run::Written, table }
    }

    /// Its `[[worker]]`; `name` if it has none.
    pub(super) fn table(&self, name: &str) -> Result<Table, String> {
        let mut table = self.table.clone();
        table.entry("name").or_insert_with(|| Value::String(name.to_owned()));
        let text = |word: &OsString| match word.to_str() {
            Some(text) => Ok(Value::String(text.to_owned())),
            None => Err(format!("`run`: the argument {word:?} is not UTF-8")),
        };
        match &self.run {
            Run::Shell(command) => table.insert("run".into(), Value::String(command.clone())),
            Run::Program(words) => {
                table.insert("run".into(), Value::Array(words.iter().map(text).collect::<Result<_, _>>()?))
            }
            Run::Written => None,
        };
        Ok(table)
    }
}

impl From<&str> for Worker {
    fn from(command: &str) -> Self {
        Worker::shell(command)
    }
}

impl From<String> for Worker {
    fn from(command: String) -> Self {
        Worker::shell(command)
    }
}
