//! The queue's operations, written once for every strategy and every storage.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use crate::document::Document;
use crate::error::Error;
use crate::storage::Storage;
use crate::strategy::{IfMissing, Strategy, Verdict};
use crate::task::{State, Task};
use crate::transaction::{Access, Settings};

/// A queue in a file (or, sharded, in a directory).
///
/// Opening it touches nothing; each operation is one read-modify-write of one file. Several processes may work on one
/// queue if they all use the same strategy, and that is not `naive`.
///
/// ```
/// use queue_core::{Claim, Flock, Push, Queue, Settings, storage::Disk};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("queue.json");
/// let queue = Queue::open(Disk, path, Box::new(Flock), Settings::default());
/// let params = serde_json::value::to_raw_value(&serde_json::json!({"to": "bob"}))?;
/// queue.push(&queue_core::Task::new("t1", "mail", &params)?)?;
///
/// let task = queue.claim(&Claim::by("worker-1"))?.expect("a task is queued");
/// assert_eq!((task.id(), task.attempts()), ("t1", 1));
/// queue.complete("t1", None, Some(task.attempts()))?;
/// assert!(queue.list(None)?.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Queue<S: Storage> {
    storage: S,
    path: PathBuf,
    strategy: Box<dyn Strategy<S>>,
    settings: Settings,
    warnings: RefCell<Vec<Error>>,
}

/// What a push did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Push {
    /// The task is in the queue now.
    Added,
    /// A task with this id was there already and was left as it is: pushing again does no harm.
    Present,
}

/// How the work on a task ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// It is done: the task is to be taken out, and perhaps another one pushed.
    Done(Option<Task>),
    /// It is not: the task stays as it was.
    Failed,
}

/// Which task a worker wants, and on which terms.
#[derive(Debug, Clone, Default)]
pub struct Claim<'a> {
    /// The worker's name, for the file.
    pub worker: &'a str,
    /// Only tasks of this account; none: of any.
    pub account: Option<&'a str>,
    /// For how long the claim holds; none: until it is completed or released.
    pub lease: Option<Duration>,
    /// Tasks that the worker does not want.
    pub except: &'a [String],
}

impl<'a> Claim<'a> {
    /// A claim of any task, without a lease.
    pub fn by(worker: &'a str) -> Self {
        Claim { worker, ..Claim::default() }
    }

    fn fits(&self, task: &Task, now: Timestamp) -> bool {
        task.is_claimable(now)
            && self.account.is_none_or(|account| account == task.account())
            && !self.except.iter().any(|id| id == task.id())
    }

    fn lease_until(&self, now: Timestamp) -> Option<Timestamp> {
        // A lease beyond the end of time is one that never ends.
        self.lease.and_then(|lease| now.checked_add(lease).ok())
    }
}

impl<S: Storage> Queue<S> {
    /// A queue at `path`, which need not exist yet: a push creates it.
    pub fn open(storage: S, path: impl Into<PathBuf>, strategy: Box<dyn Strategy<S>>, settings: Settings) -> Self {
        Queue { storage, path: path.into(), strategy, settings, warnings: RefCell::default() }
    }

    /// Where the queue is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The storage it is on.
    pub fn storage(&self) -> &S {
        &self.storage
    }

    /// What went wrong after operations that have nevertheless happened, since this was last asked: evidence that
    /// could not be written.
    pub fn take_warnings(&self) -> Vec<Error> {
        self.warnings.take()
    }

    /// Adds a task at the end of its account's file.
    ///
    /// # Errors
    /// As [`Strategy::update`]; a queue that does not exist is created, its directory is not.
    pub fn push(&self, task: &Task) -> Result<Push, Error> {
        let file = self.strategy.file_for(&self.path, task.account())?;
        let mut done = Push::Present;
        self.update(&file, IfMissing::Create, &mut |document| {
            done = add(document, task);
            Ok(match done {
                Push::Added => write("push", [task.id()]),
                Push::Present => Verdict::Keep,
            })
        })?;
        Ok(done)
    }

    /// Gives the first task that fits to a worker. None: there is nothing to claim.
    ///
    /// # Errors
    /// As [`Strategy::update`].
    pub fn claim(&self, claim: &Claim<'_>) -> Result<Option<Task>, Error> {
        for file in self.files_of(claim.account)? {
            let mut claimed = None;
            self.update(&file, IfMissing::Refuse, &mut |document| {
                claimed = self.claim_in(document, claim);
                Ok(match &claimed {
                    Some(task) => write("claim", [task.id()]),
                    None => Verdict::Keep,
                })
            })?;
            if claimed.is_some() {
                return Ok(claimed);
            }
        }
        Ok(None)
    }

