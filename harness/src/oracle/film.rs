//! A run as a film: what every file showed, who held which lock, and which step came because of which, step by step.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    Case,
    history::{Frame, History},
    locks::LockTrace,
};
use crate::world::{Node, Run, Step};

/// What a report needs to show a recorded run moving.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Film {
    /// Files that changed or were read, by path.
    pub reels: Vec<Reel>,
    /// Times during which an actor believed to own a lock.
    pub locks: Vec<Holding>,
    /// Pairs of steps (numbers from 1) of different actors: the first had to come before the second, and nothing
    /// between them says so already.
    pub arrows: Vec<(usize, usize)>,
}

/// One path over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reel {
    /// The path.
    pub path: String,
    /// Its content at the start; `None`: it was not there.
    pub first: Option<Arc<[u8]>>,
    /// Its changes.
    pub frames: Vec<Frame>,
}

/// A lock held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The lock's name.
    pub name: String,
    /// Who (worker number).
    pub by: usize,
    /// From after this step (number from 1).
    pub from: usize,
    /// Until this step; `None`: to the end.
    pub to: Option<usize>,
    /// Shared with other shared owners.
    pub shared: bool,
}

impl Film {
    /// The film of a recorded run.
    pub fn of(case: &Case<'_>, run: &Run) -> Film {
        let mut history = History::of(run, case.initial);
        let met = |path: &String| {
            run.steps.iter().any(|step| step.path.as_ref() == Some(path) || step.path2.as_ref() == Some(path))
        };
        let mut paths: BTreeMap<String, Option<Arc<[u8]>>> =
            history.frames.keys().map(|path| (path.clone(), None)).collect();
        for (path, node) in case.initial {
            if let Node::File { bytes, .. } = node
                && (paths.contains_key(path) || met(path))
            {
                paths.insert(path.clone(), Some(bytes.clone()));
            }
        }
        let reels = paths.into_iter().map(|(path, first)| {
            let frames = history.frames.remove(&path).unwrap_or_default();
            Reel { path, first, frames }
        });
        let locks = LockTrace::of(&run.steps).held.into_iter().map(|held| Holding {
            name: held.name,
            by: usize::from(held.actor.0),
            from: held.from + 1,
            to: held.to.map(|to| to + 1),
            shared: held.shared,
        });
        Film { reels: reels.collect(), locks: locks.collect(), arrows: arrows(&run.steps) }
    }
}

/// The happens-before relation between actors, without what follows from the rest of it: for each step the latest
/// dependent one of every other actor, unless a step in between already orders them (vector clocks).
fn arrows(steps: &[Step]) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    // For each step: how many steps of each actor are known to come before it (its own included).
    let mut clocks: Vec<BTreeMap<u16, usize>> = Vec::with_capacity(steps.len());
    let mut last: BTreeMap<u16, usize> = BTreeMap::new();
    for (number, step) in steps.iter().enumerate() {
        let mut clock = last.get(&step.actor.0).map(|at: &usize| clocks[*at].clone()).unwrap_or_default();
        let mut seen = BTreeSet::new();
        for earlier in (0..number).rev() {
            let other = &steps[earlier];
            if other.actor == step.actor || seen.contains(&other.actor.0) || !other.depends_on(step) {
                continue;
            }
            seen.insert(other.actor.0);
            if clock.get(&other.actor.0).is_some_and(|known| *known > earlier) {
                continue;
            }
            out.push((earlier + 1, number + 1));
            for (actor, known) in clocks[earlier].clone() {
                let mine = clock.entry(actor).or_default();
                *mine = (*mine).max(known);
            }
        }
        clock.insert(step.actor.0, number + 1);
        last.insert(step.actor.0, number);
        clocks.push(clock);
    }
    out.sort_unstable_by_key(|(from, to)| (*to, *from));
    out
}

#[cfg(test)]
mod tests {
    use super::arrows;
    use crate::world::{Access, ActorId, Inode, Mode, Object, Op, Step};

    /// (actor, object, changes it).
    type Touch = (u16, u64, bool);
    /// From, to.
    type Arrow = (usize, usize);

    fn steps(of: &[Touch]) -> Vec<Step> {
        let step = |(actor, object, changes): &Touch| Step {
            actor: ActorId(*actor),
            task: 0,
            op: if *changes { Op::Write } else { Op::Read },
            path: None,
            path2: None,
            flags: Vec::new(),
            ret: 0,
            result: String::new(),
            bytes: None,
            inode: None,
            offset: None,
            data: None,
            publishes: false,
            accesses: vec![Access::new(
                Object::Content(Inode(*object)),
                if *changes { Mode::Write } else { Mode::Read },
            )],
            barrier: false,
            chosen: true,
            enabled: Vec::new(),
            wakeable: Vec::new(),
            time_us: 0,
            effects: Vec::new(),
        };
        of.iter().map(step).collect()
    }

    #[test]
    fn arrows_are_what_does_not_follow_from_others() {
        let cases: [(&[Touch], &[Arrow]); 4] = [
            // Reads do not order.
            (&[(0, 1, false), (1, 1, false)], &[]),
            (&[(0, 1, true), (1, 1, false)], &[(1, 2)]),
            // 1 -> 3 follows from 1 -> 2 and the program order of the second actor.
            (&[(0, 1, true), (1, 1, true), (1, 1, true)], &[(1, 2)]),
            // 1 -> 3 follows from 1 -> 2 -> 3 through a third actor.
            (&[(0, 1, true), (1, 1, true), (2, 1, true)], &[(1, 2), (2, 3)]),
        ];
        for (of, expected) in cases {
            assert_eq!(arrows(&steps(of)), expected, "{of:?}");
        }
    }
}
