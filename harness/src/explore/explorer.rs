//! The search as a whole: which plan next, what was seen, when to stop.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    class,
    dpor::{Dpor, Unrepeatable},
    partition::Part,
    portfolio::{Portfolio, Sampler, TURNS},
    trace::Trace,
    trace_hash::{TraceHash, encode},
};
use crate::{
    scenario::{Search, SearchKind},
    world::{Ended, Plan, Policy, Run, TimeModel},
};

/// Why no further plan comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Every class was executed (or, for `timeline`, its one schedule).
    Exhausted,
    /// Nothing is left to run, but of what a power cut can lead to only a bounded part was tried.
    Bounded,
    /// The budget of schedules is gone.
    Schedules,
    /// The time limit was reached.
    Time,
    /// The caller's flag was raised.
    Interrupt,
}

/// What an observed run was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The first run of its class.
    New,
    /// A class that was executed before, a run cut by its sleep set, or an infeasible branch.
    Redundant,
    /// It did not come to an end (a limit, control lost): no class.
    Incomplete,
    /// A run that every part of a partitioned search makes; it is counted by one of them, once it is known by which.
    Shared,
}

/// What was explored so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Exploration runs, those cut by sleep sets included.
    pub schedules: u64,
    /// Distinct classes executed to their end.
    pub classes: u64,
    /// Runs that turned out to repeat a class.
    pub redundant: u64,
    /// Steps of all exploration runs.
    pub steps: u64,
    /// Every class was executed (relative to the model of time).
    pub exhausted: bool,
    /// Why the search ended by itself; `None` while it could go on.
    pub stop: Option<Stop>,
    /// The search in words: `source-dpor`, `source-dpor, then portfolio`, ...
    pub search: String,
    /// The seed.
    pub seed: u64,
    /// Real time since the explorer was made.
    pub elapsed: Duration,
    /// `pct-3` -> the probability that every PCT run missed a bug of that depth.
    pub miss_bound: Option<BTreeMap<String, f64>>,
    /// SHA-256 over all traces in search order; `None` when real time or an interrupt ended the search.
    pub trace_hash: Option<String>,
}

/// Gives out plans and learns from their runs, strictly in turns: [`next_plan`](Self::next_plan), run it,
/// [`observe`](Self::observe). The caller judges each run and stops when it likes.
///
/// The sequence of plans is a function of the settings and of the runs only. To use several processors, run what
/// [`upcoming`](Self::upcoming) shows ahead of time, keep the results, and look them up (plans compare equal) when
/// `next_plan` asks for them; what it never asks for is thrown away. The result is the same with any number of jobs.
#[derive(Debug)]
pub struct Explorer {
    search: Search,
    actors: usize,
    dpor: Option<Dpor>,
    /// How many schedules source-DPOR may use.
    dpor_budget: u64,
    portfolio: Option<Portfolio>,
    /// Plans that come before everything else.
    first: Vec<Plan>,
    /// The first of them is the timeline.
    timeline: bool,
    awaited: Option<Phase>,
    interrupt: Arc<AtomicBool>,
    started: Instant,
    stop: Option<Stop>,
    used: [bool; 3],
    classes: HashSet<[u8; 32]>,
    schedules: u64,
    redundant: u64,
    steps: u64,
    hash: TraceHash,
    /// Part 0 counts what comes before everything else.
    counts_first: bool,
    /// Shared runs that are not counted yet.
    shared: Vec<Record>,
}

/// What is counted of a run.
#[derive(Debug)]
struct Record {
    steps: u64,
    /// `None` when it did not come to an end.
    complete: Option<bool>,
    class: [u8; 32],
    encoded: Vec<u8>,
}

/// Which part of the search a plan belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    First,
    Dpor,
    Portfolio,
}

