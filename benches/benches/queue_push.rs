//! One push into a queue of 100 and of 1,000 tasks, by each strategy, beside its floor: the same system calls on the
//! same bytes and the same checks of them (is the file the one that was noted? may the id be in it?), without the library.
//! `naive` keeps no note, so it parses the file, and its floor does not.
//!
//! Durability is `none`; a disk's own time would hide everything else. `+evidence` adds the snapshot and the audit line.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use fs2::FileExt;
use queue_core::storage::{Disk, Storage};
use queue_core::strategy::{Options, by_name};
use queue_core::{Durability, Hold, Queue, Settings, Task};

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

const SUBJECTS: [Subject; 8] = [
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
    Subject { name: "lock-dir", strategy: "lock-dir", spare: false, evidence: false, floor: Floor::lock_dir },
    Subject { name: "optimistic", strategy: "optimistic", spare: false, evidence: false, floor: Floor::optimistic },
    Subject { name: "sharded", strategy: "sharded", spare: false, evidence: false, floor: Floor::locked_replace },
    Subject {
        name: "sharded --spare",
        strategy: "sharded",
        spare: true,
        evidence: false,
        floor: Floor::locked_exchange,
    },
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
                bencher.iter_custom(|iterations| time(iterations, || bench.push(), || bench.take_out()));
            });
            let floor = bench.floor()?;
            group.bench_function(BenchmarkId::new("floor", kept), |bencher| {
                let call = || (subject.floor)(&floor).expect("floor");
                bencher.iter_custom(|iterations| time(iterations, call, || floor.restore()));
            });
        }
        group.finish();
    }
    criterion.final_summary();
    Ok(())
}

/// The time of so many calls; what brings the file back to what it was does not count.
fn time(iterations: u64, call: impl Fn(), restore: impl Fn()) -> Duration {
    let mut total = Duration::ZERO;
    for _ in 0..iterations {
        let start = Instant::now();
        call();
        total += start.elapsed();
        restore();
    }
    total
}

/// A queue whose last task is taken out again after each push.
struct Bench {
    queue: Queue<Disk>,
    file: PathBuf,
    task: Task,
}

impl Bench {
    fn new(directory: &Path, subject: Subject, kept: usize) -> Result<Self, Box<dyn std::error::Error>> {
        let (path, file) = match subject.strategy {
            "sharded" => (directory.join("queues"), directory.join("queues/queue_a.json")),
            _ => (directory.join("queue.json"), directory.join("queue.json")),
        };
        let settings = Settings {
            durability: Durability::None,
            snapshots: if subject.evidence { Settings::SNAPSHOTS } else { 0 },
            audit: subject.evidence,
            done_keep: 0,
            spare: subject.spare,
            ..Settings::default()
        };
        let strategy = by_name(subject.strategy, &Options::default()).ok_or("a strategy")?;
        let queue = Queue::open(Disk, path, strategy, settings);
        for number in 0..kept {
            queue.push(&task(&format!("task-{number:06}"))?)?;
        }
        Ok(Bench { queue, file, task: task("task-new")? })
    }

    fn push(&self) {
        black_box(self.queue.push(&self.task)).expect("push");
    }

    fn take_out(&self) {
        self.queue.complete(self.task.id(), Some("a"), &Hold::Any).expect("complete");
        assert!(self.queue.take_warnings().is_empty(), "only we write");
    }

