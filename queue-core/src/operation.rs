//! The queue's operations as data: what is asked, what it does to a document, and what is answered.
//!
//! They are written once for every strategy. As data they can be sent to another process, and repeated on a newer
//! document.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::error::Error;
use crate::lease::{Deadline, Moment};
use crate::quick::Quick;
use crate::splice::Proven;
use crate::strategy::Verdict;
use crate::task::{State, Task};
use crate::transaction::{Change, Changed, Settings};

/// What a push did with one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Push {
    /// It is in the queue now.
    Added,
    /// A task with this id is there already, in the state named, or was completed lately (`done`). It was left as it is:
    /// pushing again does no harm.
    Present(String),
}

/// Under which claim somebody wants to complete, extend or release a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hold {
    /// The claim of this number ([`Token::attempt`](crate::Token::attempt)).
    Attempt(u64),
    /// The claim of this worker.
    Worker(String),
    /// Whatever claim there is, or none: for a person who tidies up. A worker must not use it, since it would act on
    /// somebody else's claim after its own has run out.
    Any,
}

/// One operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Operation {
    /// Add tasks, all of one file.
    Push {
        /// The tasks, in order.
        tasks: Vec<Task>,
    },
    /// Give the first task that fits to a worker.
    Claim {
        /// The worker's name.
        worker: String,
        /// Only tasks of this account.
        account: Option<String>,
        /// For how long.
        lease: Option<Duration>,
        /// Not these.
        except: Vec<String>,
        /// The number of the request: a task that it has been given already is given again.
        request: Option<String>,
        /// The shard's file name, if only tasks belong there whose account has it.
        shard: Option<String>,
    },
    /// Take a task out that is done.
    Complete {
        /// Its id.
        id: String,
        /// Its account.
        account: Option<String>,
        /// Under which claim.
        hold: Hold,
        /// A task to push in the same write.
        follow_up: Option<Task>,
    },
    /// Let a claim hold longer.
    Extend {
        /// The task's id.
        id: String,
        /// Its account.
        account: Option<String>,
        /// Under which claim.
        hold: Hold,
        /// For how long from now; none: until it is completed or released.
        lease: Option<Duration>,
    },
    /// Give a task back.
    Release {
        /// Its id.
        id: String,
        /// Its account.
        account: Option<String>,
        /// Under which claim.
        hold: Hold,
    },
    /// Put a dead task back into the queue, its attempts forgotten.
    Revive {
        /// Its id.
        id: String,
        /// Its account.
        account: Option<String>,
    },
}

/// The answer to an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// What was done with each of the pushed tasks.
    Pushed(Vec<Push>),
    /// The task that was given.
    Claimed {
        /// None: there is nothing to claim.
        task: Option<Task>,
        /// Tasks that were passed over because their account has another file.
        strays: Vec<String>,
    },
    /// The task as it is now, or was last.
    Task(Task),
}

/// What an operation needs to know besides the document.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The present moment.
    pub moment: &'a Moment,
    /// The queue's rules.
    pub settings: &'a Settings,
    /// Whether this was asked before and not answered: whoever should have answered died, before or after it wrote. Then
    /// what was done under this very claim counts as done by us.
    pub again: bool,
}

