//! Pushes alone, by eight processes at once (and by one), into a queue that holds 100 tasks at first.
//!
//! Two tables. On a memory file system and with durability `none`: the strategies of the queue beside the article's way in
//! Python, `json` and `fcntl.flock`. On a disk and with durability `full`, in the folder that is named or beside what was
//! built: a lock, the writer with one and with 16 pushes in a request, and SQLite in WAL mode with `synchronous=FULL`.
//!
//! `noclobber bench` keeps the number of tasks level by taking as many as it pushes, so its operations are of both kinds.
//! Here each round has a fresh queue and the same number of pushes, so that everybody meets queues of the same length.
//! Sharded, each process has an account of its own and the tasks are spread over them. Who takes part in what order changes
//! from round to round; after each round all tasks have to be there.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use queue_core::storage::Disk;
use queue_core::strategy::{Flock, Options, by_name, writer};
use queue_core::{Durability, Queue, Settings, Task};

const KEPT: usize = 100;
const ROUNDS: usize = 11;

/// Somebody who pushes.
#[derive(Clone, Copy)]
struct Who {
    name: &'static str,
    by: By,
    /// How many pushes are one request.
    together: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum By {
    /// A strategy of the queue, perhaps with a spare file.
    Own(&'static str, bool),
    /// A class of the peers' module.
    Python(&'static str),
}

const fn own(name: &'static str, strategy: &'static str, spare: bool) -> Who {
    Who { name, by: By::Own(strategy, spare), together: 1 }
}

const fn python(name: &'static str, class: &'static str) -> Who {
    Who { name, by: By::Python(class), together: 1 }
}

/// What is compared.
struct Table {
    durability: Durability,
    pushes: usize,
    /// The last one is who the others are compared with.
    who: &'static [Who],
}

const TABLES: [Table; 2] = [
    Table {
        durability: Durability::None,
        pushes: 200,
        who: &[
            own("flock", "flock", false),
            own("flock --spare", "flock", true),
            own("sharded", "sharded", false),
            own("sharded --spare", "sharded", true),
            own("optimistic", "optimistic", false),
            own("lock-dir", "lock-dir", false),
            own("writer", "writer", false),
            python("python json + fcntl.flock", "peers.JsonQueue(peers.Flock, hello)"),
        ],
    },
    Table {
        durability: Durability::Full,
        pushes: 512,
        who: &[
            own("flock", "flock", false),
            own("flock --spare", "flock", true),
            own("writer", "writer", false),
            own("writer --spare", "writer", true),
            Who { name: "writer, 16 a request", by: By::Own("writer", false), together: 16 },
            python("SQLite WAL, FULL", "peers.Sqlite('FULL', hello)"),
        ],
    },
];

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    // `cargo bench` adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let memory = Path::new("/dev/shm");
    let beside = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    match &arguments[..] {
        [role, table, who, directory, worker, workers] if role == "--push" => {
            let (table, who) = find(table, who)?;
            push(table, who, Path::new(directory), worker.parse()?, workers.parse()?)
        }
        [role, table, who, directory] if role == "--serve" => {
            let (table, who) = find(table, who)?;
            serve(table, who, Path::new(directory))
        }
        [] | [_] => {
            compare(0, if memory.is_dir() { memory } else { &beside })?;
            let disk = arguments.first().map_or(beside.clone(), PathBuf::from);
            std::fs::create_dir_all(&disk)?;
            compare(1, &disk)
        }
        _ => Err("at most a folder on a disk is wanted".into()),
    }
}

fn durability(table: &Table) -> &'static str {
    match table.durability {
        Durability::None => "none",
        Durability::Data => "data",
        Durability::Full => "full",
    }
}

fn find(table: &str, who: &str) -> Result<(&'static Table, Who), Failure> {
    let table = TABLES.get(table.parse::<usize>()?).ok_or("which table?")?;
    Ok((table, *table.who.get(who.parse::<usize>()?).ok_or("who is that?")?))
}

fn compare(number: usize, home: &Path) -> Result<(), Failure> {
    let table = &TABLES[number];
    println!(
        "{} pushes, pushes a second, median of {ROUNDS} rounds, durability {}, {}",
        table.pushes,
        durability(table),
        home.display()
    );
    for workers in [8, 1] {
        let mut rates: Vec<Vec<f64>> = vec![Vec::new(); table.who.len()];
        for round in 0..ROUNDS {
            for turn in 0..table.who.len() {
                let who = (turn + round) % table.who.len();
                rates[who].push(self::round(number, who, home, workers)?);
            }
        }
        let middle = |rates: &[f64]| {
            let mut sorted = rates.to_vec();
            sorted.sort_by(f64::total_cmp);
            (sorted[sorted.len() / 2], sorted[sorted.len() / 4], sorted[sorted.len() * 3 / 4])
        };
        let (peer, ..) = middle(&rates[table.who.len() - 1]);
        for (who, rates) in table.who.iter().zip(&rates) {
            let (rate, low, high) = middle(rates);
            println!(
                "{workers} processes  {:<26} {rate:>8.0}  (quartiles {low:.0} to {high:.0})  {:.1} x the peer",
                who.name,
                rate / peer
            );
        }
    }
    Ok(())
}

/// One round: pushes a second.
fn round(number: usize, who: usize, home: &Path, workers: usize) -> Result<f64, Failure> {
    let table = &TABLES[number];
    let name = table.who[who].name;
    let directory = tempfile::tempdir_in(home)?;
    let _server = match table.who[who].by {
        By::Own("writer", _) => {
            let mut server = Pusher::start(own_command("--serve", number, who, directory.path())?)?;
            server.hear()?;
            Some(server)
        }
        _ => None,
    };
    let mut children = Vec::new();
    for worker in 0..workers {
        let mut command = match table.who[who].by {
            By::Own(..) => own_command("--push", number, who, directory.path())?,
            By::Python(class) => python_command(table, class, directory.path()),
        };
        command.arg(worker.to_string()).arg(workers.to_string());
        children.push(Pusher::start(command)?);
        // The first one puts in what is there at first.
        children[worker].hear()?;
    }
    let start = Instant::now();
    children.iter_mut().try_for_each(Pusher::go)?;
    children.iter_mut().try_for_each(|child| child.hear().map(drop))?;
    let took = start.elapsed().as_secs_f64();
    let there = match table.who[who].by {
        By::Own(..) => count(directory.path())?,
        By::Python(_) => {
            children[0].go()?;
            children[0].number()?
        }
    };
    if there != KEPT + table.pushes {
        return Err(format!("{name}: {there} tasks are there, not {}", KEPT + table.pushes).into());
    }
    Ok(table.pushes as f64 / took)
}

fn own_command(role: &str, table: usize, who: usize, directory: &Path) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([role, &table.to_string(), &who.to_string()]).arg(directory);
    Ok(command)
}

