//! No silent green: a scenario in which nothing can go wrong proves nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::world::{ActorId, Mode, Object, Run};

/// What workers touched, over all runs so far.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    objects: BTreeMap<Object, Touched>,
    touched: BTreeSet<ActorId>,
}

#[derive(Clone, Debug, Default)]
struct Touched {
    by: BTreeSet<ActorId>,
    changed: bool,
}

impl Sharing {
    /// Nothing seen yet.
    pub fn new() -> Sharing {
        Sharing::default()
    }

    /// Adds one run.
    pub fn observe(&mut self, run: &Run) {
        for step in &run.steps {
            for access in &step.accesses {
                if matches!(access.object, Object::Life(_) | Object::Space) {
                    continue;
                }
                self.touched.insert(step.actor);
                let touched = self.objects.entry(access.object.clone()).or_default();
                touched.by.insert(step.actor);
                touched.changed |= access.mode != Mode::Read;
            }
        }
    }

    /// Whether two workers touched one object: a content, a lock or a channel in any way; a name, a listing or
    /// metadata (on every path's way) when somebody changed it. Directories that both change are such listings.
    pub fn shared(&self) -> bool {
        self.objects.iter().any(|(object, touched)| {
            let passing = matches!(object, Object::Entry(..) | Object::Listing(_) | Object::Meta(_));
            touched.by.len() > 1 && (touched.changed || !passing)
        })
    }

    /// Why nothing may be concluded from these runs of that many workers, and the way out.
    pub fn reason(&self, workers: usize, shares_nothing: bool) -> Option<String> {
        if workers == 1 && self.touched.is_empty() {
            return Some(
                "the worker touches nothing in the world: give --dir, or --watch for what it does use".to_owned(),
            );
        }
        if workers > 1 && !shares_nothing && !self.shared() {
            return Some(
                "the workers share nothing in the world: give --dir, --watch for what they do share, or \
                 shares_nothing = true"
                    .to_owned(),
            );
        }
        None
    }
}