impl Operation {
    /// Carries the operation out.
    ///
    /// # Errors
    /// [`Error::UnknownId`], [`Error::LeaseLost`], [`Error::BadTask`]; the document is then not to be written.
    pub fn apply(&self, document: &mut Document, context: Context<'_>) -> Result<(Reply, Verdict), Error> {
        match self {
            Operation::Push { tasks } => Ok(push(document, tasks)),
            Operation::Claim { .. } => Ok(self.claim(document, context)),
            Operation::Complete { id, account, hold, follow_up } => {
                if let Some(reply) = completed_before(document, id, hold, context.again) {
                    return Ok((reply, Verdict::Keep));
                }
                let task = held(document, id, account.as_deref(), hold)?.clone();
                if let Some(next) = follow_up {
                    check_account(&task, next)?;
                }
                take_out(document, &task, context);
                let added = follow_up.as_ref().filter(|next| add(document, next) == Push::Added);
                let ids = [&**id].into_iter().chain(added.map(Task::id));
                Ok((Reply::Task(task.clone()), write("complete", ids)))
            }
            Operation::Extend { id, account, hold, lease } => {
                let task = held(document, id, account.as_deref(), hold)?;
                if *task.state() != State::Claimed {
                    return Err(lease_lost(task, hold));
                }
                task.extend(lease.and_then(|lease| Deadline::after(context.moment, lease)));
                Ok((Reply::Task(task.clone()), write("extend", [&**id])))
            }
            Operation::Release { id, account, hold } => {
                let again =
                    context.again && matches!(hold, Hold::Attempt(attempt) if is_released(document, id, *attempt));
                let task = held(document, id, account.as_deref(), if again { &Hold::Any } else { hold })?;
                if *task.state() != State::Claimed {
                    return Ok((Reply::Task(task.clone()), Verdict::Keep));
                }
                task.give_back(context.settings);
                Ok((Reply::Task(task.clone()), write("release", [&**id])))
            }
            Operation::Revive { id, account } => {
                let task = held(document, id, account.as_deref(), &Hold::Any)?;
                if *task.state() != State::Dead {
                    return Ok((Reply::Task(task.clone()), Verdict::Keep));
                }
                task.revive();
                Ok((Reply::Task(task.clone()), write("revive", [&**id])))
            }
        }
    }

    fn claim(&self, document: &mut Document, context: Context<'_>) -> (Reply, Verdict) {
        if let Operation::Claim { request: Some(request), .. } = self
            && let Some(task) = document.tasks().iter().find(|task| task.is_claimed_by(request))
        {
            return (Reply::Claimed { task: Some(task.clone()), strays: Vec::new() }, Verdict::Keep);
        }
        let (mut claimed, mut strays, mut changed) = (None, Vec::new(), Vec::new());
        for task in document.tasks_mut() {
            match self.meet(task, context) {
                Met::Passed => {}
                Met::Stray => strays.push(task.id().to_owned()),
                Met::Buried => changed.push(task.id().to_owned()),
                Met::Claimed => {
                    changed.push(task.id().to_owned());
                    claimed = Some(task.clone());
                    break;
                }
            }
        }
        let verdict = Self::claim_verdict(claimed.is_some(), changed);
        (Reply::Claimed { task: claimed, strays }, verdict)
    }

    /// What a claim does with a task that it meets on its way through the queue.
    pub(crate) fn meet(&self, task: &mut Task, context: Context<'_>) -> Met {
        let Operation::Claim { worker, account, lease, except, request, shard } = self else {
            unreachable!("asked of a claim alone");
        };
        if !task.is_claimable(context.moment)
            || account.as_ref().is_some_and(|account| account != task.account())
            || except.iter().any(|id| id == task.id())
        {
            return Met::Passed;
        }
        if shard.as_ref().is_some_and(|shard| !crate::strategy::sharded::is_home(shard, task.account())) {
            return Met::Stray;
        }
        // Its last worker has not come back, and it has had its chances.
        if context.settings.is_worn_out(task.attempts()) {
            task.bury();
            return Met::Buried;
        }
        let deadline = lease.and_then(|lease| Deadline::after(context.moment, lease));
        task.claim(worker, deadline, request.as_deref());
        Met::Claimed
    }

    /// What is to be written after a claim that has changed these tasks.
    pub(crate) fn claim_verdict(claimed: bool, changed: Vec<String>) -> Verdict {
        match (claimed, changed.is_empty()) {
            (_, true) => Verdict::Keep,
            (true, false) => Verdict::Write { op: "claim", ids: changed },
            (false, false) => Verdict::Write { op: "bury", ids: changed },
        }
    }
}

/// What became of a task that a claim met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Met {
    /// Not for this worker, or not now.
    Passed,
    /// Its account has another file.
    Stray,
    /// It has had its chances.
    Buried,
    /// It is the worker's.
    Claimed,
}

/// Takes a finished task out and remembers that it is done.
pub(crate) fn take_out(document: &mut Document, task: &Task, context: Context<'_>) {
    document.remove(task.id());
    let Settings { done_keep, done_age, .. } = *context.settings;
    document.finish(&task.token(), context.moment.now, done_keep, done_age);
}

