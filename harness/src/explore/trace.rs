//! The events of a run and what happens before what.

use std::collections::HashMap;

use crate::world::{Access, ActorId, Choice, Object, Run, Step};

/// One chosen step together with the steps of its actor that followed without a choice: an atomic block.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) actor: ActorId,
    pub(crate) choice: Choice,
    pub(crate) accesses: Vec<Access>,
    /// Depends on every other event: a wake-up.
    pub(crate) everything: bool,
    pub(crate) enabled: Vec<ActorId>,
    pub(crate) wakeable: Vec<ActorId>,
    /// Index of the chosen step in [`Run::steps`].
    pub(crate) step: usize,
    /// What was done and what came of it, without the accesses: equal in every run that shares the prefix.
    pub(crate) identity: [u8; 32],
}

impl Event {
    /// A wake-up in fair time: never raced, because it happens only when nobody else can run.
    pub(crate) fn fair_wake(&self) -> bool {
        self.everything && matches!(self.choice, Choice::Step(_))
    }
}

/// A vector clock: for each actor, how many of its events happened before or are this one.
pub(crate) type Clock = Vec<u32>;

/// Joins `other` into `clock`.
pub(crate) fn join(clock: &mut Clock, other: &Clock) {
    for (mine, theirs) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}

/// A run as a partial order.
pub(crate) struct Trace {
    pub(crate) events: Vec<Event>,
    /// Per event: its clock, itself included.
    pub(crate) clocks: Vec<Clock>,
    /// Per event: its actor, and its number among those of its actor, from 1. (Apart from the events, because this is
    /// what everything looks at all the time.)
    place: Vec<(u16, u32)>,
    /// Per object: the events that touch it, in order.
    pub(crate) by_object: HashMap<Object, Vec<usize>>,
    /// How many actors occur, as the length of clocks.
    pub(crate) actors: usize,
}

impl Trace {
    /// Builds the partial order of a run. The number of choices and of chosen steps must agree.
    pub(crate) fn new(run: &Run) -> Result<Trace, String> {
        let events = events(run)?;
        let pending = run.pending.iter().map(|(actor, _)| *actor);
        let actors =
            events.iter().map(|e| e.actor).chain(pending).map(|a| usize::from(a.0) + 1).max().unwrap_or_default();
        let mut trace = Trace { clocks: Vec::new(), place: Vec::new(), by_object: HashMap::new(), actors, events };
        let mut last: Vec<Option<usize>> = vec![None; actors];
        let mut barrier = None;
        for i in 0..trace.events.len() {
            let clock = trace.clock_of(i, &last, barrier);
            let event = &trace.events[i];
            trace.place.push((event.actor.0, clock[usize::from(event.actor.0)]));
            trace.clocks.push(clock);
            last[usize::from(event.actor.0)] = Some(i);
            if event.everything {
                barrier = Some(i);
            }
            for access in &event.accesses {
                let history = trace.by_object.entry(access.object.clone()).or_default();
                if history.last() != Some(&i) {
                    history.push(i);
                }
            }
        }
        Ok(trace)
    }

    fn clock_of(&self, i: usize, last: &[Option<usize>], barrier: Option<usize>) -> Clock {
        let event = &self.events[i];
        let me = usize::from(event.actor.0);
        let mut clock = last[me].map_or_else(|| vec![0; self.actors], |p| self.clocks[p].clone());
        clock[me] += 1;
        if event.everything {
            last.iter().flatten().for_each(|p| join(&mut clock, &self.clocks[*p]));
            return clock;
        }
        if let Some(b) = barrier {
            join(&mut clock, &self.clocks[b]);
        }
        for access in &event.accesses {
            let mut open = Open::new(self.actors);
            for &h in self.by_object.get(&access.object).into_iter().flatten().rev() {
                if self.within(h, &clock) {
                    if open.close(self.place[h].0) {
                        break;
                    }
                } else if self.events[h].accesses.iter().any(|b| b.conflicts(access)) {
                    join(&mut clock, &self.clocks[h]);
                }
            }
        }
        clock
    }

    /// Whether event `i` is within what `clock` has seen.
    pub(crate) fn within(&self, i: usize, clock: &Clock) -> bool {
        let (actor, nth) = self.place[i];
        nth <= clock[usize::from(actor)]
    }

    /// The number of event `i` among those of its actor, from 1.
    pub(crate) fn nth(&self, i: usize) -> u32 {
        self.place[i].1
    }

    /// Whether `i` happens before `j`, or is `j`.
    pub(crate) fn before(&self, i: usize, j: usize) -> bool {
        self.within(i, &self.clocks[j])
    }
}

/// The actors of which a backward scan may still find something new: once an event of an actor is within a clock, so
/// are all its earlier ones.
pub(crate) struct Open {
    closed: Vec<bool>,
    left: usize,
}

impl Open {
    pub(crate) fn new(actors: usize) -> Self {
        Open { closed: vec![false; actors], left: actors }
    }

    /// Closes an actor; true when none is left.
    pub(crate) fn close(&mut self, actor: u16) -> bool {
        if !std::mem::replace(&mut self.closed[usize::from(actor)], true) {
            self.left -= 1;
        }
        self.left == 0
    }
}

fn events(run: &Run) -> Result<Vec<Event>, String> {
    let mut events: Vec<Event> = Vec::with_capacity(run.choices.len());
    let mut latest: HashMap<ActorId, usize> = HashMap::new();
    for (index, step) in run.steps.iter().enumerate() {
        if !step.chosen {
            if let Some(&at) = latest.get(&step.actor)
                && (!step.accesses.is_empty() || step.barrier)
            {
                events[at].accesses.extend(step.accesses.iter().cloned());
                events[at].everything |= step.barrier;
            }
            continue;
        }
        let choice = *run.choices.get(events.len()).ok_or("more chosen steps than choices")?;
        let (Choice::Step(chosen) | Choice::Wake(chosen)) = choice;
        if chosen != step.actor {
            return Err(format!(
                "choice {} is of actor {}, its step of actor {}",
                events.len(),
                chosen.0,
                step.actor.0
            ));
        }
        latest.insert(step.actor, events.len());
        events.push(Event {
            actor: step.actor,
            choice,
            accesses: step.accesses.clone(),
            everything: step.barrier || matches!(choice, Choice::Wake(_)),
            enabled: step.enabled.clone(),
            wakeable: step.wakeable.clone(),
            step: index,
            identity: identity(step),
        });
    }
    if events.len() != run.choices.len() {
        return Err(format!("{} choices, but {} chosen steps", run.choices.len(), events.len()));
    }
    Ok(events)
}

fn identity(step: &Step) -> [u8; 32] {
    let text = (step.actor, step.task, step.op, &step.path, &step.path2, &step.flags, step.ret, &step.bytes);
    // Plain data of known shape: serialising it to a vector cannot fail, and an empty one would only compare equal.
    *blake3::hash(&postcard::to_stdvec(&text).unwrap_or_default()).as_bytes()
}
