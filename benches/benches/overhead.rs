//! What control costs: the same two workers untraced, under `strace -f --seccomp-bpf`, and in one controlled schedule,
//! started afresh and from templates, in turns within one run, as one table of medians. All on one CPU, as a controlled
//! schedule is.
//!
//!     cargo bench --bench overhead [-- ROUNDS]

use std::{
    process::{Command as Process, Stdio},
    time::{Duration, Instant},
};

use benches::{on_one_cpu, two_of, two_untraced};
use noclobber::{
    tracer::Engine,
    world::{Ended, Plan, Policy},
};

/// Programs that read a number in a file and write the next one.
const SUBJECTS: [(&str, &str); 6] = [
    ("rust", env!("CARGO_BIN_EXE_increment")),
    ("shell builtins", "read n < n; echo $((n + 1)) > n"),
    ("shell and cat", "n=$(cat n); echo $((n + 1)) > n"),
    ("python -S -E", "/usr/bin/python3 -S -E -c 'n = int(open(\"n\").read()); open(\"n\", \"w\").write(str(n + 1))'"),
    ("python", "/usr/bin/python3 -c 'n = int(open(\"n\").read()); open(\"n\", \"w\").write(str(n + 1))'"),
    (
        "node",
        "node -e 'const fs = require(\"fs\"); fs.writeFileSync(\"n\", String(1 + Number(fs.readFileSync(\"n\"))))'",
    ),
];

/// What `strace` is asked for: what a tracer of files has to see.
const STRACE: [&str; 7] = ["-f", "--seccomp-bpf", "-q", "-e", "trace=%file,%desc,%process", "-o", "/dev/null"];

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    // Cargo passes `--bench`.
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(15);
    if Process::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        return Err("strace is not installed: apt-get install strace".into());
    }
    println!("median of {rounds} rounds, two workers on one CPU, ms (times the untraced run)");
    println!("{:<16} {:>10} {:>16} {:>16} {:>16}", "worker", "untraced", "strace", "noclobber", "from templates");
    on_one_cpu(|| SUBJECTS.iter().try_for_each(|(name, command)| measure(name, command, rounds)))?
}

fn measure(name: &str, command: &str, rounds: usize) -> Result<(), Failure> {
    let scenario = two_of(command, "")?;
    let mut fresh = Engine::start(&scenario, 0)?;
    let mut templates = Engine::start(&scenario, 0)?;
    templates.templates(true)?;
    let plan = Plan::from_policy(Policy::Random { seed: 7 });
    let folder = tempfile::tempdir()?;
    let shell = ["/bin/sh", "-c", command];
    let mut times: [Vec<Duration>; 4] = Default::default();
    // Everything is in memory after the first round.
    for round in 0..=rounds {
        let took = [
            timed(|| Ok(two_untraced(folder.path(), &shell)?))?,
            timed(|| Ok(two_untraced(folder.path(), &[&["strace"], &STRACE[..], &shell[..]].concat())?))?,
            timed(|| controlled(&mut fresh, &plan))?,
            timed(|| controlled(&mut templates, &plan))?,
        ];
        if round > 0 {
            times.iter_mut().zip(took).for_each(|(all, one)| all.push(one));
        }
    }
    let [untraced, others @ ..] = times.map(median);
    let others = others.map(|time| format!("{:>16}", format!("{time:.1} ({:.1})", time / untraced)));
    println!("{name:<16} {untraced:>10.1} {}", others.join(" "));
    Ok(())
}

fn timed(act: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let begun = Instant::now();
    act()?;
    Ok(begun.elapsed())
}

fn controlled(engine: &mut Engine, plan: &Plan) -> Result<(), Failure> {
    match engine.run(plan)?.ended {
        Ended::Done => Ok(()),
        other => Err(format!("the schedule ended with {other:?}").into()),
    }
}

/// In milliseconds.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1000.0
}