fn push(document: &mut Document, tasks: &[Task]) -> (Reply, Verdict) {
    let done = add_all(document, tasks);
    let added: Vec<_> = tasks.iter().zip(&done).filter(|(_, done)| **done == Push::Added).collect();
    let verdict = match added.is_empty() {
        true => Verdict::Keep,
        false => write("push", added.iter().map(|(task, _)| task.id())),
    };
    (Reply::Pushed(done), verdict)
}

/// Adds tasks, each as [`add`] does. Many are looked up in an index: to go through the queue for each is quadratic.
fn add_all(document: &mut Document, tasks: &[Task]) -> Vec<Push> {
    if tasks.len() <= FEW {
        return tasks.iter().map(|task| add(document, task)).collect();
    }
    let done = document.done_ids().map(|id| (id.to_owned(), "done".to_owned()));
    let mut present: HashMap<String, String> = done.collect();
    // Backwards, so that of two with one id the first stays, as when it is looked up.
    let queued = document.tasks().iter().rev();
    present.extend(queued.map(|task| (task.id().to_owned(), task.state().as_str().to_owned())));
    let mut all = Vec::with_capacity(tasks.len());
    for task in tasks {
        all.push(match present.get(task.id()) {
            Some(state) => Push::Present(state.clone()),
            None => {
                present.insert(task.id().to_owned(), task.state().as_str().to_owned());
                document.push(task.clone());
                Push::Added
            }
        });
    }
    all
}

/// Up to so many ids are looked up one by one.
const FEW: usize = 8;

/// Adds a task, unless its id is there or was lately.
pub(crate) fn add(document: &mut Document, task: &Task) -> Push {
    if let Some(present) = document.get(task.id()) {
        return Push::Present(present.state().as_str().to_owned());
    }
    if document.done(task.id()).is_some() {
        return Push::Present("done".to_owned());
    }
    document.push(task.clone());
    Push::Added
}

fn completed_before(document: &Document, id: &str, hold: &Hold, again: bool) -> Option<Reply> {
    let (Hold::Attempt(attempt), true, None) = (hold, again, document.get(id)) else {
        return None;
    };
    document.done(id).filter(|done| done.attempt() == Some(*attempt))?;
    Some(Reply::Task(Task::remembered(id, *attempt)))
}

/// Whether the claim of this number was given back, and there was none since.
fn is_released(document: &Document, id: &str, attempt: u64) -> bool {
    document.get(id).is_some_and(|task| *task.state() != State::Claimed && task.attempts() == attempt)
}

/// The task, if it is held as the caller says.
fn held<'a>(document: &'a mut Document, id: &str, account: Option<&str>, hold: &Hold) -> Result<&'a mut Task, Error> {
    let done = document.done(id).is_some();
    let of_account = |task: &Task| account.is_none_or(|account| account == task.account());
    let task = document
        .find_mut(|task| task.id() == id && of_account(task))
        .ok_or_else(|| Error::UnknownId { id: id.to_owned(), done })?;
    if holds(task, hold) { Ok(task) } else { Err(lease_lost(task, hold)) }
}

/// Whether a task is held as the caller says.
pub(crate) fn holds(task: &Task, hold: &Hold) -> bool {
    let claimed = *task.state() == State::Claimed;
    match hold {
        Hold::Attempt(attempt) => claimed && task.attempts() == *attempt,
        Hold::Worker(worker) => claimed && task.worker() == Some(worker),
        Hold::Any => true,
    }
}

/// A claim is lost once the task is no longer claimed, or claimed again.
fn lease_lost(task: &Task, hold: &Hold) -> Error {
    let now = match (task.state(), task.worker()) {
        (State::Claimed, Some(worker)) => format!("claim number {} by {worker} does", task.attempts()),
        (State::Claimed, None) => format!("claim number {} does", task.attempts()),
        (state, _) => format!("it is {}", state.as_str()),
    };
    let claim = match hold {
        Hold::Attempt(attempt) => format!("claim number {attempt}"),
        Hold::Worker(worker) => format!("the claim of {worker}"),
        Hold::Any => "a claim".to_owned(),
    };
    Error::LeaseLost { id: task.id().to_owned(), claim, now }
}

/// A follow-up goes into the same write, so it must be of the same account: sharded, another one has another file.
pub(crate) fn check_account(done: &Task, next: &Task) -> Result<(), Error> {
    if next.account() == done.account() {
        return Ok(());
    }
    Err(Error::BadTask {
        what: "account",
        value: next.account().to_owned(),
        reason: format!("a follow-up of {:?} must be of its account {:?}", done.id(), done.account()),
    })
}

