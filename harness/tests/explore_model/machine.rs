//! The state of a modelled run and what each instruction does to it.

use std::collections::BTreeMap;

use noclobber::world::{
    Access, ActorEnd, ActorId, Choice, Ended, Inode, Mode, Node, Object, Op, Outcome, Run, Step, Sync,
};

use super::{
    Ask, I, Model, Weaken,
    locks::{Kind, Locks},
};

const DIR: Inode = Inode(0);
const WHOLE: (u64, u64) = (0, u64::MAX);

#[derive(Clone, Debug)]
struct Actor {
    at: usize,
    /// What was read so far, mixed together.
    seen: u64,
    /// What was read last.
    value: u64,
    ended: bool,
    /// When the instruction at `at` was reached.
    since: u64,
    temp: Option<u64>,
    temps: u64,
}

#[derive(Clone, Debug)]
pub struct Machine {
    programs: Vec<Vec<I>>,
    weaken: Weaken,
    actors: Vec<Actor>,
    /// Content by inode.
    content: BTreeMap<u64, u64>,
    names: BTreeMap<u64, u64>,
    locks: Locks,
    pipes: BTreeMap<u64, u64>,
    base: u64,
    pub steps: Vec<Step>,
}

struct Done {
    op: Op,
    ret: i64,
    path: String,
    accesses: Vec<Access>,
}

