//! The statistics of `bench --against`, on data whose truth is known: a slowdown that was planted is found, and nothing
//! is found where there is none more often than the comparison says of itself.

#![cfg(target_os = "linux")]

use noclobber::bench::{
    Comparison, Conditions, Durability, Judgement, Machine, Need, Noise, Quantiles, Results, Rules, Run, advise,
    compare,
};
use rand_pcg::{
    Pcg64,
    rand_core::{Rng, SeedableRng},
};

/// How many strategies are compared at once.
const RUNS: usize = 12;

/// What makes repetitions differ.
#[derive(Clone, Copy, Debug)]
struct Disturbance {
    /// Relative standard deviation.
    usual: f64,
    /// How often a repetition is hit by something else, and how much longer it then takes.
    hit: (f64, f64),
}

struct Source(Pcg64);

impl Source {
    fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Box and Muller's normal deviate.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn cost(&mut self, true_cost: f64, disturbance: Disturbance) -> f64 {
        let (often, much) = disturbance.hit;
        let hit = if self.uniform() < often { much } else { 1.0 };
        true_cost * (disturbance.usual * self.normal()).exp() * hit
    }

    /// A benchmark; `slowed` is how much longer the first strategy takes.
    fn results(&mut self, repetitions: usize, disturbance: Disturbance, slowed: f64) -> Results {
        let runs = (0..RUNS).map(|n| {
            let true_cost = (n + 1) as f64 * if n == 0 { slowed } else { 1.0 };
            let by_floor: Vec<f64> = (0..repetitions).map(|_| self.cost(true_cost, disturbance)).collect();
            run(&format!("strategy {n}"), by_floor)
        });
        results(runs.collect())
    }
}

fn run(strategy: &str, by_floor: Vec<f64>) -> Run {
    Run {
        strategy: strategy.into(),
        peer: false,
        durability: Durability::None,
        dir: "/x".into(),
        filesystem: "ext4".into(),
        processes: 8,
        kept: 100,
        task_bytes: 150,
        think_us: 0,
        ops: 1,
        ops_per_s: 1.0,
        repetitions: by_floor.iter().map(|cost| 1.0 / cost).collect(),
        by_floor,
        failed: 0,
        wait_us: Quantiles::default(),
        latency_us: Quantiles::default(),
        push_us: Quantiles::default(),
        take_us: Quantiles::default(),
        hand_over_us: Quantiles::default(),
        latency_curve: Vec::new(),
        fairness: 1.0,
        fairness_100ms: 1.0,
        cpu_us_per_op: 1.0,
        bytes_per_op: 1.0,
        disk_bytes_per_op: 0.0,
        lost: 0,
        duplicated: 0,
        foreign: 0,
        damaged: 0,
        examples: Vec::new(),
        known_to_lose: false,
        portable: false,
        floor_id: "f".into(),
        ratio_to_floor: Some(1.0),
        error: None,
    }
}

fn results(runs: Vec<Run>) -> Results {
    Results {
        schema: 1,
        machine: Machine {
            kernel: "k".into(),
            arch: "a".into(),
            cpu: "c".into(),
            cpus: 1,
            memory_mib: 1,
            load: 0.0,
            filesystem: "ext4".into(),
            dirs: Vec::new(),
            programs: Vec::new(),
        },
        settings: Conditions { repetitions: 1, planned: 1, measured_ms: 1, warm_up_ms: 1, seconds: 1.0 },
        floor: Vec::new(),
        noise: Noise::default(),
        runs,
        missing: Vec::new(),
        advice: Vec::new(),
        ended_by: "done".into(),
    }
}

fn compared(source: &mut Source, repetitions: usize, disturbance: Disturbance, slowed: f64) -> Comparison {
    let old = source.results(repetitions, disturbance, 1.0);
    let new = source.results(repetitions, disturbance, slowed);
    compare(&old, &new, Rules::default()).expect("the same strategies")
}

/// Quiet, busy, and with something that gets in the way now and then.
const DISTURBANCES: [Disturbance; 4] = [
    Disturbance { usual: 0.02, hit: (0.0, 1.0) },
    Disturbance { usual: 0.10, hit: (0.0, 1.0) },
    Disturbance { usual: 0.03, hit: (0.1, 2.0) },
    Disturbance { usual: 0.30, hit: (0.05, 4.0) },
];

