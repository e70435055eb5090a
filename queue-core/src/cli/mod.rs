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
use crate::operation::Push;
use crate::queue::{Claim, Queue};
use crate::storage::{Disk, Storage};
use crate::task::{State, Task};

mod args;
mod bench;
mod doctor;
mod report;
mod revise;
mod serve;
mod stopwatch;
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
            Error::LockTimeout { .. } | Error::LockOwned { .. } | Error::Owned { .. } | Error::NoAnswer { .. } => {
                Exit::LockTimeout
            }
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
    let worker = common.worker();
    match &args.command {
        Command::Update { path, command } => {
            let queue = common.open_at(Some(path.clone()))?;
            return revise::update(&queue, common, command);
        }
        Command::Serve { idle } => return serve::run(common, *idle),
        Command::Migrate { to } => return serve::migrate(common, *to),
        Command::Doctor => return doctor::run(common),
        Command::BenchWorker => return bench::run(common),
        _ => {}
    }
    let queue = common.open()?;
    match &args.command {
        Command::Push(push) => {
            let tasks = push.tasks(&queue)?;
            let pushed = operation(&queue, common, |queue| queue.push_all(&tasks))?;
            tasks.iter().zip(&pushed).try_for_each(|(task, pushed)| report::pushed(task, pushed))?;
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
            let (id, account, hold) = (which.id(), which.account.as_deref(), which.hold(common));
            let task = operation(&queue, common, |queue| queue.complete(id, account, &hold))?;
            report::task("complete", "completed", &task, false).map(|()| Exit::Done)
        }
        Command::Extend(which) => {
            let (id, account, hold) = (which.id(), which.account.as_deref(), which.hold(common));
            let task = operation(&queue, common, |queue| queue.extend(id, account, &hold, common.lease))?;
            report::task("extend", "extended", &task, true).map(|()| Exit::Done)
        }
        Command::Release(which) => {
            let (id, account, hold) = (which.id(), which.account.as_deref(), which.hold(common));
            let task = operation(&queue, common, |queue| queue.release(id, account, &hold))?;
            report::task("release", released(&task), &task, false).map(|()| Exit::Done)
        }
        Command::Revive(which) => {
            let (id, account) = (which.id(), which.account.as_deref());
            let task = operation(&queue, common, |queue| queue.revive(id, account))?;
            report::task("revive", "revived", &task, false).map(|()| Exit::Done)
        }
        Command::Move { id, account, to } => {
            let task = operation(&queue, common, |queue| queue.relocate(id, account, to))?;
            report::task("move", "moved", &task, false).map(|()| Exit::Done)
        }
        Command::List { account, state } => {
            let mut tasks = operation(&queue, common, |queue| queue.list(account.as_deref()))?;
            tasks.retain(|task| state.as_ref().is_none_or(|state| state == task.state().as_str()));
            report::list(&tasks).map(|()| Exit::Done)
        }
        Command::Edit => revise::edit(&queue, common),
        Command::Work(work) => work::run(&queue, common, work),
        Command::Update { .. }
        | Command::Serve { .. }
        | Command::Migrate { .. }
        | Command::Doctor
        | Command::BenchWorker => unreachable!("done above"),
    }
}

/// What became of a task that was released.
fn released(task: &Task) -> &'static str {
    if *task.state() == State::Dead { "dead" } else { "released" }
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
    report::pushed(task, &pushed)?;
    Ok(pushed)
}

/// An id for a task that was given none: time, pid and a number, so that no two processes make the same.
fn fresh_id(storage: &Disk) -> String {
    let time = storage.now().strftime("%Y%m%dT%H%M%S.%6fZ");
    format!("{time}-{}-{}", storage.process().pid, storage.serial())
}
