//! A scenario inside its sandbox: the world prepared once, run again and again, accepted or rejected by the
//! scenario's own commands.

mod contents;
mod judging;
mod power_cut;

use contents::{Watched, initial_tree};
use judging::Judged;
pub(super) use power_cut::CutPoint;

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    fs, io,
    path::Path,
    time::Duration,
};

use super::{
    delays::Delays,
    faults::Faults,
    filter::Filters,
    machine::{Lost, Machine},
    sandbox,
    schedule::{Finished, Order, Worker},
    start::{self, Program},
};
use crate::{
    explore,
    scenario::{self, Scenario},
    world::{ActorEnd, Cuts, Ended, Node, Op, Outcome, Plan, Policy, Run, Step, Tree, Warning, WarningKind, WorkTree},
};

/// Why a scenario could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// A mistake of the user's: exit 2.
    #[error("{0}")]
    Scenario(String),
    /// The machine does not allow it: exit 3.
    #[error("{0}")]
    Machine(String),
}

/// Said of every run where there are no namespaces.
const NO_NAMESPACES: &str = "no namespaces are to be had here: process numbers are the machine's, workers are started \
                             afresh, one schedule at a time; what differs by that is cannot-tell (noclobber doctor)";

/// Everything that workers share, as it was after setup.
#[derive(Clone)]
struct Base {
    world: Tree,
    /// In the order of [`Session::watched`].
    watched: Vec<Tree>,
}

/// One scenario, ready to run.
pub(super) struct Session {
    scenario: Scenario,
    machine: Machine,
    filters: Filters,
    world: WorkTree,
    tmp: WorkTree,
    shm: WorkTree,
    watched: Vec<Watched>,
    /// What every schedule starts from, for each variant of the environment.
    bases: HashMap<u32, Base>,
    /// What check and state said of an outcome.
    judged: HashMap<[u8; 32], Judged>,
    /// The same before setup.
    initial: Base,
}

impl Session {
    /// Prepares a scenario; must be called in the sandbox.
    pub(super) fn new(scenario: Scenario) -> Result<Self, PrepareError> {
        let machine_error = |e: io::Error| PrepareError::Machine(format!("cannot prepare the sandbox: {e}"));
        let mut machine = Machine::new().map_err(machine_error)?;
        machine.step_limit = scenario.limits.steps;
        machine.exhaustive = scenario.search.exhaustive;
        machine.cpu_limit = Duration::from_secs(scenario.limits.cpu_seconds);
        machine.delays = Delays::new(&scenario.delays, scenario.workers.len());
        machine.faults = Faults::new(&scenario.faults, scenario.workers.len());
        let filters = Filters::new().map_err(|e| PrepareError::Machine(e.to_string()))?;
        let initial = Base { world: initial_tree(&scenario)?, watched: Vec::new() };
        let mut session = Session {
            machine,
            filters,
            world: WorkTree::new(sandbox::world().into()),
            tmp: WorkTree::new(sandbox::tmp().into()),
            shm: WorkTree::new(sandbox::shm().into()),
            watched: Vec::new(),
            bases: HashMap::new(),
            judged: HashMap::new(),
            initial,
            scenario,
        };
        if sandbox::shared().is_some() && session.cuts_power() {
            let why = "a power cut is told by names, and those may hold process numbers: it needs a PID namespace";
            return Err(PrepareError::Machine(why.into()));
        }
        session.cover_watched()?;
        session.base(0)?;
        Ok(session)
    }

    /// The world before the first step, in the ordinary environment; watched files under their own names.
    pub(super) fn initial(&mut self) -> Result<Tree, PrepareError> {
        let Base { world: mut files, watched } = self.base(0)?;
        for (watched, tree) in self.watched.iter().zip(watched) {
            files.extend(tree.into_iter().map(|(name, node)| (watched.name(&name), node)));
        }
        Ok(files)
    }

