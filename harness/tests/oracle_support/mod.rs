//! A tiny file system that produces runs: workers are lists of acts, a schedule says whose act is next. It stands in
//! for the engine, so that judges are tested on traces with honest accesses and effects.

#![allow(dead_code, unreachable_pub)]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use noclobber::{
    oracle::{RunError, SerialRunner},
    scenario::{Command, Ends, Limits, OracleConfig, Scenario, Search, Worker},
    world::{
        Access, ActorEnd, ActorId, CheckResult, Effect, Ended, Inode, Mode, Node, Object, Op, Outcome, Run, Step, Sync,
        Variant,
    },
};

const ROOT: Inode = Inode(0);
const ENOENT: i64 = 2;
const EAGAIN: i64 = 11;
const EEXIST: i64 = 17;

type Compute = Arc<dyn Fn(&Mind) -> String + Send + ::core::marker::Sync>;

type Check = Arc<dyn Fn(&BTreeMap<String, Node>) -> bool + Send + ::core::marker::Sync>;

/// One visible operation of a worker.
#[derive(Clone)]
pub enum Act {
    /// Opens for reading.
    Open(String),
    /// Opens with O_CREAT | O_TRUNC.
    Truncate(String),
    /// Opens with O_CREAT | O_APPEND.
    OpenAppend(String),
    /// Opens with O_CREAT | O_EXCL; fails when it exists.
    Exclusive(String),
    /// Reads all into the worker's memory under the path.
    Read(String),
    /// Writes (to the end of an appending or just truncated file).
    Write(String, Compute),
    Close(String),
    Rename(String, String),
    Unlink(String),
    Stat(String),
    /// flock on an open file; must be free.
    Lock(String),
    /// flock with LOCK_NB: fails when it is held.
    TryLock(String),
    Unlock(String),
    /// To stdout (no step).
    Print(Compute),
    /// Sets the exit code; without it 0.
    Exit(Arc<dyn Fn(&Mind) -> i32 + Send + ::core::marker::Sync>),
    /// Looks up the operation marker.
    Mark,
    /// Looks up the marker of what is done.
    Acknowledge,
    /// Is killed by a fault; does nothing more.
    Die,
    /// Skips the next acts when the condition holds.
    SkipIf(usize, Arc<dyn Fn(&Mind) -> bool + Send + ::core::marker::Sync>),
}

/// What a worker knows.
#[derive(Clone, Default, Debug)]
pub struct Mind {
    /// What it read, by path.
    pub read: BTreeMap<String, String>,
    /// Whether its last act failed.
    pub failed: bool,
    /// The environment: 0 is the ordinary one.
    pub variant: u32,
    /// Its number.
    pub me: usize,
}

pub fn text(text: &str) -> Compute {
    let text = text.to_owned();
    Arc::new(move |_| text.clone())
}

pub fn compute(f: impl Fn(&Mind) -> String + Send + ::core::marker::Sync + 'static) -> Compute {
    Arc::new(f)
}

/// Opens, reads and closes.
pub fn read(path: &str) -> Vec<Act> {
    vec![Act::Open(path.into()), Act::Read(path.into()), Act::Close(path.into())]
}

/// Rewrites in place.
pub fn rewrite(path: &str, content: Compute) -> Vec<Act> {
    vec![Act::Truncate(path.into()), Act::Write(path.into(), content), Act::Close(path.into())]
}

/// Writes a private file and renames it over the path.
pub fn replace(path: &str, temporary: &str, content: Compute) -> Vec<Act> {
    let mut acts = rewrite(temporary, content);
    acts.push(Act::Rename(temporary.into(), path.into()));
    acts
}

/// Appends one line.
pub fn append(path: &str, line: Compute) -> Vec<Act> {
    vec![Act::OpenAppend(path.into()), Act::Write(path.into(), line), Act::Close(path.into())]
}

/// Joins lists of acts.
pub fn acts<const N: usize>(parts: [Vec<Act>; N]) -> Vec<Act> {
    parts.into_iter().flatten().collect()
}

