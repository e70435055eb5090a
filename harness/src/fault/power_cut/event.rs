//! What happened to a file system, in the order in which it happened, and the disk before it.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::world::{Node, Tree};

/// A file or directory, whatever it is called at the moment. The root is [`NodeId::ROOT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The directory in which everything else lies.
    pub const ROOT: NodeId = NodeId(0);
}

/// One name in one directory.
pub type Entry = (NodeId, String);

/// What a name was made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Made {
    /// An empty regular file with these permission bits.
    File(u32),
    /// An empty directory with these permission bits.
    Dir(u32),
    /// A symbolic link to this target.
    Symlink(String),
    /// A fifo, socket or device: file type and permission bits.
    Other(u32),
}

/// One successful operation on the file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A new file, directory, link or the like, and its name (`None`: `O_TMPFILE`).
    Create {
        /// Its name.
        at: Option<Entry>,
        /// The new node.
        node: NodeId,
        /// What it is.
        made: Made,
    },
    /// A further name of a file.
    Link {
        /// The new name.
        at: Entry,
        /// What it names.
        node: NodeId,
    },
    /// A name goes: unlink and rmdir.
    Unlink {
        /// The name.
        at: Entry,
    },
    /// A name moves, and replaces what had the new name.
    Rename {
        /// The old name.
        from: Entry,
        /// The new name.
        to: Entry,
    },
    /// Two names are swapped.
    Exchange {
        /// One name.
        a: Entry,
        /// The other.
        b: Entry,
    },
    /// Bytes are written.
    Write {
        /// To this file.
        node: NodeId,
        /// From this offset on.
        offset: u64,
        /// These bytes.
        data: Arc<[u8]>,
    },
    /// The size is set: bytes beyond it go, or zeros are added.
    Truncate {
        /// Of this file.
        node: NodeId,
        /// To this size.
        size: u64,
    },
    /// Room is reserved (`fallocate`); the size grows to the end of the range, unless it was to be kept.
    Allocate {
        /// For this file.
        node: NodeId,
        /// From this offset.
        from: u64,
        /// To this offset.
        to: u64,
        /// The size stays.
        keep_size: bool,
    },
    /// Permission bits are set.
    Chmod {
        /// Of this node.
        node: NodeId,
        /// To these.
        mode: u32,
    },
    /// The last writer of a file closes it.
    Close {
        /// The file.
        node: NodeId,
    },
    /// `fsync` or `fdatasync` (`data_only`) of a file or directory returned.
    Sync {
        /// Of this node.
        node: NodeId,
        /// Metadata that is not needed to read the data back may stay behind.
        data_only: bool,
    },
    /// A write to a file opened with `O_SYNC` or `O_DSYNC` (`data_only`) returned: this range of it is on the disk.
    SyncRange {
        /// The file.
        node: NodeId,
        /// From this offset.
        from: u64,
        /// To this offset.
        to: u64,
        /// `O_DSYNC`.
        data_only: bool,
    },
    /// `sync` or `syncfs` returned. (Linux waits for the disk; POSIX asks only that the writing be scheduled.)
    SyncAll,
}

impl Event {
    /// Whether this event makes something durable: states that were possible before it may be impossible after it.
    pub fn is_sync(&self) -> bool {
        matches!(self, Event::Sync { .. } | Event::SyncRange { .. } | Event::SyncAll)
    }
}

/// The program without its syncs: would the guard notice if they were dropped?
pub fn ignore_syncs(events: &[Event]) -> Vec<Event> {
    events.iter().filter(|event| !event.is_sync()).cloned().collect()
}

/// What is durable before the first event: a tree whose nodes have numbers.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    /// The node of each path; the root is the empty path.
    pub paths: BTreeMap<String, NodeId>,
    /// The nodes: the node with number n is the nth.
    pub nodes: Vec<Node>,
}

impl Disk {
    /// A disk that holds this tree. Nodes are numbered in path order.
    pub fn new(tree: &Tree) -> Disk {
        let mut disk = Disk::default();
        disk.paths.insert(String::new(), NodeId::ROOT);
        disk.nodes.push(Node::Dir { mode: 0o755 });
        for (path, node) in tree {
            disk.paths.insert(path.clone(), NodeId(disk.nodes.len() as u32));
            disk.nodes.push(node.clone());
        }
        disk
    }

    /// The names in directories that exist at the start.
    pub(super) fn entries(&self) -> impl Iterator<Item = (Entry, NodeId)> + '_ {
        self.paths.iter().filter(|(path, _)| !path.is_empty()).map(|(path, node)| {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            let dir = self.paths.get(parent).copied().unwrap_or(NodeId::ROOT);
            ((dir, name.to_owned()), *node)
        })
    }
}