impl Explorer {
    /// A search over `actors` actors. With `timeline_first` (the scenario has delays) the order that virtual time
    /// gives is the first schedule, and with `search = "timeline"` the only one.
    pub fn new(search: &Search, actors: usize, timeline_first: bool) -> Self {
        let max = search.max_schedules;
        let dpor = || Dpor::new(search.time == TimeModel::Adversarial);
        let sampled = |turns: &[Sampler]| Portfolio::new(turns, search.seed);
        let (dpor, dpor_budget, portfolio) = match search.search {
            SearchKind::Auto => (Some(dpor()), max.div_ceil(2), Some(sampled(&TURNS))),
            SearchKind::Exhaustive => (Some(dpor()), max, None),
            SearchKind::Portfolio => (None, 0, Some(sampled(&TURNS))),
            SearchKind::Random => (None, 0, Some(sampled(&[Sampler::Random]))),
            SearchKind::Pos => (None, 0, Some(sampled(&[Sampler::Pos]))),
            SearchKind::Pct(depth) => (None, 0, Some(sampled(&[Sampler::Pct(depth)]))),
            SearchKind::Timeline => (None, 0, None),
        };
        let timeline = timeline_first || search.search == SearchKind::Timeline;
        let mut first = Vec::new();
        if timeline {
            first.push(Plan::from_policy(Policy::Timeline));
        } else if matches!(search.search, SearchKind::Pct(_)) {
            // PCT needs the length of a run before it can sample.
            first.push(Plan::from_policy(Policy::Stay));
        }
        Explorer {
            search: search.clone(),
            actors,
            dpor,
            dpor_budget,
            portfolio,
            first,
            timeline,
            awaited: None,
            interrupt: Arc::default(),
            started: Instant::now(),
            stop: None,
            used: [false; 3],
            classes: HashSet::new(),
            schedules: 0,
            redundant: 0,
            steps: 0,
            hash: TraceHash::default(),
            counts_first: true,
            shared: Vec::new(),
        }
    }

    /// Only part `number` (from 0) of `of` independent parts: budgets are those of the part.
    pub fn partition(mut self, number: usize, of: usize) -> Self {
        self.counts_first = number == 0;
        self.dpor = self.dpor.map(|dpor| dpor.with_part(Part::new(number, of)));
        self.portfolio = self.portfolio.map(|portfolio| portfolio.partition(number as u64, of as u64));
        self
    }

    /// Stops the search as soon as this flag is raised.
    pub fn interrupt(mut self, flag: Arc<AtomicBool>) -> Self {
        self.interrupt = flag;
        self
    }

    /// The next plan, or `None` when the search is over ([`Summary::stop`] says why).
    ///
    /// A plan whose run was not observed was lost: source-DPOR is not exhausted without it.
    pub fn next_plan(&mut self) -> Option<Plan> {
        if self.interrupt.load(Ordering::Relaxed) {
            return self.over(Stop::Interrupt);
        }
        if self.search.time_limit.is_some_and(|limit| self.started.elapsed() >= limit) {
            return self.over(Stop::Time);
        }
        if self.schedules >= self.search.max_schedules {
            let done = self.exhausted();
            return self.over(if done { Stop::Exhausted } else { Stop::Schedules });
        }
        match self.phase() {
            Some(phase) => {
                let plan = match phase {
                    Phase::First => self.first.pop(),
                    Phase::Dpor => self.dpor.as_mut().and_then(Dpor::next_plan),
                    Phase::Portfolio => self.portfolio.as_mut().map(Portfolio::next_plan),
                };
                self.awaited = plan.is_some().then_some(phase);
                self.used[phase as usize] = true;
                plan
            }
            None => self.over(Stop::Exhausted),
        }
    }

    /// Plans that will probably come after the one awaited, at most `n`: run them ahead of time.
    pub fn upcoming(&self, n: usize) -> Vec<Plan> {
        let left = self.search.max_schedules.saturating_sub(self.schedules + u64::from(self.awaited.is_some()));
        let n = n.min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut plans: Vec<Plan> = self.first.iter().rev().take(n).cloned().collect();
        let dpor_left = self.dpor_budget.saturating_sub(self.schedules + plans.len() as u64) as usize;
        if let Some(dpor) = &self.dpor {
            plans.extend(dpor.upcoming((n - plans.len()).min(dpor_left)));
        }
        // While source-DPOR may go on, nobody knows whether sampling will be needed at all; nor its length before.
        let sampling = self.dpor.is_none() || dpor_left == 0;
        if let Some(portfolio) = self.portfolio.as_ref().filter(|_| sampling && self.schedules > 0) {
            plans.extend(portfolio.upcoming(n - plans.len()));
        }
        plans
    }