    fn floor(&self) -> std::io::Result<Floor> {
        let before = fs::read(&self.file)?;
        self.push();
        let after = fs::read(&self.file)?;
        let beside = |suffix: &str| beside(&self.file, suffix);
        // What was added: everything in which the two differ but the version's digits.
        let end = before.len() - if before.ends_with(b"\n]}\n") { 4 } else { 3 };
        let floor = Floor {
            file: self.file.clone(),
            digits: "{\"version\": ".len()..before.iter().position(|&byte| byte == b',').unwrap_or_default(),
            added: format!(",\n  {}", self.task.text()),
            id: format!("\"{}\"", self.task.id()),
            hash: crc32c::crc32c(&before),
            before,
            end,
            temporary: beside(".floor.tmp"),
            lock: beside(".lock"),
            strategy: self.file.with_extension("json.strategy"),
            snapshots: beside(".snapshots"),
            audit: beside(".audit.jsonl"),
            calls: Cell::new(0),
        };
        assert_eq!(floor.spliced(&floor.before).len(), after.len(), "the floor makes what the queue makes");
        floor.restore();
        Ok(floor)
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

/// The system calls of a push and its checks, by hand.
struct Floor {
    file: PathBuf,
    before: Vec<u8>,
    /// What the note says of the file before.
    hash: u32,
    /// Where the version is.
    digits: std::ops::Range<usize>,
    /// Where the task goes.
    end: usize,
    added: String,
    id: String,
    temporary: PathBuf,
    lock: PathBuf,
    strategy: PathBuf,
    snapshots: PathBuf,
    audit: PathBuf,
    calls: Cell<usize>,
}

impl Floor {
    fn restore(&self) {
        // A new inode each time: the old one may have become a snapshot.
        let fresh = self.file.with_extension("fresh");
        fs::write(&fresh, &self.before).expect("restore");
        fs::rename(&fresh, &self.file).expect("restore");
    }

    fn in_place(&self) -> std::io::Result<()> {
        let before = self.read()?;
        File::create(&self.file)?.write_all(&self.spliced(&before))
    }

    fn locked_replace(&self) -> std::io::Result<()> {
        let lock = self.locked()?;
        let after = self.next(&self.read()?);
        self.replace(&after)?;
        self.unlock(&lock, &after)
    }

    fn locked_exchange(&self) -> std::io::Result<()> {
        let lock = self.locked()?;
        let after = self.next(&self.read()?);
        let spare = beside(&self.file, ".spare");
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(&spare)?;
        // Mode and owner, then the length.
        black_box(file.metadata()?);
        let length = file.metadata()?.len();
        file.write_all(&after)?;
        if length > after.len() as u64 {
            file.set_len(after.len() as u64)?;
        }
        Disk.exchange(&spare, &self.file)?;
        self.unlock(&lock, &after)
    }

    fn locked_replace_with_evidence(&self) -> std::io::Result<()> {
        let lock = self.locked()?;
        let after = self.next(&self.read()?);
        let call = self.calls.get();
        self.calls.set(call + 1);
        if call.is_multiple_of(25) {
            // The oldest of the copies go, as many as have been made since.
            let mut names =
                fs::read_dir(&self.snapshots)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
            names.sort_unstable();
            let old = names.len().saturating_sub(200);
            names[..old].iter().take(50).try_for_each(fs::remove_file)?;
        }
        fs::hard_link(&self.file, self.snapshots.join(format!("20990101T000000.000000Z-v{call:09}-1-1.json")))?;
        self.replace(&after)?;
        let mut audit = OpenOptions::new().read(true).append(true).create(true).open(&self.audit)?;
        let end = audit.seek(SeekFrom::End(0))?;
        black_box(audit.read_at(&mut [0; 4096], end.saturating_sub(4096))?);
        audit.write_all(&[b'x'; 300])?;
        drop(audit);
        self.unlock(&lock, &after)
    }

    fn optimistic(&self) -> std::io::Result<()> {
        fs::read_link(&self.file).expect_err("it is no link");
        self.look_for_redo_files();
        let before = self.read()?;
        black_box(read(&self.lock)?);
        let after = self.next(&before);
        let lock = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.lock)?;
        FileExt::lock_exclusive(&lock)?;
        black_box(lock.read_at(&mut [0; 4096], 0)?);
        self.look_for_redo_files();
        assert!(self.read()? == before, "nobody else writes");
        self.replace(&after)?;
        self.unlock(&lock, &after)
    }

    fn lock_dir(&self) -> std::io::Result<()> {
        fs::read_link(&self.file).expect_err("it is no link");
        let (own, lock, old) = (beside(&self.file, ".own"), beside(&self.file, ".lockdir"), beside(&self.file, ".old"));
        fs::create_dir(&own)?;
        File::create_new(own.join("owner"))?;
        Disk.rename_new(&own, &lock)?;
        black_box(read(&self.strategy)?);
        let note = OpenOptions::new().read(true).write(true).open(beside(&self.file, ".note"))?;
        FileExt::try_lock_exclusive(&note)?;
        black_box(note.read_at(&mut [0; 4096], 0)?);
        let after = self.next(&self.read()?);
        self.replace(&after)?;
        note.write_all_at(&noted(&after), 0)?;
        drop(note);
        Disk.rename_new(&lock, &old)?;
        fs::remove_file(old.join("owner"))?;
        fs::remove_dir(&old)
    }

    fn locked(&self) -> std::io::Result<File> {
        fs::read_link(&self.file).expect_err("it is no link");
        let lock = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.lock)?;
        FileExt::lock_exclusive(&lock)?;
        black_box(lock.read_at(&mut [0; 4096], 0)?);
        self.look_for_redo_files();
        Ok(lock)
    }

    fn look_for_redo_files(&self) {
        fs::metadata(beside(&self.file, ".redo-0")).expect_err("there are none");
    }

    fn unlock(&self, lock: &File, after: &[u8]) -> std::io::Result<()> {
        lock.write_all_at(&noted(after), 0)?;
        FileExt::unlock(lock)
    }

    fn read(&self) -> std::io::Result<Vec<u8>> {
        read(&self.file)
    }

    /// The next version, if the file is the one that was noted and the id is not in it.
    fn next(&self, before: &[u8]) -> Vec<u8> {
        assert_eq!(crc32c::crc32c(before), self.hash, "it is as it was");
        assert!(memchr::memmem::find(before, self.id.as_bytes()).is_none(), "the id is new");
        self.spliced(before)
    }

    fn spliced(&self, before: &[u8]) -> Vec<u8> {
        let version =
            std::str::from_utf8(&before[self.digits.clone()]).ok().and_then(|digits| digits.parse::<u64>().ok());
        let version = version.expect("a version") + 1;
        let mut after = Vec::with_capacity(before.len() + self.added.len() + 8);
        after.extend_from_slice(&before[..self.digits.start]);
        after.extend_from_slice(version.to_string().as_bytes());
        after.extend_from_slice(&before[self.digits.end..self.end]);
        after.extend_from_slice(self.added.as_bytes());
        after.extend_from_slice(&before[self.end..]);
        after
    }

    fn replace(&self, after: &[u8]) -> std::io::Result<()> {
        let mut file = File::create_new(&self.temporary)?;
        // Whether it has the mode and the owner of the old one.
        black_box(file.metadata()?);
        file.write_all(after)?;
        drop(file);
        fs::rename(&self.temporary, &self.file)
    }
}

/// What is noted of a file: its hash, in a note of the length that the queue's has.
fn noted(after: &[u8]) -> Vec<u8> {
    let mut note = format!("{:08x}", crc32c::crc32c(after)).into_bytes();
    note.resize(384, b' ');
    note
}

/// All of a file: its length is asked for, then it is read until a call finds its end.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or_default() + 1];
    let mut filled = 0;
    loop {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    buffer.truncate(filled);
    Ok(buffer)
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