fn python_command(table: &Table, class: &str, directory: &Path) -> Command {
    let mut command = Command::new("python3");
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../harness/src/bench/peers");
    command.env("PYTHONPATH", peers).env("PYTHONDONTWRITEBYTECODE", "1").args(["-c", PYTHON]);
    command.args([class, durability(table), &table.pushes.to_string()]).arg(directory);
    command
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
    fn start(mut command: Command) -> Result<Self, Failure> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Pusher { child, output })
    }

    fn go(&mut self) -> std::io::Result<()> {
        self.child.stdin.as_mut().map_or(Ok(()), |input| input.write_all(b"go\n"))
    }

    /// Waits until it has said that it is ready, or done.
    fn hear(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        match self.output.read_line(&mut line)? {
            0 => Err("a process has ended".into()),
            _ => Ok(line),
        }
    }

    fn number(&mut self) -> Result<usize, Failure> {
        Ok(self.hear()?.trim().parse()?)
    }
}

impl Drop for Pusher {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn open(table: &Table, who: Who, directory: &Path) -> Result<Queue<Disk>, Failure> {
    let By::Own(strategy, spare) = who.by else { return Err("not one of ours".into()) };
    let settings = Settings {
        durability: table.durability,
        snapshots: 0,
        audit: false,
        done_keep: 0,
        spare,
        ..Settings::default()
    };
    let path = directory.join(if strategy == "sharded" { "queues" } else { "queue.json" });
    Ok(Queue::open(Disk, path, by_name(strategy, &Options::default()).ok_or("a strategy")?, settings))
}

/// What a process does that pushes.
fn push(table: &Table, who: Who, directory: &Path, worker: usize, workers: usize) -> Result<(), Failure> {
    let by_account = matches!(who.by, By::Own("sharded", _));
    let queue = open(table, who, directory)?;
    let account = |number: usize| format!("a{}", if by_account { number % workers } else { 0 });
    if worker == 0 {
        let kept: Result<Vec<_>, _> = (0..KEPT).map(|n| task(&format!("k-{n}"), &account(n))).collect();
        queue.push_all(&kept?)?;
    }
    let own: Result<Vec<_>, _> =
        (0..table.pushes / workers).map(|n| task(&format!("{worker}-{n}"), &account(worker))).collect();
    let own = own?;
    wait_for_go()?;
    match who.together {
        1 => own.iter().try_for_each(|task| queue.push(task).map(drop))?,
        together => own.chunks(together).try_for_each(|tasks| queue.push_all(tasks).map(drop))?,
    }
    println!("done");
    Ok(())
}

/// Writes for all until nobody asks for a while.
fn serve(table: &Table, who: Who, directory: &Path) -> Result<(), Failure> {
    let queue = open(table, who, directory)?;
    writer::serve(&queue, Flock::default(), Duration::from_millis(300), &mut |_| println!("serving"))?;
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
make, durability, pushes, directory, worker, workers = sys.argv[1:]
pushes, worker, workers = int(pushes), int(worker), int(workers)
hello = {"dir": directory, "durability": durability}
queue = eval(make)
def task(id):
    params = {"to": "somebody@example.org", "subject": "a subject of usual length", "n": 12345}
    return {"id": id, "account": "a", "params": params, "state": "queued", "attempts": 0}
if worker == 0:
    queue.fill([task(f"k-{n}") for n in range(100)])
own = [task(f"{worker}-{n}") for n in range(pushes // workers)]
print("ready", flush=True)
sys.stdin.readline()
for one in own:
    queue.push(one)
print("done", flush=True)
# When the others are done, too.
sys.stdin.readline()
print(len(queue.read()), flush=True)
"#;
