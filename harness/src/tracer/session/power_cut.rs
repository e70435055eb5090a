//! The power goes in the middle of a run: every process is gone, the world becomes what the disk may hold, and the
//! workers that come later begin.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
};

use super::Session;
use crate::{
    fault::{
        Rule,
        power_cut::{Event, Limits, State, States, states},
    },
    scenario::{Acknowledging, FaultKind, Nth},
    tracer::{machine::Actor, sandbox, storage::Storage},
    world::{ActorId, Cut, Cuts, Effect, FAULT_FLAG, IN_ORDER_FLAG, Inode, Node, Op, Step, Tree, Warning, WarningKind},
};

/// Files of the world after a power cut get numbers from here: none of them was seen before it.
const AFTER_CUT: u64 = 500_000;

/// A moment at which the power may go.
#[derive(Clone, Debug)]
pub(in crate::tracer) struct CutPoint {
    /// Decisions made before.
    pub at: usize,
    /// Events on the disk before.
    pub events: usize,
    /// Steps made before.
    pub steps: usize,
    /// Workers that have ended.
    pub ended: Vec<usize>,
    /// How often each worker has acknowledged what it did.
    pub said: Vec<u64>,
}

impl Session {
    /// Whether this scenario asks for power cuts.
    pub(super) fn cuts_power(&self) -> bool {
        self.scenario.faults.iter().any(|fault| fault.parsed_kind() == Ok(FaultKind::PowerCut))
    }

    /// Follows what happens to the disk from now on.
    pub(super) fn follow_disk(&mut self, base: &Tree, world: &[(String, u64)]) {
        let number = |real: u64| self.machine.inodes.peek(real);
        let Some(root) = number(self.machine.roots[1]) else { return };
        let paths = world.iter().filter_map(|(path, real)| Some((path.clone(), number(*real)?)));
        let mut storage = Storage::new(base, root, paths);
        storage.says = self.scenario.workers.iter().map(|w| Acknowledging::new(w).unwrap_or_default()).collect();
        self.machine.storage = Some(storage);
    }

    fn disk_states(&self, storage: &Storage, events: usize) -> States {
        states(&storage.disk, &storage.events[..events], self.scenario.search.disk, Limits::default())
    }

    /// The decisions before which the scenario wants the power to go (`at`, `nth`, `worker`); `None`: any.
    fn wanted_moments(&self) -> Option<BTreeSet<usize>> {
        let rules = self.scenario.faults.iter().filter_map(|fault| Rule::new(fault).ok());
        let rules: Vec<Rule> = rules.filter(|rule| rule.kind == FaultKind::PowerCut).collect();
        let everybody = self.scenario.workers.len();
        if rules.iter().any(|r| r.is_general() && r.at.is_none() && r.nth == Nth::Each && r.workers.len() == everybody)
        {
            return None;
        }
        Some(rules.iter().flat_map(|rule| rule.moments(&self.machine.steps)).collect())
    }

    /// The distinct states in which a power cut of this run may leave the disk, and the first moment for each.
    pub(super) fn cuts(&self) -> Cuts {
        let mut cuts = Cuts { complete: true, ..Cuts::default() };
        let Some(storage) = &self.machine.storage else { return cuts };
        let mut seen = BTreeSet::new();
        let mut last = None;
        let wanted = self.wanted_moments();
        for point in self.machine.cut_points.iter().filter(|p| wanted.as_ref().is_none_or(|w| w.contains(&p.at))) {
            // Nothing happened to the disk, and nobody ended or said anything.
            let now = (point.events, &point.ended, &point.said);
            if last.replace(now) == Some(now) {
                continue;
            }
            cuts.points += 1;
            let states = self.disk_states(storage, point.events);
            cuts.complete &= states.complete;
            cuts.left_out += (states.known - states.states.len()) as u64;
            for (loss, state) in states.states.iter().enumerate() {
                if seen.insert((state.hash, &point.ended, &point.said)) {
                    let ended = point.ended.iter().map(|actor| ActorId(*actor as u16)).collect();
                    let (at, loss, said) = (point.at as u64, loss as u32, point.said.clone());
                    cuts.cuts.push(Cut { at, loss, state: state.hash, ended, said });
                }
            }
        }
        cuts
    }

