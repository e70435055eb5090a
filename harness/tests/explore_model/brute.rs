//! All interleavings of a model, one by one, without any reduction.

use std::collections::BTreeSet;

use noclobber::{
    explore::class_key,
    world::{Choice, Outcome, Run},
};

use super::{Machine, Model};

/// What brute force finds.
#[derive(Debug, Default)]
pub struct All {
    pub interleavings: u64,
    pub classes: BTreeSet<[u8; 32]>,
    pub outcomes: BTreeSet<String>,
    /// More interleavings than asked for: nothing may be concluded.
    pub too_many: bool,
}

pub fn outcome(outcome: &Option<Outcome>) -> String {
    format!("{outcome:?}")
}

/// Enumerates all interleavings, at most `limit`.
pub fn all(model: &Model, limit: u64) -> All {
    let mut all = All::default();
    go(model, Machine::new(model), Vec::new(), limit, &mut all, &mut |_| ());
    all
}

/// Calls `see` with every interleaving.
pub fn each(model: &Model, see: &mut dyn FnMut(&Run)) {
    go(model, Machine::new(model), Vec::new(), u64::MAX, &mut All::default(), see);
}

fn go(model: &Model, machine: Machine, choices: Vec<Choice>, limit: u64, all: &mut All, see: &mut dyn FnMut(&Run)) {
    if all.interleavings >= limit {
        all.too_many = true;
        return;
    }
    let mut ready = machine.ready();
    let wakeable = if model.adversarial { machine.asleep() } else { Vec::new() };
    if ready.is_empty() && wakeable.is_empty() {
        ready.extend(machine.due());
    }
    if ready.is_empty() && wakeable.is_empty() {
        let ended = machine.end();
        let run = machine.finish(choices, ended, None);
        all.interleavings += 1;
        all.classes.insert(class_key(&run).expect("choices and steps correspond"));
        all.outcomes.insert(outcome(&run.outcome));
        see(&run);
        return;
    }
    let options = ready.iter().map(|a| Choice::Step(*a)).chain(wakeable.iter().map(|a| Choice::Wake(*a)));
    for choice in options {
        let mut next = machine.clone();
        next.execute(choice, ready.clone(), wakeable.clone());
        let choices = [&choices[..], &[choice]].concat();
        go(model, next, choices, limit, all, see);
    }
}
