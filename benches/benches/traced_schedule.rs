//! One schedule of two workers under control (world reset included), beside its floor: the same two programs started
//! and waited for without control, on the same CPU count as the machine gives.

use std::{
    path::Path,
    process::{Command as Process, Stdio},
    time::Duration,
};

use criterion::Criterion;
use noclobber::{
    scenario::{Scenario, parse},
    tracer::Engine,
    world::{Ended, Plan, Policy},
};

/// Programs that read a number in a file and write the next one.
const SUBJECTS: [(&str, &str); 2] = [
    ("shell", "read n < n; echo $((n + 1)) > n"),
    ("python", "/usr/bin/python3 -S -E -c 'n = int(open(\"n\").read()); open(\"n\", \"w\").write(str(n + 1))'"),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    for (name, command) in SUBJECTS {
        let mut group = criterion.benchmark_group(format!("schedule/{name}"));
        let mut engine = Engine::start(&scenario(command)?, 0)?;
        engine.templates(true)?;
        let plan = Plan::from_policy(Policy::Random { seed: 7 });
        group.bench_function("controlled", |bench| {
            bench.iter(|| {
                let run = engine.run(&plan).expect("the engine lives");
                assert_eq!(run.ended, Ended::Done);
            });
        });
        let directory = tempfile::tempdir()?;
        group.bench_function("floor", |bench| {
            bench.iter(|| {
                std::fs::write(directory.path().join("n"), "0\n").expect("the directory is ours");
                let start = || {
                    Process::new("/bin/sh")
                        .args(["-c", command])
                        .current_dir(directory.path())
                        .stdout(Stdio::null())
                        .stderr(Stdio::null())
                        .spawn()
                        .expect("a shell starts")
                };
                // A worker that meets the file while it is empty fails: that is what an uncontrolled race does.
                let both = [start(), start()];
                both.into_iter().for_each(|mut worker| drop(worker.wait()));
            });
        });
        group.finish();
    }
    Ok(())
}

fn scenario(command: &str) -> Result<Scenario, Box<dyn std::error::Error>> {
    let quoted = toml_string(command);
    let text = format!(
        "name = \"bench\"\nexpect = \"anomaly\"\nfiles = {{ n = \"0\\n\" }}\n\
         [[worker]]\nname = \"A\"\nrun = {quoted}\n[[worker]]\nname = \"B\"\nrun = {quoted}\n"
    );
    Ok(parse(&text, Path::new("bench.toml"))?)
}

fn toml_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