/// Between taking and giving back an flock.
pub fn locked(lock: &str, inner: Vec<Act>) -> Vec<Act> {
    let mut all = vec![Act::OpenAppend(lock.into()), Act::Lock(lock.into())];
    all.extend(inner);
    all.extend([Act::Unlock(lock.into()), Act::Close(lock.into())]);
    all
}

/// The programs of a scenario and the world they begin in.
#[derive(Clone, Default)]
pub struct Programs {
    pub workers: Vec<Vec<Act>>,
    pub initial: BTreeMap<String, Node>,
    /// Judges the final files, when the scenario has a check.
    pub check: Option<Check>,
    /// Serial runs made.
    pub runs: Vec<(Vec<u16>, u32)>,
    /// Orders (by first worker) that cannot finish.
    pub infeasible: BTreeSet<u16>,
}

pub fn file(content: &str) -> Node {
    Node::File { mode: 0o644, bytes: Arc::from(content.as_bytes()) }
}

pub fn programs<const N: usize>(initial: &[(&str, &str)], workers: [Vec<Act>; N]) -> Programs {
    let initial = initial.iter().map(|(path, content)| ((*path).to_owned(), file(content))).collect();
    Programs { workers: workers.into(), initial, ..Programs::default() }
}

/// A scenario with that many workers named A, B, ...
pub fn scenario(workers: usize) -> Scenario {
    let worker = |at: usize| Worker {
        name: char::from(b'A' + at as u8).to_string(),
        group: char::from(b'A' + at as u8).to_string(),
        run: Command::Shell("true".into()),
        after: Vec::new(),
        env: BTreeMap::new(),
        ends: Ends::Exit,
        exit: vec![0],
        acknowledges: None,
    };
    Scenario {
        name: "test".into(),
        about: String::new(),
        expect: None,
        file: None,
        scenario_dir: "/".into(),
        dir: None,
        dir_filtered: false,
        files: BTreeMap::new(),
        setup: None,
        check: None,
        watch: Vec::new(),
        env: BTreeMap::new(),
        home_in_world: false,
        workers: (0..workers).map(worker).collect(),
        delays: Vec::new(),
        faults: Vec::new(),
        search: Search::default(),
        oracle: OracleConfig::default(),
        limits: Limits::default(),
    }
}

impl Programs {
    /// Runs one schedule: `"AAB"` lets A act twice, then B; then everybody runs to the end in order.
    pub fn run(&self, schedule: &str) -> Run {
        let all: Vec<usize> = (0..self.workers.len()).collect();
        self.schedule(&schedule.bytes().map(|b| usize::from(b - b'A')).collect::<Vec<_>>(), &all, 0)
    }

    fn schedule(&self, first: &[usize], then: &[usize], variant: u32) -> Run {
        let mut sim = Sim::new(self, variant);
        for worker in first {
            sim.act(self, *worker);
        }
        for worker in then {
            while sim.act(self, *worker) {}
        }
        sim.finish(self)
    }
}

impl SerialRunner for Programs {
    fn run_serial(&mut self, order: &[ActorId], variant: Variant) -> Result<Run, RunError> {
        self.runs.push((order.iter().map(|actor| actor.0).collect(), variant.number));
        let mut run =
            self.schedule(&[], &order.iter().map(|actor| usize::from(actor.0)).collect::<Vec<_>>(), variant.number);
        if order.first().is_some_and(|first| self.infeasible.contains(&first.0)) {
            run.ended = Ended::Deadlock(vec![(order[0], "a worker that is not there".into())]);
        }
        Ok(run)
    }
}

struct Sim {
    names: BTreeMap<String, Inode>,
    content: BTreeMap<Inode, Vec<u8>>,
    /// Open files: (actor, path) -> inode, appends, writes.
    open: BTreeMap<(usize, String), (Inode, bool, bool)>,
    flock: BTreeMap<Inode, usize>,
    made: Vec<u64>,
    minds: Vec<Mind>,
    at: Vec<usize>,
    ends: Vec<ActorEnd>,
    steps: Vec<Step>,
}

