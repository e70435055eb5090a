//! One schedule of two workers under control, from templates and with the world set back, beside its floor: the same two
//! programs started and waited for without control. Both on one CPU; the floor also on all that the machine has.

use std::time::Duration;

use benches::{on_one_cpu, two_of, two_untraced};
use criterion::{BenchmarkId, Criterion};
use noclobber::{
    tracer::Engine,
    world::{Ended, Plan, Policy},
};

/// Programs that read a number in a file and write the next one.
const SUBJECTS: [(&str, &[&str]); 4] = [
    ("rust", &[env!("CARGO_BIN_EXE_increment")]),
    ("shell", &["/bin/sh", "-c", "read n < n; echo $((n + 1)) > n"]),
    ("python -S -E", &["/usr/bin/python3", "-S", "-E", "-c", PYTHON]),
    ("python", &["/usr/bin/python3", "-c", PYTHON]),
];

const PYTHON: &str = "n = int(open('n').read()); open('n', 'w').write(str(n + 1))";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    for (name, command) in SUBJECTS {
        let mut group = criterion.benchmark_group(format!("schedule/{name}"));
        // The first word stands bare: a quoted one is not taken for a plain call, which alone gets a template.
        let quoted = command[1..].iter().map(|word| format!(" '{}'", word.replace('\'', "'\\''")));
        let text = format!("{}{}", command[0], quoted.collect::<String>());
        let mut engine = Engine::start(&two_of(&text, "")?, 0)?;
        if let Some(why) = engine.templates(true)?.into_iter().flatten().next() {
            return Err(format!("{name} is started afresh: {why}").into());
        }
        let plan = Plan::from_policy(Policy::Random { seed: 7 });
        group.bench_function("controlled", |bench| {
            bench.iter(|| {
                let run = engine.run(&plan).expect("the engine lives");
                assert_eq!(run.ended, Ended::Done);
            });
        });
        drop(engine);
        let directory = tempfile::tempdir()?;
        let mut untraced = |cpus: &str| {
            group.bench_function(BenchmarkId::new("floor", cpus), |bench| {
                bench.iter(|| two_untraced(directory.path(), command).expect("it starts"));
            });
        };
        on_one_cpu(|| untraced("one CPU"))?;
        untraced("all CPUs");
        group.finish();
    }
    Ok(())
}