    /// From now on workers are forked from templates, where that is sound, or started afresh (as at first). Whoever
    /// compares a run before with one after compares a fresh start with the templates. Of each worker that is started
    /// afresh it says why.
    pub(super) fn templates(&mut self, wanted: bool) -> Result<Vec<Option<String>>, PrepareError> {
        self.machine.drop_templates().map_err(|e| PrepareError::Machine(e.to_string()))?;
        let all = |why: &str| vec![Some(why.to_owned()); self.scenario.workers.len()];
        if sandbox::shared().is_some() {
            return Ok(all("a copy has another process number, and there is no PID namespace here to give it that"));
        }
        if !wanted {
            return Ok(all("copies are not wanted"));
        }
        let failed = all("making the copies failed");
        let base = self.base(0)?;
        let io_error = |e: io::Error| PrepareError::Machine(format!("cannot reset the world: {e}"));
        self.reset(&base, 0, self.scenario.workers.len()).map_err(io_error)?;
        let workers = self.workers()?;
        let programs: Vec<Option<&Program>> =
            workers.iter().map(|w| w.after.is_empty().then_some(&w.program)).collect();
        match self.machine.build_templates(&programs, &self.filters, self.scenario.limits.output_bytes) {
            Ok(why) => Ok(why.into_iter().map(|why| why.map(str::to_owned)).collect()),
            Err(_) => {
                let _ = self.machine.kill_all();
                self.machine.templates.clear();
                Ok(failed)
            }
        }
    }

    /// Runs one schedule.
    pub(super) fn run(&mut self, plan: &Plan) -> Result<Run, PrepareError> {
        let base = self.base(plan.variant.number)?;
        let io_error = |e: io::Error| PrepareError::Machine(format!("cannot reset the world: {e}"));
        self.reset(&base, plan.variant.number, self.scenario.workers.len()).map_err(io_error)?;
        let workers = self.workers()?;
        let serial = match &plan.then {
            Policy::Serial(order) if plan.prefix.is_empty() => {
                Some(order.iter().map(|actor| usize::from(actor.0)).collect())
            }
            _ => None,
        };
        let cut = plan.faults.iter().find_map(|f| Some((usize::try_from(f.nth?).ok()?, f.loss?)));
        let serial_order: Option<Vec<usize>> = serial.clone();
        let mut chooser = explore::chooser(plan);
        // The bytes of writes are needed to tell what of them is lost.
        self.machine.record = plan.record || self.cuts_power();
        self.machine.explored = true;
        self.machine.faults.begin(&plan.faults);
        self.machine.weakening.clone_from(&plan.weakening);
        let order = Order {
            workers: &workers,
            chooser: chooser.as_mut(),
            serial,
            timeline: plan.then == Policy::Timeline && plan.prefix.is_empty(),
            time: self.scenario.search.time,
            output_limit: self.scenario.limits.output_bytes,
            choices: Vec::new(),
            cut: cut.map(|(at, _)| at),
        };
        let mut result = self.machine.run(order, &self.filters);
        if let (Ok(Finished { cut: true, choices, .. }), Some((_, loss))) = (&mut result, cut) {
            self.lose_power(loss).map_err(io_error)?;
            let order = Order {
                workers: &workers,
                chooser: chooser.as_mut(),
                serial: None,
                timeline: false,
                time: self.scenario.search.time,
                output_limit: self.scenario.limits.output_bytes,
                choices: std::mem::take(choices),
                cut: None,
            };
            result = self.machine.run(order, &self.filters);
        }
        // Setup, state and check keep all they ask for.
        self.machine.weakening = None;
        let Finished { ended, choices, pending, .. } = match result {
            Ok(finished) => finished,
            Err(lost) => {
                let _ = self.machine.kill_all();
                let ended = match lost {
                    Lost::Limit(name, value) => Ended::Limit(name.to_owned(), value),
                    lost => Ended::LostControl(lost.to_string()),
                };
                // No decision is told of a run that was lost, and none of its steps was one.
                self.machine.steps.iter_mut().for_each(|step| step.chosen = false);
                Finished { ended, choices: Vec::new(), pending: Vec::new(), cut: false }
            }
        };
        let diverged = chooser.diverged();
        // State and check make the machine forget.
        let cuts = if plan.faults.is_empty() && serial_order.is_none() { self.cuts() } else { Cuts::default() };
        // State and check reset the delays.
        let unmatched = self.machine.delays.unmatched();
        // Taken now: state and check are runs of their own.
        let maps = std::mem::take(&mut self.machine.maps);
        let outcome = match ended {
            Ended::Done | Ended::Deadlock(_) | Ended::Livelock(_) => Some(self.outcome(&ended).map_err(io_error)?),
            _ => None,
        };
        let mut warnings: Vec<Warning> = std::mem::take(&mut self.machine.warnings).into_iter().collect();
        if sandbox::shared().is_some() {
            warnings.push(Warning { kind: WarningKind::Note, text: NO_NAMESPACES.into() });
        }
        for (actor, state) in self.machine.actors.iter().enumerate() {
            if state.inner_choice {
                let text = format!("order inside {{{actor}}} ({} processes and threads) not explored", state.made);
                warnings.push(Warning { kind: WarningKind::Coverage, text });
            }
        }
        for warning in &mut warnings {
            warning.text = self.with_names(&warning.text);
        }
        let mut steps = std::mem::take(&mut self.machine.steps);
        super::signals::mark_targets(&mut steps);
        // Whoever was stopped early may have come to its other steps later.
        let came_to_end = |actor: usize| {
            let killed =
                |s: &Step| s.actor.0 as usize == actor && s.fault().is_some_and(|kind| kind.starts_with("kill"));
            ended == Ended::Done && !steps.iter().any(killed)
        };
        for (actor, file, path) in maps {
            if !came_to_end(actor) {
                continue;
            }
            let other = |s: &Step| {
                s.actor.0 as usize == actor
                    && s.inode == Some(file)
                    && !matches!(s.op, Op::Open | Op::Create | Op::Map | Op::Close)
            };
            if !steps.iter().any(other) {
                let name = &self.scenario.workers[actor].name;
                let text = format!("{name} works on {path} through memory only: nothing of it is seen");
                warnings.push(Warning { kind: WarningKind::NotControlled, text });
            }
        }
        let faults = plan.faults.clone();
        Ok(Run { steps, choices, faults, diverged, ended, pending, outcome, warnings, cuts, unmatched })
    }

