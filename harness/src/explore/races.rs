//! The races of a run, each with the schedule that reverses it.
//!
//! A plain race is as in Abdulla et al.: events i and j of different actors, dependent, with no event between them
//! that happens after i and before j. It is reversed at pre(i), the point before i, by `v = notdep(i) · j`: the events
//! after i that do not happen after it, then j.
//!
//! **Waiting.** The algorithm of the paper assumes that no actor disables another. A step that would wait can be, so
//! three things differ for an acquisition j of actor B on object o:
//! - What frees o (`Free`) comes before j by necessity. It orders, but it is not a race, and it does not hide what came
//!   before it. Neither does a sleeper's wake-up in fair time that j came after while it waited.
//! - B may have waited since its own previous event. So j races with each earlier acquisition k of o that B's own
//!   progress does not come after, the latest first, as long as no race found so far comes after k.
//! - The reversal must be possible: after pre(k) and notdep(k), nobody may hold o against j. Whoever took o within
//!   notdep(k) and still holds it is taken out too, with all that happens after it (two readers that hold a shared
//!   lock, each needing the other to go on, must *both* come after a writer that is to be first). If somebody holds o
//!   already at pre(k), the race with k is not reversible, and the search goes on with earlier acquisitions.
//!
//! Why that suffices. The proof of source-DPOR takes an execution w from a state E that no explored branch of E
//! starts, the explored branch q that is independent of the longest part of it, and the event e of w, by actor B, with
//! which q's step conflicts. The explored subtree of q contains a continuation in which e comes next, and there q's
//! step and e race. When q's step makes B wait, take instead the branch q and the continuation z, from q and the part
//! of w before e, with the fewest steps until B can go on (or B never can: then B's acquisition is *pending* when the
//! run ends, and is treated as if it came last). In it, j races with q's step: a race with a later acquisition in z
//! that could be reversed would give a shorter z. The reversal holds that part of w, since w itself runs B there. An
//! initial r of it that is already explored is either one of w, or independent of a longer part of w, or it leads to
//! B's acquisition in fewer steps; each contradicts the choice of w or q.
//!
//! In adversarial time a waiter may also give up before o is freed. So `Free` then races like anything else, and every
//! possible wake-up is a branch of every node (see [`dpor`](super::dpor)).

use super::{
    policy::conflict,
    trace::{Clock, Event, Open, Trace, join},
};
use crate::world::{Access, ActorId, Choice, Mode, Object, Sync};

/// A race and what reverses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Race {
    /// The earlier event; the reversal starts before it.
    pub(crate) first: usize,
    /// The later event; `None` for an acquisition still pending at the end of the run.
    pub(crate) second: Option<usize>,
    /// The later event's actor.
    pub(crate) actor: ActorId,
    /// The events between that do not happen after what is reversed.
    pub(crate) kept: Vec<usize>,
    /// Who can make the first step of the reversal; any one of them will do.
    pub(crate) initials: Vec<ActorId>,
    /// False when the later event is known to have been possible only once it was made ready (a pipe): the branch may
    /// turn out infeasible, which then proves nothing is missing.
    pub(crate) certain: bool,
}

/// All races whose later event is number `from` or after (pending acquisitions included).
pub(crate) fn races(trace: &Trace, pending: &[(ActorId, Vec<Access>)], adversarial: bool, from: usize) -> Vec<Race> {
    let mut found = Vec::new();
    for (index, event) in trace.events.iter().enumerate().skip(from) {
        // A wake-up in fair time that carries accesses is a wait given up: it could have been an acquisition earlier.
        let waits = |a: &Access| event.fair_wake() || a.sync == Some(Sync::Take { waits: true });
        let waiting = event.accesses.iter().filter(|a| waits(a)).collect();
        Next { trace, adversarial, index, event: Some(event), actor: event.actor, accesses: &event.accesses, waiting }
            .races(&mut found);
    }
    for (actor, accesses) in pending {
        let index = trace.events.len();
        Next { trace, adversarial, index, event: None, actor: *actor, accesses, waiting: accesses.iter().collect() }
            .races(&mut found);
    }
    found
}

/// The later event of races: executed, or pending.
struct Next<'a> {
    trace: &'a Trace,
    adversarial: bool,
    index: usize,
    event: Option<&'a Event>,
    actor: ActorId,
    accesses: &'a [Access],
    /// The accesses that would wait for others.
    waiting: Vec<&'a Access>,
}

