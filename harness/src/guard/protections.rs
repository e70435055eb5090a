//! Which protections programs use, read off their traces.

use std::collections::{BTreeMap, BTreeSet};

use crate::world::{ActorId, Op, Protection, Run, Step, Weakening};

/// `-EEXIST`.
const EXISTS: i64 = -17;

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
}

/// Everything seen so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Protections {
    uses: BTreeMap<Weakening, Use>,
    /// Files that several actors append to with `O_APPEND`.
    appends: BTreeMap<String, BTreeSet<ActorId>>,
    /// Syncs matter.
    power_cuts: bool,
}

impl Protections {
    pub(super) fn new(power_cuts: bool) -> Self {
        Protections { power_cuts, ..Protections::default() }
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
            if step.op == Op::Write && step.flags.iter().any(|f| f == "append") {
                let appends = self.appends.entry(step.path.clone().unwrap_or_default()).or_default();
                appends.insert(step.actor);
            }
            let weakening = match self.kind(run, index) {
                Some(Protection::Rename) => {
                    let goal = step.path2.as_deref().and_then(|path| others(path, step.actor));
                    let source = || step.path.as_deref().and_then(|path| others(path, step.actor));
                    goal.or_else(source).map(|path| Weakening { kind: Protection::Rename, path })
                }
                Some(kind) => {
                    let goal = matches!(kind, Protection::Link | Protection::NoReplace);
                    let path = if goal { &step.path2 } else { &step.path };
                    path.clone().map(|path| Weakening { kind, path })
                }
                None => None,
            };
            // A file that never had a name is nobody else's.
            if let Some(weakening) = weakening.filter(|w| w.path.rsplit('/').next() != Some("(unnamed)")) {
                if weakening.kind == Protection::Rename {
                    renamed.insert(weakening.clone());
                }
                used.entry(weakening.clone()).or_default().insert(step.actor);
                self.used(&weakening, step.actor, &held_at[index]);
            }
            if let Some(undone) = holding.step(step)
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
            let known = self.uses.entry(weakening).or_default();
            known.contended |= actors.len() > 1 || alone;
        }
    }

    fn used(&mut self, weakening: &Weakening, actor: ActorId, held: &BTreeSet<Weakening>) {
        self.uses.entry(weakening.clone()).or_default().actors.insert(actor);
        self.under(weakening, held);
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
    fn step(&mut self, step: &Step) -> Option<Weakening> {
        let held = self.0.entry(step.actor).or_default();
        let flag = |name: &str| step.flags.iter().any(|f| f == name);
        let path = step.path.clone().unwrap_or_default();
        let names = [Protection::ExclusiveCreate, Protection::Mkdir, Protection::Link, Protection::Symlink];
        let locks = [Protection::Flock, Protection::RecordLock];
        if step.ret < 0 {
            return None;
        }
        match step.op {
            Op::Lock if flag("exclusive") => {
                let kind = if flag("record") || flag("ofd") { Protection::RecordLock } else { Protection::Flock };
                held.insert(Weakening { kind, path });
            }
            // Giving back is by the description; a close shows that it gives a lock back by what it touches.
            Op::Unlock | Op::Lock => held.retain(|w| w.path != path || !locks.contains(&w.kind)),
            Op::Close if !step.accesses.is_empty() => {
                held.retain(|w| w.path != path || !locks.contains(&w.kind));
            }
            Op::Create if flag("excl") => {
                held.insert(Weakening { kind: Protection::ExclusiveCreate, path });
            }
            Op::Mkdir => {
                held.insert(Weakening { kind: Protection::Mkdir, path });
            }
            Op::Symlink => {
                held.insert(Weakening { kind: Protection::Symlink, path });
            }
            Op::Link => {
                held.insert(Weakening { kind: Protection::Link, path: step.path2.clone().unwrap_or_default() });
            }
            Op::Unlink | Op::Rmdir | Op::Rename => {
                let gone = held.iter().find(|w| w.path == path && names.contains(&w.kind)).cloned();
                held.retain(|w| w.path != path || !names.contains(&w.kind));
                return gone;
            }
            Op::Exit => held.clear(),
            _ => {}
        }
        None
    }
}
