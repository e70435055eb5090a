//! One push into a queue of 100 and of 1,000 tasks, by each strategy, beside its floor: the same system calls on the
//! same bytes, without reading what they say.
//!
//! Durability is `none`; a disk's own time would hide everything else. `+evidence` adds the snapshot and the audit line.

use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use fs2::FileExt;
use queue_core::storage::{Disk, Storage};
use queue_core::strategy::{Options, by_name};
use queue_core::{Durability, Queue, Settings, Task};

/// How many tasks are kept.
const SIZES: [usize; 2] = [100, 1000];

/// What is measured: a strategy, and whether it writes evidence.
#[derive(Clone, Copy)]
struct Subject {
    name: &'static str,
    strategy: &'static str,
    spare: bool,
    evidence: bool,
    floor: fn(&Floor) -> std::io::Result<()>,
}

const SUBJECTS: [Subject; 7] = [
    Subject { name: "naive", strategy: "naive", spare: false, evidence: false, floor: Floor::in_place },
    Subject { name: "flock", strategy: "flock", spare: false, evidence: false, floor: Floor::locked_replace },
    Subject { name: "flock --spare", strategy: "flock", spare: true, evidence: false, floor: Floor::locked_exchange },
    Subject {
        name: "flock+evidence",
        strategy: "flock",
        spare: false,
        evidence: true,
        floor: Floor::locked_replace_with_evidence,
    },
    Subject { name: "lock-dir", strategy: "lock-dir", spare: false, evidence: false, floor: Floor::locked_replace },
    Subject { name: "optimistic", strategy: "optimistic", spare: false, evidence: false, floor: Floor::locked_replace },
    Subject { name: "sharded", strategy: "sharded", spare: false, evidence: false, floor: Floor::locked_replace },
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Memory if there is some: a file system that discards freed blocks at once takes milliseconds for it.
    let memory = Path::new("/dev/shm");
    let home = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    println!("file system: {}", file_system_of(&home));
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    for subject in SUBJECTS {
        let mut group = criterion.benchmark_group(format!("push/{}", subject.name));
        for kept in SIZES {
            let directory = tempfile::tempdir_in(&home)?;
            let bench = Bench::new(directory.path(), subject, kept)?;
            group.bench_function(BenchmarkId::new("queue", kept), |bencher| {
                bencher.iter_custom(|iterations| bench.time(iterations, || bench.push()));
            });
            let floor = bench.floor()?;
            group.bench_function(BenchmarkId::new("floor", kept), |bencher| {
                bencher.iter_custom(|iterations| bench.time(iterations, || (subject.floor)(&floor).expect("floor")));
            });
        }
        group.finish();
    }
    criterion.final_summary();
    Ok(())
}

/// A queue that is put back to its size before each push.
struct Bench {
    queue: Queue<Disk>,
    file: PathBuf,
    before: Vec<u8>,
    lock: PathBuf,
    /// What the lock file says of the file as it was, if there is one.
    note: Option<Vec<u8>>,
    task: Task,
}

impl Bench {
    fn new(directory: &Path, subject: Subject, kept: usize) -> Result<Self, Box<dyn std::error::Error>> {
        let (path, file) = match subject.name {
            "sharded" => (directory.join("queues"), directory.join("queues/queue_a.json")),
            _ => (directory.join("queue.json"), directory.join("queue.json")),
        };
        let settings = Settings {
            durability: Durability::None,
            snapshots: if subject.evidence { Settings::SNAPSHOTS } else { 0 },
            audit: subject.evidence,
            spare: subject.spare,
            ..Settings::default()
        };
        let strategy = by_name(subject.strategy, &Options::default()).ok_or("a strategy")?;
        let queue = Queue::open(Disk, path, strategy, settings);
        for number in 0..kept {
            queue.push(&task(&format!("task-{number:06}"))?)?;
        }
        let before = fs::read(&file)?;
        let lock = beside(&file, ".lock");
        let note = fs::read(&lock).ok();
        Ok(Bench { queue, file, before, lock, note, task: task("task-new")? })
    }

    fn push(&self) {
        black_box(self.queue.push(&self.task)).expect("push");
    }