pub(crate) fn write<'a>(op: &'static str, ids: impl IntoIterator<Item = &'a str>) -> Verdict {
    Verdict::Write { op, ids: ids.into_iter().map(str::to_owned).collect() }
}

/// An operation on its way through a strategy.
#[derive(Debug)]
pub(crate) struct Operate<'a> {
    operation: &'a Operation,
    settings: &'a Settings,
    again: bool,
    reply: Option<Reply>,
}

impl<'a> Operate<'a> {
    pub(crate) fn new(operation: &'a Operation, settings: &'a Settings) -> Self {
        Operate { operation, settings, again: false, reply: None }
    }

    /// Says whether this may have been done before.
    pub(crate) fn again(mut self, again: bool) -> Self {
        self.again = again;
        self
    }

    /// The answer, once the change has been made.
    pub(crate) fn reply(self) -> Reply {
        self.reply.unwrap_or_else(|| unreachable!("a strategy makes the change, or fails"))
    }
}

impl Change for Operate<'_> {
    fn apply(&mut self, document: &mut Document, moment: &Moment) -> Result<Verdict, Error> {
        let (reply, verdict) =
            self.operation.apply(document, Context { moment, settings: self.settings, again: self.again })?;
        self.reply = Some(reply);
        Ok(verdict)
    }

    fn quick(&mut self, text: &Proven<'_>, moment: &dyn Fn() -> Moment) -> Option<Changed> {
        let Quick { reply, verdict, edit } = self.operation.quick(text, moment, self.settings, self.again)?;
        let changed = match verdict {
            Verdict::Keep => Changed::Nothing,
            Verdict::Write { op, ids } => Changed::Text { text: text.edit(&edit, 1)?, op, ids },
        };
        self.reply = Some(reply);
        Some(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    proptest! {
        #[test]
        fn many_are_added_as_one_by_one(ids in prop::collection::vec(0..30u8, FEW + 1..60)) {
            let known = br#"{"version":1,"tasks":[{"id":"t1","account":"a","params":1,"state":"claimed","attempts":1},
                {"id":"t2","account":"a","params":1,"state":"dead","attempts":3}],
                "done":[{"id":"t3","at":"2026-11-30T00:00:00Z","attempt":1},{"id":"t1","at":"2026-11-30T00:00:00Z"}]}"#;
            let params = RawValue::from_string("1".into()).unwrap();
            let task = |id: &u8| Task::new(&format!("t{id}"), "a", &params).unwrap();
            let tasks: Vec<Task> = ids.iter().map(task).collect();
            let (mut together, mut apart) = (Document::parse(known).unwrap(), Document::parse(known).unwrap());
            let done = add_all(&mut together, &tasks);
            let one_by_one: Vec<Push> = tasks.iter().map(|task| add(&mut apart, task)).collect();
            prop_assert_eq!(done, one_by_one);
            prop_assert_eq!(together.to_bytes(), apart.to_bytes());
        }
    }

    #[test]
    fn operations_and_answers_survive_being_sent() {
        let params = RawValue::from_string(r#"{"n":123456789012345678901234567890,"a":1.10}"#.into()).unwrap();
        let task = Task::new("t\"1", "a", &params).unwrap();
        let operations = [
            Operation::Push { tasks: vec![task.clone()] },
            Operation::Complete {
                id: "t".into(),
                account: None,
                hold: Hold::Attempt(3),
                follow_up: Some(task.clone()),
            },
            Operation::Release { id: "t".into(), account: Some("a".into()), hold: Hold::Worker("w".into()) },
        ];
        for operation in operations {
            let sent = serde_json::to_string(&operation).unwrap();
            let read: Operation = serde_json::from_str(&sent).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), sent);
        }
        for reply in [
            Reply::Pushed(vec![Push::Added, Push::Present("done".into())]),
            Reply::Claimed { task: Some(task.clone()), strays: vec!["x".into()] },
            Reply::Task(task),
        ] {
            let sent = serde_json::to_string(&reply).unwrap();
            assert_eq!(serde_json::from_str::<Reply>(&sent).unwrap(), reply);
        }
    }
}
