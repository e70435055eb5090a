//! What a queue operation does beside system calls, each beside its floor: reading a document (floor: checking that it is
//! JSON), writing it (floor: copying its bytes), claiming and completing on the disk (floor: the push, which need not
//! read what the file says).

use std::{hint::black_box, path::Path, time::Duration};

use criterion::{BenchmarkId, Criterion};
use queue_core::{Claim, Document, Durability, Flock, Hold, Queue, Settings, Task, storage::Disk};

/// How many tasks are kept.
const SIZES: [usize; 2] = [100, 1000];

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let memory = Path::new("/dev/shm");
    let home = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    for kept in SIZES {
        let folder = tempfile::tempdir_in(&home)?;
        let path = folder.path().join("queue.json");
        let settings =
            Settings { durability: Durability::None, snapshots: 0, audit: false, done_keep: 0, ..Settings::default() };
        let queue = Queue::open(Disk, &path, Box::new(Flock::default()), settings);
        let tasks = (0..kept).map(|n| task(&format!("task-{n:06}"))).collect::<Result<Vec<Task>, _>>()?;
        queue.push_all(&tasks)?;
        let bytes = std::fs::read(&path)?;
        let document = Document::parse(&bytes)?;

        let mut group = criterion.benchmark_group("read a document");
        group.bench_function(BenchmarkId::new("document", kept), |bench| {
            bench.iter(|| black_box(Document::parse(black_box(&bytes))).map(drop).expect("a document"));
        });
        group.bench_function(BenchmarkId::new("floor", kept), |bench| {
            bench.iter(|| serde_json::from_slice::<serde::de::IgnoredAny>(black_box(&bytes)).expect("JSON"));
        });
        group.finish();

        let mut group = criterion.benchmark_group("write a document");
        group.bench_function(BenchmarkId::new("document", kept), |bench| bench.iter(|| black_box(document.to_bytes())));
        group.bench_function(BenchmarkId::new("floor", kept), |bench| bench.iter(|| black_box(bytes.clone())));
        group.finish();

        // In turns, so that the queue keeps its size.
        let mut group = criterion.benchmark_group("push, claim, complete");
        let mut number = 0;
        group.bench_function(BenchmarkId::new("all three", kept), |bench| {
            bench.iter(|| {
                number += 1;
                queue.push(&task(&format!("next-{number}")).expect("a task")).expect("push");
                let claimed = queue.claim(&Claim::by("bench")).expect("claim").expect("a task");
                queue.complete(claimed.id(), None, &Hold::Attempt(claimed.attempts())).expect("complete");
            });
        });
        let temporary = folder.path().join("floor.tmp");
        let floor = folder.path().join("floor");
        group.bench_function(BenchmarkId::new("floor", kept), |bench| {
            bench.iter(|| {
                for _ in 0..3 {
                    black_box(std::fs::read(&path).expect("it is there"));
                    std::fs::write(&temporary, &bytes).expect("it is ours");
                    std::fs::rename(&temporary, &floor).expect("it is ours");
                }
            });
        });
        group.finish();
    }
    criterion.final_summary();
    Ok(())
}

/// A task of about 150 bytes.
fn task(id: &str) -> Result<Task, Failure> {
    let params = r#"{"to":"somebody@example.org","subject":"a subject of usual length","n":12345}"#;
    Ok(Task::new(id, "a", serde_json::from_str(params)?)?)
}
