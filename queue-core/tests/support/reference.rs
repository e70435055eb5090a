//! What the operations should do, without files, locks or JSON.

use super::ops::{Kind, Op, Outcome, Refusal};

#[derive(Debug, Clone)]
struct Entry {
    id: String,
    account: String,
    claimed: bool,
    attempts: u64,
}

/// One file's tasks, and the ids of those that were completed.
#[derive(Debug, Default)]
struct Tasks {
    list: Vec<Entry>,
    done: Vec<String>,
}

/// A queue as lists in memory: one, or one per account.
#[derive(Debug)]
pub(crate) struct Reference {
    kind: Kind,
    /// By account if sharded, else under the empty name; in the order of the names.
    files: std::collections::BTreeMap<String, Tasks>,
    /// At which file a claim of any account begins.
    round: usize,
}

impl Reference {
    pub(crate) fn new(kind: Kind) -> Self {
        Reference { kind, files: Default::default(), round: 0 }
    }

    pub(crate) fn apply(&mut self, op: &Op) -> Outcome {
        self.try_apply(op).unwrap_or_else(Outcome::Refused)
    }

    fn try_apply(&mut self, op: &Op) -> Result<Outcome, Refusal> {
        Ok(match op {
            Op::Push { id, account } => {
                let new = add(self.files.entry(key(self.kind, account)).or_default(), id, account);
                Outcome::Pushed { id: id.clone(), new }
            }
            Op::Claim { account } => Outcome::Claimed(self.claim(account.as_deref())?),
            Op::Complete { id, account, attempt } => {
                let (tasks, index) = self.held(id, account, *attempt)?;
                tasks.done.push(id.clone());
                Outcome::Completed(tasks.list.remove(index).id)
            }
            Op::Extend { id, account, attempt } => {
                let (tasks, index) = self.held(id, account, *attempt)?;
                // There is no claim to extend, whoever asks.
                if !tasks.list[index].claimed {
                    return Err(Refusal::LeaseLost);
                }
                Outcome::Extended(id.clone())
            }
            Op::Release { id, account, attempt } => {
                let (tasks, index) = self.held(id, account, *attempt)?;
                tasks.list[index].claimed = false;
                Outcome::Released(id.clone())
            }
            Op::Process { account, then_push } => {
                let Some((done, _)) = self.claim(Some(account))? else {
                    return Ok(Outcome::Processed { done: None, pushed: None });
                };
                let tasks = self.file(account)?;
                tasks.list.retain(|task| task.id != done);
                tasks.done.push(done.clone());
                if let Some(next) = then_push {
                    add(tasks, next, account);
                }
                Outcome::Processed { done: Some(done), pushed: then_push.clone() }
            }
            Op::List if self.files.is_empty() => return Err(Refusal::Missing),
            Op::List => {
                let seen = |task: &Entry| {
                    let state = if task.claimed { "claimed" } else { "queued" };
                    (task.id.clone(), state.to_owned(), task.attempts)
                };
                Outcome::Listed(self.files.values().flat_map(|tasks| &tasks.list).map(seen).collect())
            }
        })
    }

    fn file(&mut self, account: &str) -> Result<&mut Tasks, Refusal> {
        self.files.get_mut(&key(self.kind, account)).ok_or(Refusal::Missing)
    }

    fn claim(&mut self, account: Option<&str>) -> Result<Option<(String, u64)>, Refusal> {
        let begin = if account.is_none() { self.round } else { 0 };
        let mut files: Vec<&mut Tasks> = match account {
            Some(account) => vec![self.file(account)?],
            None if self.files.is_empty() => return Err(Refusal::Missing),
            None => self.files.values_mut().collect(),
        };
        let count = files.len();
        for index in (0..count).map(|distance| (begin + distance) % count) {
            let fits = |task: &&mut Entry| !task.claimed && account.is_none_or(|account| account == task.account);
            if let Some(task) = files[index].list.iter_mut().find(fits) {
                task.claimed = true;
                task.attempts += 1;
                let claimed = (task.id.clone(), task.attempts);
                if account.is_none() {
                    self.round = index + 1;
                }
                return Ok(Some(claimed));
            }
        }
        Ok(None)
    }

    fn held(&mut self, id: &str, account: &str, attempt: Option<u64>) -> Result<(&mut Tasks, usize), Refusal> {
        let tasks = self.file(account)?;
        let fits = |task: &Entry| task.id == id && task.account == account;
        let index = tasks.list.iter().position(fits).ok_or(Refusal::UnknownId)?;
        let task = &tasks.list[index];
        match attempt {
            Some(attempt) if !task.claimed || task.attempts != attempt => Err(Refusal::LeaseLost),
            _ => Ok((tasks, index)),
        }
    }
}

fn key(kind: Kind, account: &str) -> String {
    if kind.is_sharded() { account.to_owned() } else { String::new() }
}

fn add(tasks: &mut Tasks, id: &str, account: &str) -> bool {
    if tasks.list.iter().any(|task| task.id == id) || tasks.done.iter().any(|done| done == id) {
        return false;
    }
    tasks.list.push(Entry { id: id.to_owned(), account: account.to_owned(), claimed: false, attempts: 0 });
    true
}
