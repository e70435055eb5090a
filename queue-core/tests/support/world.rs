//! A file system as a state machine: names, inodes, directories, locks. Each method is one step, and atomic.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use queue_core::storage::Meta;

/// What a name leads to. It stays when the name is given to another file.
pub(crate) type Inode = usize;

#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    contents: Vec<Vec<u8>>,
    /// How often an inode was changed in any way.
    changes: Vec<i64>,
    names: BTreeMap<PathBuf, Inode>,
    directories: BTreeSet<PathBuf>,
    /// Which open lock file holds the lock of an inode: its process and a number of that.
    owners: BTreeMap<Inode, (u32, u64)>,
    /// Directories that somebody waits at.
    watched: BTreeSet<PathBuf>,
    /// Processes that were killed.
    dead: BTreeSet<u32>,
    releases: u64,
}

impl World {
    /// A world with these files in its one directory.
    pub(crate) fn with(files: &[(&str, &[u8])]) -> Self {
        let mut world = World::default();
        for (name, bytes) in files {
            let path = Path::new(name);
            if let Some(parent) = path.parent().filter(|parent| *parent != Path::new("")) {
                world.directories.insert(parent.to_owned());
            }
            let inode = world.new_inode(path);
            world.contents[inode] = bytes.to_vec();
        }
        world
    }

