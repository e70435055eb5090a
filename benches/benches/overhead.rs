//! What control costs: the same two workers untraced, under `strace -f --seccomp-bpf`, and in one controlled schedule,
//! in turns within one run, as one table of medians.
//!
//!     cargo bench --bench overhead [-- ROUNDS]

use std::{
    path::Path,
    process::{Command as Process, Stdio},
    time::{Duration, Instant},
};

use noclobber::{
    scenario::{Scenario, parse},
    tracer::Engine,
    world::{Ended, Plan, Policy},
};

/// Programs that read a number in a file and write the next one.
const SUBJECTS: [(&str, &str); 4] = [
    ("shell builtins", "read n < n; echo $((n + 1)) > n"),
    ("shell and cat", "n=$(cat n); echo $((n + 1)) > n"),
    ("python -S -E", "/usr/bin/python3 -S -E -c 'n = int(open(\"n\").read()); open(\"n\", \"w\").write(str(n + 1))'"),
    (
        "node",
        "node -e 'const fs = require(\"fs\"); fs.writeFileSync(\"n\", String(1 + Number(fs.readFileSync(\"n\"))))'",
    ),
];

/// What `strace` is asked for: what a tracer of files has to see.
const STRACE: [&str; 7] = ["-f", "--seccomp-bpf", "-q", "-e", "trace=%file,%desc,%process", "-o", "/dev/null"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Cargo passes `--bench`.
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(15);
    if Process::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        return Err("strace is not installed: apt-get install strace".into());
    }
    println!("median of {rounds} rounds, two workers side by side, ms (times the untraced run)");
    println!("{:<16} {:>10} {:>16} {:>16}", "worker", "untraced", "strace", "noclobber");
    for (name, command) in SUBJECTS {
        let mut engine = Engine::start(&scenario(command)?, 0)?;
        let plan = Plan::from_policy(Policy::Random { seed: 7 });
        let folder = tempfile::tempdir()?;
        let mut times: [Vec<Duration>; 3] = Default::default();
        // The first two schedules make the templates.
        for round in 0..rounds + 2 {
            let took = [
                side_by_side(folder.path(), &["/bin/sh", "-c", command])?,
                side_by_side(folder.path(), &[&["strace"], &STRACE[..], &["/bin/sh", "-c", command]].concat())?,
                controlled(&mut engine, &plan)?,
            ];
            if round >= 2 {
                times.iter_mut().zip(took).for_each(|(all, one)| all.push(one));
            }
        }
        let [untraced, strace, controlled] = times.map(median);
        println!(
            "{name:<16} {untraced:>10.1} {:>16} {:>16}",
            format!("{strace:.1} ({:.1})", strace / untraced),
            format!("{controlled:.1} ({:.1})", controlled / untraced)
        );
    }
    Ok(())
}

fn side_by_side(folder: &Path, command: &[&str]) -> std::io::Result<Duration> {
    std::fs::write(folder.join("n"), "0\n")?;
    let begun = Instant::now();
    let start = || {
        let mut process = Process::new(command[0]);
        process.args(&command[1..]).current_dir(folder);
        process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    };
    // A worker that meets the file while it is empty may fail: that is what an uncontrolled race does.
    for mut worker in [start()?, start()?] {
        worker.wait()?;
    }
    Ok(begun.elapsed())
}

fn controlled(engine: &mut Engine, plan: &Plan) -> Result<Duration, Box<dyn std::error::Error>> {
    let begun = Instant::now();
    let run = engine.run(plan)?;
    match run.ended {
        Ended::Done => Ok(begun.elapsed()),
        other => Err(format!("the schedule ended with {other:?}").into()),
    }
}

/// In milliseconds.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1000.0
}

fn scenario(command: &str) -> Result<Scenario, Box<dyn std::error::Error>> {
    let quoted = format!("\"{}\"", command.replace('\\', "\\\\").replace('"', "\\\""));
    let text = format!(
        "name = \"bench\"\nexpect = \"anomaly\"\nfiles = {{ n = \"0\\n\" }}\n\
         [[worker]]\nname = \"A\"\nrun = {quoted}\n[[worker]]\nname = \"B\"\nrun = {quoted}\n"
    );
    Ok(parse(&text, Path::new("bench.toml"))?)
}
