//! Source-DPOR with sleep sets: P. Abdulla, S. Aronis, B. Jonsson, K. Sagonas, "Optimal Dynamic Partial Order
//! Reduction", POPL 2014 (algorithm 1), and "Source Sets: A Foundation for Optimal Dynamic Partial Order Reduction",
//! J. ACM 2017.
//!
//! Every executed run is a path in a tree whose nodes are the points where somebody was chosen. A node knows who could
//! have been chosen, the sleep set it was reached with, and its branches: claimed (executed) or waiting to be. Races of
//! each new run (see [`races`](super::races)) add branches at earlier nodes.
//!
//! Where we deviate:
//! - **Not depth-first.** The paper explores a branch completely before the next. Here all waiting branches of the tree
//!   form one frontier, ordered by the number of context switches of their prefix, then by position, because orders
//!   with few switches are the ones people understand. Ordering never prunes. A branch sleeps on the siblings that were
//!   *claimed* before it, whether or not their subtrees are finished. This is sound: consider the tree when the
//!   frontier is empty, and in it the order "subtrees of siblings by claim time, children before their parent". That is
//!   the order in which a depth-first search making the same decisions would have returned. The paper's induction
//!   follows this order and uses three things: a sleeping step leads into a subtree that comes earlier in it (it was
//!   claimed earlier, and it keeps sleeping only past independent steps); sleep sets are those of the paper for that
//!   order; and for each race of each executed run, the final set of branches of the node holds a first step of the
//!   reversal, or such a step sleeps there. The last holds at whatever time the race was seen, because sets of branches
//!   only grow. The footprint of a sleeping step is the one it had when it was executed at that node; it is the same
//!   later, as everything executed since is independent of it.
//! - **Waiting** (locks, pipes, time): see [`races`](super::races).
//! - **Footprints that depend on the state** (a refused lock, a name that leads elsewhere): see
//!   [`elsewhere`](super::elsewhere).
//! - **Adversarial time**: a wake-up depends on every step, so nothing can be saved: each possible one is a branch of
//!   every node.
//! - A branch that turns out to be infeasible although a race asked for it means that the footprints told too little.
//!   All enabled actors of that node are then added (Flanagan and Godefroid, POPL 2005), and the run is redundant.

use std::collections::BTreeSet;

use super::{
    elsewhere::elsewhere,
    follow::filter,
    partition::Part,
    races::{Race, races},
    trace::{Event, Trace},
};
use crate::world::{Access, ActorId, Choice, Ended, Plan, Policy, Run};

/// Runs with more choice points than this are long.
const LONG: usize = 128;

/// The sleep set of a point.
type Sleep = Vec<(ActorId, Vec<Access>)>;

/// A prefix that was replayed did something else than before: the programs are not deterministic under control.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the same schedule did something else at choice point {at}: {what}")]
pub struct Unrepeatable {
    /// The choice point, from 0.
    pub at: usize,
    /// What differed.
    pub what: String,
}

/// The tree of explored schedules and its frontier.
#[derive(Debug, Default)]
pub(crate) struct Dpor {
    adversarial: bool,
    nodes: Vec<Node>,
    frontier: BTreeSet<Waiting>,
    /// The branch whose run is awaited; `None` is the root's first run.
    awaited: Option<(usize, usize)>,
    started: bool,
    /// Runs are long: positions come spread out.
    long: bool,
    /// Some run did not come to its end, so something may be missing.
    incomplete: bool,
    /// The search is one part of several.
    part: Option<Part>,
}

#[derive(Debug)]
struct Node {
    /// The branch that leads here.
    parent: Option<(usize, usize)>,
    depth: usize,
    /// Who ran last before this point, and how often the actor changed up to it.
    last: Option<ActorId>,
    switches: usize,
    enabled: Vec<ActorId>,
    wakeable: Vec<ActorId>,
    sleep: Sleep,
    branches: Vec<Branch>,
}

#[derive(Debug)]
struct Branch {
    choice: Choice,
    /// False when only a guess led to it (see [`Race::certain`](super::races::Race)).
    certain: bool,
    state: State,
    child: Option<usize>,
}

#[derive(Debug)]
enum State {
    /// In the frontier.
    Waiting,
    /// Being executed, with the sleep set that its plan holds.
    Claimed(Sleep),
    /// Executed: what the step was and touched.
    Executed { identity: [u8; 32], accesses: Vec<Access>, everything: bool },
    /// Cannot be executed.
    Infeasible,
}

