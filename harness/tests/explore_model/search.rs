//! Running a whole search over a model.

use std::collections::BTreeSet;

use noclobber::{
    explore::{Explorer, Summary, System, class_key},
    scenario::{Search, SearchKind},
    world::{Ended, Run, TimeModel},
};

use super::{Model, brute};

/// What a search found.
#[derive(Debug)]
pub struct Found {
    pub summary: Summary,
    pub classes: BTreeSet<[u8; 32]>,
    pub outcomes: BTreeSet<String>,
    pub infeasible: u64,
}

pub fn settings(search: SearchKind, max_schedules: u64, model: &Model) -> Search {
    let time = if model.adversarial { TimeModel::Adversarial } else { TimeModel::Fair };
    Search { search, max_schedules, time, ..Search::default() }
}

/// Searches to the end.
pub fn search(model: &Model, search: &Search) -> Found {
    search_seeing(model, search, &mut |_| ())
}

pub fn search_seeing(model: &Model, search: &Search, see: &mut dyn FnMut(&Run)) -> Found {
    let mut model = model.clone();
    let mut explorer = Explorer::new(search, model.programs.len(), false);
    let (mut classes, mut outcomes, mut infeasible) = (BTreeSet::new(), BTreeSet::new(), 0);
    while let Some(plan) = explorer.next_plan() {
        let run = model.run(&plan).expect("the model keeps control");
        explorer.observe(&run).expect("the model is deterministic");
        if let Ended::Done | Ended::Deadlock(_) = run.ended {
            classes.insert(class_key(&run).expect("choices and steps correspond"));
            outcomes.insert(brute::outcome(&run.outcome));
        }
        infeasible += u64::from(matches!(run.ended, Ended::Infeasible(_)));
        see(&run);
    }
    Found { summary: explorer.summary(), classes, outcomes, infeasible }
}

/// Source-DPOR until nothing is left.
pub fn exhaust(model: &Model) -> Found {
    let found = search(model, &settings(SearchKind::Exhaustive, 2_000_000, model));
    assert!(found.summary.exhausted, "{:?}", found.summary);
    found
}