    /// All names with what they lead to.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        let content = |inode: &Inode| &self.contents[*inode][..];
        self.names.iter().map(move |(path, inode)| (&**path, content(inode)))
    }

    pub(crate) fn file(&self, path: &str) -> Option<&[u8]> {
        let inode = self.names.get(Path::new(path))?;
        Some(&self.contents[*inode])
    }

    pub(crate) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.directories.iter().map(|path| &**path)
    }

    /// How often something happened that somebody may have waited for.
    pub(crate) fn releases(&self) -> u64 {
        self.releases
    }

    pub(crate) fn open(&self, path: &Path) -> io::Result<Inode> {
        self.names.get(path).copied().ok_or_else(|| ErrorKind::NotFound.into())
    }

    pub(crate) fn open_or_create(&mut self, path: &Path) -> io::Result<Inode> {
        match self.open(path) {
            Ok(inode) => Ok(inode),
            Err(_) => self.create_new(path),
        }
    }

    pub(crate) fn open_truncated(&mut self, path: &Path) -> io::Result<Inode> {
        let inode = self.open_or_create(path)?;
        self.cut(inode, 0);
        Ok(inode)
    }

    pub(crate) fn create_new(&mut self, path: &Path) -> io::Result<Inode> {
        self.free(path)?;
        Ok(self.new_inode(path))
    }

    pub(crate) fn contents(&self, inode: Inode) -> &[u8] {
        &self.contents[inode]
    }

    pub(crate) fn meta(&self, inode: Inode) -> Meta {
        let size = self.contents[inode].len() as u64;
        Meta { device: 1, inode: inode as u64, size, changed: self.changes[inode], mode: 0o644, uid: 0, gid: 0 }
    }

    pub(crate) fn write_at(&mut self, inode: Inode, position: usize, bytes: &[u8]) {
        self.changes[inode] += 1;
        let content = &mut self.contents[inode];
        let end = position + bytes.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[position..end].copy_from_slice(bytes);
    }

    pub(crate) fn append(&mut self, inode: Inode, bytes: &[u8]) {
        self.changes[inode] += 1;
        self.contents[inode].extend_from_slice(bytes);
    }

    pub(crate) fn cut(&mut self, inode: Inode, length: usize) {
        self.changes[inode] += 1;
        self.contents[inode].truncate(length);
    }

    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.open(from)?;
        self.parent_exists(to)?;
        if self.is_directory(to) {
            return Err(ErrorKind::IsADirectory.into());
        }
        // Between two names of one file the system does nothing.
        if self.names.get(to) != Some(&inode) {
            self.names.remove(from);
            self.names.insert(to.to_owned(), inode);
            self.changes[inode] += 1;
            self.leaves(from);
        }
        Ok(())
    }

    /// The renaming of a file or directory to a name that is free.
    pub(crate) fn rename_new(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        if !self.directories.contains(from) {
            self.open(from)?;
            self.free(to)?;
            return self.rename(from, to);
        }
        self.free(to)?;
        self.directories.remove(from);
        self.directories.insert(to.to_owned());
        let inside: Vec<_> = self.names.keys().filter(|name| name.parent() == Some(from)).cloned().collect();
        for name in inside {
            if let (Some(inode), Some(file)) = (self.names.remove(&name), name.file_name()) {
                self.names.insert(to.join(file), inode);
            }
        }
        self.leaves(from);
        Ok(())
    }

    pub(crate) fn exchange(&mut self, one: &Path, other: &Path) -> io::Result<()> {
        let (first, second) = (self.open(one)?, self.open(other)?);
        self.names.insert(one.to_owned(), second);
        self.names.insert(other.to_owned(), first);
        self.changes[first] += 1;
        self.changes[second] += 1;
        Ok(())
    }

    pub(crate) fn hard_link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.open(from)?;
        self.free(to)?;
        self.names.insert(to.to_owned(), inode);
        self.changes[inode] += 1;
        Ok(())
    }

    pub(crate) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        let inode = self.names.remove(path).ok_or(ErrorKind::NotFound)?;
        self.changes[inode] += 1;
        Ok(())
    }

    pub(crate) fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        self.free(path)?;
        self.directories.insert(path.to_owned());
        Ok(())
    }

    pub(crate) fn remove_dir(&mut self, path: &Path) -> io::Result<()> {
        if !self.list_dir(path)?.is_empty() {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        self.directories.remove(path);
        Ok(())
    }

    pub(crate) fn sync_dir(&self, path: &Path) -> io::Result<()> {
        match self.is_directory(path) {
            true => Ok(()),
            false => Err(ErrorKind::NotFound.into()),
        }
    }

    pub(crate) fn list_dir(&self, path: &Path) -> io::Result<Vec<String>> {
        self.sync_dir(path)?;
        let directories = self.directories.iter();
        let inside = self.names.keys().chain(directories).filter(|name| name.parent() == Some(path));
        let mut names: Vec<_> = inside.filter_map(|name| name.file_name()?.to_str().map(str::to_owned)).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Takes the lock for `owner`, if nobody else has it.
    pub(crate) fn try_lock(&mut self, inode: Inode, owner: (u32, u64)) -> bool {
        *self.owners.entry(inode).or_insert(owner) == owner
    }

    pub(crate) fn unlock(&mut self, inode: Inode, owner: (u32, u64)) {
        if self.owners.get(&inode) == Some(&owner) {
            self.owners.remove(&inode);
            self.releases += 1;
        }
    }

    /// Whoever waits at the directory is woken when it, or an entry of it, gets another name.
    pub(crate) fn watch(&mut self, path: &Path) -> io::Result<u64> {
        self.sync_dir(path)?;
        self.watched.insert(path.to_owned());
        Ok(self.releases)
    }

    /// Whether the entry of a lock directory names somebody who is dead.
    pub(crate) fn is_owner_dead(&self, lock: &Path) -> bool {
        let entries = self.list_dir(lock).unwrap_or_default();
        let pids = entries.iter().filter_map(|entry| entry.strip_prefix("owner-")?.split('-').next()?.parse().ok());
        pids.into_iter().any(|pid| self.is_dead(pid))
    }

    /// A process is gone, and with it its locks of the kernel's.
    pub(crate) fn kill(&mut self, pid: u32) {
        self.dead.insert(pid);
        self.owners.retain(|_, owner| owner.0 != pid);
        self.releases += 1;
    }

    pub(crate) fn is_dead(&self, pid: u32) -> bool {
        self.dead.contains(&pid)
    }

    fn leaves(&mut self, from: &Path) {
        if self.watched.contains(from) || from.parent().is_some_and(|parent| self.watched.contains(parent)) {
            self.releases += 1;
        }
    }

    fn new_inode(&mut self, path: &Path) -> Inode {
        self.contents.push(Vec::new());
        self.changes.push(0);
        self.names.insert(path.to_owned(), self.contents.len() - 1);
        self.contents.len() - 1
    }

    /// Whether a file may be made at `path`.
    fn free(&self, path: &Path) -> io::Result<()> {
        self.parent_exists(path)?;
        match self.names.contains_key(path) || self.is_directory(path) {
            true => Err(ErrorKind::AlreadyExists.into()),
            false => Ok(()),
        }
    }

    fn parent_exists(&self, path: &Path) -> io::Result<()> {
        self.sync_dir(path.parent().unwrap_or(Path::new("")))
    }

    fn is_directory(&self, path: &Path) -> bool {
        path == Path::new("") || path == Path::new(".") || self.directories.contains(path)
    }
}