    /// Takes the power away: the world becomes the state with this number, and the workers that have made no step and
    /// come after others are to be started.
    pub(super) fn lose_power(&mut self, loss: u32) -> io::Result<()> {
        let Some(storage) = self.machine.storage.take() else { return Ok(()) };
        for why in &storage.unknown {
            let text = format!("what a power cut leaves cannot be told: {why}");
            self.machine.warnings.insert(Warning { kind: WarningKind::NotControlled, text });
        }
        let events = storage.events.len();
        let mut found = self.disk_states(&storage, events).states;
        // A changed program may have fewer states: the one that lost most of them.
        let state = found.swap_remove((loss as usize).min(found.len() - 1));
        let in_order = self.earlier_moment(&storage, &state);
        let before = self.world.capture(&|_| true)?;
        let everything = |_: u64| true;
        let world = self.world.reset(&state.tree, &everything)?;
        self.tmp.reset(&Tree::new(), &everything)?;
        self.shm.reset(&Tree::new(), &everything)?;
        let wall = self.machine.clock.wall();
        let mut numbered = Vec::new();
        for root in [sandbox::root(), sandbox::world(), sandbox::tmp(), sandbox::shm(), sandbox::results()] {
            use std::os::unix::fs::MetadataExt;
            numbered.push(fs::metadata(root)?.ino());
        }
        numbered.extend(world.iter().map(|(_, real)| *real));
        self.machine.inodes.restart(AFTER_CUT, numbered.into_iter(), wall);
        let numbers: BTreeMap<&str, Inode> =
            world.iter().filter_map(|(path, real)| Some((path.as_str(), self.machine.inodes.peek(*real)?))).collect();
        self.machine.reboot();
        let effects = differences(&before, &state.tree, &numbers);
        let words = words(&storage, &state);
        self.mark_dead(effects, &words, in_order);
        Ok(())
    }

    /// The moment at which the running programs saw the disk as it is now, if nobody has ended or acknowledged anything
    /// since: the number of steps before it.
    fn earlier_moment(&self, storage: &Storage, state: &State) -> Option<usize> {
        let now = self.machine.cut_points.last()?;
        let since = self.machine.cut_points.iter().rev();
        let mut since = since.take_while(|point| (&point.ended, &point.said) == (&now.ended, &now.said));
        let limits = Limits { states: 1, ..Limits::default() };
        let moment = since.find(|point| {
            let synced = [&storage.events[..point.events], &[Event::SyncAll]].concat();
            let one = states(&storage.disk, &synced, self.scenario.search.disk, limits);
            one.states.first().is_some_and(|s| s.hash == state.hash)
        });
        moment.map(|point| point.steps)
    }

    /// Everybody who was running is dead; who only waited for others begins afresh.
    fn mark_dead(&mut self, effects: Vec<Effect>, lost: &str, in_order: Option<usize>) {
        let stepped: BTreeSet<usize> = self.machine.steps.iter().map(|s| usize::from(s.actor.0)).collect();
        let last = self.machine.steps.last().map_or(0, |s| usize::from(s.actor.0));
        let mut victims = Vec::new();
        for (number, worker) in self.scenario.workers.iter().enumerate() {
            let actor = &mut self.machine.actors[number];
            if actor.ended {
                continue;
            }
            if !worker.after.is_empty() && !stepped.contains(&number) {
                *actor = Actor::default();
                continue;
            }
            actor.started = true;
            actor.ended = true;
            actor.end.exit = None;
            actor.end.signal = None;
            actor.end.ended_by = Some("power-cut".into());
            victims.push(number);
        }
        let mut effects = Some(effects);
        let shown = if victims.is_empty() { vec![last] } else { victims };
        for number in shown {
            let first = effects.is_some();
            let mut flags = vec![format!("{FAULT_FLAG}{}", FaultKind::PowerCut)];
            flags.extend(in_order.map(|steps| format!("{IN_ORDER_FLAG}{steps}")));
            let step = Step {
                actor: ActorId(number as u16),
                flags,
                result: if first { format!("the power goes; {lost}") } else { "the power goes".into() },
                barrier: true,
                effects: effects.take().unwrap_or_default(),
                ..self.machine.nobodys_step(Op::Exit)
            };
            self.machine.steps.push(step);
        }
    }
}

/// What is lost, for people: `lost: write tmp 0..18`.
fn words(storage: &Storage, state: &State) -> String {
    if state.lost.is_empty() {
        return "everything reached the disk".into();
    }
    let paths: BTreeMap<_, _> = storage.disk.paths.iter().map(|(path, node)| (*node, path.clone())).collect();
    let described = crate::fault::power_cut::describe(&storage.events, &paths, &state.lost);
    format!("lost: {}", described.join(", "))
}

/// What a running program would see change: every name has a new number, and some files other contents.
fn differences(before: &Tree, after: &Tree, numbers: &BTreeMap<&str, Inode>) -> Vec<Effect> {
    let mut effects = Vec::new();
    for path in before.keys().filter(|path| !after.contains_key(*path)) {
        effects.push(Effect::Bind { path: path.clone(), inode: None });
    }
    for (path, node) in after {
        let Some(inode) = numbers.get(path.as_str()).copied() else { continue };
        effects.push(Effect::Bind { path: path.clone(), inode: Some(inode) });
        if let (Node::File { bytes, .. }, true) = (node, before.get(path) != Some(node)) {
            effects.push(Effect::Content { inode, after: Some(bytes.clone()) });
        }
    }
    effects
}
