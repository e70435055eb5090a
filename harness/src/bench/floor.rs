//! Floors: what the system calls alone cost, measured in the same run on the same directory. A figure means something on
//! another machine only beside one of these.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::channel,
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, flock};

use super::{
    case::Case,
    competitor::Durability,
    sample::{Times, WAITS_NS},
    turns::{Turn, hand_overs},
};

/// An operation is a push, or a claim and a completion: half of them are one write of the file, half are two.
const WRITES_PER_OPERATION: f64 = 1.5;

/// How many hand-overs are looked at.
const HAND_OVERS: usize = 30;

/// A floor.
#[derive(Clone, Debug, PartialEq)]
pub struct Floor {
    /// Its name, for runs to refer to.
    pub id: String,
    /// What was measured.
    pub what: String,
    /// Microseconds, each time it was measured.
    pub samples: Vec<f64>,
}

/// The floor of rewriting a queue of this size under a lock.
pub(super) fn rewrite_id(case: Case) -> String {
    let dir = if case.dir == 0 { String::new() } else { format!("-dir{}", case.dir) };
    format!("rewrite-{}-{}x{}-{}{dir}", case.durability, case.kept, case.task_bytes, case.processes)
}

/// What the floor of that id is.
pub(super) fn rewrite_what(case: Case) -> String {
    let synced = match case.durability {
        Durability::None => "",
        Durability::Data => ", fdatasync",
        Durability::Full => ", fdatasync, fsync of the folder",
    };
    let by = if case.processes == 1 { "one alone".to_owned() } else { format!("{} at once", case.processes) };
    format!(
        "{WRITES_PER_OPERATION} times: open and flock a lock file, read {} bytes, write them to a new file{synced}, rename; {by}",
        case.kept * case.task_bytes
    )
}

/// The floor of how that lock goes from one to another.
pub(super) fn hand_over_id(case: Case) -> String {
    rewrite_id(case).replacen("rewrite", "hand-over", 1)
}

/// What rewriting costs under that lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rewritten {
    /// Microseconds: what it takes all together, by how often it was done.
    pub(super) us: f64,
    /// Microseconds, the median, from one holder of the lock to the next who waited; none: nobody did.
    pub(super) hand_over_us: Option<f64>,
}

/// Rewrites for some time. Each of so many threads has open files of its own, which is what locks belong to.
pub(super) fn rewrite(dir: &Path, case: Case, time: Duration) -> io::Result<Rewritten> {
    std::fs::write(dir.join("floor"), vec![b'x'; case.kept * case.task_bytes])?;
    let begun = Instant::now();
    let turns = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..case.processes)
            .map(|number| scope.spawn(move || rewrite_for(dir, case.durability, number, begun, time)))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap_or(Err(io::ErrorKind::Other.into())));
        joined.collect::<io::Result<Vec<Vec<Turn>>>>()
    })?;
    let count: usize = turns.iter().map(Vec::len).sum();
    let us = begun.elapsed().as_secs_f64() * 1e6 * WRITES_PER_OPERATION / count as f64;
    let mut times = Times::default();
    hand_overs(turns.into_iter().flatten(), &mut times);
    Ok(Rewritten { us, hand_over_us: times.quantile_us(0.5) })
}

fn rewrite_for(
    dir: &Path,
    durability: Durability,
    number: usize,
    begun: Instant,
    time: Duration,
) -> io::Result<Vec<Turn>> {
    let (lock, file, temporary) = (dir.join("floor.lock"), dir.join("floor"), dir.join(format!("floor.tmp{number}")));
    let (mut buffer, mut turns) = (Vec::new(), Vec::new());
    let now = || u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    // Once at least.
    while turns.is_empty() || begun.elapsed() < time {
        let lock = OpenOptions::new().create(true).append(true).open(&lock)?;
        let began = now();
        flock(&lock, FlockOperation::LockExclusive)?;
        let had = now();
        buffer.clear();
        File::open(&file)?.read_to_end(&mut buffer)?;
        let mut new = File::create(&temporary)?;
        new.write_all(&buffer)?;
        if durability != Durability::None {
            new.sync_data()?;
        }
        std::fs::rename(&temporary, &file)?;
        if durability == Durability::Full {
            File::open(dir)?.sync_all()?;
        }
        let gave = now();
        flock(&lock, FlockOperation::Unlock)?;
        turns.push(Turn { worker: number, began, waited: had - began > WAITS_NS, had, gave });
    }
    Ok(turns)
}