/// A branch in the frontier, in the order of exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    switches: usize,
    place: usize,
    node: usize,
    branch: usize,
}

impl Dpor {
    pub(crate) fn new(adversarial: bool) -> Self {
        Dpor { adversarial, ..Dpor::default() }
    }

    /// Explores only one part of the tree.
    pub(crate) fn with_part(self, part: Part) -> Self {
        Dpor { part: Some(part), ..self }
    }

    /// The top of the tree is still being expanded, the same in every part.
    pub(crate) fn expanding(&self) -> bool {
        self.part.as_ref().is_some_and(|part| !part.divided())
    }

    /// Of the runs that expanded the top, in order: which belong to this part.
    pub(crate) fn ours(&self) -> Vec<bool> {
        self.part.as_ref().map(Part::ours).unwrap_or_default()
    }

    /// Every class was executed.
    pub(crate) fn exhausted(&self) -> bool {
        self.finished() && !self.incomplete
    }

    /// Nothing is left to do.
    pub(crate) fn finished(&self) -> bool {
        self.started && self.awaited.is_none() && self.frontier.is_empty()
    }

    /// Claims the first branch of the frontier.
    pub(crate) fn next_plan(&mut self) -> Option<Plan> {
        if !self.started {
            return Some(Plan::from_policy(Policy::Stay));
        }
        let Waiting { node, branch, .. } = self.frontier.pop_first()?;
        let plan = self.plan(node, branch);
        self.nodes[node].branches[branch].state = State::Claimed(plan.sleep.clone());
        self.awaited = Some((node, branch));
        Some(plan)
    }

    /// Plans that would come next if the runs before them added nothing.
    pub(crate) fn upcoming(&self, n: usize) -> Vec<Plan> {
        self.frontier.iter().take(n).map(|w| self.plan(w.node, w.branch)).collect()
    }

    fn plan(&self, node: usize, branch: usize) -> Plan {
        let at = &self.nodes[node];
        let choice = at.branches[branch].choice;
        let mut prefix = vec![choice];
        let mut up = at.parent;
        while let Some((parent, by)) = up {
            prefix.push(self.nodes[parent].branches[by].choice);
            up = self.nodes[parent].parent;
        }
        prefix.reverse();
        let mut sleep = at.sleep.clone();
        for sibling in &at.branches {
            // A wake-up depends on everything: it would not sleep past any step.
            if let (Choice::Step(actor), State::Executed { accesses, everything: false, .. }) =
                (sibling.choice, &sibling.state)
            {
                sleep.push((actor, accesses.clone()));
            }
        }
        Plan { prefix, sleep, ..Plan::from_policy(Policy::Stay) }
    }

    /// Learns a run of the last claimed plan.
    pub(crate) fn observe(&mut self, run: &Run, trace: &Trace) -> Result<(), Unrepeatable> {
        let awaited = self.awaited.take();
        if !self.started {
            self.long = trace.events.len() > LONG;
        }
        self.started = true;
        let from = match awaited {
            Some((node, _)) => self.nodes[node].depth,
            None => 0,
        };
        if let (Ended::Infeasible(at), Some((node, branch))) = (&run.ended, awaited) {
            if *at < from {
                return Err(Unrepeatable { at: *at, what: "a step that was possible is not".to_owned() });
            }
            self.infeasible(node, branch);
            if let Some(part) = self.part.as_mut().filter(|part| !part.divided()) {
                part.expanded(Vec::new(), Vec::new());
            }
            self.divide();
            return Ok(());
        }
        if matches!(run.ended, Ended::Limit(..) | Ended::LostControl(_)) {
            // Nothing may be concluded from it, not even that it followed its prefix.
            self.incomplete = true;
            if let Some(part) = self.part.as_mut().filter(|part| !part.divided()) {
                part.expanded(Vec::new(), Vec::new());
            }
            self.divide();
            return Ok(());
        }
        let path = self.insert(trace)?;
        if path.len() < from {
            return Err(Unrepeatable { at: path.len(), what: "the run ended within its prefix".to_owned() });
        }
        match run.ended {
            Ended::Done | Ended::Deadlock(_) | Ended::Livelock(_) | Ended::SleepSet => {}
            Ended::Infeasible(_) | Ended::Limit(..) | Ended::LostControl(_) => self.incomplete = true,
        }
        let mut races = races(trace, &pending(run), self.adversarial, from);
        for (at, node) in path.iter().enumerate() {
            races.extend(self.nodes[*node].sleep.iter().flat_map(|sleeper| elsewhere(trace, at, sleeper, from)));
        }
        match &mut self.part {
            Some(part) if !part.divided() => {
                part.expanded(path, races);
                self.divide();
            }
            Some(part) => {
                let depth = part.depth();
                races.iter().filter(|race| race.first >= depth).for_each(|race| self.add_race(&path, race));
            }
            None => races.iter().for_each(|race| self.add_race(&path, race)),
        }
        Ok(())
    }

