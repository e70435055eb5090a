//! A queue as a program uses it.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::document::Document;
use crate::error::Error;
use crate::lease::Moment;
use crate::operation::{Context, Hold, Operation, Push, Reply, add, check_account, take_out, write};
use crate::paths::directory_of;
use crate::storage::{LockKind, Storage};
use crate::strategy::{IfMissing, Strategy, Verdict, sharded};
use crate::task::Task;
use crate::transaction::{Access, Change, Durability, Settings, cannot_create};

/// A queue in a file (or, sharded, in a directory).
///
/// Opening it touches nothing; each operation is one read-modify-write of one file. Several processes may work on one
/// queue if they all use the same strategy, and that is not `naive`.
///
/// ```
/// use queue_core::{Claim, Flock, Hold, Queue, Settings, storage::Disk};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("queue.json");
/// let queue = Queue::open(Disk, path, Box::new(Flock::default()), Settings::default());
/// let params = serde_json::value::to_raw_value(&serde_json::json!({"to": "bob"}))?;
/// queue.push(&queue_core::Task::new("t1", "mail", &params)?)?;
///
/// let task = queue.claim(&Claim::by("worker-1"))?.expect("a task is queued");
/// assert_eq!((task.id(), task.attempts()), ("t1", 1));
/// queue.complete("t1", None, &Hold::Attempt(task.attempts()))?;
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
    /// Whether the file system has been looked at.
    looked: Cell<bool>,
    /// At which shard a claim that names no account begins.
    round: Cell<usize>,
}

/// How the work on a task ended.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and not for long")]
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

    fn operation(&self, shard: Option<String>) -> Operation {
        Operation::Claim {
            worker: self.worker.to_owned(),
            account: self.account.map(str::to_owned),
            lease: self.lease,
            except: self.except.to_vec(),
            request: None,
            shard,
        }
    }
}

impl<S: Storage> Queue<S> {
    /// A queue at `path`, which need not exist yet: a push creates it.
    pub fn open(storage: S, path: impl Into<PathBuf>, strategy: Box<dyn Strategy<S>>, settings: Settings) -> Self {
        let (warnings, looked, round) = Default::default();
        Queue { storage, path: path.into(), strategy, settings, warnings, looked, round }
    }

    /// Lets claims that name no account begin at another shard than the first. From one claim to the next they go round
    /// in any case; a program that is started for each claim should choose the beginning.
    pub fn begin_round_at(&self, shard: usize) {
        self.round.set(shard);
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
        let pushed = self.push_all(std::slice::from_ref(task))?;
        pushed.into_iter().next().ok_or_else(|| Error::Remote("the writer answered nothing".into()))
    }