/// The floors that do not depend on the load.
pub(super) fn basics(dir: &Path, time: Duration) -> io::Result<Vec<Floor>> {
    let path = |name: &str| dir.join(name);
    let open = |path: PathBuf| OpenOptions::new().create(true).append(true).open(path);
    let lock = open(path("basic.lock"))?;
    let mut log = open(path("basic.log"))?;
    let mut synced = open(path("basic.synced"))?;
    let line = [b'x'; 300];
    let mut cat = Cat::start()?;
    let floor = |id: &str, what: &str, us: f64| Floor { id: id.into(), what: what.into(), samples: vec![us] };
    Ok(vec![
        floor(
            "lock-unlock",
            "flock and unlock an open file that nobody else wants",
            mean_us(time, || {
                flock(&lock, FlockOperation::LockExclusive)?;
                Ok(flock(&lock, FlockOperation::Unlock)?)
            })?,
        ),
        floor(
            "open-lock-close",
            "open a file, flock it, close it",
            mean_us(time, || Ok(flock(open(path("basic.lock"))?, FlockOperation::LockExclusive)?))?,
        ),
        floor(
            "hand-over",
            "from unlocking a flock until somebody who waited has it, median",
            hand_over(&path("basic.lock"))?,
        ),
        floor("append", "append a line of 300 bytes", mean_us(time, || log.write_all(&line))?),
        floor(
            "rename",
            "write 300 bytes to a new file, rename it over another",
            mean_us(time, || {
                std::fs::write(path("basic.tmp"), line)?;
                std::fs::rename(path("basic.tmp"), path("basic.renamed"))
            })?,
        ),
        floor(
            "fdatasync",
            "append 300 bytes, fdatasync",
            mean_us(time, || {
                synced.write_all(&line)?;
                synced.sync_data()
            })?,
        ),
        floor("pipe", "a line through a pipe to another process and back", mean_us(time, || cat.round_trip())?),
    ])
}

/// Repeats for some time, at least three times; the mean in microseconds.
fn mean_us(time: Duration, mut once: impl FnMut() -> io::Result<()>) -> io::Result<f64> {
    once()?;
    let begun = Instant::now();
    let mut count = 0u32;
    while count < 3 || begun.elapsed() < time {
        once()?;
        count += 1;
    }
    Ok(begun.elapsed().as_secs_f64() * 1e6 / f64::from(count))
}

/// Two threads, each with an open file of its own, which is what the lock belongs to.
fn hand_over(path: &Path) -> io::Result<f64> {
    let holder = OpenOptions::new().append(true).open(path)?;
    let waiter = OpenOptions::new().append(true).open(path)?;
    let (ask, asked) = channel::<()>();
    let (tell, told) = channel::<Instant>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while asked.recv().is_ok() {
                let had = flock(&waiter, FlockOperation::LockExclusive).map(|()| Instant::now());
                let _ = flock(&waiter, FlockOperation::Unlock);
                if had.is_ok_and(|had| tell.send(had).is_err()) {
                    return;
                }
            }
        });
        let mut times = Vec::new();
        for _ in 0..HAND_OVERS {
            flock(&holder, FlockOperation::LockExclusive)?;
            if ask.send(()).is_err() {
                break;
            }
            // Long enough for the other one to wait.
            std::thread::sleep(Duration::from_millis(1));
            let released = Instant::now();
            flock(&holder, FlockOperation::Unlock)?;
            if let Ok(had) = told.recv_timeout(Duration::from_secs(5)) {
                times.push(had.saturating_duration_since(released).as_secs_f64() * 1e6);
            }
        }
        drop(ask);
        times.sort_by(f64::total_cmp);
        Ok(times.get(times.len() / 2).copied().unwrap_or(f64::NAN))
    })
}

struct Cat {
    child: std::process::Child,
    input: Option<std::process::ChildStdin>,
    output: BufReader<std::process::ChildStdout>,
}

impl Cat {
    fn start() -> io::Result<Cat> {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Cat { child, input, output: BufReader::new(output) })
    }

    fn round_trip(&mut self) -> io::Result<()> {
        self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write_all(b"claim\n")?;
        self.output.read_line(&mut String::new()).map(drop)
    }
}

impl Drop for Cat {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_are_times() {
        let dir = tempfile::tempdir().unwrap();
        let floors = basics(dir.path(), Duration::from_millis(2)).unwrap();
        assert!(floors.iter().all(|floor| floor.samples.iter().all(|us| us.is_finite() && *us > 0.0)), "{floors:?}");
        let case = |kept, processes| Case {
            competitor: 0,
            dir: 0,
            durability: Durability::None,
            processes,
            kept,
            task_bytes: 100,
            think_us: 0,
        };
        let measured = |kept, processes| rewrite(dir.path(), case(kept, processes), Duration::from_millis(30)).unwrap();
        let us = |kept, processes| measured(kept, processes).us;
        assert!(us(40_000, 1) > us(1, 1), "more bytes take longer");
        assert!(us(1, 4) > 0.0);
        assert_eq!(measured(1, 1).hand_over_us, None, "one alone waits for nobody");
        assert!(measured(1, 4).hand_over_us.is_none_or(|us| us > 0.0));
        assert_ne!(rewrite_id(case(1, 1)), rewrite_id(case(1, 2)));
    }
}