fn mix(a: u64, b: u64) -> u64 {
    (a ^ b.wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(23).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

impl Machine {
    pub fn new(model: &Model) -> Self {
        let actor = Actor { at: 0, seen: 0, value: 0, ended: false, since: 0, temp: None, temps: 0 };
        let mut machine = Machine {
            programs: model.programs.clone(),
            weaken: model.weaken,
            actors: vec![actor; model.programs.len()],
            content: (0..100).map(|n| (n, n)).collect(),
            names: (0..100).map(|n| (n, n)).collect(),
            locks: Locks::default(),
            pipes: BTreeMap::new(),
            base: 0,
            steps: Vec::new(),
        };
        (0..machine.actors.len()).for_each(|a| machine.settle(a));
        machine
    }

    /// What actor `a` does next; `None` is the exit that gives its locks back.
    fn next(&self, a: usize) -> Option<I> {
        self.programs[a].get(self.actors[a].at).copied()
    }

    /// Passes what makes no step, and ends an actor that has nothing left to do.
    fn settle(&mut self, a: usize) {
        while let Some(test @ (I::ExitIfOdd | I::ExitUnless(_))) = self.next(a) {
            let actor = &mut self.actors[a];
            let ends = match test {
                I::ExitUnless(value) => actor.value != value,
                _ => actor.seen % 2 == 1,
            };
            actor.at = if ends { usize::MAX } else { actor.at + 1 };
        }
        if self.next(a).is_none() && self.locks.of(a).is_empty() {
            self.actors[a].ended = true;
        }
        self.actors[a].since = self.base;
    }

    fn all(&self) -> impl Iterator<Item = ActorId> + '_ {
        (0..self.actors.len()).map(|a| ActorId(a as u16))
    }

    pub fn ended(&self) -> Vec<ActorId> {
        self.all().filter(|a| self.actors[usize::from(a.0)].ended).collect()
    }

    /// Whether the next step would wait (a sleep always does).
    pub fn waits(&self, actor: ActorId) -> bool {
        let a = usize::from(actor.0);
        match self.next(a) {
            // Who holds a lock lets go of it before waiting for another one.
            Some(I::Flock(n, ex, Ask::Wait | Ask::Timed(..))) => {
                self.locks.blocked(Kind::Flock, n, a, WHOLE, ex) && !self.locks.holds(Kind::Flock, n, a)
            }
            Some(I::Lock(n, range, ex, Ask::Wait | Ask::Timed(..))) => {
                self.locks.blocked(Kind::Record, n, a, range, ex)
            }
            Some(I::Receive(n)) => self.pipes.get(&n).is_none_or(|bytes| *bytes == 0),
            Some(I::Sleep(_)) => true,
            _ => false,
        }
    }

    fn deadline(&self, actor: ActorId) -> Option<u64> {
        let a = usize::from(actor.0);
        match self.next(a) {
            _ if self.actors[a].ended || !self.waits(actor) => None,
            Some(I::Flock(_, _, Ask::Timed(time, _)) | I::Lock(_, _, _, Ask::Timed(time, _)) | I::Sleep(time)) => {
                Some(self.actors[a].since + time)
            }
            _ => None,
        }
    }

    pub fn ready(&self) -> Vec<ActorId> {
        self.all().filter(|a| !self.actors[usize::from(a.0)].ended && !self.waits(*a)).collect()
    }

    /// As [`ready`](Self::ready), when only sleeping is known before trying. (Who may give up is known to wait.)
    pub fn willing(&self) -> Vec<ActorId> {
        let known = |a: &ActorId| self.deadline(*a).is_some();
        self.all().filter(|a| !self.actors[usize::from(a.0)].ended && !known(a)).collect()
    }

    pub fn asleep(&self) -> Vec<ActorId> {
        self.all().filter(|a| self.deadline(*a).is_some()).collect()
    }

    /// The sleeper that fair time wakes now that nobody can run.
    pub fn due(&self) -> Option<ActorId> {
        if !self.ready().is_empty() {
            return None;
        }
        self.all().filter_map(|a| Some((self.deadline(a)?, a))).min().map(|(_, a)| a)
    }

    /// How the run ends when nobody can run and nobody sleeps.
    pub fn end(&self) -> Ended {
        let waiting: Vec<_> = self.all().filter(|a| !self.actors[usize::from(a.0)].ended).collect();
        if waiting.is_empty() {
            Ended::Done
        } else {
            Ended::Deadlock(waiting.into_iter().map(|a| (a, "waits".to_owned())).collect())
        }
    }

    pub fn predict(&self, actor: ActorId) -> Vec<Access> {
        let mut copy = self.clone();
        copy.perform(usize::from(actor.0), false).accesses
    }

    pub fn execute(&mut self, choice: Choice, enabled: Vec<ActorId>, wakeable: Vec<ActorId>) -> Step {
        let (Choice::Step(actor) | Choice::Wake(actor)) = choice;
        let woken = self.waits(actor);
        if woken {
            self.base = self.base.max(self.deadline(actor).expect("only sleepers are woken"));
        }
        let done = self.perform(usize::from(actor.0), woken);
        let step = Step {
            actor,
            task: 0,
            op: done.op,
            path: Some(done.path),
            path2: None,
            flags: Vec::new(),
            ret: done.ret,
            result: done.ret.to_string(),
            bytes: None,
            inode: None,
            offset: None,
            data: None,
            publishes: false,
            accesses: done.accesses,
            barrier: woken && matches!(choice, Choice::Step(_)),
            chosen: true,
            enabled,
            wakeable,
            time_us: self.base,
            effects: Vec::new(),
        };
        self.steps.push(step.clone());
        step
    }

    pub fn finish(self, choices: Vec<Choice>, ended: Ended, diverged: Option<usize>) -> Run {
        let waiting = self.all().filter(|a| !self.actors[usize::from(a.0)].ended && self.waits(*a));
        let known = self.weaken != Weaken::NoPending;
        let pending = waiting.map(|a| (a, if known { self.predict(a) } else { Vec::new() })).collect();
        let file = |n: u64| Node::File { mode: 0o644, bytes: n.to_le_bytes().to_vec().into() };
        let whole = matches!(ended, Ended::Done | Ended::Deadlock(_));
        let contents = self.content.iter().filter(|(n, value)| n != value);
        let mut files: BTreeMap<_, _> = contents.map(|(n, value)| (format!("#{n}"), file(*value))).collect();
        files.extend(self.names.iter().filter(|(n, i)| n != i).map(|(n, i)| (format!("f{n}"), file(*i))));
        files.extend((0..100).filter(|n| !self.names.contains_key(n)).map(|n| (format!("gone{n}"), file(n))));
        let actors =
            self.actors.iter().map(|a| ActorEnd { stdout: a.seen.to_le_bytes().into(), ..ActorEnd::default() });
        let outcome = whole.then(|| Outcome { files, actors: actors.collect(), ..Outcome::default() });
        Run {
            steps: self.steps,
            choices,
            faults: Vec::new(),
            diverged,
            ended,
            pending,
            outcome,
            unmatched: Vec::new(),
            cuts: Default::default(),
            warnings: Vec::new(),
        }
    }

    /// Does the next instruction of `a`; `gave_up` when a sleep or a wait came to its deadline.
    fn perform(&mut self, a: usize, gave_up: bool) -> Done {
        let seen = self.actors[a].seen;
        let who = a as u64 + 1;
        let me = mix(mix(seen, who), self.actors[a].at as u64);
        let Some(instruction) = self.next(a) else { return self.exit(a) };
        let mut end = false;
        let access = Access::new;
        let (op, ret, path, mut accesses) = match instruction {
            I::Read(n) => {
                let value = self.content[&n];
                self.actors[a].seen = mix(seen, value);
                self.actors[a].value = value;
                (Op::Read, value as i64 & 0xffff, format!("#{n}"), vec![access(Object::Content(Inode(n)), Mode::Read)])
            }
            I::Write(n) | I::Truncate(n) | I::Append(n) => {
                let (op, value) = match instruction {
                    I::Write(_) => (Op::Write, me),
                    I::Append(_) => (Op::Write, mix(self.content[&n], who)),
                    _ => (Op::Truncate, 0),
                };
                self.content.insert(n, value);
                let blind = op == Op::Truncate && self.weaken == Weaken::BlindTruncate;
                let touched = vec![access(Object::Content(Inode(n)), Mode::Write)];
                (op, 1, format!("#{n}"), if blind { Vec::new() } else { touched })
            }
            I::ReadName(n) => {
                let mut touched = vec![access(entry(n), Mode::Read)];
                let value = self.names.get(&n).map(|inode| {
                    touched.push(access(Object::Content(Inode(*inode)), Mode::Read));
                    self.content[inode]
                });
                self.actors[a].seen = mix(seen, value.unwrap_or(99));
                self.actors[a].value = value.unwrap_or(99);
                (Op::Read, value.map_or(-2, |v| v as i64 & 0xffff), format!("f{n}"), touched)
            }
            I::WriteTemp => {
                let inode = 1000 * who + self.actors[a].temps;
                self.actors[a].temps += 1;
                self.actors[a].temp = Some(inode);
                self.content.insert(inode, me);
                (Op::Write, 1, format!("tmp{a}"), vec![access(Object::Content(Inode(inode)), Mode::Write)])
            }
            I::Rename(n) => match self.actors[a].temp.take() {
                Some(inode) => {
                    self.names.insert(n, inode);
                    let own = Object::Entry(DIR, format!("tmp{a}"));
                    let touched = vec![access(entry(n), Mode::Write), access(own, Mode::Write)];
                    (Op::Rename, 0, format!("f{n}"), [touched, vec![access(Object::Listing(DIR), Mode::Add)]].concat())
                }
                None => {
                    (Op::Rename, -2, format!("f{n}"), vec![access(Object::Entry(DIR, format!("tmp{a}")), Mode::Read)])
                }
            },
            I::Create(n, or_end) => {
                if self.names.contains_key(&n) {
                    end = or_end;
                    (Op::Create, -17, format!("f{n}"), vec![access(entry(n), Mode::Read)])
                } else {
                    let inode = 1000 * who + 500 + self.actors[a].at as u64;
                    self.names.insert(n, inode);
                    self.content.insert(inode, inode);
                    let touched = vec![access(entry(n), Mode::Write), access(Object::Listing(DIR), Mode::Add)];
                    (Op::Create, 3, format!("f{n}"), touched)
                }
            }
            I::Unlink(n) => match self.names.remove(&n) {
                Some(_) => {
                    let touched = vec![access(entry(n), Mode::Write), access(Object::Listing(DIR), Mode::Add)];
                    (Op::Unlink, 0, format!("f{n}"), touched)
                }
                None => (Op::Unlink, -2, format!("f{n}"), vec![access(entry(n), Mode::Read)]),
            },
            I::List => {
                let sum = self.names.keys().fold(0, |sum, n| mix(sum, *n));
                self.actors[a].seen = mix(seen, sum);
                (Op::List, sum as i64 & 0xffff, ".".to_owned(), vec![access(Object::Listing(DIR), Mode::Read)])
            }
            I::Flock(n, ex, ask) => {
                let (ret, touched, ends) = self.lock(Kind::Flock, n, a, WHOLE, ex, ask, gave_up);
                end = ends;
                (Op::Lock, ret, format!("#{n}"), touched)
            }
            I::Lock(n, range, ex, ask) => {
                let (ret, touched, ends) = self.lock(Kind::Record, n, a, range, ex, ask, gave_up);
                end = ends;
                (Op::Lock, ret, format!("#{n}"), touched)
            }
            I::Funlock(n) => (Op::Unlock, 0, format!("#{n}"), self.free(Kind::Flock, n, a, WHOLE)),
            I::Unlock(n, range) => (Op::Unlock, 0, format!("#{n}"), self.free(Kind::Record, n, a, range)),
            I::Send(n) => {
                *self.pipes.entry(n).or_default() += 1;
                let sync = Some(Sync::Free);
                (Op::Send, 1, "pipe".into(), vec![Access { sync, ..access(Object::Channel(n), Mode::Write) }])
            }
            I::Receive(n) => {
                // How much there is can be seen, so that order matters even when nobody has to wait.
                let there = self.pipes.entry(n).or_default();
                self.actors[a].seen = mix(seen, *there);
                let ret = *there as i64;
                *there = there.saturating_sub(1);
                let sync = Some(Sync::Take { waits: true });
                (Op::Receive, ret, "pipe".into(), vec![Access { sync, ..access(Object::Channel(n), Mode::Write) }])
            }
            I::Poll(n) => {
                let there = self.pipes.entry(n).or_default();
                self.actors[a].seen = mix(seen, *there);
                let ret = *there as i64;
                let touched = match there {
                    0 => access(Object::Channel(n), Mode::Read),
                    _ => Access { sync: Some(Sync::Take { waits: false }), ..access(Object::Channel(n), Mode::Write) },
                };
                *there = there.saturating_sub(1);
                (Op::Receive, ret, "pipe".into(), vec![touched])
            }
            I::Sleep(_) => (Op::Sleep, 0, "sleep".to_owned(), Vec::new()),
            I::ExitIfOdd | I::ExitUnless(_) => unreachable!("makes no step"),
        };
        if self.weaken == Weaken::NoSync {
            accesses.iter_mut().for_each(|a| a.sync = None);
        }
        if self.weaken == Weaken::BlindFailures && ret < 0 {
            accesses.clear();
        }
        self.actors[a].at = if end { usize::MAX } else { self.actors[a].at + 1 };
        self.settle(a);
        Done { op, ret, path, accesses }
    }

    #[allow(clippy::too_many_arguments)]
    fn lock(
        &mut self,
        kind: Kind,
        n: u64,
        a: usize,
        range: (u64, u64),
        ex: bool,
        ask: Ask,
        gave_up: bool,
    ) -> (i64, Vec<Access>, bool) {
        let refused = self.locks.blocked(kind, n, a, range, ex);
        if kind == Kind::Flock && refused && self.locks.holds(kind, n, a) {
            // flock(2) changes shared to exclusive by letting go of the one first.
            let mut touched = self.free(kind, n, a, range);
            touched.push(touch(kind, n, range, Mode::Write, None));
            let tried = matches!(ask, Ask::Try(_));
            self.actors[a].seen = mix(self.actors[a].seen, 2 + u64::from(tried));
            if !tried {
                // The same instruction again, now without a lock.
                self.actors[a].at -= 1;
            }
            return (if tried { -11 } else { 0 }, touched, matches!(ask, Ask::Try(true)));
        }
        let failed = match ask {
            Ask::Wait => false,
            Ask::Try(_) => refused,
            Ask::Timed(..) => gave_up,
        };
        self.actors[a].seen = mix(self.actors[a].seen, u64::from(failed));
        if failed {
            let end = matches!(ask, Ask::Try(true) | Ask::Timed(_, true));
            return (-11, vec![touch(kind, n, range, Mode::Read, None)], end);
        }
        let mode = if ex { Mode::Write } else { Mode::Add };
        let converts = kind == Kind::Flock && self.locks.holds(kind, n, a);
        let waits = !(converts || matches!(ask, Ask::Try(_)));
        let mut touched = vec![touch(kind, n, range, mode, Some(Sync::Take { waits }))];
        if let Some(exclusive) = self.locks.take(kind, n, a, range, ex) {
            // Converted: what was held before is given back.
            let mode = if exclusive { Mode::Write } else { Mode::Add };
            touched.insert(0, touch(kind, n, range, mode, Some(Sync::Free)));
        }
        (0, touched, false)
    }

    fn free(&mut self, kind: Kind, n: u64, a: usize, range: (u64, u64)) -> Vec<Access> {
        match self.locks.free(kind, n, a, range) {
            Some(ex) => vec![touch(kind, n, range, if ex { Mode::Write } else { Mode::Add }, Some(Sync::Free))],
            None => Vec::new(),
        }
    }

    fn exit(&mut self, a: usize) -> Done {
        let held = self.locks.of(a);
        let mut accesses: Vec<_> = held.into_iter().flat_map(|(kind, n, range)| self.free(kind, n, a, range)).collect();
        if self.weaken == Weaken::NoSync {
            accesses.iter_mut().for_each(|a| a.sync = None);
        }
        self.settle(a);
        Done { op: Op::Exit, ret: 0, path: "exit".to_owned(), accesses }
    }
}

fn touch(kind: Kind, n: u64, range: (u64, u64), mode: Mode, sync: Option<Sync>) -> Access {
    match kind {
        Kind::Flock => Access { object: Object::Flock(Inode(n)), mode, range: None, sync },
        Kind::Record => Access { object: Object::Record(Inode(n)), mode, range: Some(range), sync },
    }
}

fn entry(n: u64) -> Object {
    Object::Entry(DIR, format!("f{n}"))
}
