//! Any sequence of operations: the queue does what the reference does, and the modelled file system what the disk does.

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::Config;
use queue_core::audit::Entry;
use queue_core::storage::Disk;
use queue_core::{Durability, Queue, Settings};
use support::ops::{Kind, Op, Outcome, any_op, apply};
use support::reference::Reference;
use support::storage::{Alone, Model};
use support::world::World;

fn any_kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(Kind::ALL.to_vec())
}

fn sequence() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(any_op(), 1..30)
}

fn settings(snapshots: u64) -> Settings {
    Settings { durability: Durability::Data, snapshots, ..Settings::default() }
}

/// A queue's files by path: contents, with what differs from run to run taken out.
type Files = BTreeMap<String, String>;

/// Snapshots by version, audit lines without time and process.
fn comparable<'a>(files: impl Iterator<Item = (&'a Path, Vec<u8>)>) -> Files {
    let mut comparable = Files::new();
    for (path, bytes) in files {
        let mut name = path.to_str().unwrap().to_owned();
        let mut content = String::from_utf8(bytes).unwrap();
        if name.contains(".snapshots/") {
            let (directory, copy) = name.rsplit_once('/').unwrap();
            let version = copy.split('-').nth(1).unwrap();
            name = format!("{directory}/{version}");
        } else if name.ends_with(".audit.jsonl") {
            let plain = |line| {
                let entry = Entry::parse(line).expect("a sound line");
                format!(
                    "{} {}->{} {:?}\n",
                    // The hashes are of bytes with times in them.
                    entry.op,
                    entry.read,
                    entry.wrote,
                    entry.ids
                )
            };
            content = content.lines().map(plain).collect();
        }
        if name.ends_with(".lock") || name.ends_with(".note") {
            // The note names inodes and times.
            content = (if content.is_empty() { "empty" } else { "note" }).to_owned();
        } else if !name.ends_with(".audit.jsonl") {
            content = times_out(&content);
        }
        assert!(comparable.insert(name, content).is_none(), "two of one name");
    }
    comparable
}

/// The ring of completed ids says when, and a claim of the writer's by which request.
fn times_out(content: &str) -> String {
    ["\"at\":\"", "\"request\":\""].into_iter().fold(content.to_owned(), |content, key| {
        let mut parts = content.split(key);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |out, part| out + key + "\"" + part.split_once('"').map_or("", |(_, rest)| rest))
    })
}

fn on_model(kind: Kind, settings: Settings, ops: &[Op]) -> (Vec<Outcome>, Files) {
    let gate = Alone::new(World::default());
    let queue = Queue::open(Model::new(gate.clone(), 7), kind.path(), kind.strategy(), kind.settings(settings));
    let outcomes = ops.iter().map(|op| apply(&queue, op)).collect();
    assert!(queue.take_warnings().is_empty());
    let world = gate.world();
    let files = comparable(world.files().map(|(path, bytes)| (path, bytes.to_vec())));
    (outcomes, files)
}

fn on_disk(kind: Kind, settings: Settings, ops: &[Op]) -> (Vec<Outcome>, Files) {
    let directory = tempfile::tempdir().unwrap();
    let queue = Queue::open(Disk, directory.path().join(kind.path()), kind.strategy(), kind.settings(settings));
    let outcomes = ops.iter().map(|op| apply(&queue, op)).collect();
    assert!(queue.take_warnings().is_empty());
    let mut paths = Vec::new();
    collect(directory.path(), &mut paths);
    let files = paths.iter().map(|path| (path.strip_prefix(directory.path()).unwrap(), std::fs::read(path).unwrap()));
    (outcomes, comparable(files))
}

fn collect(directory: &Path, paths: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => collect(&path, paths),
            false => paths.push(path),
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: 300, failure_persistence: None, ..Config::default() })]

    #[test]
    fn the_queue_does_what_the_reference_does(kind in any_kind(), ops in sequence()) {
        let mut reference = Reference::new(kind);
        let expected: Vec<_> = ops.iter().map(|op| reference.apply(op)).collect();
        let (outcomes, _) = on_model(kind, settings(0), &ops);
        prop_assert_eq!(outcomes, expected);
    }

    #[test]
    fn the_model_does_what_the_disk_does(kind in any_kind(), snapshots in 0..12_u64, ops in sequence()) {
        let (outcomes, files) = on_model(kind, settings(snapshots), &ops);
        let (disk_outcomes, disk_files) = on_disk(kind, settings(snapshots), &ops);
        prop_assert_eq!(outcomes, disk_outcomes);
        prop_assert_eq!(files, disk_files);
    }

    #[test]
    fn every_version_leaves_a_snapshot_and_a_line(ops in sequence()) {
        let (_, files) = on_model(Kind::Flock, settings(1000), &ops);
        let Some(data) = files.get("queue.json") else { return Ok(()) };
        let version = queue_core::Document::parse(data.as_bytes()).unwrap().version();
        let snapshots = files.keys().filter(|name| name.contains(".snapshots/")).count() as u64;
        prop_assert_eq!(snapshots, version - 1);
        let lines = files[".queue.json.audit.jsonl"].lines().count() as u64;
        prop_assert_eq!(lines, version);
    }
}
