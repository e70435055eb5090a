//! The lock table of the model: per file and kind, who holds which bytes how.

use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Flock,
    Record,
}

type Held = Vec<(usize, (u64, u64), bool)>;

#[derive(Clone, Debug, Default)]
pub struct Locks(BTreeMap<(Kind, u64), Held>);

impl Locks {
    /// Whether `actor` would have to wait.
    pub fn blocked(&self, kind: Kind, file: u64, actor: usize, range: (u64, u64), exclusive: bool) -> bool {
        self.0.get(&(kind, file)).is_some_and(|held| {
            held.iter().any(|(who, (a, b), ex)| *who != actor && *a < range.1 && range.0 < *b && (*ex || exclusive))
        })
    }

    /// Whether `actor` holds any of it.
    pub fn holds(&self, kind: Kind, file: u64, actor: usize) -> bool {
        self.0.get(&(kind, file)).is_some_and(|held| held.iter().any(|(who, ..)| *who == actor))
    }

    /// Gives bytes back; the first of what is returned says whether any were held exclusively, if any were held.
    pub fn free(&mut self, kind: Kind, file: u64, actor: usize, range: (u64, u64)) -> Option<bool> {
        let held = self.0.entry((kind, file)).or_default();
        let mut freed = None;
        let mut left = Vec::new();
        for (who, (a, b), ex) in held.drain(..) {
            if who != actor || b <= range.0 || range.1 <= a {
                left.push((who, (a, b), ex));
                continue;
            }
            freed = Some(freed.unwrap_or(false) || ex);
            if a < range.0 {
                left.push((who, (a, range.0), ex));
            }
            if range.1 < b {
                left.push((who, (range.1, b), ex));
            }
        }
        *held = left;
        freed
    }

    /// Takes bytes, after having given back what the actor held of them.
    pub fn take(&mut self, kind: Kind, file: u64, actor: usize, range: (u64, u64), exclusive: bool) -> Option<bool> {
        let freed = self.free(kind, file, actor, range);
        self.0.entry((kind, file)).or_default().push((actor, range, exclusive));
        freed
    }

    /// Everything that an actor holds.
    pub fn of(&self, actor: usize) -> Vec<(Kind, u64, (u64, u64))> {
        let all = self.0.iter().flat_map(|((kind, file), held)| held.iter().map(move |h| (*kind, *file, h)));
        all.filter(|(_, _, (who, ..))| *who == actor).map(|(kind, file, (_, range, _))| (kind, file, *range)).collect()
    }
}
