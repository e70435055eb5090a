//! Nothing but benchmarks: see the folder `benches/`. Each has its floor beside it, the same system calls without the
//! library, because only the ratio of the two means anything on another machine.

use std::{io, path::Path, process};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use noclobber::scenario::{Scenario, ScenarioError, parse};

/// Two workers with one command on a file `n` that holds 0.
///
/// # Errors
/// A command that no scenario can hold.
pub fn two_of(command: &str, more_files: &str) -> Result<Scenario, ScenarioError> {
    let quoted = format!("\"{}\"", command.replace('\\', "\\\\").replace('"', "\\\""));
    let text = format!(
        "name = \"bench\"\nexpect = \"anomaly\"\n[files]\nn = \"0\\n\"\n{more_files}\
         [[worker]]\nname = \"A\"\nrun = {quoted}\n[[worker]]\nname = \"B\"\nrun = {quoted}\n"
    );
    parse(&text, Path::new("bench.toml"))
}

/// The same two workers without control, side by side; their failures are what an uncontrolled race does.
///
/// # Errors
/// A program that does not start.
pub fn two_untraced(folder: &Path, command: &[&str]) -> io::Result<()> {
    std::fs::write(folder.join("n"), "0\n")?;
    let start = || {
        let mut process = process::Command::new(command[0]);
        process.args(&command[1..]).current_dir(folder);
        process.stdin(process::Stdio::null()).stdout(process::Stdio::null()).stderr(process::Stdio::null()).spawn()
    };
    for mut worker in [start()?, start()?] {
        worker.wait()?;
    }
    Ok(())
}

/// Runs something on one CPU, as a controlled schedule is run: with the workers that it starts.
///
/// # Errors
/// A machine that does not allow it.
pub fn on_one_cpu<T>(act: impl FnOnce() -> T) -> io::Result<T> {
    let this = Pid::from_raw(0);
    let all = sched_getaffinity(this)?;
    let first = (0..CpuSet::count()).find(|cpu| all.is_set(*cpu).unwrap_or(false));
    let mut one = CpuSet::new();
    one.set(first.ok_or(io::ErrorKind::NotFound)?)?;
    sched_setaffinity(this, &one)?;
    let value = act();
    sched_setaffinity(this, &all)?;
    Ok(value)
}
