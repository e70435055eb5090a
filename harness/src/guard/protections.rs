//! Which protections programs use, read off their traces.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    scenario::{FaultKind, Scenario},
    world::{ActorId, Op, Protection, Run, Step, Weakening},
};

/// `-EEXIST`.
const EXISTS: i64 = -17;
/// `-ENOTEMPTY`.
const NOT_EMPTY: i64 = -39;

/// What is known of one protection.
#[derive(Clone, Debug, Default)]
pub(super) struct Use {
    /// Who uses it.
    pub actors: BTreeSet<ActorId>,
    /// Two actors met on it in one run.
    pub contended: bool,
    /// What everybody who used it held exclusively, in every run.
    pub under: Option<BTreeSet<Weakening>>,
    /// A name that it made went away again.
    pub undone: bool,
    /// Files whose content was changed by who held it: each by nothing but whole appends (true), or otherwise.
    pub guards: BTreeMap<String, bool>,
}

/// Everything seen so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Protections {
    uses: BTreeMap<Weakening, Use>,
    /// Files that several actors append to with `O_APPEND`.
    appends: BTreeMap<String, BTreeSet<ActorId>>,
    /// Syncs matter.
    power_cuts: bool,
    /// For each actor those that have ended before it begins.
    after: Vec<BTreeSet<ActorId>>,
}