    /// Takes a finished task out of the queue.
    ///
    /// `attempt` is the claim that the work was done under ([`Task::attempts`] of what [`claim`](Self::claim) gave). A
    /// worker should always name it: then a task that somebody else has claimed since is left alone. Without it the
    /// task is taken out in whatever state it is.
    ///
    /// # Errors
    /// [`Error::UnknownId`], [`Error::AmbiguousId`], [`Error::LeaseLost`]; as [`Strategy::update`].
    pub fn complete(&self, id: &str, account: Option<&str>, attempt: Option<u64>) -> Result<Task, Error> {
        self.complete_and_push(id, account, attempt, None)
    }

    /// [`complete`](Self::complete) that also pushes a follow-up task of the same account, in the same write.
    ///
    /// # Errors
    /// As [`complete`](Self::complete); [`Error::BadTask`] for a follow-up of another account.
    pub fn complete_and_push(
        &self,
        id: &str,
        account: Option<&str>,
        attempt: Option<u64>,
        follow_up: Option<&Task>,
    ) -> Result<Task, Error> {
        self.on_claimed(id, account, attempt, |document| {
            let Some(task) = document.remove(id) else {
                return Ok((None, Verdict::Keep));
            };
            let added = add_follow_up(document, &task, follow_up)?;
            let verdict = write("complete", [id].into_iter().chain(added));
            Ok((Some(task), verdict))
        })
    }

    /// Puts a claimed task back, for any worker to claim.
    ///
    /// # Errors
    /// As [`complete`](Self::complete); a task that nobody holds is [`Error::LeaseLost`] if an `attempt` is named, and
    /// left as it is otherwise.
    pub fn release(&self, id: &str, account: Option<&str>, attempt: Option<u64>) -> Result<Task, Error> {
        self.on_claimed(id, account, attempt, |document| {
            let Some(task) = document.find_mut(|task| task.id() == id) else {
                return Ok((None, Verdict::Keep));
            };
            if *task.state() != State::Claimed {
                return Ok((Some(task.clone()), Verdict::Keep));
            }
            task.release();
            Ok((Some(task.clone()), write("release", [id])))
        })
    }

    /// Claims a task, has it executed and takes it out, all in **one** read-modify-write: the file is read before the
    /// work and written after it.
    ///
    /// This is how the workers of the incident went about it. Under `naive` everything that others write in the
    /// meantime is taken back; under a lock they wait until the work is done. `execute` gets the claimed task; a
    /// follow-up that it returns is pushed in the same write. If it fails nothing is written, and the task is still
    /// queued. Returned is the task that was worked on; none: there is nothing to claim.
    ///
    /// # Errors
    /// Those of `execute`; [`Error::BadTask`] for a follow-up of another account; as [`Strategy::update`].
    pub fn process(
        &self,
        claim: &Claim<'_>,
        execute: &mut dyn FnMut(&Task) -> Result<Work, Error>,
    ) -> Result<Option<Task>, Error> {
        for file in self.files_of(claim.account)? {
            let mut processed = None;
            self.update(&file, IfMissing::Refuse, &mut |document| {
                processed = self.claim_in(document, claim);
                let Some(task) = &processed else {
                    return Ok(Verdict::Keep);
                };
                let Work::Done(follow_up) = execute(task)? else {
                    return Ok(Verdict::Keep);
                };
                document.remove(task.id());
                let added = add_follow_up(document, task, follow_up.as_ref())?;
                Ok(write("process", [task.id()].into_iter().chain(added)))
            })?;
            if processed.is_some() {
                return Ok(processed);
            }
        }
        Ok(None)
    }

    /// All tasks, or those of one account, without waiting for anybody. Sharded, each account's file is read at its own
    /// moment.
    ///
    /// # Errors
    /// As [`Strategy::read`].
    pub fn list(&self, account: Option<&str>) -> Result<Vec<Task>, Error> {
        let mut tasks = Vec::new();
        for file in self.files_of(account)? {
            let document = self.strategy.read(&self.access(), &file)?;
            let of_account = |task: &&Task| account.is_none_or(|account| account == task.account());
            tasks.extend(document.tasks().iter().filter(of_account).cloned());
        }
        Ok(tasks)
    }