    /// Adds tasks, those of one file in one write. Sharded, each account's are added by themselves, in the order in which
    /// the accounts first occur; if one fails, those before it are in the queue.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_all(&self, tasks: &[Task]) -> Result<Vec<Push>, Error> {
        let mut files: Vec<(PathBuf, Vec<usize>)> = Vec::new();
        for (index, task) in tasks.iter().enumerate() {
            let file = self.strategy.file_for(&self.path, task.account())?;
            match files.iter_mut().find(|(other, _)| *other == file) {
                Some((_, indices)) => indices.push(index),
                None => files.push((file, vec![index])),
            }
        }
        let mut done: Vec<Option<Push>> = vec![None; tasks.len()];
        for (file, indices) in files {
            let tasks = indices.iter().map(|&index| tasks[index].clone()).collect();
            if let Reply::Pushed(pushed) = self.operate(&file, IfMissing::Create, &Operation::Push { tasks })? {
                for (index, pushed) in indices.into_iter().zip(pushed) {
                    done[index] = Some(pushed);
                }
            }
        }
        let answered = done.into_iter().collect::<Option<Vec<_>>>();
        answered.ok_or_else(|| Error::Remote("the writer left a push unanswered".into()))
    }

    /// Gives the first task that fits to a worker. None: there is nothing to claim.
    ///
    /// # Errors
    /// As [`Strategy::update`].
    pub fn claim(&self, claim: &Claim<'_>) -> Result<Option<Task>, Error> {
        let files = self.files_of(claim.account)?;
        for index in self.round(&files) {
            let file = &files[index];
            self.finish_moves(file)?;
            let operation = claim.operation(self.shard_name(file));
            let Reply::Claimed { task, strays } = self.operate(file, IfMissing::Refuse, &operation)? else {
                return Err(Error::Remote("the writer answered another question".into()));
            };
            if !strays.is_empty() {
                self.warnings.borrow_mut().push(Error::Strays { path: file.clone(), ids: strays });
            }
            if task.is_some() {
                self.go_round(claim, index);
                return Ok(task);
            }
        }
        Ok(None)
    }

    /// Takes a finished task out of the queue. Accepted once for each id.
    ///
    /// `hold` is the claim that the work was done under ([`Task::token`] of what [`claim`](Self::claim) gave); once
    /// somebody else has claimed the task it is left alone.
    ///
    /// # Errors
    /// [`Error::UnknownId`], [`Error::AmbiguousId`], [`Error::LeaseLost`]; as [`Strategy::update`].
    pub fn complete(&self, id: &str, account: Option<&str>, hold: &Hold) -> Result<Task, Error> {
        self.complete_and_push(id, account, hold, None)
    }

    /// [`complete`](Self::complete) that also pushes a follow-up task of the same account, in the same write.
    ///
    /// # Errors
    /// As [`complete`](Self::complete); [`Error::BadTask`] for a follow-up of another account.
    pub fn complete_and_push(
        &self,
        id: &str,
        account: Option<&str>,
        hold: &Hold,
        follow_up: Option<&Task>,
    ) -> Result<Task, Error> {
        let (id, account, follow_up) = (id.to_owned(), account.map(str::to_owned), follow_up.cloned());
        self.on_task(Operation::Complete { id, account, hold: hold.clone(), follow_up })
    }

    /// Lets a claim hold for another `lease` from now on; none: until the task is completed or released.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub fn extend(&self, id: &str, account: Option<&str>, hold: &Hold, lease: Option<Duration>) -> Result<Task, Error> {
        let (id, account) = (id.to_owned(), account.map(str::to_owned));
        self.on_task(Operation::Extend { id, account, hold: hold.clone(), lease })
    }

    /// Puts a claimed task back, for any worker to claim; after [`Settings::max_attempts`] claims it is dead instead.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub fn release(&self, id: &str, account: Option<&str>, hold: &Hold) -> Result<Task, Error> {
        let (id, account) = (id.to_owned(), account.map(str::to_owned));
        self.on_task(Operation::Release { id, account, hold: hold.clone() })
    }

    /// Puts a dead task back into the queue, its attempts forgotten.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub fn revive(&self, id: &str, account: Option<&str>) -> Result<Task, Error> {
        self.on_task(Operation::Revive { id: id.to_owned(), account: account.map(str::to_owned) })
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
    /// Those of `execute`; [`Error::BadTask`] for a follow-up of another account; as [`Strategy::update_once`].
    pub fn process(
        &self,
        claim: &Claim<'_>,
        execute: &mut dyn FnMut(&Task) -> Result<Work, Error>,
    ) -> Result<Option<Task>, Error> {
        let files = self.files_of(claim.account)?;
        for index in self.round(&files) {
            let file = &files[index];
            let operation = claim.operation(self.shard_name(file));
            let mut processed = None;
            self.update_once(file, IfMissing::Refuse, &mut |document: &mut Document, moment: &Moment| {
                let context = Context { moment, settings: &self.settings, again: false };
                let (reply, _) = operation.apply(document, context)?;
                let Reply::Claimed { task: Some(task), .. } = reply else {
                    return Ok(Verdict::Keep);
                };
                let ended = execute(&task)?;
                processed = Some(task.clone());
                let Work::Done(follow_up) = ended else {
                    return Ok(Verdict::Keep);
                };
                take_out(document, &task, context);
                let mut ids = vec![task.id()];
                if let Some(next) = &follow_up {
                    check_account(&task, next)?;
                    ids.extend((add(document, next) == Push::Added).then(|| next.id()));
                }
                Ok(write("process", ids))
            })?;
            if processed.is_some() {
                self.go_round(claim, index);
                return Ok(processed);
            }
        }
        Ok(None)
    }

    /// Lets `edit` make another text of the queue file's, while everybody else is kept out. The new text has to be a queue;
    /// its version is set by us. Returns whether there was a change.
    ///
    /// # Errors
    /// Those of `edit`; [`Error::BadFile`] for its result; as [`Strategy::update_once`].
    pub fn edit(&self, op: &'static str, edit: &mut Edit<'_>) -> Result<bool, Error> {
        if self.strategy.is_sharded() {
            return Err(Error::Usage(
                "name the file of one account with --file, and the strategy of the shards".into(),
            ));
        }
        let mut changed = false;
        self.update_once(&self.path, IfMissing::Refuse, &mut |document: &mut Document, _: &Moment| {
            let old = document.to_bytes();
            let new = edit(&old)?;
            let mut edited = self.access().parse(&self.path, &new)?;
            edited.set_version(document.version());
            if edited.to_bytes() == old {
                return Ok(Verdict::Keep);
            }
            changed = true;
            let ids = changed_ids(document, &edited);
            *document = edited;
            Ok(Verdict::Write { op, ids })
        })?;
        Ok(changed)
    }

    /// Takes an account for this worker alone until the returned owner is dropped, or the process ends: a second worker
    /// that does so is refused by name. (Whoever does not ask to own it is not kept out; what keeps single operations
    /// apart is the strategy.)
    ///
    /// # Errors
    /// [`Error::Owned`]; [`Error::NoDirectory`], [`Error::Io`].
    pub fn own(&self, account: &str, worker: &str) -> Result<Owner<S>, Error> {
        let file = self.resolve(&self.strategy.file_for(&self.path, account)?)?;
        let path = crate::paths::beside(&file, ".owner");
        let open = |error| cannot_create(&file, &path, IfMissing::Create, "open the owner's lock", error);
        let mut opened = self.storage.open_lock(&path, LockKind::Flock);
        if self.strategy.is_sharded() && matches!(&opened, Err(error) if error.kind() == std::io::ErrorKind::NotFound) {
            self.access().create_dir(directory_of(&file))?;
            opened = self.storage.open_lock(&path, LockKind::Flock);
        }
        let mut lock = opened.map_err(open)?;
        let failed = |error| Error::io("lock", &path, error);
        if !self.storage.try_lock(&mut lock).map_err(failed)? {
            let note = self.storage.read_note(&mut lock).map_err(failed)?;
            let owner = String::from_utf8_lossy(&note).trim().to_owned();
            let owner = if owner.is_empty() { "another worker".to_owned() } else { owner };
            return Err(Error::Owned { account: account.to_owned(), owner });
        }
        let name: String = worker.chars().filter(|c| !c.is_control()).take(200).collect();
        let note = format!("worker {name}, pid {} of {}", self.storage.process().pid, self.storage.process().host);
        self.storage.write_note(&mut lock, format!("{note:<512}\n").as_bytes()).map_err(failed)?;
        Ok(Owner { _lock: lock })
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

    pub(crate) fn access(&self) -> Access<'_, S> {
        Access::new(&self.storage, &self.settings, &self.warnings)
    }

    pub(crate) fn strategy(&self) -> &dyn Strategy<S> {
        &*self.strategy
    }

    /// The choices that were made for it.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    fn operate(&self, file: &Path, if_missing: IfMissing, operation: &Operation) -> Result<Reply, Error> {
        let file = self.resolve(file)?;
        self.strategy.operate(&self.access(), &file, if_missing, operation)
    }

    pub(crate) fn update_once(&self, file: &Path, if_missing: IfMissing, change: &mut dyn Change) -> Result<(), Error> {
        let file = self.resolve(file)?;
        self.strategy.update_once(&self.access(), &file, if_missing, change)
    }

    /// The file that a path means, looked at for the first time: is this a place for a queue at all?
    pub(crate) fn resolve(&self, file: &Path) -> Result<PathBuf, Error> {
        let resolved = self.storage.resolve(file).map_err(|error| Error::io("find the queue", file, error))?;
        if !self.looked.replace(true) {
            if self.settings.spare && self.settings.durability == Durability::Data {
                return Err(Error::Usage("--spare does not go with --durability data: after a power cut the file may be half of each version; take none or full".into()));
            }
            if !self.settings.network_fs
                && let Ok(system) = self.storage.file_system(directory_of(&resolved))
                && system.remote
            {
                self.looked.set(false);
                return Err(Error::NetworkFileSystem { path: file.to_owned(), name: system.name });
            }
        }
        Ok(resolved)
    }

    /// The files to look into for an account's tasks, or for anybody's.
    fn files_of(&self, account: Option<&str>) -> Result<Vec<PathBuf>, Error> {
        match account {
            Some(account) => Ok(vec![self.strategy.file_for(&self.path, account)?]),
            None => self.strategy.files(&self.storage, &self.path),
        }
    }

    /// The files in the order in which a claim looks into them.
    fn round(&self, files: &[PathBuf]) -> impl Iterator<Item = usize> + use<S> {
        let (begin, count) = (self.round.get(), files.len());
        (0..count).map(move |distance| (begin % count + distance) % count)
    }

    /// The next claim of any account begins after the file that gave a task.
    fn go_round(&self, claim: &Claim<'_>, index: usize) {
        if claim.account.is_none() {
            self.round.set(index + 1);
        }
    }

    /// The name that a file's tasks have to belong to, if each account has a file of its own.
    fn shard_name(&self, file: &Path) -> Option<String> {
        let name = file.file_name().filter(|_| self.strategy.is_sharded())?;
        name.to_str().map(str::to_owned)
    }

    fn on_task(&self, operation: Operation) -> Result<Task, Error> {
        let (Operation::Complete { id, account, .. }
        | Operation::Extend { id, account, .. }
        | Operation::Release { id, account, .. }
        | Operation::Revive { id, account }) = &operation
        else {
            unreachable!("an operation on one task");
        };
        let file = self.file_with(id, account.as_deref())?;
        match self.operate(&file, IfMissing::Refuse, &operation)? {
            Reply::Task(task) => Ok(task),
            _ => Err(Error::Remote("the writer answered another question".into())),
        }
    }

    /// The one file that may hold the task. Only a look ahead: the task may be gone by the time the file is locked.
    fn file_with(&self, id: &str, account: Option<&str>) -> Result<PathBuf, Error> {
        let mut files = self.files_of(account)?;
        if let [_] = files[..] {
            return Ok(files.remove(0));
        }
        let (mut holding, mut done) = (Vec::new(), false);
        for file in files {
            let document = self.strategy.read(&self.access(), &file)?;
            done |= document.done(id).is_some();
            if document.get(id).is_some() {
                holding.push(file);
            }
        }
        match (holding.pop(), holding.is_empty()) {
            (Some(file), true) => Ok(file),
            (None, _) => Err(Error::UnknownId { id: id.to_owned(), done }),
            (Some(file), false) => {
                holding.push(file);
                Err(Error::AmbiguousId { id: id.to_owned(), files: holding })
            }
        }
    }

    /// The name of the shard that holds an account.
    pub(crate) fn shard_of(account: &str) -> Result<String, Error> {
        sharded::file_name(account)
    }
}

/// An account that one worker has for itself, until this is dropped.
#[derive(Debug)]
pub struct Owner<S: Storage> {
    _lock: S::Lock,
}

/// Makes another text of a queue file's.
pub type Edit<'a> = dyn FnMut(&[u8]) -> Result<Vec<u8>, Error> + 'a;

/// The tasks that an edit added, changed or removed.
fn changed_ids(old: &Document, new: &Document) -> Vec<String> {
    let differs = |one: &Document, other: &Document| {
        let changed = one.tasks().iter().filter(|task| other.get(task.id()) != Some(task));
        changed.map(|task| task.id().to_owned()).collect::<Vec<_>>()
    };
    let mut ids = differs(new, old);
    ids.extend(old.tasks().iter().filter(|task| new.get(task.id()).is_none()).map(|task| task.id().to_owned()));
    ids
}
