//! All placements of a scenario's faults in one search.
//!
//! Orders without any fault are explored first and tell where faults can be placed; then the orders of each placement,
//! all of them in turns, one schedule each, until every one is exhausted or the common budget is gone. So an early bug
//! is found early whichever placement shows it, and the sequence of plans is a function of the settings and the runs.
//!
//! With `max_faults` of more than one, the runs of a placement tell in the same way where one more fault can follow.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use super::{Rule, Target, power_cut::PowerCuts};
use crate::{
    explore::{Explorer, Seen, Stop, Summary, TraceHash, Unrepeatable},
    scenario::{FaultKind, GlobError, Nth, Scenario, Search},
    world::{ActorId, Ended, Injection, Mode, Op, Plan, Run, Step},
};

/// One placement and the exploration of its orders.
#[derive(Debug)]
struct Branch {
    faults: Vec<Injection>,
    explorer: Explorer,
    over: bool,
    /// Schedules run.
    runs: u64,
    /// Some run was hit.
    fired: bool,
}

/// The exploration of a scenario with all its faults. Without faults it is one [`Explorer`], used in the same way.
pub struct Sweep {
    search: Search,
    rules: Vec<Rule>,
    names: Vec<String>,
    /// How the exploration of one placement begins.
    make: Box<dyn Fn() -> Explorer>,
    /// First the orders without a fault.
    branches: Vec<Branch>,
    /// Power cuts are placed in those, and tried one order each.
    cuts: Option<PowerCuts>,
    cut_next: bool,
    cut_steps: u64,
    /// The rules for power cuts that named a moment of some run.
    cut_named: BTreeSet<usize>,
    /// For each rule and worker: how many placements there are.
    placed: BTreeMap<(usize, usize), u64>,
    /// Placements of several faults, so that each is explored once.
    together: BTreeSet<Vec<Injection>>,
    /// Rules with a number or `all` are placed at once.
    begun: bool,
    turn: usize,
    awaited: usize,
    interrupt: Arc<AtomicBool>,
    started: Instant,
    stop: Option<Stop>,
    hash: TraceHash,
    /// Which part of the search, from 0, of how many.
    part: Option<(usize, usize)>,
    /// The first run is one that every part makes.
    shares_first: bool,
}

impl Sweep {
    /// The search of a scenario; `make` begins the exploration of one placement (the settings, the partition).
    ///
    /// # Errors
    /// A malformed glob in a fault's pattern.
    pub fn new(
        scenario: &Scenario,
        search: &Search,
        interrupt: Arc<AtomicBool>,
        make: impl Fn() -> Explorer + 'static,
    ) -> Result<Sweep, GlobError> {
        let rules = scenario.faults.iter().map(Rule::new).collect::<Result<Vec<Rule>, _>>()?;
        let power = rules.iter().position(|rule| rule.kind == FaultKind::PowerCut);
        let free = Branch { faults: Vec::new(), explorer: make(), over: false, runs: 0, fired: false };
        let shares_first = free.explorer.shares_first_run();
        Ok(Sweep {
            search: search.clone(),
            rules,
            names: scenario.workers.iter().map(|w| w.name.clone()).collect(),
            make: Box::new(make),
            branches: vec![free],
            cuts: power.map(PowerCuts::new),
            cut_next: false,
            cut_steps: 0,
            cut_named: BTreeSet::new(),
            placed: BTreeMap::new(),
            together: BTreeSet::new(),
            begun: false,
            turn: 0,
            awaited: 0,
            interrupt,
            started: Instant::now(),
            stop: None,
            hash: TraceHash::default(),
            part: None,
            shares_first,
        })
    }

    /// Only part `number` (from 0) of `of` independent parts.
    ///
    /// Parts do not know of each other. A placement that a run shows which all of them make is divided among them like
    /// the orders without a fault; one that another run shows may be known to this part alone, which explores it whole.
    /// So together they execute all classes of all placements, though some of them more than once.
    pub fn partition(mut self, number: usize, of: usize) -> Self {
        self.part = Some((number, of));
        self.branches[0].explorer = (self.make)().partition(number, of);
        self
    }

    /// Whether every part of a partitioned search begins with the same run.
    pub fn shares_first_run(&self) -> bool {
        self.shares_first
    }

    /// The search ends here: see [`Explorer::close`].
    pub fn close(&mut self) {
        self.branches.iter_mut().for_each(|branch| branch.explorer.close());
    }