impl Sim {
    fn new(programs: &Programs, variant: u32) -> Sim {
        let workers = programs.workers.len();
        let mut sim = Sim {
            names: BTreeMap::new(),
            content: BTreeMap::new(),
            open: BTreeMap::new(),
            flock: BTreeMap::new(),
            made: vec![0; workers],
            minds: (0..workers).map(|me| Mind { variant, me, ..Mind::default() }).collect(),
            at: vec![0; workers],
            ends: vec![ActorEnd::default(); workers],
            steps: Vec::new(),
        };
        for (number, (path, node)) in programs.initial.iter().enumerate() {
            let inode = Inode(number as u64 + 1);
            sim.names.insert(path.clone(), inode);
            if let Node::File { bytes, .. } = node {
                sim.content.insert(inode, bytes.to_vec());
            }
        }
        sim
    }

    /// Makes the worker's next act; false when it has none left.
    fn act(&mut self, programs: &Programs, worker: usize) -> bool {
        let Some(act) = programs.workers[worker].get(self.at[worker]) else { return false };
        self.at[worker] += 1;
        match act.clone() {
            Act::Open(path) => self.open(worker, &path, &[]),
            Act::Truncate(path) => self.open(worker, &path, &["trunc"]),
            Act::OpenAppend(path) => self.open(worker, &path, &["append"]),
            Act::Exclusive(path) => self.open(worker, &path, &["excl"]),
            Act::Read(path) => self.read(worker, &path),
            Act::Write(path, content) => {
                let content = content(&self.minds[worker]);
                self.write(worker, &path, content.into_bytes());
            }
            Act::Close(path) => self.close(worker, &path),
            Act::Rename(from, to) => self.rename(worker, &from, &to),
            Act::Unlink(path) => self.unlink(worker, &path),
            Act::Stat(path) => {
                let inode = self.names.get(&path).copied();
                let mut step = self.step(worker, Op::Stat, &path, inode);
                step.accesses = vec![entry(&path, Mode::Read)];
                match inode {
                    Some(inode) => step.accesses.push(Access::new(Object::Meta(inode), Mode::Read)),
                    None => step.ret = -ENOENT,
                }
                self.push(step);
            }
            Act::Mark => {
                let mut step = self.step(worker, Op::Access, noclobber::oracle::MARKER, None);
                step.ret = -ENOENT;
                step.accesses = vec![entry(".noclobber", Mode::Read)];
                self.push(step);
                self.minds[worker].failed = false;
            }
            Act::Acknowledge => {
                let mut step = self.step(worker, Op::Access, noclobber::world::ACK_MARKER, None);
                step.ret = -ENOENT;
                self.push(step);
            }
            Act::Die => {
                let mut step = self.step(worker, Op::Exit, "", None);
                step.path = None;
                step.flags.push(format!("{}kill", noclobber::world::FAULT_FLAG));
                self.push(step);
                let end = &mut self.ends[worker];
                (end.exit, end.signal, end.ended_by) = (None, Some(9), Some("kill".into()));
                self.at[worker] = usize::MAX;
            }
            Act::Lock(path) => self.lock(worker, &path, true),
            Act::TryLock(path) => self.lock(worker, &path, false),
            Act::Unlock(path) => {
                let (inode, ..) = self.open[&(worker, path.clone())];
                let mut step = self.step(worker, Op::Unlock, &path, Some(inode));
                self.flock.remove(&inode);
                let mut access = Access::new(Object::Flock(inode), Mode::Write);
                access.sync = Some(Sync::Free);
                step.accesses = vec![access];
                self.push(step);
            }
            Act::Print(what) => {
                let what = what(&self.minds[worker]);
                self.ends[worker].stdout.extend(what.into_bytes());
            }
            Act::Exit(code) => self.ends[worker].exit = Some(code(&self.minds[worker])),
            Act::SkipIf(count, condition) => {
                if condition(&self.minds[worker]) {
                    self.at[worker] += count;
                }
            }
        }
        true
    }

