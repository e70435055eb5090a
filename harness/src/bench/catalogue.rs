//! The competitors that are known by name: the strategies of the `queue` program, and the peers, which are what people
//! use in their place.

use std::path::{Path, PathBuf};

use super::competitor::{Competitor, Durability, Start, Store};

/// The programs that competitors run with.
#[derive(Clone, Debug)]
pub struct Tools {
    /// `queue`.
    pub queue: PathBuf,
    /// The Python interpreter.
    pub python: PathBuf,
    /// `node`.
    pub node: PathBuf,
    /// Where Node finds its packages, if not from the current directory on.
    pub node_modules: Option<PathBuf>,
    /// A folder with the peers' programs; [`write_peers`] puts them there.
    pub peers: PathBuf,
}

/// A strategy of `queue`: name, options, sharded, one lock, portable, loses.
const STRATEGIES: [(&str, &[&str], [bool; 4]); 10] = [
    ("naive", &["--strategy", "naive"], [false, false, true, true]),
    ("flock", &["--strategy", "flock"], [false, true, false, false]),
    ("lock-dir", &["--strategy", "lock-dir"], [false, true, true, false]),
    ("optimistic", &["--strategy", "optimistic"], [false, false, false, false]),
    ("sharded", &["--strategy", "sharded"], [true, false, false, false]),
    ("writer", &["--strategy", "writer"], [false, false, false, false]),
    ("flock --spare", &["--strategy", "flock", "--spare"], [false, true, false, false]),
    ("flock --fair", &["--strategy", "flock", "--fair"], [false, true, false, false]),
    ("flock --ofd", &["--strategy", "flock", "--ofd"], [false, true, false, false]),
    // As the program is without options: a snapshot before and an audit line after each write, completed ids remembered.
    ("flock --evidence", &["--strategy", "flock"], [false, true, false, false]),
];

/// A peer: name, durabilities, one lock, portable.
const PEERS: [(&str, &[Durability], bool, bool); 6] = [
    ("python-flock", &[Durability::None, Durability::Full], true, false),
    ("python-filelock", &[Durability::None, Durability::Full], true, true),
    ("python-portalocker", &[Durability::None, Durability::Full], true, true),
    ("proper-lockfile", &[Durability::None, Durability::Full], true, true),
    // What is committed survives a power cut only up to the last checkpoint; the database stays whole.
    ("sqlite-wal-normal", &[Durability::Data], false, true),
    ("sqlite-wal-full", &[Durability::Full], false, true),
];

const PYTHON_PEERS: &str = include_str!("peers/peers.py");
const NODE_PEER: &str = include_str!("peers/proper_lockfile.cjs");

/// The names of all, in the order of reports.
pub fn names() -> Vec<&'static str> {
    STRATEGIES.iter().map(|(name, ..)| *name).chain(PEERS.iter().map(|(name, ..)| *name)).collect()
}

/// Writes the peers' programs into a folder.
///
/// # Errors
/// Those of writing.
pub fn write_peers(folder: &Path) -> std::io::Result<()> {
    std::fs::write(folder.join("peers.py"), PYTHON_PEERS)?;
    std::fs::write(folder.join("proper_lockfile.cjs"), NODE_PEER)
}

/// All that is known.
pub fn catalogue(tools: &Tools) -> Vec<Competitor> {
    let all = [Durability::None, Durability::Data, Durability::Full];
    let strategies = STRATEGIES.iter().map(|(name, options, [sharded, one_lock, portable, loses])| {
        let mut arguments: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let file = if *sharded { "{dir}/queues" } else { "{dir}/queue.json" };
        arguments.extend(["--file", file, "--durability", "{durability}"].map(str::to_owned));
        if !name.ends_with("--evidence") {
            // The peers leave none either.
            arguments.extend(["--no-snapshots", "--no-audit", "--done-keep", "0"].map(str::to_owned));
        }
        arguments.push("bench-worker".to_owned());
        Competitor {
            name: (*name).to_owned(),
            start: Start::Program(tools.queue.clone(), arguments),
            env: Vec::new(),
            // After a power cut a spare file may be half of each version, so the program refuses `data`.
            durabilities: all.iter().copied().filter(|d| !name.contains("spare") || *d != Durability::Data).collect(),
            store: Store::Json,
            sharded: *sharded,
            one_lock: *one_lock,
            portable: *portable,
            loses: *loses,
            peer: false,
        }
    });
    let peers = PEERS.iter().map(|(name, durabilities, one_lock, portable)| {
        let script = |file: &str| tools.peers.join(file).to_string_lossy().into_owned();
        let start = match *name {
            "proper-lockfile" => Start::Program(tools.node.clone(), vec![script("proper_lockfile.cjs")]),
            _ => Start::Program(tools.python.clone(), vec![script("peers.py"), (*name).to_owned()]),
        };
        Competitor {
            name: (*name).to_owned(),
            start,
            env: tools.node_modules.iter().map(|folder| ("NODE_PATH".to_owned(), folder.clone().into())).collect(),
            durabilities: durabilities.to_vec(),
            store: if name.starts_with("sqlite") { Store::Ask } else { Store::Json },
            sharded: false,
            one_lock: *one_lock,
            portable: *portable,
            loses: false,
            peer: true,
        }
    });
    strategies.chain(peers).collect()
}
