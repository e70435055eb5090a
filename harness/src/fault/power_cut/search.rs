//! Which power cuts are still to be tried: those of every explored order, each distinct disk once.

use std::collections::{HashSet, VecDeque};

use crate::world::{ActorId, Choice, Injection, Plan, Policy, Run};

/// A power cut to be tried.
#[derive(Clone, Debug)]
struct Waiting {
    prefix: Vec<Choice>,
    at: u64,
    loss: u32,
}

/// The power cuts of a scenario.
#[derive(Debug)]
pub struct PowerCuts {
    rule: usize,
    waiting: VecDeque<Waiting>,
    /// Disks that were tried or wait, with who had ended by then, and who had acknowledged how much.
    seen: HashSet<([u8; 32], Vec<ActorId>, Vec<u64>)>,
    points: u64,
    left_out: u64,
    complete: bool,
    tried: u64,
    /// Runs in which more than one worker could go on at some moment after the cut.
    several_orders: u64,
}

impl PowerCuts {
    /// Power cuts asked for by the `[[fault]]` with this number.
    pub fn new(rule: usize) -> Self {
        PowerCuts {
            rule,
            waiting: VecDeque::new(),
            seen: HashSet::new(),
            points: 0,
            left_out: 0,
            complete: true,
            tried: 0,
            several_orders: 0,
        }
    }

    /// Learns where the power can be cut in a run without any fault.
    pub fn place(&mut self, run: &Run) {
        self.points += run.cuts.points;
        self.left_out += run.cuts.left_out;
        self.complete &= run.cuts.complete;
        for cut in &run.cuts.cuts {
            if self.seen.insert((cut.state, cut.ended.clone(), cut.said.clone())) {
                let prefix = run.choices.iter().take(usize::try_from(cut.at).unwrap_or(usize::MAX)).copied().collect();
                self.waiting.push_back(Waiting { prefix, at: cut.at, loss: cut.loss });
            }
        }
    }

    /// The next one: the order as it was up to the cut, and afterwards the first that comes.
    pub fn next_plan(&mut self) -> Option<Plan> {
        let Waiting { prefix, at, loss } = self.waiting.pop_front()?;
        self.tried += 1;
        let cut = Injection { rule: self.rule, actor: None, nth: Some(at), loss: Some(loss) };
        Some(Plan { prefix, faults: vec![cut], ..Plan::from_policy(Policy::Stay) })
    }

    /// Learns the run of the plan that was given last: what comes after a cut is run in one order.
    pub fn observe(&mut self, run: &Run) {
        let after = run.steps.iter().skip_while(|step| step.fault().is_none());
        self.several_orders += u64::from(after.filter(|step| step.chosen).any(|step| step.enabled.len() > 1));
    }

    /// None waits.
    pub fn is_done(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Every state of the disk was tried, and nobody could go on in another order after it.
    pub fn is_exhausted(&self) -> bool {
        self.is_done() && self.complete && self.left_out == 0 && self.several_orders == 0
    }

    /// How many were tried.
    pub fn tried(&self) -> u64 {
        self.tried
    }

    /// What the coverage statement says: how many states of how many.
    pub fn coverage(&self, model: &str) -> String {
        let least = if self.complete { "" } else { "at least " };
        let all = self.seen.len() as u64 + self.left_out;
        let mut text = format!(
            "power-cut: {} of {least}{all} states of the disk ({model}) at {} moments",
            self.tried, self.points
        );
        if self.several_orders > 0 {
            text += &format!(
                "; one order of what comes after each, though in {} of them there are others",
                self.several_orders
            );
        }
        text
    }
}