    /// `{3}` in a warning is the name of worker 3.
    fn with_names(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (i, worker) in self.scenario.workers.iter().enumerate() {
            text = text.replace(&format!("{{{i}}}"), &worker.name);
        }
        text
    }

    fn workers(&self) -> Result<Vec<Worker>, PrepareError> {
        let worker = |w: &scenario::Worker| {
            let mut env = self.scenario.env.clone();
            env.extend(w.env.clone());
            let env = self.environment(&env, &[("NOCLOBBER_WORKER", w.name.clone().into())]);
            let program = Program::new(&w.run, &env)
                .map_err(|e| PrepareError::Machine(format!("worker {} does not start: {e}", w.name)))?;
            Ok(Worker { program, after: w.after.clone(), ends: w.ends })
        };
        self.scenario.workers.iter().map(worker).collect()
    }

    fn environment(&self, of: &BTreeMap<String, String>, more: &[(&str, OsString)]) -> BTreeMap<OsString, OsString> {
        let mut own: Vec<(&str, OsString)> = vec![
            ("SCENARIO_DIR", self.scenario.scenario_dir.clone().into()),
            ("NOCLOBBER_WORLD", sandbox::world().into()),
            ("TMPDIR", sandbox::tmp().into()),
            ("PWD", sandbox::world().into()),
        ];
        if self.scenario.home_in_world {
            own.push(("HOME", sandbox::world().into()));
        }
        own.extend(more.iter().cloned());
        start::environment(of, &own)
    }

    /// The world after setup.
    fn base(&mut self, variant: u32) -> Result<Base, PrepareError> {
        if let Some(base) = self.bases.get(&variant) {
            return Ok(base.clone());
        }
        let io_error = |e: io::Error| PrepareError::Machine(format!("cannot prepare the world: {e}"));
        let initial = self.initial.clone();
        self.reset(&initial, variant, 1).map_err(io_error)?;
        if let Some(setup) = self.scenario.setup.clone() {
            let end = self.command(&setup, &[]).map_err(|e| PrepareError::Scenario(format!("setup: {e}")))?;
            if end.exit != Some(0) {
                return Err(PrepareError::Scenario(format!(
                    "setup failed ({}): {}",
                    how_ended(&end),
                    last_lines(&end.stderr)
                )));
            }
        }
        let touched = |inode: u64| self.machine.inodes.is_dirty(inode);
        let world = self.world.capture(&touched).map_err(io_error)?;
        let watched: io::Result<_> = self.watched.iter().map(|watched| watched.copy.capture(&touched)).collect();
        let base = Base { world, watched: watched.map_err(io_error)? };
        self.bases.insert(variant, base.clone());
        Ok(base)
    }

