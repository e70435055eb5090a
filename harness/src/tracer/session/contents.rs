//! What is in the world, and in the private copies of watched paths, before anything runs.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{PrepareError, Session};
use crate::{
    scenario::{self, Scenario},
    tracer::sandbox,
    world::{Node, Tree, WorkTree, read_node},
};

/// A watched path: its name and its private copy.
pub(super) struct Watched {
    pub(super) path: PathBuf,
    pub(super) copy: WorkTree,
}

impl Session {
    /// Puts private copies of the watched paths under their names.
    pub(super) fn cover_watched(&mut self) -> Result<(), PrepareError> {
        for (n, path) in self.scenario.watch.clone().into_iter().enumerate() {
            let wrong = |e: String| PrepareError::Scenario(format!("--watch {}: {e}", path.display()));
            let real = fs::canonicalize(&path).map_err(|e| wrong(e.to_string()))?;
            let copy = Path::new(sandbox::root()).join(format!("watch{n}"));
            let mut real = real;
            let mut meta = fs::metadata(&real).map_err(|e| wrong(e.to_string()))?;
            if !meta.is_dir() {
                // Programs replace a file by renaming another over it, which needs the folder around it.
                real = real
                    .parent()
                    .map(Path::to_owned)
                    .filter(|p| p.parent().is_some())
                    .ok_or_else(|| wrong("a file directly below / cannot be given a private copy".into()))?;
                meta = fs::metadata(&real).map_err(|e| wrong(e.to_string()))?;
                affordable(&real)
                    .map_err(|e| wrong(format!("its folder {} needs a private copy: {e}", real.display())))?;
            }
            if self.watched.iter().any(|known| real.starts_with(&known.path)) {
                continue;
            }
            fs::create_dir(&copy).map_err(|e| wrong(e.to_string()))?;
            fs::set_permissions(&copy, meta.permissions()).map_err(|e| wrong(e.to_string()))?;
            let contents = read_tree(&real)?;
            sandbox::cover(&real, &copy).map_err(|e| wrong(e.to_string()))?;
            self.watched.push(Watched { path: real, copy: WorkTree::new(copy) });
            self.initial.watched.push(contents);
        }
        Ok(())
    }
}

impl Watched {
    /// The absolute name of a file in it.
    pub(super) fn name(&self, file: &str) -> String {
        self.path.join(file).to_string_lossy().into_owned()
    }
}

/// Whether a folder that nobody named is small enough to be copied.
fn affordable(dir: &Path) -> Result<(), String> {
    const FILES: u64 = 10_000;
    const BYTES: u64 = 64 << 20;
    let (mut files, mut bytes) = (0, 0);
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))? {
            let entry = entry.map_err(|e| e.to_string())?;
            let meta = entry.metadata().map_err(|e| e.to_string())?;
            files += 1;
            bytes += meta.len();
            if meta.is_dir() {
                todo.push(entry.path());
            }
            if files > FILES || bytes > BYTES {
                return Err("it holds more than 64 MiB or 10,000 files: name a smaller folder".into());
            }
        }
    }
    Ok(())
}

/// What is in the world before setup: the scenario's `dir` and `files`.
pub(super) fn initial_tree(scenario: &Scenario) -> Result<Tree, PrepareError> {
    let mut tree = Tree::new();
    if let Some(dir) = &scenario.dir {
        tree = if scenario.dir_filtered { read_filtered(dir)? } else { read_tree(dir)? };
    }
    for (path, text) in &scenario.files {
        let mut parent = String::new();
        let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty() && *p != ".").collect();
        for part in &parts[..parts.len().saturating_sub(1)] {
            parent = if parent.is_empty() { (*part).to_owned() } else { format!("{parent}/{part}") };
            tree.entry(parent.clone()).or_insert(Node::Dir { mode: 0o755 });
        }
        tree.insert(parts.join("/"), Node::File { mode: 0o644, bytes: Arc::from(text.as_bytes()) });
    }
    Ok(tree)
}

fn read_tree(dir: &Path) -> Result<Tree, PrepareError> {
    let cannot = |e: io::Error| PrepareError::Scenario(format!("cannot copy {}: {e}", dir.display()));
    WorkTree::new(dir.to_owned()).capture(&|_| true).map_err(cannot)
}

/// The default world: what of the caller's directory is copied.
fn read_filtered(dir: &Path) -> Result<Tree, PrepareError> {
    let contents = scenario::contents(dir).map_err(|e| PrepareError::Scenario(e.to_string()))?;
    let node = |path: &PathBuf| {
        let full = dir.join(path);
        let node = fs::symlink_metadata(&full).and_then(|meta| read_node(&full, &meta));
        let cannot = |e: io::Error| PrepareError::Scenario(format!("cannot copy {}: {e}", full.display()));
        Ok((path.to_string_lossy().into_owned(), node.map_err(cannot)?))
    };
    contents.dirs.iter().chain(&contents.files).map(node).collect()
}