    fn floor(&self) -> std::io::Result<Floor> {
        fs::write(&self.file, &self.before)?;
        self.push();
        let beside = |suffix: &str| beside(&self.file, suffix);
        Ok(Floor {
            file: self.file.clone(),
            after: fs::read(&self.file)?,
            temporary: beside(".floor.tmp"),
            lock: beside(".lock"),
            snapshots: beside(".snapshots"),
            audit: beside(".audit.jsonl"),
        })
    }

    /// The time of so many calls, each on the file as it was; putting it back does not count.
    fn time(&self, iterations: u64, call: impl Fn()) -> Duration {
        let mut total = Duration::ZERO;
        for _ in 0..iterations {
            // A new inode each time: the old one may have become a snapshot.
            let fresh = self.file.with_extension("fresh");
            fs::write(&fresh, &self.before).expect("restore");
            fs::rename(&fresh, &self.file).expect("restore");
            if let Some(note) = &self.note {
                fs::write(&self.lock, note).expect("restore");
            }
            let start = Instant::now();
            call();
            total += start.elapsed();
        }
        total
    }
}

/// The hidden companion of a file.
fn beside(file: &Path, suffix: &str) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!(".{name}{suffix}"))
}

/// A task of about 150 bytes.
fn task(id: &str) -> Result<Task, Box<dyn std::error::Error>> {
    let params = r#"{"to":"somebody@example.org","subject":"a subject of usual length","n":12345}"#;
    Ok(Task::new(id, "a", serde_json::from_str(params)?)?)
}

/// The system calls of a push, with everything else prepared.
struct Floor {
    file: PathBuf,
    after: Vec<u8>,
    temporary: PathBuf,
    lock: PathBuf,
    snapshots: PathBuf,
    audit: PathBuf,
}

impl Floor {
    fn in_place(&self) -> std::io::Result<()> {
        self.read()?;
        File::create(&self.file)?.write_all(&self.after)
    }

    fn locked_replace(&self) -> std::io::Result<()> {
        let lock = self.locked()?;
        self.read()?;
        self.replace()?;
        FileExt::unlock(&lock)
    }

    fn locked_exchange(&self) -> std::io::Result<()> {
        let lock = self.locked()?;
        self.read()?;
        let spare = beside(&self.file, ".spare");
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(&spare)?;
        file.write_all(&self.after)?;
        Disk.exchange(&spare, &self.file)?;
        FileExt::unlock(&lock)
    }

    fn locked_replace_with_evidence(&self) -> std::io::Result<()> {
        let lock = self.locked()?;
        self.read()?;
        let snapshot = self.snapshots.join("floor");
        fs::hard_link(&self.file, &snapshot)?;
        self.replace()?;
        let mut audit = OpenOptions::new().read(true).append(true).open(&self.audit)?;
        let end = audit.seek(SeekFrom::End(0))?;
        audit.seek(SeekFrom::Start(end.saturating_sub(4096)))?;
        black_box(audit.read(&mut [0; 4096])?);
        audit.write_all(&[b'x'; 300])?;
        // In place of the pruning: an old copy goes for each new one.
        fs::remove_file(&snapshot)?;
        FileExt::unlock(&lock)
    }

    fn locked(&self) -> std::io::Result<File> {
        let lock = OpenOptions::new().read(true).write(true).open(&self.lock)?;
        FileExt::lock_exclusive(&lock)?;
        Ok(lock)
    }

    fn read(&self) -> std::io::Result<()> {
        let mut file = File::open(&self.file)?;
        let mut buffer = vec![0; self.after.len()];
        while file.read(&mut buffer)? > 0 {}
        black_box(buffer);
        Ok(())
    }

    fn replace(&self) -> std::io::Result<()> {
        let mut file = File::create_new(&self.temporary)?;
        file.write_all(&self.after)?;
        drop(file);
        fs::rename(&self.temporary, &self.file)
    }
}

/// The type of the file system that holds `path`, from the mount that is nearest to it.
fn file_system_of(path: &Path) -> String {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let nearest = mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            Some((fields.next()?, fields.next()?))
        })
        .filter(|(mount, _)| path.starts_with(mount))
        .max_by_key(|(mount, _)| mount.len());
    let kind = nearest.map_or("unknown", |(_, kind)| kind);
    format!("{kind} ({})", path.display())
}
