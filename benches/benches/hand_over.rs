//! How long a lock is on its way from one holder to the next: from when the one begins to give it up until the other, who
//! waits for it, has read the file under it.
//!
//! In each round somebody holds the lock while the others begin to wait; then they take their turns, and each holds it for
//! a while. So there is always somebody who waits, which is what `noclobber bench` shows only where it happens by chance.
//! The floor is flock(2) on a file that is opened each time, which is how a strategy has to use it, and the same reading.

use std::error::Error;
use std::fs::OpenOptions;
use std::hint::black_box;
use std::path::Path;
use std::sync::Barrier;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use fs2::FileExt as _;
use queue_core::storage::Disk;
use queue_core::strategy::{Options, by_name};
use queue_core::{Durability, Queue, Settings, Task};
use serde_json::value::RawValue;

/// How long the first one holds the lock, for the others to fall asleep.
const FIRST: Duration = Duration::from_millis(2);
/// How long each of the others does.
const EACH: Duration = Duration::from_micros(200);
/// How many waiters.
const WAITERS: [usize; 2] = [1, 7];
/// How often each is measured, in turns with the others, and how many rounds that is.
const TURNS: usize = 5;
const ROUNDS: usize = 60;

/// Whose lock.
#[derive(Clone, Copy)]
struct Subject {
    name: &'static str,
    /// None: the floor.
    strategy: Option<&'static str>,
    ofd: bool,
    fair: bool,
}

const fn subject(name: &'static str, strategy: Option<&'static str>) -> Subject {
    Subject { name, strategy, ofd: false, fair: false }
}

const SUBJECTS: [Subject; 5] = [
    subject("raw flock", None),
    subject("flock", Some("flock")),
    Subject { ofd: true, ..subject("flock --ofd", Some("flock")) },
    Subject { fair: true, ..subject("flock --fair", Some("flock")) },
    subject("lock-dir", Some("lock-dir")),
];

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let memory = Path::new("/dev/shm");
    let home = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    println!("hand-over, us: median (quartiles), {}", home.display());
    for waiters in WAITERS {
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); SUBJECTS.len()];
        for turn in 0..TURNS {
            for n in 0..SUBJECTS.len() {
                let n = (n + turn) % SUBJECTS.len();
                let directory = tempfile::tempdir_in(&home)?;
                times[n].extend(measure(SUBJECTS[n], waiters, directory.path())?);
            }
        }
        let mut floor = None;
        for (subject, times) in SUBJECTS.iter().zip(&mut times) {
            times.sort_by(f64::total_cmp);
            let at = |part: usize| times[(times.len() - 1) * part / 4];
            let floor = *floor.get_or_insert(at(2));
            println!(
                "{waiters} waiting  {:<14} {:>7.1}  ({:.1} to {:.1})  {:.1} x the floor",
                subject.name,
                at(2),
                at(1),
                at(3),
                at(2) / floor
            );
        }
    }
    Ok(())
}

/// Microseconds, of each time that the lock went from one to another.
fn measure(subject: Subject, waiters: usize, directory: &Path) -> Result<Vec<f64>, Failure> {
    open(subject, directory)?.push(&Task::new("a", "a", &serde_json::from_str::<Box<RawValue>>("{}")?)?)?;
    let begin = Barrier::new(waiters + 1);
    let (held, end) = (Barrier::new(waiters + 1), Barrier::new(waiters + 1));
    let (say, said) = channel::<(Instant, Instant)>();
    let mut times = Vec::new();
    std::thread::scope(|scope| {
        for number in 0..=waiters {
            let (say, begin, held, end) = (say.clone(), &begin, &held, &end);
            scope.spawn(move || {
                let rounds = || -> Result<(), Failure> {
                    let queue = open(subject, directory)?;
                    for _ in 0..ROUNDS {
                        begin.wait();
                        if number > 0 {
                            held.wait();
                        }
                        let mut turn = None;
                        hold(subject, &queue, directory, &mut || {
                            let had = Instant::now();
                            if number == 0 {
                                held.wait();
                                std::thread::sleep(FIRST);
                            } else {
                                while had.elapsed() < EACH {}
                            }
                            turn = Some((had, Instant::now()));
                        })?;
                        say.send(turn.ok_or("the lock was not had")?)?;
                        end.wait();
                    }
                    Ok(())
                };
                if let Err(error) = rounds() {
                    // The others would wait for us for ever.
                    eprintln!("{}: {error}", subject.name);
                    std::process::exit(1);
                }
            });
        }
        for _ in 0..ROUNDS {
            let mut turns: Vec<(Instant, Instant)> = said.iter().take(waiters + 1).collect();
            turns.sort();
            times.extend(turns.windows(2).map(|pair| (pair[1].0 - pair[0].1).as_secs_f64() * 1e6));
        }
    });
    Ok(times)
}

fn open(subject: Subject, directory: &Path) -> Result<Queue<Disk>, Failure> {
    let settings =
        Settings { durability: Durability::None, snapshots: 0, audit: false, done_keep: 0, ..Settings::default() };
    let options = Options { ofd: subject.ofd, fair: subject.fair, ..Options::default() };
    let strategy = by_name(subject.strategy.unwrap_or("flock"), &options).ok_or("a strategy")?;
    Ok(Queue::open(Disk, directory.join("queue.json"), strategy, settings))
}

/// Has the lock while `act` runs, with the file read.
fn hold(subject: Subject, queue: &Queue<Disk>, directory: &Path, act: &mut dyn FnMut()) -> Result<(), Failure> {
    if subject.strategy.is_some() {
        let changed = queue.edit("look", &mut |text| {
            act();
            Ok(text.to_vec())
        })?;
        return if changed { Err("nothing was to be changed".into()) } else { Ok(()) };
    }
    let lock =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(directory.join("floor.lock"))?;
    lock.lock_exclusive()?;
    black_box(std::fs::read(directory.join("queue.json"))?);
    act();
    Ok(fs2::FileExt::unlock(&lock)?)
}