    /// Puts the world back, and numbers its files.
    fn reset(&mut self, base: &Base, variant: u32, actors: usize) -> io::Result<()> {
        let inodes = &self.machine.inodes;
        let touched = |inode: u64| inodes.is_dirty(inode);
        let mut numbered = Vec::new();
        for root in [sandbox::root(), sandbox::world(), sandbox::tmp(), sandbox::shm(), sandbox::results()] {
            use std::os::unix::fs::MetadataExt;
            numbered.push(fs::metadata(root)?.ino());
        }
        self.machine.roots = [numbered[0], numbered[1]];
        let world = self.world.reset(&base.world, &touched)?;
        self.tmp.reset(&Tree::new(), &touched)?;
        self.shm.reset(&Tree::new(), &touched)?;
        numbered.extend(world.iter().map(|(_, inode)| *inode));
        for (watched, tree) in self.watched.iter_mut().zip(&base.watched) {
            numbered.extend(watched.copy.reset(tree, &touched)?.into_iter().map(|(_, inode)| inode));
        }
        self.machine.begin(actors, variant);
        self.machine.inodes.start(numbered.into_iter(), self.machine.clock.wall());
        if self.cuts_power() {
            self.follow_disk(&base.world, &world);
        }
        Ok(())
    }

    /// What the run left behind.
    fn outcome(&mut self, ended: &Ended) -> io::Result<Outcome> {
        let inodes = &self.machine.inodes;
        let mut files = self.world.capture(&|inode| inodes.is_dirty(inode))?;
        for watched in &self.watched {
            for (name, node) in watched.copy.capture(&|inode| inodes.is_dirty(inode))? {
                files.insert(watched.name(&name), node);
            }
        }
        let mut actors = Vec::new();
        for actor in &mut self.machine.actors {
            let mut end = actor.end.clone();
            if let Some(capture) = &actor.capture {
                [end.stdout, end.stderr] = capture.bytes();
            }
            if !actor.ended && end.exit.is_none() && end.signal.is_none() {
                end.ended_by.get_or_insert_with(|| "deadlock".into());
            }
            actors.push(end);
        }
        let mut outcome = Outcome { files, actors, state: None, check: None };
        self.machine.shown_outcome(&mut outcome);
        if *ended == Ended::Done && (self.scenario.oracle.state.is_some() || self.scenario.check.is_some()) {
            let key = digest(&outcome, self.machine.boot);
            if !self.judged.contains_key(&key) {
                let judged = self.judge(&outcome)?;
                self.judged.insert(key, judged);
            }
            (outcome.state, outcome.check) = self.judged[&key].clone();
        }
        Ok(outcome)
    }

    /// The final world and watched files, to be put in place once more.
    fn left(&self, outcome: &Outcome) -> Base {
        let mut left = Base { world: Tree::new(), watched: vec![Tree::new(); self.watched.len()] };
        for (name, node) in &outcome.files {
            let place = self.watched.iter().position(|watched| Path::new(name).starts_with(&watched.path));
            match place {
                Some(place) => {
                    let inner = Path::new(name).strip_prefix(&self.watched[place].path).unwrap_or(Path::new(name));
                    left.watched[place].insert(inner.to_string_lossy().into_owned(), node.clone())
                }
                None => left.world.insert(name.clone(), node.clone()),
            };
        }
        left
    }
}

/// Of all that the state and check commands may tell apart; `boot`: which start of the machine they see.
fn digest(outcome: &Outcome, boot: u16) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&boot.to_le_bytes());
    for (path, node) in &outcome.files {
        hasher.update(path.as_bytes());
        match node {
            Node::File { mode, bytes } => hasher.update(&mode.to_le_bytes()).update(blake3::hash(bytes).as_bytes()),
            other => hasher.update(format!("{other:?}").as_bytes()),
        };
        hasher.update(&[0]);
    }
    for end in &outcome.actors {
        hasher.update(format!("{:?} {:?} {:?}", end.exit, end.signal, end.ended_by).as_bytes());
        hasher.update(blake3::hash(&end.stdout).as_bytes()).update(blake3::hash(&end.stderr).as_bytes());
    }
    *hasher.finalize().as_bytes()
}

fn how_ended(end: &ActorEnd) -> String {
    match (end.exit, end.signal) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no end".into(),
    }
}

/// The end of an error output.
fn last_lines(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}
