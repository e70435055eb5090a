//! The search as a whole: budgets, phases, determinism.

mod explore_model;

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use explore_model::{
    Ask,
    I::{self, *},
    Model,
    search::{search, search_seeing, settings},
};
use noclobber::{
    explore::{Explorer, Stop, Summary, System, coverage, miss_bound},
    scenario::{Search, SearchKind},
    world::{ActorId, Op, Plan, Run},
};

const NAIVE: &[I] = &[Read(1), Truncate(1), Write(1)];

#[test]
fn auto_stops_when_every_class_was_executed() {
    let model = Model::copies(NAIVE, 2);
    let found = search(&model, &settings(SearchKind::Auto, 1000, &model)).summary;
    assert!(found.exhausted && found.stop == Some(Stop::Exhausted) && found.classes == 14);
    assert_eq!(coverage(&found, &[]), "all 14 classes (source-dpor: 14 schedules)");
}

/// A transaction on a database: what is done under the lock is not interrupted by others.
fn transaction(what: I) -> [I; 3] {
    [Flock(2, true, Ask::Wait), what, Funlock(2)]
}

#[test]
fn a_window_near_the_end_of_a_long_program_is_met_early() {
    let program: Vec<I> = std::iter::repeat_n(Append(3), 40)
        .chain([Read(1)])
        .chain(std::iter::repeat_n(Append(3), 8))
        .chain([Write(1)])
        .flat_map(transaction)
        .collect();
    let model = Model::copies(&program, 2);
    let at = |run: &Run, actor: u16, op: Op| {
        run.steps.iter().position(|s| s.actor == ActorId(actor) && s.op == op && s.path.as_deref() == Some("#1"))
    };
    let (mut schedules, mut met) = (0, None);
    search_seeing(&model, &settings(SearchKind::Auto, 60, &model), &mut |run| {
        schedules += 1;
        let [read_a, read_b] = [0, 1].map(|actor| at(run, actor, Op::Read));
        let [write_a, write_b] = [0, 1].map(|actor| at(run, actor, Op::Write));
        if read_a.max(read_b) < write_a.min(write_b) {
            met.get_or_insert(schedules);
        }
    });
    // Positions in order would come to it after forty others; a sixth of all are within it.
    assert!(met.is_some_and(|at| at <= 16), "met in schedule {met:?}");
}

#[test]
fn auto_goes_on_to_the_portfolio_and_keeps_the_budget() {
    let model = Model::copies(NAIVE, 3);
    let found = search(&model, &settings(SearchKind::Auto, 101, &model)).summary;
    assert_eq!((found.schedules, found.exhausted, found.stop), (101, false, Some(Stop::Schedules)));
    assert_eq!(found.search, "source-dpor, then portfolio");
    assert_eq!(found.classes + found.redundant, 101);
    let bound = found.miss_bound.expect("PCT ran");
    // 50 portfolio runs in turns of four; k = 9 choice points in the first run.
    assert_eq!(bound["pct-3"], miss_bound(3, 9, 3, 12));
    assert_eq!(bound["pct-4"], miss_bound(3, 9, 4, 12));
    assert!((miss_bound(2, 10, 3, 200) - 0.366_957).abs() < 1e-6);
}

#[test]
fn every_search_keeps_its_budget_and_its_seed() {
    let model = Model::copies(NAIVE, 3);
    let kinds = [
        (SearchKind::Exhaustive, "source-dpor", 20),
        (SearchKind::Portfolio, "portfolio", 20),
        (SearchKind::Random, "random walk", 20),
        (SearchKind::Pos, "pos", 20),
        (SearchKind::Pct(2), "pct-2", 20),
        (SearchKind::Timeline, "timeline", 1),
    ];
    for (kind, words, schedules) in kinds {
        let once = search(&model, &settings(kind.clone(), 20, &model)).summary;
        let twice = search(&model, &settings(kind, 20, &model)).summary;
        assert_eq!((once.search.as_str(), once.schedules, once.exhausted), (words, schedules, false));
        assert_eq!(once.trace_hash, twice.trace_hash);
        assert!(once.trace_hash.is_some_and(|hash| hash.len() == 64));
    }
}

#[test]
fn time_and_interrupt_end_it() {
    let model = Model::copies(NAIVE, 3);
    let limit = Search { time_limit: Some(Duration::ZERO), ..settings(SearchKind::Auto, 1000, &model) };
    let found = search(&model, &limit).summary;
    assert_eq!((found.stop, found.schedules, found.trace_hash), (Some(Stop::Time), 0, None));
    let flag = Arc::new(AtomicBool::new(true));
    let mut explorer = Explorer::new(&settings(SearchKind::Auto, 1000, &model), 3, false).interrupt(flag);
    assert_eq!(explorer.next_plan(), None);
    assert_eq!(explorer.summary().stop, Some(Stop::Interrupt));
}

/// Runs ahead as `jobs` processors would. Returns the summary and how many runs were thrown away.
fn ahead(model: &Model, search: &Search, jobs: usize) -> (Summary, usize) {
    let mut model = model.clone();
    let mut explorer = Explorer::new(search, model.programs.len(), false);
    let mut done: Vec<(Plan, Run)> = Vec::new();
    let (mut used, mut made) = (0, 0);
    while let Some(plan) = explorer.next_plan() {
        for next in [vec![plan.clone()], explorer.upcoming(jobs - 1)].concat() {
            if done.iter().all(|(known, _)| *known != next) {
                let run = model.run(&next).expect("control is kept");
                done.push((next, run));
                made += 1;
            }
        }
        let at = done.iter().position(|(known, _)| *known == plan).expect("it was run");
        let (_, run) = done.swap_remove(at);
        explorer.observe(&run).expect("the model is deterministic");
        used += 1;
    }
    (Summary { elapsed: Duration::ZERO, ..explorer.summary() }, made - used)
}

#[test]
fn running_ahead_changes_nothing() {
    let model = Model::copies(NAIVE, 3);
    for kind in [SearchKind::Auto, SearchKind::Exhaustive, SearchKind::Portfolio, SearchKind::Pct(3)] {
        let settings = settings(kind.clone(), 300, &model);
        let (alone, wasted) = ahead(&model, &settings, 1);
        assert_eq!(wasted, 0);
        for jobs in [2, 4] {
            let (together, wasted) = ahead(&model, &settings, jobs);
            println!("{kind:?} with {jobs} jobs: {wasted} runs for nothing");
            assert_eq!(together, alone);
        }
    }
}
