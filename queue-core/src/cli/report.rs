//! What the program prints.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::value::RawValue;

use crate::cli::Exit;
use crate::error::Error;
use crate::operation::Push;
use crate::task::Task;

/// A line about one task.
#[derive(Serialize)]
struct Line<'a> {
    op: &'a str,
    outcome: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a RawValue>,
}

impl<'a> Line<'a> {
    fn new(op: &'a str, outcome: &'a str) -> Self {
        Line { op, outcome, id: None, account: None, attempt: None, token: None, state: None, exit: None, task: None }
    }

    fn about(op: &'a str, outcome: &'a str, task: &'a Task) -> Self {
        Line { id: Some(task.id()), account: Some(task.account()), ..Line::new(op, outcome) }
    }
}

/// A push, and whether it changed anything.
pub(super) fn pushed(task: &Task, pushed: &Push) -> Result<(), Error> {
    match pushed {
        Push::Added => print(&Line::about("push", "pushed", task)),
        Push::Present(state) => print(&Line { state: Some(state), ..Line::about("push", "present", task) }),
    }
}

/// An operation on a task that somebody holds or held; `whole` adds the task itself.
pub(super) fn task(op: &str, outcome: &str, task: &Task, whole: bool) -> Result<(), Error> {
    let text = one_line(task.text());
    print(&Line {
        attempt: Some(task.attempts()),
        token: whole.then(|| task.token().to_string()),
        task: if whole { serde_json::from_str(&text).ok() } else { None },
        ..Line::about(op, outcome, task)
    })
}

/// What became of a task that was worked on, and how its command ended.
pub(super) fn worked(outcome: &str, task: &Task, exit: Option<i32>) -> Result<(), Error> {
    print(&Line { attempt: Some(task.attempts()), exit, ..Line::about("work", outcome, task) })
}

/// An operation on the queue as a whole.
pub(super) fn whole(op: &str, outcome: &str) -> Result<(), Error> {
    print(&Line::new(op, outcome))
}

/// Any object.
pub(super) fn object(object: &serde_json::Value) -> Result<(), Error> {
    write(format!("{object}\n").as_bytes())
}

/// There is nothing to claim.
pub(super) fn nothing(op: &str) -> Result<(), Error> {
    print(&Line::new(op, "nothing"))
}

/// The tasks themselves.
pub(super) fn list(tasks: &[Task]) -> Result<(), Error> {
    let mut out = String::new();
    for task in tasks {
        out.push_str(&one_line(task.text()));
        out.push('\n');
    }
    write(out.as_bytes())
}

/// Why the program did not do what it was asked to.
pub(super) fn error(error: &Error, json: bool) {
    complain("error", error, json, Some(Exit::from(error)));
}

/// Something that went wrong though the operation is done.
pub(super) fn warning(error: &Error, json: bool) {
    complain("warning", error, json, None);
}

fn complain(kind: &str, error: &Error, json: bool, exit: Option<Exit>) {
    let line = if json {
        let exit = exit.map_or(String::new(), |exit| format!(",\"exit\":{}", exit as u8));
        format!("{{\"{kind}\":{}{exit}}}\n", crate::json::quoted(&error.to_string()))
    } else {
        format!("queue: {kind}: {error}\n")
    };
    // Nobody is left to be told that standard error cannot be written.
    let _ = io::stderr().write_all(line.as_bytes());
}

fn print(line: &Line<'_>) -> Result<(), Error> {
    let mut text = serde_json::to_string(line).unwrap_or_else(|error| unreachable!("plain fields: {error}"));
    text.push('\n');
    write(text.as_bytes())
}

fn write(bytes: &[u8]) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        // The reader has seen enough; the operation is done.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(|source| Error::Work {
            what: "the operation is done, but cannot write to standard output".into(),
            source,
        }),
    }
}

/// A JSON text without line breaks: in strings they are always escaped, so those that are there are mere space.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}
