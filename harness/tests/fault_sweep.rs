//! The search over faults: every placement, every class of orders of each, each combination once.

mod explore_model;

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use explore_model::{
    I::{self, *},
    Model, brute,
};
use noclobber::{
    explore::{Explorer, System, class_key},
    fault::Sweep,
    scenario::{Scenario, SearchKind, parse},
    world::{FAULT_FLAG, Injection, Plan, Run},
};

/// A worker of these models that is killed before its nth step has a shorter program.
fn killed(model: &Model, faults: &[Injection]) -> Model {
    let mut model = model.clone();
    for fault in faults {
        let (actor, nth) = (usize::from(fault.actor.unwrap().0), fault.nth.unwrap() as usize);
        model.programs[actor].truncate(nth - 1);
    }
    model
}

fn run(model: &Model, plan: &Plan) -> Run {
    let mut run = killed(model, &plan.faults).run(plan).expect("the model keeps control");
    for fault in &plan.faults {
        let own = run.steps.iter_mut().filter(|step| Some(step.actor) == fault.actor);
        if let Some(last) = own.last() {
            last.flags.push(format!("{FAULT_FLAG}kill"));
        }
    }
    run.faults = plan.faults.clone();
    run
}

fn scenario(faults: &str, max_faults: u64) -> Scenario {
    let text = format!(
        "name = \"s\"\nexpect = \"clean\"\n[[worker]]\nname = \"W\"\ncount = 2\nrun = \"true\"\n{faults}\n[search]\nmax_faults = \
         {max_faults}\nmax_schedules = 100000\n"
    );
    parse(&text, Path::new("s.toml")).unwrap()
}

/// Faults of one run: of which actor, at which of its calls.
type Placement = Vec<(u16, u64)>;

/// The placements that were explored, the number of classes of all of them, and the coverage.
fn sweep(model: &Model, faults: &str, max_faults: u64) -> (BTreeSet<Placement>, u64, Vec<String>) {
    let scenario = scenario(faults, max_faults);
    let mut search = scenario.search.clone();
    search.search = SearchKind::Exhaustive;
    let (make, flag) = (search.clone(), Arc::new(AtomicBool::new(false)));
    let mut sweep = Sweep::new(&scenario, &search, flag, move || Explorer::new(&make, 2, false)).unwrap();
    let (mut placements, mut classes) = (BTreeSet::new(), BTreeSet::new());
    while let Some(plan) = sweep.next_plan() {
        let made = run(model, &plan);
        let faults: Vec<(u16, u64)> = plan.faults.iter().map(|f| (f.actor.unwrap().0, f.nth.unwrap())).collect();
        if let Ok(key) = class_key(&made) {
            classes.insert((faults.clone(), key));
        }
        placements.insert(faults);
        sweep.observe(&made).expect("the model is deterministic");
    }
    let summary = sweep.summary();
    assert!(summary.exhausted);
    assert_eq!(summary.classes, classes.len() as u64);
    (placements, summary.classes, sweep.coverage())
}

fn classes(model: &Model, faults: &[(u16, u64)]) -> u64 {
    let injection = |(actor, nth): &(u16, u64)| Injection {
        rule: 0,
        actor: Some(noclobber::world::ActorId(*actor)),
        nth: Some(*nth),
        loss: None,
    };
    let faults: Vec<Injection> = faults.iter().map(injection).collect();
    brute::all(&killed(model, &faults), u64::MAX).classes.len() as u64
}

const PROGRAM: &[I] = &[Read(1), Truncate(1), Write(1)];

#[test]
fn every_place_is_explored_with_all_its_orders() {
    let model = Model::copies(PROGRAM, 2);
    let (placements, found, coverage) = sweep(&model, "[[fault]]\nworker = \"W.1\"\nkind = \"kill\"", 1);
    // Before the truncation and the write (these models have no step for the end); a read is passed over.
    let expected: BTreeSet<Vec<(u16, u64)>> = [vec![], vec![(0, 2)], vec![(0, 3)]].into();
    assert_eq!(placements, expected);
    assert_eq!(found, expected.iter().map(|faults| classes(&model, faults)).sum::<u64>());
    assert_eq!(coverage, ["kill in all 2 places of W.1", "at most one fault a run"]);
}

#[test]
fn two_faults_are_combined_each_pair_once() {
    let model = Model::copies(PROGRAM, 2);
    let fault = "[[fault]]\nkind = \"kill\"";
    let (placements, found, coverage) = sweep(&model, fault, 2);
    let single = |w: u16| (2..=3).map(move |nth| (w, nth));
    let mut expected: BTreeSet<Vec<(u16, u64)>> = [vec![]].into();
    expected.extend(single(0).chain(single(1)).map(|fault| vec![fault]));
    expected.extend(single(0).flat_map(|a| single(1).map(move |b| vec![a, b])));
    assert_eq!(placements, expected);
    assert_eq!(found, expected.iter().map(|faults| classes(&model, faults)).sum::<u64>());
    let text = [
        "kill in all 4 places of W.1, W.2",
        "several faults in 4 of 4 combinations of places",
        "at most 2 faults a run",
    ];
    assert_eq!(coverage, text);
    // With one fault a run none of the pairs.
    let (placements, ..) = sweep(&model, fault, 1);
    assert!(placements.iter().all(|faults| faults.len() <= 1) && placements.len() == 5, "{placements:?}");
}

#[test]
fn a_number_and_a_pattern_choose_the_place() {
    let model = Model::copies(PROGRAM, 2);
    let fault = "[[fault]]\nworker = \"W.2\"\nkind = \"kill\"\nat = \"write\"\nnth = 1";
    let scenario = scenario(fault, 1);
    let search = scenario.search.clone();
    let (make, flag) = (search.clone(), Arc::new(AtomicBool::new(false)));
    let mut sweep = Sweep::new(&scenario, &search, flag, move || Explorer::new(&make, 2, false)).unwrap();
    let mut seen = BTreeSet::new();
    while let Some(plan) = sweep.next_plan() {
        seen.insert(plan.faults.clone());
        // Nothing of this model is hit: the pattern is told as one that never matched.
        let made = Run { faults: plan.faults.clone(), ..model.clone().run(&plan).unwrap() };
        sweep.observe(&made).unwrap();
    }
    let at = Injection { rule: 0, actor: Some(noclobber::world::ActorId(1)), nth: Some(1), loss: None };
    assert_eq!(seen, [vec![], vec![at]].into());
    assert_eq!(sweep.unmatched(), ["write"]);
}
