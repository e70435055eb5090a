//! The parts of a search together execute what the whole executes, and no class twice.

mod explore_model;

use std::collections::BTreeMap;

use explore_model::{
    Ask,
    I::{self, *},
    Model, brute,
    search::settings,
};
use noclobber::{
    explore::{Explorer, Seen, System, class_key},
    scenario::SearchKind,
};

/// The classes that one part counts as new, and its redundant runs.
fn part(model: &Model, number: usize, of: usize) -> (Vec<[u8; 32]>, u64, u64) {
    let mut model = model.clone();
    let settings = settings(SearchKind::Exhaustive, 1_000_000, &model);
    let mut explorer = Explorer::new(&settings, model.programs.len(), false).partition(number, of);
    let (mut classes, mut shared) = (Vec::new(), 0);
    while let Some(plan) = explorer.next_plan() {
        let run = model.run(&plan).expect("the model keeps control");
        let class = class_key(&run).expect("choices and steps correspond");
        match explorer.observe(&run).expect("the model is deterministic") {
            Seen::New => classes.push(class),
            Seen::Shared => shared += 1,
            Seen::Redundant | Seen::Incomplete => {}
        }
    }
    let summary = explorer.summary();
    assert!(summary.exhausted, "{summary:?}");
    let counted = summary.classes - classes.len() as u64;
    println!("part {number} of {of}: {} classes, {shared} shared runs, {counted} of them its own", summary.classes);
    (classes, counted, summary.classes)
}

#[test]
fn the_parts_make_the_whole() {
    let locked: &[I] = &[Flock(1, false, Ask::Wait), Read(1), Flock(2, true, Ask::Timed(1, true)), Write(1)];
    let models = [
        Model::copies(&[Read(1), Truncate(1), Write(1)], 3),
        Model::copies(locked, 2),
        Model { adversarial: true, ..Model::copies(locked, 2) },
        Model::copies(&[Read(1)], 2),
    ];
    for model in models {
        let all = brute::all(&model, u64::MAX).classes;
        for of in [1, 2, 3] {
            let mut seen: BTreeMap<[u8; 32], usize> = BTreeMap::new();
            let mut total = 0;
            for number in 0..of {
                let (classes, _, counted) = part(&model, number, of);
                classes.into_iter().for_each(|class| *seen.entry(class).or_default() += 1);
                total += counted;
            }
            assert!(seen.values().all(|times| *times == 1), "a class in two parts");
            assert_eq!(total, all.len() as u64, "{of} parts of {model:?}");
        }
    }
}
