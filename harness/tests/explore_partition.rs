//! The parts of a search together execute what the whole executes, and no class twice.

mod explore_model;

use std::{cell::Cell, collections::BTreeSet};

use explore_model::{
    Ask,
    I::{self, *},
    Model, brute,
    search::settings,
};
use noclobber::{
    explore::{Explorer, Summary, System},
    scenario::SearchKind,
};
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, RngSeed, TestRunner},
};

/// Most interleavings that are enumerated.
const LIMIT: u64 = 8_000;

/// The names of the classes that one part says are its own, and its numbers.
fn part(model: &Model, number: usize, of: usize) -> (BTreeSet<String>, Summary) {
    let mut model = model.clone();
    let settings = settings(SearchKind::Exhaustive, 1_000_000, &model);
    let mut explorer = Explorer::new(&settings, model.programs.len(), false).partition(number, of);
    while let Some(plan) = explorer.next_plan() {
        let run = model.run(&plan).expect("the model keeps control");
        explorer.observe(&run).expect("the model is deterministic");
    }
    explorer.close();
    (explorer.class_names(), explorer.summary())
}

/// Checks one model; returns its classes and those that parts have beyond the top, or nothing when it is too large.
fn check(model: &Model) -> Option<usize> {
    let all = brute::all(model, LIMIT);
    if all.too_many {
        return None;
    }
    let expected: BTreeSet<String> =
        all.classes.iter().map(|class| blake3::Hash::from_bytes(*class).to_hex().to_string()).collect();
    for of in [1, 2, 3, 5] {
        let mut seen = BTreeSet::new();
        for number in 0..of {
            let (classes, summary) = part(model, number, of);
            assert!(summary.exhausted, "part {number} of {of}: {summary:?}");
            assert_eq!(summary.classes, classes.len() as u64);
            for class in classes {
                assert!(seen.insert(class), "a class in two of {of} parts of {model:?}");
            }
        }
        assert_eq!(seen, expected, "{of} parts of {model:?}");
    }
    Some(expected.len())
}

#[test]
fn the_parts_make_the_whole() {
    let locked: &[I] = &[Flock(1, false, Ask::Wait), Read(1), Flock(2, true, Ask::Timed(1, true)), Write(1)];
    let models = [
        (Model::copies(&[Read(1), Truncate(1), Write(1)], 3), 762),
        (Model::copies(locked, 2), 0),
        (Model { adversarial: true, ..Model::copies(locked, 2) }, 0),
        // Fewer classes than parts.
        (Model::copies(&[Read(1)], 2), 1),
    ];
    for (model, classes) in models {
        let found = check(&model).expect("small enough to enumerate");
        assert!(classes == 0 || found == classes, "{found} classes of {model:?}");
    }
}

/// Locks in all forms, names and contents, on few objects.
fn instruction() -> impl Strategy<Value = I> {
    let ask = prop_oneof![3 => Just(Ask::Wait), 1 => any::<bool>().prop_map(Ask::Try)];
    prop_oneof![
        4 => Just(Read(1)),
        4 => Just(Write(1)),
        1 => Just(Write(2)),
        1 => Just(Truncate(1)),
        1 => Just(ReadName(1)),
        1 => Just(Rename(1)),
        1 => any::<bool>().prop_map(|end| Create(100, end)),
        1 => Just(Unlink(100)),
        2 => (any::<bool>(), ask).prop_map(|(exclusive, ask)| Flock(1, exclusive, ask)),
        2 => Just(Funlock(1)),
    ]
}

#[test]
fn the_parts_of_generated_programs_make_the_whole() {
    let sizes = prop_oneof![Just((3..5usize, 2)), Just((2..3, 3))];
    let models = sizes.prop_flat_map(|(steps, actors)| vec(vec(instruction(), steps), actors)).prop_map(Model::new);
    let (checked, classes) = (Cell::new(0), Cell::new(0));
    let config = Config { cases: 60, rng_seed: RngSeed::Fixed(5), failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&models, |model| {
        if let Some(found) = check(&model) {
            checked.set(checked.get() + 1);
            classes.set(classes.get() + found);
        }
        Ok(())
    });
    println!("{} programs, {} classes", checked.get(), classes.get());
    assert!(result.is_ok(), "{}", result.unwrap_err());
    assert!(checked.get() >= 40 && classes.get() >= 200, "too little was checked");
}