impl Protections {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let power_cut = |kind: &str| kind.parse::<FaultKind>().is_ok_and(|kind| kind == FaultKind::PowerCut);
        let mut after: Vec<BTreeSet<ActorId>> = Vec::new();
        for worker in &scenario.workers {
            after.push(worker.after.iter().map(|earlier| ActorId(*earlier as u16)).collect());
        }
        // As many rounds as there are workers reach everybody.
        for _ in 0..after.len() {
            for actor in 0..after.len() {
                let further: BTreeSet<ActorId> =
                    after[actor].iter().filter_map(|a| after.get(usize::from(a.0))).flatten().copied().collect();
                after[actor].extend(further);
            }
        }
        Protections {
            power_cuts: scenario.faults.iter().any(|fault| power_cut(&fault.kind)),
            after,
            ..Protections::default()
        }
    }

    /// Two of them may run at the same time.
    fn at_once(&self, actors: &BTreeSet<ActorId>) -> bool {
        let before = |a: ActorId, b: ActorId| self.after.get(usize::from(b.0)).is_some_and(|after| after.contains(&a));
        actors.iter().any(|a| actors.range(..*a).any(|b| !before(*a, *b) && !before(*b, *a)))
    }

    /// Locks that several actors take, each of them after the one before has ended.
    pub(super) fn in_turns(&self) -> impl Iterator<Item = (&Weakening, &BTreeSet<ActorId>)> {
        let lock = |w: &Weakening| matches!(w.kind, Protection::Flock | Protection::RecordLock);
        let meet = |used: &Use| used.actors.len() > 1 && !self.at_once(&used.actors);
        self.uses.iter().filter(move |(w, used)| lock(w) && meet(used)).map(|(w, used)| (w, &used.actors))
    }

    /// Those on which two actors met.
    pub(super) fn contended(&self) -> impl Iterator<Item = (&Weakening, &Use)> {
        self.uses.iter().filter(|(_, used)| used.contended)
    }

    /// Locks that only one actor ever takes.
    pub(super) fn lonely(&self) -> impl Iterator<Item = (&Weakening, ActorId)> {
        let lock = |w: &Weakening| matches!(w.kind, Protection::Flock | Protection::RecordLock);
        self.uses.iter().filter(move |(w, u)| lock(w) && u.actors.len() == 1).filter_map(|(w, u)| {
            let actor = u.actors.first()?;
            Some((w, *actor))
        })
    }

    /// Files to which several actors append, each line in one call.
    pub(super) fn appended(&self) -> impl Iterator<Item = (&str, &BTreeSet<ActorId>)> {
        self.appends.iter().filter(|(_, actors)| actors.len() > 1).map(|(path, actors)| (path.as_str(), actors))
    }

    /// Learns from a run.
    pub(super) fn observe(&mut self, run: &Run) {
        let touched = touched(run);
        let folders = folders(run);
        let others = |path: &str, me: ActorId| {
            touched.get(path).is_some_and(|t| t.iter().any(|(actor, _)| *actor != me)).then(|| path.to_owned())
        };
        let mut holding = Holding::default();
        let mut used: BTreeMap<Weakening, BTreeSet<ActorId>> = BTreeMap::new();
        // Renames count as touching what they replace, and so does whoever reads or writes that.
        let mut renamed: BTreeSet<Weakening> = BTreeSet::new();
        let mut held_at: Vec<BTreeSet<Weakening>> = Vec::with_capacity(run.steps.len());
        for (index, step) in run.steps.iter().enumerate() {
            held_at.push(holding.of(step.actor));
            self.guarded(step, &held_at[index]);
            if step.op == Op::Write && step.flags.iter().any(|f| f == "append") {
                let appends = self.appends.entry(step.path.clone().unwrap_or_default()).or_default();
                appends.insert(step.actor);
            }
            let put = folder_put(step, &folders);
            let weakening = match self.kind(run, index) {
                // A folder in its place is a lock, as mkdir is, and put aside it is none.
                _ if put.is_some() => put.filter(|path| taken_by_many(run, &folders, path)),
                Some(Protection::Rename) if step.path.as_deref().is_some_and(|path| folders.contains(path)) => None,
                Some(Protection::Rename) => {
                    let goal = step.path2.as_deref().and_then(|path| others(path, step.actor));
                    let source = || step.path.as_deref().and_then(|path| others(path, step.actor));
                    goal.or_else(source).map(|path| Weakening::new(Protection::Rename, path))
                }
                Some(kind) => {
                    let goal = matches!(kind, Protection::Link | Protection::NoReplace);
                    let path = if goal { &step.path2 } else { &step.path };
                    path.clone().map(|path| Weakening::new(kind, path))
                }
                None => None,
            };
            // A file that never had a name is nobody else's.
            if let Some(weakening) = weakening.filter(|w| w.path.rsplit('/').next() != Some("(unnamed)")) {
                if weakening.kind == Protection::Rename && !folders.contains(weakening.path.as_str()) {
                    renamed.insert(weakening.clone());
                }
                used.entry(weakening.clone()).or_default().insert(step.actor);
                self.used(&weakening, step.actor, &held_at[index]);
            }
            if let Some(undone) = holding.step(step, &folders)
                && let Some(known) = self.uses.get_mut(&undone)
            {
                known.undone = true;
            }
        }
        for weakening in renamed {
            let mut meets = used.remove(&weakening).unwrap_or_default();
            for (actor, index) in touched.get(weakening.path.as_str()).into_iter().flatten() {
                meets.insert(*actor);
                if content(&run.steps[*index]) {
                    self.under(&weakening, &held_at[*index]);
                }
            }
            used.insert(weakening, meets);
        }
        for (weakening, actors) in used {
            // The power is cut for one worker as for many.
            let alone = weakening.kind == Protection::Sync;
            let meet = alone || self.at_once(&actors);
            let known = self.uses.entry(weakening).or_default();
            known.contended |= meet;
        }
    }

    fn used(&mut self, weakening: &Weakening, actor: ActorId, held: &BTreeSet<Weakening>) {
        self.uses.entry(weakening.clone()).or_default().actors.insert(actor);
        self.under(weakening, held);
    }

    /// What is changed while something is held.
    fn guarded(&mut self, step: &Step, held: &BTreeSet<Weakening>) {
        let changed = match step.op {
            _ if step.failed() => return,
            Op::Rename => &step.path2,
            Op::Write | Op::Truncate => &step.path,
            Op::Open if step.flags.iter().any(|f| f == "trunc") => &step.path,
            _ => return,
        };
        let Some(changed) = changed else { return };
        let whole = step.op == Op::Write && step.flags.iter().any(|f| f == "append");
        for weakening in held {
            let guards = &mut self.uses.entry(weakening.clone()).or_default().guards;
            *guards.entry(changed.clone()).or_insert(true) &= whole;
        }
    }

    fn under(&mut self, weakening: &Weakening, held: &BTreeSet<Weakening>) {
        let known = self.uses.entry(weakening.clone()).or_default();
        let held: BTreeSet<Weakening> = held.iter().filter(|h| *h != weakening).cloned().collect();
        known.under = Some(match known.under.take() {
            Some(under) => under.intersection(&held).cloned().collect(),
            None => held,
        });
    }

    /// The protection that a step is a use of.
    fn kind(&self, run: &Run, index: usize) -> Option<Protection> {
        let step = &run.steps[index];
        let flag = |name: &str| step.flags.iter().any(|f| f == name);
        Some(match step.op {
            Op::Lock if flag("test") => return None,
            Op::Lock if flag("record") || flag("ofd") => Protection::RecordLock,
            Op::Lock => Protection::Flock,
            Op::Open | Op::Create if flag("excl") => Protection::ExclusiveCreate,
            Op::Mkdir => Protection::Mkdir,
            Op::Link => Protection::Link,
            Op::Symlink => Protection::Symlink,
            // mv asks whether the goal is there, and replaces it all the same when that is what it was told.
            Op::Rename if flag("noreplace") && step.ret == EXISTS => {
                let replaced =
                    |s: &Step| s.op == Op::Rename && s.actor == step.actor && s.path2 == step.path2 && s.ret == 0;
                if run.steps[index..].iter().any(replaced) {
                    return None;
                }
                Protection::NoReplace
            }
            Op::Rename if step.ret == 0 => Protection::Rename,
            Op::Sync if self.power_cuts => Protection::Sync,
            _ => return None,
        })
    }
}