    fn step(&self, worker: usize, op: Op, path: &str, inode: Option<Inode>) -> Step {
        Step {
            actor: ActorId(worker as u16),
            task: 0,
            op,
            path: Some(path.to_owned()),
            path2: None,
            flags: Vec::new(),
            ret: 0,
            result: String::new(),
            bytes: None,
            inode,
            offset: None,
            data: None,
            publishes: false,
            accesses: Vec::new(),
            barrier: false,
            chosen: true,
            enabled: Vec::new(),
            wakeable: Vec::new(),
            time_us: 0,
            effects: Vec::new(),
        }
    }

    fn push(&mut self, mut step: Step) {
        step.time_us = 1000 * self.steps.len() as u64;
        self.minds[usize::from(step.actor.0)].failed = step.ret < 0;
        self.steps.push(step);
    }

    fn open(&mut self, worker: usize, path: &str, flags: &[&str]) {
        let mut step = self.step(worker, Op::Open, path, None);
        step.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let there = self.names.get(path).copied();
        let inode = match there {
            Some(_) if flags.contains(&"excl") => Err(EEXIST),
            Some(inode) => Ok(inode),
            None if flags.is_empty() => Err(ENOENT),
            None => {
                self.made[worker] += 1;
                Ok(Inode(1000 * (worker as u64 + 1) + self.made[worker]))
            }
        };
        let mode = if there.is_none() && inode.is_ok() { Mode::Write } else { Mode::Read };
        step.accesses = vec![entry(path, mode)];
        match inode {
            Err(error) => step.ret = -error,
            Ok(inode) => {
                step.inode = Some(inode);
                if there.is_none() {
                    step.op = Op::Create;
                    step.accesses.push(Access::new(Object::Listing(ROOT), Mode::Add));
                    self.names.insert(path.to_owned(), inode);
                    self.content.insert(inode, Vec::new());
                    step.effects.push(Effect::Content { inode, after: Some(Arc::from([])) });
                    step.effects.push(Effect::Bind { path: path.to_owned(), inode: Some(inode) });
                } else if flags.contains(&"trunc") {
                    self.content.insert(inode, Vec::new());
                    step.accesses.push(Access::new(Object::Content(inode), Mode::Write));
                    step.effects.push(Effect::Content { inode, after: Some(Arc::from([])) });
                }
                let writes = flags.contains(&"trunc") || flags.contains(&"append") || flags.contains(&"excl");
                self.open.insert((worker, path.to_owned()), (inode, flags.contains(&"append"), writes));
            }
        }
        self.push(step);
    }

    fn read(&mut self, worker: usize, path: &str) {
        let Some((inode, ..)) = self.open.get(&(worker, path.to_owned())).copied() else { return };
        let content = self.content[&inode].clone();
        let mut step = self.step(worker, Op::Read, path, Some(inode));
        step.ret = content.len() as i64;
        step.offset = Some(0);
        step.data = Some(Arc::from(content.as_slice()));
        step.accesses = vec![Access::new(Object::Content(inode), Mode::Read)];
        self.minds[worker].read.insert(path.to_owned(), String::from_utf8_lossy(&content).into_owned());
        self.push(step);
    }

    fn write(&mut self, worker: usize, path: &str, data: Vec<u8>) {
        let (inode, appends, _) = self.open[&(worker, path.to_owned())];
        let content = self.content.entry(inode).or_default();
        let offset = content.len() as u64;
        content.extend(&data);
        let after: Arc<[u8]> = Arc::from(content.as_slice());
        let mut step = self.step(worker, Op::Write, path, Some(inode));
        step.ret = data.len() as i64;
        step.offset = Some(offset);
        step.data = Some(Arc::from(data));
        if appends {
            step.flags.push("append".into());
        }
        step.accesses =
            vec![Access::new(Object::Content(inode), Mode::Write), Access::new(Object::Meta(inode), Mode::Write)];
        step.effects = vec![Effect::Content { inode, after: Some(after) }];
        self.push(step);
    }