    fn add_race(&mut self, path: &[usize], race: &Race) {
        self.add(path[race.first], &race.initials, race.certain);
    }

    /// Expands the next level of the top when the last is done, and divides the tree when there are enough nodes.
    fn divide(&mut self) {
        while let Some(part) = &mut self.part
            && !part.divided()
            && self.frontier.is_empty()
        {
            let level = part.level;
            let branches = |at: &Node| at.branches.iter().filter(|b| matches!(b.state, State::Executed { .. })).count();
            // The nodes below the expanded levels are the executed branches of the last one.
            let last = |at: &&Node| level > 0 && at.depth == level - 1;
            let width: usize = self.nodes.iter().filter(last).map(branches).sum();
            let deeper = self.nodes.iter().any(|at| at.depth == level);
            if width < 16 * part.of && deeper {
                part.level += 1;
                for node in 0..self.nodes.len() {
                    if self.nodes[node].depth == level {
                        self.expand(node);
                    }
                }
                continue;
            }
            for (path, races) in part.divide() {
                races.iter().filter(|race| race.first >= level).for_each(|race| self.add_race(&path, race));
                for &node in path.iter().skip(level) {
                    for sleeper in self.nodes[node].wakeable.clone() {
                        self.branch(node, Choice::Wake(sleeper), true);
                    }
                }
            }
        }
    }

    /// Adds every actor that does not sleep.
    fn expand(&mut self, node: usize) {
        let at = &self.nodes[node];
        let asleep = |a: &ActorId| at.sleep.iter().any(|(sleeper, _)| sleeper == a);
        let steps = at.enabled.iter().filter(|a| !asleep(a)).map(|a| Choice::Step(*a));
        let choices: Vec<Choice> = steps.chain(at.wakeable.iter().map(|a| Choice::Wake(*a))).collect();
        for choice in choices {
            self.branch(node, choice, true);
        }
    }

    /// Walks the run down the tree, making nodes where there are none. Returns the node of each event.
    fn insert(&mut self, trace: &Trace) -> Result<Vec<usize>, Unrepeatable> {
        let mut path = Vec::with_capacity(trace.events.len());
        let mut came: Option<(usize, usize)> = None;
        let mut sleep = Sleep::new();
        for (depth, event) in trace.events.iter().enumerate() {
            let node = match came {
                None if !self.nodes.is_empty() => 0,
                None => self.make(None, 0, event, Sleep::new()),
                Some((parent, by)) => match self.nodes[parent].branches[by].child {
                    Some(child) => child,
                    None => {
                        let child = self.make(came, depth, event, std::mem::take(&mut sleep));
                        self.nodes[parent].branches[by].child = Some(child);
                        child
                    }
                },
            };
            let branch = self.enter(node, depth, event, &mut sleep)?;
            path.push(node);
            came = Some((node, branch));
        }
        Ok(path)
    }

    fn make(&mut self, parent: Option<(usize, usize)>, depth: usize, event: &Event, sleep: Sleep) -> usize {
        let (last, switches) = parent.map_or((None, 0), |(node, by)| {
            let at = &self.nodes[node];
            let actor = actor(at.branches[by].choice);
            (Some(actor), at.switches + usize::from(at.last.is_some_and(|before| before != actor)))
        });
        let node = self.nodes.len();
        let (enabled, wakeable) = (event.enabled.clone(), event.wakeable.clone());
        let first = Branch { choice: event.choice, certain: true, state: State::Claimed(sleep.clone()), child: None };
        self.nodes.push(Node { parent, depth, last, switches, enabled, wakeable, sleep, branches: vec![first] });
        // While the top is expanded, level by level, these wait for their level; below it they come with the division.
        if !self.expanding() {
            for sleeper in event.wakeable.clone() {
                self.branch(node, Choice::Wake(sleeper), true);
            }
        }
        node
    }

