//! Shrinking, pivot and replay on models.

mod explore_model;

use explore_model::{
    Ask,
    I::{self, *},
    Model, brute,
};
use noclobber::{
    explore::{Memory, Origin, Replay, ReplayError, System, context_switches, pivot, shrink},
    world::{Ended, Plan, Policy, Run, TimeModel, Variant},
};
use proptest::prelude::*;

const TEMP: &[I] = &[Read(2), ReadName(1), WriteTemp, Rename(1), Append(3)];

/// The outcomes of the serial orders of two actors.
fn serial(model: &mut Model) -> Vec<String> {
    let mut one = |order: [u16; 2]| {
        let order = order.map(noclobber::world::ActorId).to_vec();
        let run = model.run(&Plan::from_policy(Policy::Serial(order))).expect("the model keeps control");
        brute::outcome(&run.outcome)
    };
    vec![one([0, 1]), one([1, 0])]
}

fn origin() -> Origin {
    Origin { name: "model".to_owned(), ..Origin::default() }
}

#[test]
fn found_schedules_shrink_to_the_fewest_switches_and_their_pivot_passes() {
    let mut model = Model::copies(TEMP, 2);
    let right = serial(&mut model);
    let template = Plan::from_policy(Policy::Stay);
    let mut failing = 0;
    for seed in 0..200 {
        let found = model.run(&Plan::from_policy(Policy::Random { seed })).expect("the model keeps control");
        let wrong = |run: &Run| !right.contains(&brute::outcome(&run.outcome));
        if !wrong(&found) {
            continue;
        }
        failing += 1;
        let shrunk = shrink(&mut Memory::new(&mut model), &found, &template, 500, &mut |run| wrong(run))
            .expect("control is kept");
        assert!(shrunk.fixed_point && wrong(&shrunk.run));
        assert!(context_switches(&shrunk.run.choices) <= context_switches(&found.choices));
        // A reads, B does everything, A goes on: two switches.
        assert_eq!(context_switches(&shrunk.run.choices), 2, "{:?}", shrunk.run.choices);
        let pivot = pivot(&mut Memory::new(&mut model), &shrunk.run, &template, 100, &mut |run| !wrong(run))
            .expect("control is kept");
        let (n, m) = pivot.steps.expect("one reversal makes it serial");
        let (first, second) = (&shrunk.run.steps[n], &shrunk.run.steps[m]);
        assert!(first.depends_on(second) && first.actor != second.actor && n < m);
        assert!(pivot.passing.is_some_and(|run| !wrong(&run)));
    }
    assert!(failing > 50, "{failing}");
}

#[test]
fn the_first_of_two_looks_decides() {
    // The listing comes after the name was looked up, and it is what races with the other's rename.
    let program = [ReadName(1), List, WriteTemp, Rename(1)];
    let mut model = Model::copies(&program, 2);
    let right = serial(&mut model);
    let wrong = |run: &Run| !right.contains(&brute::outcome(&run.outcome));
    let choose = |actor: u16| noclobber::world::Choice::Step(noclobber::world::ActorId(actor));
    let prefix = [0, 0, 0, 1, 1, 1, 1, 0].map(choose).to_vec();
    let template = Plan::from_policy(Policy::Stay);
    let failing = model.run(&Plan { prefix, ..template.clone() }).expect("control is kept");
    assert!(wrong(&failing));
    let pivot =
        pivot(&mut Memory::new(&mut model), &failing, &template, 100, &mut |run| !wrong(run)).expect("control is kept");
    assert_eq!(pivot.steps, Some((0, 6)), "A's look-up and B's rename");
    assert!(pivot.passing.is_some_and(|run| !wrong(&run)));
}

#[test]
fn without_a_pivot_the_nearest_passing_run_is_shown() {
    let mut model = Model::copies(TEMP, 2);
    let template = Plan::from_policy(Policy::Stay);
    let failing = model.run(&template).expect("control is kept");
    let found = pivot(&mut Memory::new(&mut model), &failing, &template, 100, &mut |_| false).expect("control is kept");
    assert!(found.steps.is_none() && found.passing.is_none());
}

#[test]
fn a_deadlock_shrinks_too() {
    let two = |a, b| vec![Read(1), Flock(a, true, Ask::Wait), Read(2), Flock(b, true, Ask::Wait), Funlock(a)];
    let mut model = Model::new(vec![two(1, 2), two(2, 1)]);
    let template = Plan::from_policy(Policy::Stay);
    let dead = |run: &Run| matches!(run.ended, Ended::Deadlock(_));
    let found = (0..100).map(|seed| model.run(&Plan::from_policy(Policy::Random { seed })).expect("control is kept"));
    let found = found.collect::<Vec<_>>().into_iter().find(dead).expect("one in a hundred");
    let shrunk =
        shrink(&mut Memory::new(&mut model), &found, &template, 500, &mut |run| dead(run)).expect("control is kept");
    assert_eq!(context_switches(&shrunk.run.choices), 1, "{:?}", shrunk.run.choices);
}

#[test]
fn a_changed_program_is_replayed_as_far_as_it_goes() {
    let mut model = Model::copies(TEMP, 2);
    let run = model.run(&Plan::from_policy(Policy::Random { seed: 3 })).expect("control is kept");
    let replay = Replay::new(origin(), None, TimeModel::Fair, Variant::default(), &run);
    for _ in 0..100 {
        let again = model.run(&replay.plan()).expect("control is kept");
        assert_eq!((replay.divergence(&again), again.diverged), (None, None));
    }
    let mut changed = Model::new(vec![TEMP.to_vec(), TEMP[..3].to_vec()]);
    let again = changed.run(&replay.plan()).expect("control is kept");
    let divergence = replay.divergence(&again).expect("a step is missing");
    assert_eq!(run.steps[..divergence.step], again.steps[..divergence.step]);
    assert_ne!(divergence.expected, divergence.found);
}

#[test]
fn another_schema_is_refused_with_the_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.replay.json");
    std::fs::write(&path, "{\"schema\": 99, \"later\": true}").expect("written");
    let error = Replay::read(&path).expect_err("refused");
    assert!(matches!(error, ReplayError::Schema { found: 99, .. }), "{error}");
    std::fs::write(&path, "[]").expect("written");
    assert!(matches!(Replay::read(&path), Err(ReplayError::Format { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_replay_file_is_read_as_written(seed: u64, variant: u32, shows: Option<String>) {
        let mut model = Model::copies(TEMP, 3);
        let run = model.run(&Plan::from_policy(Policy::Pos { seed })).expect("control is kept");
        let replay = Replay::new(origin(), shows, TimeModel::Adversarial, Variant { number: variant }, &run);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.replay.json");
        replay.write(&path).expect("written");
        let read = Replay::read(&path).expect("read");
        prop_assert_eq!(&read, &replay);
        prop_assert_eq!(read.divergence(&run), None);
    }
}