    /// The names of the classes executed so far, in hex. Those of two placements have different names.
    pub fn class_names(&self) -> BTreeSet<String> {
        let named = |branch: &Branch| -> Vec<String> {
            let classes = branch.explorer.class_names();
            if branch.faults.is_empty() {
                return classes.into_iter().collect();
            }
            let placement = format!("{:?}", branch.faults);
            let name = |class: String| blake3::hash(format!("{placement} {class}").as_bytes()).to_hex().to_string();
            classes.into_iter().map(name).collect()
        };
        self.branches.iter().flat_map(named).collect()
    }

    /// The next plan, or `None` when the search is over.
    pub fn next_plan(&mut self) -> Option<Plan> {
        if self.rules.is_empty() {
            return self.branches[0].explorer.next_plan();
        }
        if self.interrupt.load(Ordering::Relaxed) {
            return self.over(Stop::Interrupt);
        }
        if self.search.time_limit.is_some_and(|limit| self.started.elapsed() >= limit) {
            return self.over(Stop::Time);
        }
        let tried = self.cuts.as_ref().map_or(0, PowerCuts::tried);
        if self.branches.iter().map(|b| b.runs).sum::<u64>() + tried >= self.search.max_schedules {
            let done = self.branches.iter().all(|b| b.over || b.explorer.summary().exhausted)
                && self.cuts.as_ref().is_none_or(PowerCuts::is_done);
            return self.over(if done { self.all_done() } else { Stop::Schedules });
        }
        // In turns with everything else.
        self.cut_next = !self.cut_next || self.branches.iter().all(|b| b.over);
        if self.cut_next {
            if let Some(plan) = self.cuts.as_mut().and_then(PowerCuts::next_plan) {
                return Some(plan);
            }
            self.cut_next = false;
        }
        for step in 0..self.branches.len() {
            let at = (self.turn + step) % self.branches.len();
            let branch = &mut self.branches[at];
            if branch.over {
                continue;
            }
            match branch.explorer.next_plan() {
                Some(plan) => {
                    self.awaited = at;
                    self.turn = at + 1;
                    return Some(Plan { faults: branch.faults.clone(), ..plan });
                }
                None => branch.over = true,
            }
        }
        if let Some(plan) = self.cuts.as_mut().and_then(PowerCuts::next_plan) {
            self.cut_next = true;
            return Some(plan);
        }
        self.over(self.all_done())
    }

    /// Plans that will probably come next: see [`Explorer::upcoming`].
    pub fn upcoming(&self, n: usize) -> Vec<Plan> {
        let count = self.branches.len();
        if count == 1 {
            return self.branches[0].explorer.upcoming(n);
        }
        let next = (0..count).map(|step| &self.branches[(self.turn + step) % count]).filter(|b| !b.over);
        next.filter_map(|b| b.explorer.upcoming(1).pop().map(|plan| Plan { faults: b.faults.clone(), ..plan }))
            .take(n)
            .collect()
    }

    /// Learns the run of the plan that [`next_plan`](Self::next_plan) gave last.
    ///
    /// # Errors
    /// [`Unrepeatable`]: the verdict is cannot-tell.
    pub fn observe(&mut self, run: &Run) -> Result<Seen, Unrepeatable> {
        if self.cut_next && !run.faults.is_empty() {
            self.cut_steps += run.steps.len() as u64;
            self.hash.add(run);
            if let Some(cuts) = &mut self.cuts {
                cuts.observe(run);
            }
            let cut = run.steps.iter().any(|step| step.fault().is_some());
            return Ok(if cut { Seen::New } else { Seen::Incomplete });
        }
        let first = self.shares_first && self.branches[0].runs == 0;
        let branch = &mut self.branches[self.awaited];
        branch.runs += 1;
        branch.fired |= run.steps.iter().any(|step| step.fault().is_some());
        let seen = branch.explorer.observe(run)?;
        if self.rules.is_empty() {
            return Ok(seen);
        }
        self.hash.add(run);
        if !matches!(run.ended, Ended::Done | Ended::Deadlock(_) | Ended::Livelock(_)) {
            return Ok(seen);
        }
        if self.awaited > 0 {
            self.place_more(run);
            return Ok(seen);
        }
        self.place(run, first || seen == Seen::Shared);
        if let Some(cuts) = &mut self.cuts {
            cuts.place(run);
            let named = self.rules.iter().enumerate().filter(|(_, rule)| rule.kind == FaultKind::PowerCut);
            let named = named.filter(|(_, rule)| !rule.moments(&run.steps).is_empty()).map(|(number, _)| number);
            self.cut_named.extend(named);
        }
        Ok(seen)
    }

