//! The program `queue`.
//!
//! Standard output has one JSON object a line and nothing else; errors and warnings go to standard error. The exit
//! codes are [`Exit`].
//!
//! When the environment has `NOCLOBBER_WORLD`, the program runs under the harness: it looks up the path
//! `.noclobber/op` at the end of each operation, so that the harness knows where one ends and the next begins.

use std::process::ExitCode;

use clap::Parser;

use crate::error::Error;
use crate::queue::{Claim, Push, Queue};
use crate::storage::{Disk, Storage};
use crate::task::Task;

mod args;
mod report;
mod work;

use args::{Args, Command, Common};

/// What the program's exit code says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// There is nothing to claim, or no task has the id.
    Nothing = 1,
    /// A mistake in the arguments, or a file that is missing, damaged or out of reach.
    Usage = 2,
    /// The lock was not had in time.
    LockTimeout = 3,
    /// The task is no longer held under the claim that was named.
    LeaseLost = 4,
}

impl From<&Error> for Exit {
    fn from(error: &Error) -> Self {
        match error {
            Error::UnknownId { .. } => Exit::Nothing,
            Error::LockTimeout { .. } => Exit::LockTimeout,
            Error::LeaseLost { .. } => Exit::LeaseLost,
            _ => Exit::Usage,
        }
    }
}

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    let args = Args::parse();
    let exit = run(&args).unwrap_or_else(|error| {
        report::error(&error, args.common.json);
        Exit::from(&error)
    });
    ExitCode::from(exit as u8)
}

fn run(args: &Args) -> Result<Exit, Error> {
    let common = &args.common;
    let queue = common.open();
    let worker = common.worker();
    match &args.command {
        Command::Push(push) => {
            let task = push.task(&queue)?;
            let pushed = operation(&queue, common, |queue| queue.push(&task))?;
            report::pushed(&task, pushed)?;
            Ok(Exit::Done)
        }
        Command::Claim { account } => {
            let claim = Claim { worker: &worker, account: account.as_deref(), lease: common.lease, except: &[] };
            match operation(&queue, common, |queue| queue.claim(&claim))? {
                Some(task) => report::task("claim", "claimed", &task, true).map(|()| Exit::Done),
                None => report::nothing("claim").map(|()| Exit::Nothing),
            }
        }
        Command::Complete(which) => {
            let done = |queue: &Queue<Disk>| queue.complete(&which.id, which.account.as_deref(), which.attempt);
            let task = operation(&queue, common, done)?;
            report::task("complete", "completed", &task, false)?;
            Ok(Exit::Done)
        }
        Command::Release(which) => {
            let done = |queue: &Queue<Disk>| queue.release(&which.id, which.account.as_deref(), which.attempt);
            let task = operation(&queue, common, done)?;
            report::task("release", "released", &task, false)?;
            Ok(Exit::Done)
        }
        Command::List { account } => {
            let tasks = operation(&queue, common, |queue| queue.list(account.as_deref()))?;
            report::list(&tasks)?;
            Ok(Exit::Done)
        }
        Command::Work(work) => work::run(&queue, common, work),
    }
}

/// Carries out one operation: warnings are reported, and its end is marked for the harness.
fn operation<T>(
    queue: &Queue<Disk>,
    common: &Common,
    act: impl FnOnce(&Queue<Disk>) -> Result<T, Error>,
) -> Result<T, Error> {
    let done = act(queue);
    for warning in queue.take_warnings() {
        report::warning(&warning, common.json);
    }
    if std::env::var_os("NOCLOBBER_WORLD").is_some() {
        // Only the look-up matters: there is no such file.
        let _ = std::fs::metadata(".noclobber/op");
    }
    done
}

/// Pushes a task as an operation of its own, and reports it.
fn push_and_report(queue: &Queue<Disk>, common: &Common, task: &Task) -> Result<Push, Error> {
    let pushed = operation(queue, common, |queue| queue.push(task))?;
    report::pushed(task, pushed)?;
    Ok(pushed)
}

/// An id for a task that was given none: time, pid and a number, so that no two processes make the same.
fn fresh_id(storage: &Disk) -> String {
    let time = storage.now().strftime("%Y%m%dT%H%M%S.%6fZ");
    format!("{time}-{}-{}", storage.process().pid, storage.serial())
}