#[test]
fn false_alarms_are_as_rare_as_it_says() {
    // The tolerance makes them rarer still; without it the level itself is tested.
    for tolerance in [0.0, Rules::default().tolerance] {
        for (seed, disturbance) in (1..).zip(DISTURBANCES) {
            for repetitions in [3, 5, 10] {
                let mut source = Source(Pcg64::seed_from_u64(seed));
                let rules = Rules { tolerance, ..Rules::default() };
                let alarms = (0..200)
                    .filter(|_| {
                        let old = source.results(repetitions, disturbance, 1.0);
                        let new = source.results(repetitions, disturbance, 1.0);
                        compare(&old, &new, rules).unwrap().alarm()
                    })
                    .count();
                // 200 times 0.05.
                assert!(alarms <= 10, "{alarms} of 200: {disturbance:?}, {repetitions} repetitions, {tolerance}");
            }
        }
    }
}

#[test]
fn a_slowdown_of_a_tenth_is_caught() {
    let quiet = DISTURBANCES[0];
    let mut source = Source(Pcg64::seed_from_u64(7));
    let found: Vec<Comparison> = (0..20).map(|_| compared(&mut source, 10, quiet, 1.0 / 0.9)).collect();
    let caught = found.iter().filter(|one| one.rows[0].judgement == Judgement::Slower).count();
    assert!(caught >= 19, "{caught} of 20");
    let others = found.iter().flat_map(|one| &one.rows[1..]).filter(|row| row.judgement == Judgement::Slower).count();
    assert_eq!(others, 0, "the others are as they were");
}

#[test]
fn what_could_not_have_been_seen_is_no_pass() {
    let busy = DISTURBANCES[3];
    let mut source = Source(Pcg64::seed_from_u64(9));
    for _ in 0..20 {
        let found = compared(&mut source, 5, busy, 1.0);
        assert!(!found.rows.iter().any(|row| row.judgement == Judgement::Same), "{found:?}");
        assert!(found.unsure());
        assert!(found.rows.iter().filter_map(|row| row.wanted).all(|wanted| wanted > 5), "{found:?}");
    }
}

#[test]
fn as_many_repetitions_as_it_asks_for_are_enough() {
    let busy = DISTURBANCES[1];
    let mut source = Source(Pcg64::seed_from_u64(11));
    let wanted = compared(&mut source, 10, busy, 1.0).rows.iter().filter_map(|row| row.wanted).max().expect("unsure");
    let found = compared(&mut source, usize::try_from(wanted).unwrap(), busy, 1.0);
    assert!(!found.unsure() && !found.alarm(), "{wanted}: {found:?}");
}

#[test]
fn losing_something_is_an_alarm_whatever_the_speed() {
    let mut source = Source(Pcg64::seed_from_u64(3));
    let old = source.results(3, DISTURBANCES[1], 1.0);
    let mut new = old.clone();
    new.runs[4].lost = 1;
    let found = compare(&old, &new, Rules::default()).unwrap();
    assert_eq!(found.rows[4].judgement, Judgement::Wrong);
    assert!(found.alarm());
    // What is said to lose is no news.
    new.runs[4].known_to_lose = true;
    assert!(!compare(&old, &new, Rules::default()).unwrap().alarm());
}

#[test]
fn the_recommendation_claims_no_difference_that_is_none() {
    for (seed, disturbance) in (1..).zip(DISTURBANCES) {
        for repetitions in [2, 3, 10] {
            let mut source = Source(Pcg64::seed_from_u64(seed));
            let claims = (0..200)
                .filter(|_| {
                    let alike: Vec<Run> = (0..RUNS)
                        .map(|n| {
                            let costs = (0..repetitions).map(|_| source.cost(1.0, disturbance)).collect();
                            run(&format!("strategy {n}"), costs)
                        })
                        .collect();
                    advise(&results(alike), &[])[0].contains(" times `")
                })
                .count();
            assert!(claims <= 10, "{claims} of 200: {disturbance:?}, {repetitions} repetitions");
        }
    }
    // But one that is there.
    let mut source = Source(Pcg64::seed_from_u64(1));
    let mut found = source.results(3, DISTURBANCES[0], 0.5);
    for (n, run) in found.runs.iter_mut().enumerate() {
        run.ops_per_s = run.repetitions[0];
        run.fairness_100ms = if n == 0 { 0.1 } else { 0.9 };
    }
    assert!(advise(&found, &[])[0].contains("`strategy 0` did most"), "{:?}", advise(&found, &[]));
    assert!(advise(&found, &[])[0].contains(" times `strategy 1`"), "{:?}", advise(&found, &[]));
    assert!(advise(&found, &[Need::Fair])[0].contains("`strategy 1` did most"));
    assert!(advise(&found, &[Need::Portable])[0].contains("nothing that was measured is portable"));
    assert!(advise(&found, &[Need::Durable])[0].contains("--durability full"));
}