    /// The search was ended from outside, within a schedule.
    pub fn cut(&mut self, why: Stop) {
        self.stop = Some(why);
        self.branches[0].explorer.cut(why);
    }

    /// What was explored so far, all placements together.
    pub fn summary(&self) -> Summary {
        let mut sum = self.branches[0].explorer.summary();
        if self.rules.is_empty() {
            return sum;
        }
        for branch in &self.branches[1..] {
            let other = branch.explorer.summary();
            sum.schedules += other.schedules;
            sum.classes += other.classes;
            sum.redundant += other.redundant;
            sum.steps += other.steps;
            sum.exhausted &= other.exhausted;
        }
        if let Some(cuts) = &self.cuts {
            sum.schedules += cuts.tried();
            sum.classes += cuts.tried();
            sum.steps += self.cut_steps;
            sum.exhausted &= cuts.is_exhausted();
        }
        sum.stop = self.stop;
        sum.elapsed = self.started.elapsed();
        sum.miss_bound = None;
        let timed = matches!(self.stop, Some(Stop::Time | Stop::Interrupt));
        sum.trace_hash = (!timed).then(|| self.hash.hex());
        sum
    }

    /// Patterns that never matched a step, as written; to be asked when the search is over.
    pub fn unmatched(&self) -> Vec<String> {
        let unused = |number: &usize| match &self.rules[*number].kind {
            FaultKind::PowerCut => !self.cut_named.contains(number),
            _ => !self.fired(*number),
        };
        let rules = (0..self.rules.len()).filter(unused);
        rules.filter_map(|number| self.rules[number].at.clone()).collect()
    }

    /// What the coverage statement says of faults; empty without any.
    pub fn coverage(&self) -> Vec<String> {
        let mut out = Vec::new();
        for (number, rule) in self.rules.iter().enumerate().filter(|(_, r)| r.kind != FaultKind::PowerCut) {
            let of = |b: &&Branch| b.faults.len() == 1 && b.faults[0].rule == number;
            let places = self.branches.iter().filter(of).count();
            let tried = self.branches.iter().filter(of).filter(|b| b.runs > 0).count();
            let who: Vec<&str> = rule.workers.iter().filter_map(|w| self.names.get(*w)).map(String::as_str).collect();
            let who = who.join(", ");
            let kind = &rule.kind;
            out.push(match (places, &rule.nth) {
                _ if !self.fired(number) => format!("{kind} happened nowhere: no step of {who} can be hit"),
                (_, Nth::All) => format!("{kind} at every match of {who}"),
                (_, Nth::Number(nth)) => format!("{kind} at match {nth} of {who}"),
                _ if tried < places => format!("{kind} in {tried} of {places} places of {who}"),
                (1, _) => format!("{kind} in 1 place of {who}"),
                _ => format!("{kind} in all {places} places of {who}"),
            });
        }
        out.extend(self.cuts.as_ref().map(|cuts| cuts.coverage(self.search.disk.name())));
        let several: Vec<&Branch> = self.branches.iter().filter(|b| b.faults.len() > 1).collect();
        if !several.is_empty() {
            let tried = several.iter().filter(|b| b.runs > 0).count();
            out.push(format!("several faults in {tried} of {} combinations of places", several.len()));
        }
        if !out.is_empty() {
            out.push(match self.search.max_faults {
                1 => "at most one fault a run".into(),
                most if self.cuts.is_some() => format!("at most {most} faults a run, a power cut alone"),
                most => format!("at most {most} faults a run"),
            });
        }
        out
    }

    fn fired(&self, rule: usize) -> bool {
        self.branches.iter().any(|b| b.fired && b.faults.iter().any(|f| f.rule == rule))
    }

    /// Finds where faults can be placed in a run without any, which every part makes (`shared`) or this one alone.
    fn place(&mut self, run: &Run, shared: bool) {
        let mut found = Vec::new();
        for (number, rule) in self.rules.iter().enumerate() {
            if rule.kind == FaultKind::PowerCut {
                continue;
            }
            match rule.nth {
                Nth::Number(_) | Nth::All if self.begun => {}
                Nth::All => found.push(Injection { rule: number, actor: None, nth: None, loss: None }),
                Nth::Number(nth) => {
                    let of = |w: &usize| Injection { rule: number, actor: Some(actor(*w)), nth: Some(nth), loss: None };
                    found.extend(rule.workers.iter().map(of));
                }
                Nth::Each => {
                    for worker in &rule.workers {
                        let places = places(rule, *worker, &run.steps);
                        let placed = self.placed.entry((number, *worker)).or_default();
                        for nth in places.into_iter().filter(|nth| nth > placed) {
                            found.push(Injection {
                                rule: number,
                                actor: Some(actor(*worker)),
                                nth: Some(nth),
                                loss: None,
                            });
                        }
                        let last = found.last().filter(|f| f.rule == number && f.actor == Some(actor(*worker)));
                        *placed = last.and_then(|f| f.nth).unwrap_or(*placed).max(*placed);
                    }
                }
            }
        }
        self.begun = true;
        for injection in found {
            let explorer = match self.part {
                Some((number, of)) if shared => (self.make)().partition(number, of),
                _ => (self.make)(),
            };
            self.branches.push(Branch { faults: vec![injection], explorer, over: false, runs: 0, fired: false });
        }
    }