    fn close(&mut self, worker: usize, path: &str) {
        let Some((inode, _, writes)) = self.open.remove(&(worker, path.to_owned())) else { return };
        let mut step = self.step(worker, Op::Close, path, Some(inode));
        step.publishes = writes && !self.open.values().any(|(other, _, writes)| *other == inode && *writes);
        step.chosen = step.publishes;
        self.push(step);
    }

    fn rename(&mut self, worker: usize, from: &str, to: &str) {
        let mut step = self.step(worker, Op::Rename, from, None);
        step.path2 = Some(to.to_owned());
        step.accesses = vec![entry(from, Mode::Write), entry(to, Mode::Write)];
        match self.names.remove(from) {
            None => step.ret = -ENOENT,
            Some(inode) => {
                step.inode = Some(inode);
                if let Some(old) = self.names.insert(to.to_owned(), inode) {
                    step.accesses.push(Access::new(Object::Meta(old), Mode::Write));
                }
                step.accesses.push(Access::new(Object::Listing(ROOT), Mode::Add));
                step.effects = vec![
                    Effect::Bind { path: from.to_owned(), inode: None },
                    Effect::Bind { path: to.to_owned(), inode: Some(inode) },
                ];
            }
        }
        self.push(step);
    }

    fn unlink(&mut self, worker: usize, path: &str) {
        let mut step = self.step(worker, Op::Unlink, path, None);
        step.accesses = vec![entry(path, Mode::Write), Access::new(Object::Listing(ROOT), Mode::Add)];
        match self.names.remove(path) {
            None => step.ret = -ENOENT,
            Some(inode) => {
                step.inode = Some(inode);
                step.effects = vec![Effect::Bind { path: path.to_owned(), inode: None }];
            }
        }
        self.push(step);
    }

    fn lock(&mut self, worker: usize, path: &str, waits: bool) {
        let (inode, ..) = self.open[&(worker, path.to_owned())];
        let mut step = self.step(worker, Op::Lock, path, Some(inode));
        step.flags = vec!["exclusive".into()];
        if self.flock.get(&inode).is_some_and(|owner| *owner != worker) {
            assert!(!waits, "the schedule makes {worker} wait for {path}");
            step.ret = -EAGAIN;
            step.accesses = vec![Access::new(Object::Flock(inode), Mode::Read)];
        } else {
            self.flock.insert(inode, worker);
            let mut access = Access::new(Object::Flock(inode), Mode::Write);
            access.sync = Some(Sync::Take { waits });
            step.accesses = vec![access];
        }
        self.push(step);
    }

    fn finish(mut self, programs: &Programs) -> Run {
        for (worker, end) in self.ends.iter_mut().enumerate() {
            if self.at[worker] > 0 && end.signal.is_none() {
                end.exit.get_or_insert(0);
            }
        }
        let files: BTreeMap<String, Node> = self
            .names
            .iter()
            .map(|(path, inode)| (path.clone(), Node::File { mode: 0o644, bytes: Arc::from(&*self.content[inode]) }))
            .collect();
        let check = programs.check.as_ref().map(|check| {
            let passed = check(&files);
            CheckResult { passed, exit: Some(i32::from(!passed)), output: b"checked\n".to_vec() }
        });
        Run {
            steps: self.steps,
            choices: Vec::new(),
            faults: Vec::new(),
            diverged: None,
            pending: Vec::new(),
            unmatched: Vec::new(),
            cuts: Default::default(),
            ended: Ended::Done,
            outcome: Some(Outcome { files, actors: self.ends, state: None, check }),
            warnings: Vec::new(),
        }
    }
}

fn entry(path: &str, mode: Mode) -> Access {
    Access::new(Object::Entry(ROOT, path.to_owned()), mode)
}
