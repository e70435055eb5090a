//! Exact numbers of classes, of known programs.

mod explore_model;

use explore_model::{
    I::{self, *},
    Model, brute,
    search::exhaust,
};

/// Program, copies, interleavings, classes.
const COUNTS: &[(&str, &[I], usize, u64, u64)] = &[
    ("naive", &[Read(1), Truncate(1), Write(1)], 2, 20, 14),
    ("naive", &[Read(1), Truncate(1), Write(1)], 3, 1680, 762),
    ("temp file", &[ReadName(1), WriteTemp, Rename(1)], 2, 20, 4),
    ("temp file", &[ReadName(1), WriteTemp, Rename(1)], 3, 1680, 36),
];

#[test]
fn every_class_and_no_other() {
    for (name, program, n, interleavings, classes) in COUNTS {
        let model = Model::copies(program, *n);
        let all = brute::all(&model, u64::MAX);
        assert_eq!((all.interleavings, all.classes.len() as u64), (*interleavings, *classes), "{name} {n}");
        let found = exhaust(&model);
        println!(
            "{name} x{n}: {classes} classes, {} schedules, {} redundant",
            found.summary.schedules, found.summary.redundant
        );
        assert_eq!(found.classes, all.classes, "{name} {n}");
        assert_eq!(found.summary.classes, *classes, "{name} {n}");
        assert!(found.summary.redundant * 4 <= *classes, "{name} {n}: {:?}", found.summary);
    }
}

#[test]
fn four_naive_workers() {
    let found = exhaust(&Model::copies(&[Read(1), Truncate(1), Write(1)], 4));
    assert_eq!((found.summary.classes, found.summary.redundant), (104_856, 0));
}