    fn access(&self) -> Access<'_, S> {
        Access::new(&self.storage, &self.settings, &self.warnings)
    }

    fn update(
        &self,
        file: &Path,
        if_missing: IfMissing,
        change: &mut crate::strategy::Change<'_>,
    ) -> Result<(), Error> {
        self.strategy.update(&self.access(), file, if_missing, change)
    }

    /// The files to look into for an account's tasks, or for anybody's.
    fn files_of(&self, account: Option<&str>) -> Result<Vec<PathBuf>, Error> {
        match account {
            Some(account) => Ok(vec![self.strategy.file_for(&self.path, account)?]),
            None => self.strategy.files(&self.storage, &self.path),
        }
    }

    fn claim_in(&self, document: &mut Document, claim: &Claim<'_>) -> Option<Task> {
        let now = self.storage.now();
        let task = document.find_mut(|task| claim.fits(task, now))?;
        task.claim(claim.worker, claim.lease_until(now));
        Some(task.clone())
    }

    /// Changes the task `id` by `act`, if it is held under `attempt`.
    fn on_claimed(
        &self,
        id: &str,
        account: Option<&str>,
        attempt: Option<u64>,
        mut act: impl FnMut(&mut Document) -> Result<(Option<Task>, Verdict), Error>,
    ) -> Result<Task, Error> {
        let unknown = || Error::UnknownId { id: id.to_owned(), path: self.path.clone() };
        let mut changed = None;
        let file = self.file_with(id, account)?.ok_or_else(unknown)?;
        self.update(&file, IfMissing::Refuse, &mut |document| {
            let of_account = |task: &&Task| account.is_none_or(|account| account == task.account());
            let task = document.get(id).filter(of_account).ok_or_else(unknown)?;
            check_attempt(task, attempt)?;
            let (task, verdict) = act(document)?;
            changed = task;
            Ok(verdict)
        })?;
        changed.ok_or_else(unknown)
    }

    /// The one file that may hold the task. Only a look ahead: the task may be gone by the time the file is locked.
    fn file_with(&self, id: &str, account: Option<&str>) -> Result<Option<PathBuf>, Error> {
        let mut files = self.files_of(account)?;
        if files.len() <= 1 {
            return Ok(files.pop());
        }
        let mut holding = Vec::new();
        for file in files {
            if self.strategy.read(&self.access(), &file)?.get(id).is_some() {
                holding.push(file);
            }
        }
        match holding.len() {
            0 | 1 => Ok(holding.pop()),
            _ => Err(Error::AmbiguousId { id: id.to_owned(), files: holding }),
        }
    }
}

/// A claim is lost once the task is no longer claimed, or claimed again.
fn check_attempt(task: &Task, attempt: Option<u64>) -> Result<(), Error> {
    let Some(attempt) = attempt else {
        return Ok(());
    };
    if *task.state() == State::Claimed && task.attempts() == attempt {
        return Ok(());
    }
    let now = match (task.state(), task.worker()) {
        (State::Claimed, Some(worker)) => {
            format!("claim number {} by {worker} does", task.attempts())
        }
        (State::Claimed, None) => format!("claim number {} does", task.attempts()),
        (state, _) => format!("it is {}", state.as_str()),
    };
    Err(Error::LeaseLost { id: task.id().to_owned(), attempt, now })
}

fn add(document: &mut Document, task: &Task) -> Push {
    if document.get(task.id()).is_some() {
        return Push::Present;
    }
    document.push(task.clone());
    Push::Added
}

/// Adds a task that follows from `done`; its id, if it is new. Sharded, another account's tasks are in another file.
fn add_follow_up<'a>(
    document: &mut Document,
    done: &Task,
    follow_up: Option<&'a Task>,
) -> Result<Option<&'a str>, Error> {
    let Some(next) = follow_up else {
        return Ok(None);
    };
    if next.account() != done.account() {
        return Err(Error::BadTask {
            what: "account",
            value: next.account().to_owned(),
            reason: format!("a follow-up of {:?} must be of its account {:?}", done.id(), done.account()),
        });
    }
    Ok((add(document, next) == Push::Added).then(|| next.id()))
}

fn write<'a>(op: &'static str, ids: impl IntoIterator<Item = &'a str>) -> Verdict {
    Verdict::Write { op, ids: ids.into_iter().map(str::to_owned).collect() }
}