/// How an earlier event meets the later one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Meets {
    /// Not at all, or only by making it ready.
    Ordered,
    /// It made something ready that the later event may not have needed.
    Perhaps,
    /// It made something ready, but the later actor could also have given up waiting before that.
    GivesUp,
    /// It can be reversed.
    Races,
}

impl Next<'_> {
    fn races(&self, found: &mut Vec<Race>) {
        // A wait given up does not tell what it wanted. Both, then, each by itself: an acquisition that a shared lock
        // need not come before must not hide one that an exclusive lock must.
        let unknown = self.waiting.iter().any(|a| a.mode == Mode::Read);
        let wants = if unknown { &[Some(Mode::Add), Some(Mode::Write)][..] } else { &[None] };
        for want in wants {
            for race in self.races_wanting(*want) {
                if !found.contains(&race) {
                    found.push(race);
                }
            }
        }
    }

    /// The races of the later event when what it waits for is wanted like this (`None`: as its accesses say).
    fn races_wanting(&self, want: Option<Mode>) -> Vec<Race> {
        let mut found = Vec::new();
        let events = &self.trace.events;
        let prior = (0..self.index).rev().find(|i| events[*i].actor == self.actor);
        let mut covered: Clock = prior.map_or_else(|| vec![0; self.trace.actors], |p| self.trace.clocks[p].clone());
        let mut open = Open::new(self.trace.actors);
        for i in (0..self.index).rev() {
            let earlier = &events[i];
            if self.trace.within(i, &covered) {
                if open.close(earlier.actor.0) {
                    break;
                }
                continue;
            }
            if earlier.fair_wake() {
                if self.waiting.is_empty() {
                    join(&mut covered, &self.trace.clocks[i]);
                }
                continue;
            }
            let meets = self.meets(i);
            if meets == Meets::Ordered {
                continue;
            }
            let mut reversals = Vec::new();
            if meets != Meets::GivesUp {
                reversals.extend(self.reversal(i, want));
            }
            if !reversals.is_empty() && meets == Meets::Races && self.ready_before(i) {
                join(&mut covered, &self.trace.clocks[i]);
            }
            // In adversarial time the later actor may have come here after `i` and given up, whoever holds the lock. If
            // it was here before, its wake-up is a branch of pre(i) anyway.
            if self.adversarial && !self.waiting.is_empty() && prior.is_some_and(|p| p > i) {
                reversals.push(self.kept(&[i]));
            }
            reversals.dedup();
            found.extend(reversals.into_iter().map(|kept| Race {
                first: i,
                second: self.event.map(|_| self.index),
                actor: self.actor,
                initials: self.initials(&kept),
                kept,
                certain: meets == Meets::Races,
            }));
        }
        found
    }

    /// Whether what the later event waits for is known to be there at pre(`at`). For a lock, the reversal tells. A pipe
    /// shows it only by somebody taking from it: who looked and found nothing, or was woken, may have come at a time
    /// when the later event had to wait. Then there is no such reversal, and it must not hide a race with an earlier
    /// taker.
    fn ready_before(&self, at: usize) -> bool {
        let takes = |a: &Access| {
            let taken = |b: &&Access| b.object == a.object && matches!(b.sync, Some(Sync::Take { .. }));
            self.trace.events[at].accesses.iter().any(|b| taken(&b))
        };
        self.waiting.iter().all(|a| lock(&a.object) || takes(a))
    }

    fn meets(&self, at: usize) -> Meets {
        let earlier = &self.trace.events[at];
        if earlier.everything || matches!(self.event, Some(Event { choice: Choice::Wake(_), .. })) {
            return Meets::Races;
        }
        let mut meets = Meets::Ordered;
        for a in self.accesses {
            let waits = self.waiting.iter().any(|w| std::ptr::eq(*w, a));
            for b in earlier.accesses.iter().filter(|b| b.conflicts(a)) {
                let this = match (waits, b.sync) {
                    (true, Some(Sync::Free)) => self.freed(a, at),
                    // A wait given up in fair time was possible only because nobody could run.
                    (true, sync) if self.event.is_some_and(Event::fair_wake) && sync.is_none() => Meets::Ordered,
                    _ => Meets::Races,
                };
                meets = meets.max(this);
            }
        }
        meets
    }

    /// What it means that the event `at` freed what `a` waits for. A lock had to be freed, if the freed bytes were held
    /// against `a` at all; a pipe may have held enough before.
    fn freed(&self, a: &Access, at: usize) -> Meets {
        let earlier = &self.trace.events[at];
        let needed = if lock(&a.object) {
            self.held(a, at, &[]).iter().any(|h| h.actor == earlier.actor && h.against(a, a.mode))
        } else {
            !earlier.enabled.contains(&self.actor)
        };
        match needed {
            _ if self.event.is_none_or(Event::fair_wake) => Meets::Ordered,
            true if self.adversarial => Meets::GivesUp,
            true => Meets::Ordered,
            false if lock(&a.object) => Meets::Races,
            false => Meets::Perhaps,
        }
    }

    /// The events after the first removed one that do not happen after any removed one.
    fn kept(&self, removed: &[usize]) -> Vec<usize> {
        (removed[0] + 1..self.index).filter(|e| !self.follows(removed, *e)).collect()
    }

    /// What reverses the race with `first`: the events after it that can still come before the later event. None when
    /// the later event would wait.
    fn reversal(&self, first: usize, want: Option<Mode>) -> Option<Vec<usize>> {
        let mut removed = vec![first];
        loop {
            let kept = self.kept(&removed);
            let locks = self.waiting.iter().filter(|a| lock(&a.object));
            match locks.into_iter().find_map(|a| self.holder(a, want.unwrap_or(a.mode), first, &kept)) {
                None => return Some(kept),
                Some(h) if h > first => removed.push(h),
                Some(_) => return None,
            }
        }
    }

    fn follows(&self, removed: &[usize], e: usize) -> bool {
        removed.iter().any(|r| self.trace.before(*r, e))
    }

    /// An event that took what `a` needs and has not given it back, in the run up to `first` and then `kept`. The
    /// earliest: what is held already at the start of the reversal decides.
    fn holder(&self, a: &Access, want: Mode, first: usize, kept: &[usize]) -> Option<usize> {
        self.held(a, first, kept).iter().filter(|h| h.against(a, want)).map(|h| h.event).min()
    }

    /// What others hold of the object of `a`, after the run up to `first` and then `kept`.
    fn held(&self, a: &Access, first: usize, kept: &[usize]) -> Vec<Held> {
        let mut held: Vec<Held> = Vec::new();
        let history = self.trace.by_object.get(&a.object).map_or(&[][..], Vec::as_slice);
        for &h in history.iter().filter(|h| **h < first || kept.binary_search(h).is_ok()) {
            let event = &self.trace.events[h];
            if event.actor == self.actor {
                continue;
            }
            for b in event.accesses.iter().filter(|b| b.object == a.object && b.sync.is_some()) {
                let range = b.range.unwrap_or(WHOLE);
                held = held.into_iter().flat_map(|one| one.without(event.actor, range)).collect();
                if let Some(Sync::Take { .. }) = b.sync {
                    held.push(Held { actor: event.actor, range, mode: b.mode, event: h });
                }
            }
        }
        held
    }

    /// Whose events can come first in `kept` and then the later event.
    fn initials(&self, kept: &[usize]) -> Vec<ActorId> {
        let events = &self.trace.events;
        let mut initials = Vec::new();
        for (n, &e) in kept.iter().enumerate() {
            if !kept[..n].iter().any(|g| self.trace.before(*g, e)) {
                initials.push(events[e].actor);
            }
        }
        let wake = matches!(self.event, Some(Event { choice: Choice::Wake(_), .. }));
        let after = |e: &usize| wake || events[*e].actor == self.actor || conflict(&events[*e].accesses, self.accesses);
        if !kept.iter().any(after) {
            initials.push(self.actor);
        }
        initials
    }
}

const WHOLE: (u64, u64) = (0, u64::MAX);

/// Objects that are held from a take to its release.
fn lock(object: &Object) -> bool {
    matches!(object, Object::Flock(_) | Object::Record(_))
}

/// A range of a lock held by an actor.
struct Held {
    actor: ActorId,
    range: (u64, u64),
    mode: Mode,
    event: usize,
}

impl Held {
    /// Whether who wants `a` (in this mode) must wait for it.
    fn against(&self, a: &Access, want: Mode) -> bool {
        let needed = a.range.unwrap_or(WHOLE);
        self.range.0 < needed.1 && needed.0 < self.range.1 && !(self.mode == Mode::Add && want == Mode::Add)
    }

    /// What is left when `actor` takes anew or frees `range`.
    fn without(self, actor: ActorId, range: (u64, u64)) -> Vec<Held> {
        if self.actor != actor {
            return vec![self];
        }
        let (left, right) = ((self.range.0, self.range.1.min(range.0)), (self.range.0.max(range.1), self.range.1));
        [left, right].into_iter().filter(|(a, b)| a < b).map(|range| Held { range, ..self }).collect()
    }
}
