//! `repeat N FILE...`: runs each scenario N times while every processor is kept busy, and says how many different
//! trace hashes came out. One is the only right number.

use std::{
    collections::BTreeMap,
    hint,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Instant,
};

use scenarios::run;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let times = arguments.next().and_then(|n| n.to_str()?.parse::<u32>().ok());
    let files: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
    let (Some(times), false) = (times, files.is_empty()) else {
        eprintln!("usage: repeat N FILE...");
        return ExitCode::from(2);
    };
    let done = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..thread::available_parallelism().map_or(1, usize::from))
        .map(|_| {
            let done = done.clone();
            thread::spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            })
        })
        .collect();
    let mut all_one = true;
    for file in files {
        let file = file.canonicalize().unwrap_or(file);
        let (mut hashes, start) = (BTreeMap::<String, u32>::new(), Instant::now());
        for _ in 0..times {
            let answer = run(std::slice::from_ref(&file));
            let hash = answer.reports.first().map_or_else(|| answer.stderr.clone(), |r| r["trace_hash"].to_string());
            *hashes.entry(format!("exit {:?}, {hash}", answer.exit)).or_default() += 1;
        }
        let seconds = start.elapsed().as_secs_f64() / f64::from(times);
        println!("{}: {times} runs, {} outcomes, {seconds:.2} s a run", file.display(), hashes.len());
        hashes.iter().for_each(|(hash, count)| println!("  {count} x {hash}"));
        all_one &= hashes.len() == 1;
    }
    done.store(true, Ordering::Relaxed);
    busy.into_iter().for_each(|thread| thread.join().expect("a busy loop does not fail"));
    if all_one { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
