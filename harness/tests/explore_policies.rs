//! Following plans: prefixes, sleep sets, serial orders; and what happens when a run is not what it was.

mod explore_model;

use explore_model::{
    Ask,
    I::{self, *},
    Model,
    search::settings,
};
use noclobber::{
    explore::{Explorer, Seen, System},
    scenario::SearchKind,
    world::{Access, ActorId, Choice, Ended, Inode, Mode, Object, Plan, Policy, Run},
};

const A: ActorId = ActorId(0);
const B: ActorId = ActorId(1);
const NAIVE: &[I] = &[Read(1), Truncate(1), Write(1)];

fn run(model: &Model, plan: &Plan) -> Run {
    model.clone().run(plan).expect("the model keeps control")
}

fn steps(actors: &[ActorId]) -> Vec<Choice> {
    actors.iter().map(|a| Choice::Step(*a)).collect()
}

fn prefixed(prefix: &[ActorId]) -> Plan {
    Plan { prefix: steps(prefix), ..Plan::from_policy(Policy::Stay) }
}

#[test]
fn stay_and_timeline_and_prefixes() {
    let model = Model::copies(NAIVE, 2);
    assert_eq!(run(&model, &prefixed(&[])).choices, steps(&[A, A, A, B, B, B]));
    assert_eq!(run(&model, &Plan::from_policy(Policy::Timeline)).choices, steps(&[A, A, A, B, B, B]));
    assert_eq!(run(&model, &prefixed(&[A, B])).choices, steps(&[A, B, B, B, A, A]));
    let replayed = run(&model, &prefixed(&[B, A, B, A, B, A]));
    assert_eq!((replayed.choices, replayed.ended), (steps(&[B, A, B, A, B, A]), Ended::Done));
}

#[test]
fn a_strict_prefix_is_infeasible_and_a_lenient_one_falls_back() {
    let model = Model::copies(&[Flock(1, true, Ask::Wait), Write(1)], 2);
    for lazy in [false, true] {
        let model = Model { lazy, ..model.clone() };
        let strict = run(&model, &prefixed(&[A, B]));
        assert_eq!((strict.ended, strict.choices), (Ended::Infeasible(1), steps(&[A])));
        let lenient = run(&model, &Plan { lenient: true, ..prefixed(&[A, B]) });
        assert_eq!((lenient.ended, lenient.diverged), (Ended::Done, Some(1)));
        assert_eq!(lenient.choices, steps(&[A, A, A, B, B, B]));
    }
}

#[test]
fn sleepers_wake_by_conflict_only() {
    let model = Model::copies(NAIVE, 2);
    let touches = |file| vec![(B, vec![Access::new(Object::Content(Inode(file)), Mode::Read)])];
    // B's read sleeps: it conflicts with A's truncate, so it may come after that, not before.
    let woken = run(&model, &Plan { sleep: touches(1), ..prefixed(&[A]) });
    assert_eq!((woken.ended, woken.choices.len()), (Ended::Done, 6));
    let cut = run(&model, &Plan { sleep: touches(9), ..prefixed(&[A]) });
    assert_eq!((cut.ended, cut.choices), (Ended::SleepSet, steps(&[A, A, A])));
    // The prefix's last step filters, earlier ones do not.
    let last = run(&model, &Plan { sleep: touches(1), ..prefixed(&[A, A]) });
    assert_eq!(last.ended, Ended::Done);
}

#[test]
fn a_serial_order_runs_each_as_if_it_were_alone() {
    let serial = |order: &[ActorId]| Plan::from_policy(Policy::Serial(order.to_vec()));
    let sleepy = Model::copies(&[Read(1), Sleep(5), Write(1)], 2);
    let run_b_first = run(&sleepy, &serial(&[B, A]));
    // B's sleep ends although A could run; A's ends by itself, because A is alone by then.
    let woken = [Choice::Step(B), Choice::Wake(B), Choice::Step(B)];
    assert_eq!(run_b_first.choices, [woken.to_vec(), steps(&[A, A, A])].concat());
    // Its choices are a plan like any other.
    let again = run(&sleepy, &Plan { prefix: run_b_first.choices.clone(), ..prefixed(&[]) });
    assert_eq!(again.steps, run_b_first.steps);
    // A worker that needs another's help cannot be first.
    let model = Model::new(vec![vec![Receive(1)], vec![Send(1)]]);
    assert_eq!(run(&model, &serial(&[A, B])).ended, Ended::Infeasible(0));
    assert_eq!(run(&model, &serial(&[B, A])).ended, Ended::Done);
}

#[test]
fn a_prefix_that_does_something_else_is_noticed() {
    let model = Model::copies(NAIVE, 2);
    let mut explorer = Explorer::new(&settings(SearchKind::Auto, 1000, &model), 2, false);
    let mut noticed = None;
    for number in 0.. {
        let Some(plan) = explorer.next_plan() else { break };
        let mut run = run(&model, &plan);
        if number == 5 {
            // The same step, with another result.
            run.steps[0].ret += 1;
        }
        if let Err(error) = explorer.observe(&run) {
            noticed = Some((number, error.at));
            break;
        }
    }
    assert_eq!(noticed, Some((5, 0)));
}

#[test]
fn a_run_without_an_end_forbids_exhausted() {
    let model = Model::copies(NAIVE, 2);
    let mut explorer = Explorer::new(&settings(SearchKind::Exhaustive, 1000, &model), 2, false);
    let mut number = 0;
    while let Some(plan) = explorer.next_plan() {
        let mut run = run(&model, &plan);
        if number == 3 {
            run.ended = Ended::Limit("steps".to_owned(), 5);
        }
        let seen = explorer.observe(&run).expect("deterministic");
        assert_eq!(seen == Seen::Incomplete, number == 3);
        number += 1;
    }
    assert!(!explorer.summary().exhausted);
}
