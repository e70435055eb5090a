//! `queue work`: the worker.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::{Child, Command, Stdio};

use serde_json::value::RawValue;

use super::args::{Common, WorkArgs};
use super::{Exit, operation, push_and_report, report};
use crate::error::Error;
use crate::json::quoted;
use crate::operation::Hold;
use crate::queue::{Claim, Queue, Work};
use crate::storage::{Disk, Storage};
use crate::task::{DEFAULT_ACCOUNT, Task};

/// The longest task that is given to a command as an environment variable; the system takes 128 KiB.
const MAX_VARIABLE: usize = 64 * 1024;

/// How a command ended.
enum Ended {
    /// It succeeded, or there was none to run.
    Well,
    /// It did not; its exit code, or none if a signal ended it.
    Badly(Option<i32>),
}

struct Worker<'a> {
    queue: &'a Queue<Disk>,
    common: &'a Common,
    args: &'a WorkArgs,
    name: String,
}

pub(super) fn run(queue: &Queue<Disk>, common: &Common, args: &WorkArgs) -> Result<Exit, Error> {
    let worker = Worker { queue, common, args, name: common.worker() };
    if args.then_push.is_some() && !args.once && !args.in_memory {
        return Err(Error::Usage("--then-push needs --once or --in-memory".into()));
    }
    if args.command.is_empty() && args.done.is_none() && args.think.is_none() {
        return Err(Error::Usage("nothing to do for a task: give a command after `--`, or --done, or --think".into()));
    }
    // Until the end, whichever it is.
    let _owner = match args.own {
        true => Some(queue.own(args.account.as_deref().unwrap_or(DEFAULT_ACCOUNT), &worker.name)?),
        false => None,
    };
    if args.in_memory { worker.in_memory() } else { worker.claim_and_complete() }
}

impl Worker<'_> {
    /// Claim and completion are two operations, and the queue is free in between.
    fn claim_and_complete(&self) -> Result<Exit, Error> {
        let mut released = Vec::new();
        let mut worked = false;
        loop {
            let claim = self.claim(&released);
            let Some(task) = operation(self.queue, self.common, |queue| queue.claim(&claim))? else {
                break;
            };
            worked = true;
            let id = task.id();
            let account = Some(task.account());
            let hold = Hold::Attempt(task.attempts());
            match self.execute(&task) {
                Ok(Ended::Well) => {
                    let next = self.follow_up(task.account())?;
                    operation(self.queue, self.common, |queue| {
                        queue.complete_and_push(id, account, &hold, next.as_ref())
                    })?;
                    report::worked("completed", &task, None)?;
                }
                Ok(Ended::Badly(exit)) => {
                    let left = operation(self.queue, self.common, |queue| queue.release(id, account, &hold))?;
                    report::worked(super::released(&left), &task, exit)?;
                    released.push(id.to_owned());
                }
                Err(error) => {
                    // The work's own error is the one to report, whether or not the task could be put back.
                    let _ = operation(self.queue, self.common, |queue| queue.release(id, account, &hold));
                    return Err(error);
                }
            }
            if self.args.once {
                return Ok(Exit::Done);
            }
        }
        if worked { Ok(Exit::Done) } else { self.nothing() }
    }

    /// Claim, work and completion are one read-modify-write.
    fn in_memory(&self) -> Result<Exit, Error> {
        let mut ended = Ended::Well;
        let processed = operation(self.queue, self.common, |queue| {
            queue.process(&self.claim(&[]), &mut |task| {
                ended = self.execute(task)?;
                match ended {
                    Ended::Well => self.follow_up(task.account()).map(Work::Done),
                    Ended::Badly(_) => Ok(Work::Failed),
                }
            })
        })?;
        match (processed, ended) {
            (None, _) => return self.nothing(),
            (Some(task), Ended::Well) => report::worked("completed", &task, None)?,
            (Some(task), Ended::Badly(exit)) => report::worked("released", &task, exit)?,
        }
        Ok(Exit::Done)
    }

    /// There was no task at all; a follow-up is pushed all the same.
    fn nothing(&self) -> Result<Exit, Error> {
        report::nothing("work")?;
        let account = self.args.account.as_deref().unwrap_or(DEFAULT_ACCOUNT);
        match self.follow_up(account)? {
            Some(task) => push_and_report(self.queue, self.common, &task).map(|_| Exit::Done),
            None => Ok(Exit::Nothing),
        }
    }

    fn claim<'a>(&'a self, except: &'a [String]) -> Claim<'a> {
        let own = self.args.own.then_some(DEFAULT_ACCOUNT);
        Claim { worker: &self.name, account: self.args.account.as_deref().or(own), lease: self.common.lease, except }
    }

    fn follow_up(&self, account: &str) -> Result<Option<Task>, Error> {
        let task = |id: &String| Task::new(id, account, RawValue::NULL);
        self.args.then_push.as_ref().map(task).transpose()
    }

    /// The work itself: the time it takes, the command, the record.
    fn execute(&self, task: &Task) -> Result<Ended, Error> {
        if let Some(time) = self.args.think {
            self.queue.storage().sleep(time);
        }
        if let [program, arguments @ ..] = &self.args.command[..] {
            let failed = |source| Error::Work { what: format!("cannot run {}", program.display()), source };
            let status = self
                .spawn(program, arguments, task)
                .and_then(|mut child| {
                    give(&mut child, task)?;
                    child.wait()
                })
                .map_err(failed)?;
            if !status.success() {
                return Ok(Ended::Badly(status.code()));
            }
        }
        self.record(task)?;
        Ok(Ended::Well)
    }

    fn spawn(&self, program: &OsString, arguments: &[OsString], task: &Task) -> io::Result<Child> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("QUEUE_TASK_ID", task.id())
            .env("QUEUE_TASK_ACCOUNT", task.account())
            .env("QUEUE_TASK_ATTEMPT", task.attempts().to_string())
            .env("QUEUE_WORKER", &self.name)
            .stdin(Stdio::piped())
            // Standard output is for our own lines.
            .stdout(io::stderr());
        if task.text().len() <= MAX_VARIABLE {
            command.env("QUEUE_TASK", task.text());
        }
        command.spawn()
    }

    fn record(&self, task: &Task) -> Result<(), Error> {
        let Some(path) = &self.args.done else {
            return Ok(());
        };
        let line = format!("{{\"id\":{},\"worker\":{}}}\n", quoted(task.id()), quoted(&self.name));
        let storage = self.queue.storage();
        storage
            .open_append(path)
            .and_then(|mut file| storage.write(&mut file, line.as_bytes()))
            .map_err(|error| Error::io("record the executed task", path, error))
    }
}

/// Gives the command its task; it need not read it.
fn give(child: &mut Child, task: &Task) -> io::Result<()> {
    let Some(mut input) = child.stdin.take() else {
        return Ok(());
    };
    match input.write_all(format!("{}\n", task.text()).as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}
