//! A file system as a state machine: names, inodes, directories, locks. Each method is one step, and atomic.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// What a name leads to. It stays when the name is given to another file.
pub(crate) type Inode = usize;

#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    contents: Vec<Vec<u8>>,
    names: BTreeMap<PathBuf, Inode>,
    directories: BTreeSet<PathBuf>,
    /// Which open lock file holds the lock of an inode.
    owners: BTreeMap<Inode, u64>,
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

    /// How often a lock was given up.
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
        self.contents[inode].clear();
        Ok(inode)
    }

    pub(crate) fn create_new(&mut self, path: &Path) -> io::Result<Inode> {
        self.free(path)?;
        Ok(self.new_inode(path))
    }

    pub(crate) fn contents(&self, inode: Inode) -> &[u8] {
        &self.contents[inode]
    }

    pub(crate) fn write_at(&mut self, inode: Inode, position: usize, bytes: &[u8]) {
        let content = &mut self.contents[inode];
        let end = position + bytes.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[position..end].copy_from_slice(bytes);
    }

    pub(crate) fn append(&mut self, inode: Inode, bytes: &[u8]) {
        self.contents[inode].extend_from_slice(bytes);
    }

    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.open(from)?;
        self.parent_exists(to)?;
        // Between two names of one file the system does nothing.
        if self.names.get(to) != Some(&inode) {
            self.names.remove(from);
            self.names.insert(to.to_owned(), inode);
        }
        Ok(())
    }

    pub(crate) fn hard_link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.open(from)?;
        self.free(to)?;
        self.names.insert(to.to_owned(), inode);
        Ok(())
    }

    pub(crate) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        let inode = self.names.remove(path);
        inode.map(drop).ok_or_else(|| ErrorKind::NotFound.into())
    }

    pub(crate) fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        self.free(path)?;
        self.directories.insert(path.to_owned());
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
    pub(crate) fn try_lock(&mut self, inode: Inode, owner: u64) -> bool {
        *self.owners.entry(inode).or_insert(owner) == owner
    }

    pub(crate) fn unlock(&mut self, inode: Inode, owner: u64) {
        if self.owners.get(&inode) == Some(&owner) {
            self.owners.remove(&inode);
            self.releases += 1;
        }
    }

    fn new_inode(&mut self, path: &Path) -> Inode {
        self.contents.push(Vec::new());
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