/// Who touches which path, and where in the trace.
fn touched(run: &Run) -> BTreeMap<&str, Vec<(ActorId, usize)>> {
    let mut touched: BTreeMap<&str, Vec<(ActorId, usize)>> = BTreeMap::new();
    for (index, step) in run.steps.iter().enumerate() {
        for path in [&step.path, &step.path2].into_iter().flatten() {
            touched.entry(path).or_default().push((step.actor, index));
        }
    }
    touched
}

/// What is known to be a folder: somebody made it or touched something in it.
fn folders(run: &Run) -> BTreeSet<&str> {
    let mut folders = BTreeSet::new();
    for step in &run.steps {
        if step.op == Op::Mkdir && !step.failed() {
            folders.extend(step.path.as_deref());
        }
        for path in [&step.path, &step.path2].into_iter().flatten() {
            folders.extend(path.match_indices('/').map(|(at, _)| &path[..at]).filter(|above| !above.is_empty()));
        }
    }
    folders
}

/// The lock that a step takes, or fails to take, by putting a folder into its place.
fn folder_put(step: &Step, folders: &BTreeSet<&str>) -> Option<Weakening> {
    let put = step.op == Op::Rename && [0, EXISTS, NOT_EMPTY].contains(&step.ret);
    let from = step.path.as_deref().filter(|path| put && folders.contains(path));
    from.and(step.path2.as_deref()).map(|to| Weakening::new(Protection::Rename, to))
}

/// Several actors put folders there.
fn taken_by_many(run: &Run, folders: &BTreeSet<&str>, lock: &Weakening) -> bool {
    let takers = run.steps.iter().filter(|step| folder_put(step, folders).as_ref() == Some(lock));
    takers.map(|step| step.actor).collect::<BTreeSet<_>>().len() > 1
}

/// Whether a step reads or writes what is in a file.
fn content(step: &Step) -> bool {
    match step.op {
        Op::Read | Op::Write | Op::Truncate | Op::Map | Op::Rename => true,
        Op::Open => step.flags.iter().any(|f| f == "trunc"),
        _ => false,
    }
}

/// What each actor holds exclusively, as the run goes on.
#[derive(Default)]
struct Holding(BTreeMap<ActorId, BTreeSet<Weakening>>);

impl Holding {
    fn of(&self, actor: ActorId) -> BTreeSet<Weakening> {
        self.0.get(&actor).cloned().unwrap_or_default()
    }

    /// Returns what was given back by taking a name away.
    fn step(&mut self, step: &Step, folders: &BTreeSet<&str>) -> Option<Weakening> {
        let held = self.0.entry(step.actor).or_default();
        let flag = |name: &str| step.flags.iter().any(|f| f == name);
        let path = step.path.clone().unwrap_or_default();
        let names =
            [Protection::ExclusiveCreate, Protection::Mkdir, Protection::Link, Protection::Symlink, Protection::Rename];
        let locks = [Protection::Flock, Protection::RecordLock];
        if step.ret < 0 {
            return None;
        }
        match step.op {
            Op::Lock if flag("exclusive") => {
                let kind = if flag("record") || flag("ofd") { Protection::RecordLock } else { Protection::Flock };
                held.insert(Weakening::new(kind, path));
            }
            // Giving back is by the description; a close shows that it gives a lock back by what it touches.
            Op::Unlock | Op::Lock => held.retain(|w| w.path != path || !locks.contains(&w.kind)),
            Op::Close if !step.accesses.is_empty() => {
                held.retain(|w| w.path != path || !locks.contains(&w.kind));
            }
            Op::Create if flag("excl") => {
                held.insert(Weakening::new(Protection::ExclusiveCreate, path));
            }
            Op::Mkdir => {
                held.insert(Weakening::new(Protection::Mkdir, path));
            }
            Op::Symlink => {
                held.insert(Weakening::new(Protection::Symlink, path));
            }
            Op::Link => {
                held.insert(Weakening::new(Protection::Link, step.path2.clone().unwrap_or_default()));
            }
            Op::Unlink | Op::Rmdir | Op::Rename => {
                let put = folder_put(step, folders);
                let gone = held.iter().find(|w| w.path == path && names.contains(&w.kind)).cloned();
                held.retain(|w| w.path != path || !names.contains(&w.kind));
                held.extend(put);
                return gone;
            }
            Op::Exit => held.clear(),
            _ => {}
        }
        None
    }
}
