//! Moving a task from one account to another, where each account has a file of its own.
//!
//! Two files cannot be written at once. Both are locked, in the order of their names; then the task is written into the
//! target, marked with where it comes from and not to be claimed; then it is taken out of the source; then the mark goes.
//! So at no moment it is in neither, and at none it can be claimed from both. If the mover dies in between, whoever comes
//! to claim from the target next finds the mark and decides under both locks: as long as the source still has the task it
//! has the last word.

use std::path::Path;

use crate::document::Document;
use crate::error::Error;
use crate::lease::Moment;
use crate::operation::write;
use crate::queue::Queue;
use crate::storage::Storage;
use crate::strategy::{Guard, IfMissing, Verdict};
use crate::task::{State, Task};
use crate::transaction::locked;

impl<S: Storage> Queue<S> {
    /// Moves a queued task from one account to another. Returns it as it is then.
    ///
    /// # Errors
    /// [`Error::Usage`] if both accounts share a file; [`Error::UnknownId`]; [`Error::LeaseLost`] for a task that is not
    /// queued; [`Error::BadTask`] if the target has a task of this id; as
    /// [`Strategy::enter`](crate::strategy::Strategy::enter).
    pub fn relocate(&self, id: &str, from: &str, to: &str) -> Result<Task, Error> {
        let source = self.strategy().file_for(self.path(), from)?;
        let target = self.strategy().file_for(self.path(), to)?;
        if source == target {
            return Err(Error::Usage("move needs --strategy sharded and two accounts".into()));
        }
        let mut moved = None;
        self.with_both(&source, &target, &mut |both| {
            let mut task = None;
            both.source(&mut |document, _| {
                let found = document.get(id).ok_or_else(|| Error::UnknownId { id: id.to_owned(), done: false })?;
                if *found.state() != State::Queued || found.moved_from().is_some() {
                    let (claim, now) = ("queued: it".to_owned(), format!("it is {}", found.state().as_str()));
                    return Err(Error::LeaseLost { id: id.to_owned(), claim, now });
                }
                task = Some(found.moved(to));
                Ok(Verdict::Keep)
            })?;
            let Some(task) = task.take() else {
                return Ok(());
            };
            both.target(IfMissing::Create, &mut |document, _| {
                if document.get(id).is_some() {
                    return Err(Error::BadTask {
                        what: "task id",
                        value: id.to_owned(),
                        reason: format!("account {to:?} has a task of this id already"),
                    });
                }
                document.push(task.clone());
                Ok(write("move", [id]))
            })?;
            both.source(&mut |document, _| {
                document.remove(id);
                Ok(write("move", [id]))
            })?;
            both.target(IfMissing::Refuse, &mut |document, _| {
                let Some(task) = document.find_mut(|task| task.id() == id) else {
                    return Ok(Verdict::Keep);
                };
                task.arrive();
                moved = Some(task.clone());
                Ok(write("move", [id]))
            })
        })?;
        moved.ok_or_else(|| Error::UnknownId { id: id.to_owned(), done: false })
    }

    /// Ends the moves into a file whose movers have died.
    pub(crate) fn finish_moves(&self, target: &Path) -> Result<(), Error> {
        if !self.strategy().is_sharded() {
            return Ok(());
        }
        // A look without a lock, as a rule the only one.
        if self.access().lacks_key(target, "moved_from") {
            return Ok(());
        }
        let marked: Vec<(String, String)> = match self.strategy().read(&self.access(), target) {
            Ok(document) => {
                let marked = document.tasks().iter().filter_map(|task| Some((task.id(), task.moved_from()?)));
                marked.map(|(id, from)| (id.to_owned(), from.to_owned())).collect()
            }
            // Whatever it is, the operation itself meets it too, and says so.
            Err(_) => return Ok(()),
        };
        for (id, from) in marked {
            let source = self.path().join(Queue::<S>::shard_of(&from)?);
            self.with_both(&source, target, &mut |both| {
                let mut left = false;
                let looked = both.source(&mut |document, _| {
                    left = document.get(&id).is_some();
                    Ok(Verdict::Keep)
                });
                match looked {
                    Ok(()) | Err(Error::Missing { .. }) => {}
                    Err(error) => return Err(error),
                }
                both.target(IfMissing::Refuse, &mut |document, _| {
                    match document.find_mut(|task| task.id() == id && task.moved_from().is_some()) {
                        None => return Ok(Verdict::Keep),
                        Some(task) if !left => task.arrive(),
                        // The mover died before it took the task out of the source: it has not been moved.
                        Some(_) => drop(document.remove(&id)),
                    }
                    Ok(write("move", [&*id]))
                })
            })?;
        }
        Ok(())
    }

    fn with_both(
        &self,
        source: &Path,
        target: &Path,
        act: &mut dyn FnMut(&mut Both<'_, S>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (source, target) = (self.resolve(source)?, self.resolve(target)?);
        let access = self.access();
        let enter = |file: &Path, if_missing| self.strategy().enter(&access, file, if_missing);
        // Always in the order of the names, whichever is the source: two movers cannot wait for each other.
        let (source_guard, target_guard);
        if source < target {
            source_guard = enter(&source, IfMissing::Refuse)?;
            target_guard = enter(&target, IfMissing::Create)?;
        } else {
            target_guard = enter(&target, IfMissing::Create)?;
            source_guard = enter(&source, IfMissing::Refuse)?;
        }
        act(&mut Both { queue: self, source: (&source, source_guard), target: (&target, target_guard) })
    }
}

/// A step of a move.
type Step<'a> = dyn FnMut(&mut Document, &Moment) -> Result<Verdict, Error> + 'a;

/// Two files, both locked.
struct Both<'a, S: Storage> {
    queue: &'a Queue<S>,
    source: (&'a Path, Box<dyn Guard + 'a>),
    target: (&'a Path, Box<dyn Guard + 'a>),
}

impl<S: Storage> Both<'_, S> {
    fn source(&mut self, step: &mut Step<'_>) -> Result<(), Error> {
        let access = self.queue.access();
        let publishing = access.settings.publishing();
        let mut change = |document: &mut Document, moment: &Moment| step(document, moment);
        locked(&access, self.source.0, IfMissing::Refuse, &mut *self.source.1, publishing, &mut change)
    }

    fn target(&mut self, if_missing: IfMissing, step: &mut Step<'_>) -> Result<(), Error> {
        let access = self.queue.access();
        let publishing = access.settings.publishing();
        let mut change = |document: &mut Document, moment: &Moment| step(document, moment);
        locked(&access, self.target.0, if_missing, &mut *self.target.1, publishing, &mut change)
    }
}
