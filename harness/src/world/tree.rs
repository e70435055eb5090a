//! A directory tree in memory, and how it is put on disk and read back.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::Node;

/// A tree: path relative to its root -> node. The root itself is not in it.
pub type Tree = BTreeMap<String, Node>;

/// Identity of a file on disk that tells whether it changed since it was written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    mode: u32,
    links: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(meta: &fs::Metadata) -> Self {
        Stamp {
            inode: meta.ino(),
            size: meta.size(),
            mode: meta.mode(),
            links: meta.nlink(),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// A directory on disk that is put back to a base tree before each run, at the cost of what changed.
///
/// A file counts as unchanged only when its stamp is the same *and* the caller does not name it as touched: change
/// times are too coarse to be believed alone.
#[derive(Debug)]
pub struct WorkTree {
    root: PathBuf,
    base: Tree,
    stamps: BTreeMap<String, Stamp>,
}

impl WorkTree {
    /// Takes over an empty directory.
    pub fn new(root: PathBuf) -> Self {
        WorkTree { root, base: Tree::new(), stamps: BTreeMap::new() }
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Reads the tree as it is now. `touched` tells whether a file (by inode number) was written since [`reset`].
    ///
    /// [`reset`]: WorkTree::reset
    ///
    /// # Errors
    /// I/O errors of the file system.
    pub fn capture(&self, touched: &dyn Fn(u64) -> bool) -> io::Result<Tree> {
        let mut tree = Tree::new();
        self.visit(&mut |name, path, meta| {
            let known = self.stamps.get(&name).is_some_and(|s| *s == Stamp::of(meta)) && !touched(meta.ino());
            let node = match self.base.get(&name) {
                Some(node) if known => node.clone(),
                _ => read_node(path, meta)?,
            };
            tree.insert(name, node);
            Ok(())
        })?;
        Ok(tree)
    }

    /// Makes the directory equal to `base`, and returns the inode number of each of its paths, in path order.
    ///
    /// # Errors
    /// I/O errors of the file system.
    pub fn reset(&mut self, base: &Tree, touched: &dyn Fn(u64) -> bool) -> io::Result<Vec<(String, u64)>> {
        let mut present = Vec::new();
        self.visit(&mut |name, path, meta| {
            present.push((name, path.to_path_buf(), Stamp::of(meta), meta.is_dir()));
            Ok(())
        })?;
        // Children come after their directory: remove from the end.
        for (name, path, stamp, is_dir) in present.into_iter().rev() {
            let kept = self.stamps.get(&name) == Some(&stamp)
                && !touched(stamp.inode)
                && base.get(&name).is_some_and(|node| self.base.get(&name) == Some(node));
            // A directory's stamp changes with its entries; its mode alone decides.
            let kept_dir =
                is_dir && matches!(base.get(&name), Some(Node::Dir { mode }) if *mode == stamp.mode & 0o7777);
            if kept || kept_dir {
                continue;
            }
            self.stamps.remove(&name);
            if is_dir { fs::remove_dir_all(&path)? } else { fs::remove_file(&path)? }
        }
        let mut inodes = Vec::with_capacity(base.len());
        for (name, node) in base {
            let path = self.root.join(name);
            let meta = match fs::symlink_metadata(&path) {
                Ok(meta) => meta,
                Err(_) => {
                    write_node(&path, node)?;
                    fs::symlink_metadata(&path)?
                }
            };
            self.stamps.insert(name.clone(), Stamp::of(&meta));
            inodes.push((name.clone(), meta.ino()));
        }
        self.stamps.retain(|name, _| base.contains_key(name));
        self.base.clone_from(base);
        Ok(inodes)
    }

    fn visit(&self, each: &mut dyn FnMut(String, &Path, &fs::Metadata) -> io::Result<()>) -> io::Result<()> {
        let mut stack = vec![(self.root.clone(), String::new())];
        while let Some((dir, prefix)) = stack.pop() {
            for entry in fs::read_dir(&dir)? {
                let entry = entry?;
                let file_name = entry.file_name();
                let name = format!("{prefix}{}", escape_name(&file_name));
                let path = entry.path();
                let meta = fs::symlink_metadata(&path)?;
                if meta.is_dir() {
                    stack.push((path.clone(), format!("{name}/")));
                }
                each(name, &path, &meta)?;
            }
        }
        Ok(())
    }
}

/// A file name as text: bytes that are not UTF-8 are written as `\xNN`, so that names stay distinct.
fn escape_name(name: &std::ffi::OsStr) -> String {
    use std::os::unix::ffi::OsStrExt;
    name.to_str().map_or_else(|| name.as_bytes().escape_ascii().to_string(), str::to_owned)
}

/// Reads one node.
///
/// # Errors
/// I/O errors of the file system.
pub fn read_node(path: &Path, meta: &fs::Metadata) -> io::Result<Node> {
    let mode = meta.mode() & 0o7777;
    Ok(if meta.is_file() {
        Node::File { mode, bytes: Arc::from(fs::read(path)?) }
    } else if meta.is_dir() {
        Node::Dir { mode }
    } else if meta.is_symlink() {
        Node::Symlink { target: fs::read_link(path)?.to_string_lossy().into_owned() }
    } else {
        Node::Other { mode: meta.mode() }
    })
}

fn write_node(path: &Path, node: &Node) -> io::Result<()> {
    match node {
        Node::File { mode, bytes } => {
            fs::write(path, bytes)?;
            fs::set_permissions(path, fs::Permissions::from_mode(*mode))
        }
        Node::Dir { mode } => {
            fs::create_dir(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(*mode))
        }
        Node::Symlink { target } => symlink(target, path),
        Node::Other { mode } => {
            let kind = nix::sys::stat::SFlag::from_bits_truncate(mode & nix::libc::S_IFMT);
            let bits = nix::sys::stat::Mode::from_bits_truncate(mode & 0o7777);
            nix::sys::stat::mknod(path, kind, bits, 0)?;
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Node {
        Node::File { mode: 0o644, bytes: Arc::from(text.as_bytes()) }
    }

    #[test]
    fn reset_undoes_every_kind_of_change() {
        let dir = tempfile::tempdir().unwrap();
        let mut work = WorkTree::new(dir.path().to_owned());
        let base: Tree = [
            ("a".to_owned(), file("one")),
            ("d".to_owned(), Node::Dir { mode: 0o755 }),
            ("d/b".to_owned(), file("two")),
            ("l".to_owned(), Node::Symlink { target: "a".into() }),
        ]
        .into();
        work.reset(&base, &|_| true).unwrap();
        assert_eq!(work.capture(&|_| false).unwrap(), base);

        let root = dir.path();
        fs::write(root.join("a"), "two").unwrap(); // same size: only `touched` can tell
        fs::remove_file(root.join("d/b")).unwrap();
        fs::create_dir(root.join("d/b")).unwrap();
        fs::write(root.join("d/b/c"), "x").unwrap();
        fs::remove_file(root.join("l")).unwrap();
        fs::write(root.join("l"), "no link").unwrap();
        fs::write(root.join("new"), "n").unwrap();
        let changed = work.capture(&|_| true).unwrap();
        assert_eq!(changed["a"], file("two"));
        assert_eq!(changed["d/b/c"], file("x"));

        work.reset(&base, &|_| true).unwrap();
        assert_eq!(work.capture(&|_| true).unwrap(), base);
    }

    #[test]
    fn an_untouched_file_keeps_its_inode() {
        let dir = tempfile::tempdir().unwrap();
        let mut work = WorkTree::new(dir.path().to_owned());
        let base: Tree = [("a".to_owned(), file("one"))].into();
        let first = work.reset(&base, &|_| true).unwrap();
        assert_eq!(work.reset(&base, &|_| false).unwrap(), first);
        let inode = first[0].1;
        // While it is open its number is not given to another file.
        let _held = fs::File::open(dir.path().join("a")).unwrap();
        assert_ne!(work.reset(&base, &|i| i == inode).unwrap(), first);
    }
}
