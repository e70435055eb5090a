//! The parts of a controlled schedule, each beside its floor: a step, a stop that is no step, setting the world back,
//! and beginning from a template.
//!
//! A part is measured as a difference: the same schedule with many of it, less the one without, by their number. So what
//! a schedule costs in any case is not in it.

use std::{
    fs,
    io::{Read, Write},
    path::Path,
    process::{Command as Process, Stdio},
    time::{Duration, Instant},
};

use benches::two_of;
use criterion::{BenchmarkId, Criterion};
use noclobber::{
    scenario::Scenario,
    tracer::Engine,
    world::{Ended, Plan, Policy},
};

/// How many of a part the longer schedule has.
const MANY: u32 = 200;

/// How many files the larger world has.
const FILES: u32 = 400;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut criterion = Criterion::default()
        .sample_size(15)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    // `[ -e n ]` is one stat of the world, `[ -e /proc/version ]` one of something else.
    calls(&mut criterion, "step", "n")?;
    calls(&mut criterion, "stop", "/proc/version")?;
    world_reset(&mut criterion)?;
    template(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}

/// One more system call of a worker; floors: the same call untraced, and a line to another process and back, which is the
/// least that a tracer in a process of its own needs.
fn calls(criterion: &mut Criterion, name: &str, path: &str) -> Result<(), Failure> {
    let worker = |count: u32| format!("i=0; while [ $i -lt {count} ]; do [ -e {path} ]; i=$((i+1)); done; read n < n");
    let mut group = criterion.benchmark_group(name);
    let mut few = started(&worker(0), 0)?;
    let mut many = started(&worker(MANY), 0)?;
    group.bench_function("controlled", |bench| {
        bench.iter_custom(|iterations| difference(iterations, MANY, || schedule(&mut many), || schedule(&mut few)));
    });
    group.bench_function(BenchmarkId::new("floor", "untraced call"), |bench| {
        bench.iter(|| fs::metadata("/proc/version").map(drop));
    });
    let mut cat = Process::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (mut input, mut output) = (cat.stdin.take().ok_or("a pipe")?, cat.stdout.take().ok_or("a pipe")?);
    group.bench_function(BenchmarkId::new("floor", "pipe round trip"), |bench| {
        bench.iter(|| {
            input.write_all(b"x").and_then(|()| output.read_exact(&mut [0])).expect("cat answers");
        });
    });
    drop(input);
    cat.wait()?;
    group.finish();
    Ok(())
}

/// One more file in the initial world; floor: writing such a file.
fn world_reset(criterion: &mut Criterion) -> Result<(), Failure> {
    let mut group = criterion.benchmark_group("world reset, a file of 1 KiB");
    let mut few = started("read n < n", 0)?;
    let mut many = started("read n < n", FILES)?;
    group.bench_function("controlled", |bench| {
        bench.iter_custom(|iterations| difference(iterations, FILES, || schedule(&mut many), || schedule(&mut few)));
    });
    let memory = Path::new("/dev/shm");
    let home = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = tempfile::tempdir_in(home)?;
    let mut number = 0u64;
    group.bench_function("floor", |bench| {
        bench.iter(|| {
            number += 1;
            fs::write(folder.path().join((number % u64::from(FILES)).to_string()), [b'x'; 1024]).expect("it is ours");
        });
    });
    group.finish();
    Ok(())
}

/// A schedule of two interpreters from templates and with a fresh start of each; floor: two forks with exec.
fn template(criterion: &mut Criterion) -> Result<(), Failure> {
    let worker = "/usr/bin/python3 -S -E -c 'open(\"n\").read()'";
    let mut group = criterion.benchmark_group("start of two interpreters");
    for (name, wanted) in [("templates", true), ("fresh", false)] {
        let mut engine = Engine::start(&scenario(worker, 0)?, 0)?;
        engine.templates(wanted)?;
        schedule(&mut engine);
        group.bench_function(name, |bench| bench.iter(|| schedule(&mut engine)));
    }
    group.bench_function("floor", |bench| {
        bench.iter(|| {
            let start = || Process::new("/bin/true").spawn().expect("true starts");
            [start(), start()].into_iter().for_each(|mut one| drop(one.wait()));
        });
    });
    group.finish();
    Ok(())
}

/// So many times what one of a part takes: those in the longer schedule less the shorter one.
fn difference(iterations: u64, parts: u32, mut longer: impl FnMut(), mut shorter: impl FnMut()) -> Duration {
    let time = |act: &mut dyn FnMut()| {
        let begun = Instant::now();
        act();
        begun.elapsed()
    };
    // In turns, so that what else happens meets both; as many parts as were asked for.
    let rounds = iterations.div_ceil(u64::from(parts)).max(1);
    let (mut with, mut without) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..rounds {
        with += time(&mut longer);
        without += time(&mut shorter);
    }
    let one = with.saturating_sub(without).as_secs_f64() / (rounds * u64::from(parts)) as f64;
    // Criterion refuses a time of nothing.
    Duration::from_secs_f64((one * iterations as f64).max(1e-9))
}

fn schedule(engine: &mut Engine) {
    let run = engine.run(&Plan::from_policy(Policy::Stay)).expect("the engine lives");
    assert_eq!(run.ended, Ended::Done);
}

/// An engine whose templates are made.
fn started(command: &str, files: u32) -> Result<Engine, Failure> {
    let mut engine = Engine::start(&scenario(command, files)?, 0)?;
    engine.templates(true)?;
    (0..2).for_each(|_| schedule(&mut engine));
    Ok(engine)
}

fn scenario(command: &str, files: u32) -> Result<Scenario, Failure> {
    let more: String = (0..files).map(|n| format!("\"f{n}\" = \"{}\"\n", "x".repeat(1024))).collect();
    Ok(two_of(command, &more)?)
}
