//! Pushes alone, by eight processes at once (and by one), into a queue that holds 100 tasks at first: the strategies of the
//! queue beside the article's way in Python, `json` and `fcntl.flock`.
//!
//! `noclobber bench` keeps the number of tasks level by taking as many as it pushes, so its operations are of both kinds.
//! Here each round has a fresh queue and 200 pushes, so that everybody meets the same 100 to 300 tasks. Sharded, each process
//! has an account of its own and the tasks are spread over them. Durability is `none`; who takes part in what order changes
//! from round to round; after each round all tasks have to be there.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use queue_core::storage::Disk;
use queue_core::strategy::{Options, by_name};
use queue_core::{Durability, Queue, Settings, Task};

const KEPT: usize = 100;
const PUSHES: usize = 200;
const ROUNDS: usize = 11;

/// Who pushes: a name, the strategy, a spare file, accounts.
const OWN: [(&str, &str, bool); 6] = [
    ("flock", "flock", false),
    ("flock --spare", "flock", true),
    ("sharded", "sharded", false),
    ("sharded --spare", "sharded", true),
    ("optimistic", "optimistic", false),
    ("lock-dir", "lock-dir", false),
];
const PEER: &str = "python json + fcntl.flock";

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [role, name, directory, worker, workers] if role == "--push" => {
            push(name, Path::new(directory), worker.parse()?, workers.parse()?)
        }
        _ => compare(),
    }
}

fn compare() -> Result<(), Failure> {
    let memory = Path::new("/dev/shm");
    let home = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let names: Vec<&str> = OWN.iter().map(|(name, ..)| *name).chain([PEER]).collect();
    println!("pushes a second, median of {ROUNDS} rounds, durability none, {}", home.display());
    for workers in [8, 1] {
        let mut rates: Vec<Vec<f64>> = vec![Vec::new(); names.len()];
        for round in 0..ROUNDS {
            for turn in 0..names.len() {
                let who = (turn + round) % names.len();
                rates[who].push(self::round(names[who], &home, workers)?);
            }
        }
        let middle = |rates: &[f64]| {
            let mut sorted = rates.to_vec();
            sorted.sort_by(f64::total_cmp);
            (sorted[sorted.len() / 2], sorted[sorted.len() / 4], sorted[sorted.len() * 3 / 4])
        };
        let (peer, ..) = middle(&rates[names.len() - 1]);
        for (name, rates) in names.iter().zip(&rates) {
            let (rate, low, high) = middle(rates);
            println!(
                "{workers} processes  {name:<26} {rate:>8.0}  (quartiles {low:.0} to {high:.0})  {:.1} x the peer",
                rate / peer
            );
        }
    }
    Ok(())
}

/// One round: pushes a second.
fn round(name: &str, home: &Path, workers: usize) -> Result<f64, Failure> {
    let directory = tempfile::tempdir_in(home)?;
    let mut children = Vec::new();
    for worker in 0..workers {
        children.push(Pusher::start(name, directory.path(), worker, workers)?);
        // The first one puts in what is there at first.
        children[worker].hear()?;
    }
    let start = Instant::now();
    children.iter_mut().try_for_each(Pusher::go)?;
    children.iter_mut().try_for_each(Pusher::hear)?;
    let took = start.elapsed().as_secs_f64();
    let there = count(directory.path())?;
    if there != KEPT + PUSHES {
        return Err(format!("{name}: {there} tasks are there, not {}", KEPT + PUSHES).into());
    }
    Ok(PUSHES as f64 / took)
}

/// The tasks in all files.
fn count(directory: &Path) -> Result<usize, Failure> {
    let mut all = 0;
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') {
            all += count(&path)?;
        } else if name.starts_with("queue") && name.ends_with(".json") {
            let value: serde_json::Value = serde_json::from_slice(&std::fs::read(&path)?)?;
            all += value["tasks"].as_array().map_or(0, Vec::len);
        }
    }
    Ok(all)
}

/// A process that pushes.
struct Pusher {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Pusher {
    fn start(name: &str, directory: &Path, worker: usize, workers: usize) -> Result<Self, Failure> {
        let mut command = match name {
            PEER => {
                let mut command = Command::new("python3");
                let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../harness/src/bench/peers");
                command.env("PYTHONPATH", peers).env("PYTHONDONTWRITEBYTECODE", "1").args(["-c", PYTHON]);
                command
            }
            _ => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["--push", name]);
                command
            }
        };
        command.arg(directory).arg(worker.to_string()).arg(workers.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Pusher { child, output })
    }

    fn go(&mut self) -> std::io::Result<()> {
        self.child.stdin.as_mut().map_or(Ok(()), |input| input.write_all(b"go\n"))
    }

    /// Waits until it has said that it is ready, or done.
    fn hear(&mut self) -> Result<(), Failure> {
        let mut line = String::new();
        match self.output.read_line(&mut line)? {
            0 => Err("a process that pushes has ended".into()),
            _ => Ok(()),
        }
    }
}

impl Drop for Pusher {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// What a process does that pushes.
fn push(name: &str, directory: &Path, worker: usize, workers: usize) -> Result<(), Failure> {
    let (_, strategy, spare) = OWN.into_iter().find(|(own, ..)| *own == name).ok_or("who is that?")?;
    let settings = Settings {
        durability: Durability::None,
        snapshots: 0,
        audit: false,
        done_keep: 0,
        spare,
        ..Settings::default()
    };
    let by_account = strategy == "sharded";
    let path = directory.join(if by_account { "queues" } else { "queue.json" });
    let queue = Queue::open(Disk, path, by_name(strategy, &Options::default()).ok_or("a strategy")?, settings);
    let account = |number: usize| format!("a{}", if by_account { number % workers } else { 0 });
    if worker == 0 {
        let kept: Result<Vec<_>, _> = (0..KEPT).map(|n| task(&format!("k-{n}"), &account(n))).collect();
        queue.push_all(&kept?)?;
    }
    let own: Result<Vec<_>, _> =
        (0..PUSHES / workers).map(|n| task(&format!("{worker}-{n}"), &account(worker))).collect();
    let own = own?;
    wait_for_go()?;
    own.iter().try_for_each(|task| queue.push(task).map(drop))?;
    println!("done");
    Ok(())
}

fn wait_for_go() -> std::io::Result<()> {
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).map(drop)
}

/// A task of about 150 bytes.
fn task(id: &str, account: &str) -> Result<Task, Failure> {
    let params = r#"{"to":"somebody@example.org","subject":"a subject of usual length","n":12345}"#;
    Ok(Task::new(id, account, serde_json::from_str(params)?)?)
}

/// The same in Python.
const PYTHON: &str = r#"
import sys
import peers
directory, worker, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
queue = peers.JsonQueue(peers.Flock, {"dir": directory, "durability": "none"})
def task(id):
    params = {"to": "somebody@example.org", "subject": "a subject of usual length", "n": 12345}
    return {"id": id, "account": "a", "params": params, "state": "queued", "attempts": 0}
if worker == 0:
    queue.fill([task(f"k-{n}") for n in range(100)])
own = [task(f"{worker}-{n}") for n in range(200 // workers)]
print("ready", flush=True)
sys.stdin.readline()
for one in own:
    queue.push(one)
print("done", flush=True)
"#;