    /// Finds where one more fault can follow in a run of a placement, after all that it has.
    fn place_more(&mut self, run: &Run) {
        let faults = self.branches[self.awaited].faults.clone();
        let hits: Vec<usize> = (0..run.steps.len()).filter(|at| run.steps[*at].fault().is_some()).collect();
        let (Some(last), true) = (hits.last(), (faults.len() as u64) < self.search.max_faults) else { return };
        let mut found = Vec::new();
        for (number, rule) in self.rules.iter().enumerate().filter(|(_, rule)| rule.kind != FaultKind::PowerCut) {
            if rule.nth == Nth::All {
                found.push(Injection { rule: number, actor: None, nth: None, loss: None });
                continue;
            }
            for worker in &rule.workers {
                // What the dead process was about to do was counted, and no step shows it.
                let dead = |at: &usize| run.steps[*at].fault() == Some("kill-one");
                if hits.iter().any(|at| dead(at) && usize::from(run.steps[*at].actor.0) == *worker) {
                    continue;
                }
                let from = match rule.nth {
                    Nth::Number(nth) => vec![nth],
                    _ => places_after(rule, *worker, &run.steps, last + 1),
                };
                let of = |nth| Injection { rule: number, actor: Some(actor(*worker)), nth: Some(nth), loss: None };
                found.extend(from.into_iter().map(of));
            }
        }
        for injection in found.into_iter().filter(|injection| !faults.contains(injection)) {
            let mut all = [&faults[..], &[injection]].concat();
            all.sort_unstable();
            if self.together.insert(all.clone()) {
                let explorer = (self.make)();
                self.branches.push(Branch { faults: all, explorer, over: false, runs: 0, fired: false });
            }
        }
    }

    /// Why the search ends when nothing is left to run.
    fn all_done(&self) -> Stop {
        match &self.cuts {
            Some(cuts) if !cuts.is_exhausted() => Stop::Bounded,
            _ => Stop::Exhausted,
        }
    }

    fn over(&mut self, why: Stop) -> Option<Plan> {
        self.stop.get_or_insert(why);
        None
    }
}

fn actor(worker: usize) -> ActorId {
    ActorId(u16::try_from(worker).unwrap_or(u16::MAX))
}

/// The matches of a rule among the steps of a worker that are worth a placement, from 1.
///
/// A worker that is killed (or stands still) before a step that changes nothing has done what it has done when that
/// happens before its next step: only the last of such places counts, the one before the next change or the end.
/// Whoever names an operation gets every match of it.
fn places(rule: &Rule, worker: usize, steps: &[Step]) -> Vec<u64> {
    places_after(rule, worker, steps, 0)
}

/// Those from a step on; the matches before it count.
fn places_after(rule: &Rule, worker: usize, steps: &[Step], from: usize) -> Vec<u64> {
    let own = steps.iter().enumerate().filter(|(_, s)| usize::from(s.actor.0) == worker && s.chosen);
    // A killed worker's last step is not the one that it was about to make.
    let own = own.filter(|(_, s)| !(s.op == Op::Exit && s.fault().is_some()));
    let matching: Vec<(usize, &Step)> = own.filter(|(_, s)| rule.matches(worker, &Target::of(s))).collect();
    let every = !(rule.is_general() && (rule.kills() || matches!(rule.kind, FaultKind::Pause(_))));
    let worth = |(_, (at, step)): &(usize, &(usize, &Step))| *at >= from && (every || changes(step));
    matching.iter().enumerate().filter(worth).map(|(nth, _)| nth as u64 + 1).collect()
}

/// Whether anybody could notice that this step was not made.
fn changes(step: &Step) -> bool {
    step.op == Op::Exit || (!step.failed() && step.accesses.iter().any(|a| a.mode != Mode::Read))
}