    /// Learns the run of the plan that [`next_plan`](Self::next_plan) gave last.
    ///
    /// # Errors
    /// [`Unrepeatable`] when a prefix that was executed before did something else now: the verdict is cannot-tell.
    pub fn observe(&mut self, run: &Run) -> Result<Seen, Unrepeatable> {
        let phase = self.awaited.take();
        let trace = Trace::new(run).map_err(|what| Unrepeatable { at: run.choices.len(), what })?;
        if let Some(portfolio) = &mut self.portfolio {
            portfolio.measured(run.choices.len());
        }
        let record = Record {
            steps: run.steps.len() as u64,
            complete: match run.ended {
                Ended::Done | Ended::Deadlock(_) | Ended::Livelock(_) => Some(true),
                Ended::SleepSet | Ended::Infeasible(_) => Some(false),
                Ended::Limit(..) | Ended::LostControl(_) => None,
            },
            class: class::key(&trace),
            encoded: encode(run),
        };
        match (phase, &mut self.dpor) {
            (Some(Phase::Dpor), Some(dpor)) => {
                let shared = dpor.expanding();
                dpor.observe(run, &trace)?;
                if shared {
                    self.shared.push(record);
                    self.count_shared();
                    return Ok(Seen::Shared);
                }
            }
            (Some(Phase::First), _) if !self.counts_first => return Ok(Seen::Shared),
            _ => {}
        }
        Ok(self.count(record))
    }

    /// Counts the shared runs that turned out to be ours.
    fn count_shared(&mut self) {
        if let Some(dpor) = self.dpor.as_ref().filter(|dpor| !dpor.expanding()) {
            let ours = dpor.ours();
            for (record, _) in std::mem::take(&mut self.shared).into_iter().zip(ours).filter(|(_, ours)| *ours) {
                self.count(record);
            }
        }
    }

    fn count(&mut self, record: Record) -> Seen {
        self.schedules += 1;
        self.steps += record.steps;
        self.hash.add_encoded(&record.encoded);
        match record.complete {
            None => Seen::Incomplete,
            Some(true) if self.classes.insert(record.class) => Seen::New,
            Some(_) => {
                self.redundant += 1;
                Seen::Redundant
            }
        }
    }

    /// Ends the search within a schedule, whose run is never observed.
    pub fn cut(&mut self, why: Stop) {
        self.stop.get_or_insert(why);
    }

    /// Whether every part of a partitioned search begins with the same run.
    pub fn shares_first_run(&self) -> bool {
        !self.first.is_empty() || self.dpor.is_some()
    }

    /// The search ends here. Of one that ends while the top is still expanded the first part counts all runs.
    pub fn close(&mut self) {
        for record in std::mem::take(&mut self.shared) {
            if self.counts_first {
                self.count(record);
            }
        }
    }

    /// The names of the classes executed so far, in hex.
    pub fn class_names(&self) -> BTreeSet<String> {
        self.classes.iter().map(|class| blake3::Hash::from_bytes(*class).to_hex().to_string()).collect()
    }

    /// What was explored so far.
    pub fn summary(&self) -> Summary {
        let timed = matches!(self.stop, Some(Stop::Time | Stop::Interrupt));
        Summary {
            schedules: self.schedules,
            classes: self.classes.len() as u64,
            redundant: self.redundant,
            steps: self.steps,
            exhausted: self.exhausted(),
            stop: self.stop,
            search: self.words(),
            seed: self.search.seed,
            elapsed: self.started.elapsed(),
            miss_bound: self.portfolio.as_ref().and_then(|p| p.miss_bound(self.actors)),
            trace_hash: (!timed).then(|| self.hash.hex()),
        }
    }

    fn exhausted(&self) -> bool {
        self.dpor.as_ref().is_some_and(Dpor::exhausted)
    }

    fn over(&mut self, why: Stop) -> Option<Plan> {
        self.stop.get_or_insert(why);
        None
    }

    fn phase(&self) -> Option<Phase> {
        if !self.first.is_empty() {
            return Some(Phase::First);
        }
        match &self.dpor {
            Some(dpor) if dpor.expanding() => Some(Phase::Dpor),
            Some(dpor) if !dpor.finished() && self.schedules < self.dpor_budget => Some(Phase::Dpor),
            Some(dpor) if dpor.exhausted() => None,
            _ => self.portfolio.as_ref().map(|_| Phase::Portfolio),
        }
    }

    fn words(&self) -> String {
        let sampling = match self.search.search {
            SearchKind::Random => "random walk".to_owned(),
            SearchKind::Pos => "pos".to_owned(),
            SearchKind::Pct(depth) => format!("pct-{depth}"),
            _ => "portfolio".to_owned(),
        };
        let first = if self.timeline { "timeline" } else { "" }.to_owned();
        let parts =
            [(Phase::First, first), (Phase::Dpor, "source-dpor".to_owned()), (Phase::Portfolio, sampling)].into_iter();
        let used = parts.filter(|(phase, words)| self.used[*phase as usize] && !words.is_empty());
        used.map(|(_, words)| words).collect::<Vec<_>>().join(", then ")
    }
}