    /// Enters the branch of `event` at `node`; `sleep` becomes the sleep set after it when it was just executed.
    fn enter(&mut self, node: usize, depth: usize, event: &Event, sleep: &mut Sleep) -> Result<usize, Unrepeatable> {
        let differs = |what: &str| Unrepeatable { at: depth, what: what.to_owned() };
        let at = &mut self.nodes[node];
        let branch =
            at.branches.iter().position(|b| b.choice == event.choice).ok_or_else(|| differs("another actor ran"))?;
        let state = &mut at.branches[branch].state;
        match state {
            State::Executed { identity, accesses, .. } => {
                if *identity != event.identity || *accesses != event.accesses {
                    return Err(differs("the step is not the one seen before"));
                }
            }
            State::Claimed(asleep) => {
                *sleep = std::mem::take(asleep);
                filter(sleep, event.actor, &event.accesses, event.everything);
                let (identity, everything) = (event.identity, event.everything);
                *state = State::Executed { identity, accesses: event.accesses.clone(), everything };
            }
            State::Waiting | State::Infeasible => return Err(differs("a branch ran that was not asked for")),
        }
        Ok(branch)
    }

    /// Makes sure that the next event of one of `initials` is explored at `node`.
    fn add(&mut self, node: usize, initials: &[ActorId], certain: bool) {
        let at = &self.nodes[node];
        // What an actor can do here need not be what it did in the run: a wait that was given up there may succeed here.
        // Who can do nothing here (it waits, or it only repeats itself) makes the reversal impossible.
        let here = |a: &ActorId| match a {
            _ if at.enabled.contains(a) => Some(Choice::Step(*a)),
            _ => at.wakeable.contains(a).then_some(Choice::Wake(*a)),
        };
        let choices: Vec<Choice> = initials.iter().filter_map(here).collect();
        let state = |choice: &Choice| at.branches.iter().find(|b| b.choice == *choice).map(|b| &b.state);
        let sleeps = |choice: &Choice| at.sleep.iter().any(|(sleeper, _)| *choice == Choice::Step(*sleeper));
        let explored =
            |choice: &Choice| sleeps(choice) || state(choice).is_some_and(|s| !matches!(s, State::Infeasible));
        if choices.iter().any(explored) {
            return;
        }
        let new = choices.iter().filter(|choice| state(choice).is_none());
        if let Some(&choice) = new.min_by_key(|c| (at.last != Some(actor(**c)), **c)) {
            self.branch(node, choice, certain);
        }
    }

    fn branch(&mut self, node: usize, choice: Choice, certain: bool) {
        let at = &mut self.nodes[node];
        if at.branches.iter().any(|b| b.choice == choice) {
            return;
        }
        let branch = at.branches.len();
        at.branches.push(Branch { choice, certain, state: State::Waiting, child: None });
        let switches = at.switches + usize::from(at.last.is_some_and(|last| last != actor(choice)));
        let place = if self.long { spread(at.depth) } else { at.depth };
        self.frontier.insert(Waiting { switches, place, node, branch });
    }

    fn infeasible(&mut self, node: usize, branch: usize) {
        let at = &mut self.nodes[node];
        at.branches[branch].state = State::Infeasible;
        if !at.branches[branch].certain {
            return;
        }
        self.expand(node);
    }
}

/// An order of positions that looks everywhere coarsely before it looks anywhere closely: multiples of 2^k before
/// others, for every k. One after the other, the whole budget of a long program goes to its beginning, and windows near
/// its end (a database that is read in one transaction and written in the next) are never met.
fn spread(depth: usize) -> usize {
    depth.reverse_bits()
}

fn actor(choice: Choice) -> ActorId {
    let (Choice::Step(actor) | Choice::Wake(actor)) = choice;
    actor
}

/// The acquisitions that never happened. Whoever waits in a deadlock without saying for what is not assumed harmless:
/// it meets every object that anybody took.
fn pending(run: &Run) -> Vec<(ActorId, Vec<Access>)> {
    let Ended::Deadlock(waiting) = &run.ended else { return run.pending.clone() };
    let mut pending = run.pending.clone();
    for (actor, _) in waiting {
        if pending.iter().all(|(known, _)| known != actor) {
            let taken = run.steps.iter().flat_map(|s| &s.accesses).filter(|a| a.sync.is_some());
            pending.push((*actor, taken.cloned().collect()));
        }
    }
    pending
}
