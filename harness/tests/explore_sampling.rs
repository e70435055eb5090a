//! How often one sampled schedule finds a planted bug, over fixed seeds; and that a weak sampler never does.

mod explore_model;

use explore_model::{
    I::{self, *},
    Model,
};
use noclobber::{
    explore::System,
    world::{ActorId, Op, Plan, Policy, Run},
};

const RUNS: u64 = 10_000;
const NAIVE: &[I] = &[Read(1), Truncate(1), Write(1)];
/// Breaks a lock that looks stale (content 1) through its path, then makes its own.
const STALE_BREAK: &[I] = &[ReadName(1), ExitUnless(1), Unlink(1), Create(1, true), Read(2), Write(2), Unlink(1)];

/// The share of runs in which `bug` shows, in per cent.
fn rate(model: &Model, policy: impl Fn(u64) -> Policy, bug: fn(&Run) -> bool) -> f64 {
    let mut model = model.clone();
    let mut hit = |seed| bug(&model.run(&Plan::from_policy(policy(seed))).expect("the model keeps control"));
    (0..RUNS).filter(|seed| hit(*seed)).count() as f64 * 100.0 / RUNS as f64
}

fn random(seed: u64) -> Policy {
    Policy::Random { seed }
}

fn pos(seed: u64) -> Policy {
    Policy::Pos { seed }
}

fn pct(depth: u32, length: u64) -> impl Fn(u64) -> Policy {
    move |seed| Policy::Pct { seed, depth, length }
}

/// Any order but a serial one loses an update or reads a torn file.
fn not_serial(run: &Run) -> bool {
    run.steps.windows(2).filter(|pair| pair[0].actor != pair[1].actor).count() > 1
}

/// Both actors own the lock, and the one's update of file 2 is lost: both read before either wrote.
fn lost_update(run: &Run) -> bool {
    let at = |a: u16, op: Op| {
        run.steps.iter().position(|s| s.actor == ActorId(a) && s.op == op && s.path.as_deref() == Some("#2"))
    };
    match (at(0, Op::Read), at(1, Op::Read), at(0, Op::Write), at(1, Op::Write)) {
        (Some(r0), Some(r1), Some(w0), Some(w1)) => r0.max(r1) < w0.min(w1),
        _ => false,
    }
}

/// What was measured once with another implementation, and how far off this one may be (per cent of runs).
fn about(what: &str, got: f64, expected: f64, within: f64) {
    println!("{what}: {got:.1} % (expected {expected} %)");
    assert!((got - expected).abs() <= within, "{what}: {got:.1} %, expected {expected} +- {within} %");
}

#[test]
fn naive_writers_are_found_at_the_known_rates() {
    let model = Model::copies(NAIVE, 2);
    about("random", rate(&model, random, not_serial), 75.0, 3.0);
    about("pos", rate(&model, pos, not_serial), 67.0, 3.0);
    about("pct-3", rate(&model, pct(3, 6), not_serial), 60.0, 5.0);
}

#[test]
fn a_stale_break_is_found_by_all_but_the_weak_sampler() {
    let model = Model::copies(STALE_BREAK, 2);
    let length = 12;
    about("random", rate(&model, random, lost_update), 4.4, 2.0);
    about("pos", rate(&model, pos, lost_update), 2.9, 1.5);
    about("pct-3", rate(&model, pct(3, length), lost_update), 1.1, 0.6);
    assert!(rate(&model, pct(4, length), lost_update) > 0.5);
    // The bug has depth 3: one change point is never enough.
    assert_eq!(rate(&model, pct(2, length), lost_update), 0.0);
}

#[test]
fn private_steps_dilute_a_random_walk() {
    let plain = rate(&Model::copies(STALE_BREAK, 2), random, lost_update);
    let private = [&[WriteTemp; 20], STALE_BREAK].concat();
    let diluted = rate(&Model::copies(&private, 2), random, lost_update);
    println!("random: {plain:.1} % without private steps, {diluted:.1} % with 20");
    assert!(diluted < plain * 0.6);
}

#[test]
fn pct_keeps_its_promise() {
    // 1 / (n k^(d-1)) is a lower bound on the rate for a bug of depth d.
    let model = Model::copies(STALE_BREAK, 2);
    let length = 12;
    let promised = 100.0 / (2.0 * 12.0 * 12.0);
    assert!(rate(&model, pct(3, length), lost_update) >= promised);
}

#[test]
fn a_seed_gives_the_same_schedule_again() {
    let mut model = Model::copies(STALE_BREAK, 3);
    for policy in [random(5), pos(5), pct(3, 20)(5)] {
        let plan = Plan::from_policy(policy);
        assert_eq!(model.run(&plan), model.run(&plan));
    }
}
