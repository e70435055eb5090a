//! On what it was measured.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::{Deserialize, Serialize};

use super::catalogue::Tools;

/// The machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The system and its version.
    pub kernel: String,
    /// The processor's kind.
    pub arch: String,
    /// The processor's name.
    pub cpu: String,
    /// How many of them this process may use.
    pub cpus: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// How many tasks wanted a CPU when it began, on average over a minute.
    pub load: f64,
    /// The type of the file system of the first directory.
    pub filesystem: String,
    /// The directories that were measured on.
    pub dirs: Vec<Place>,
    /// Versions of the programs that took part.
    pub programs: Vec<String>,
}

/// A directory that was measured on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The directory.
    pub dir: PathBuf,
    /// The type of its file system.
    pub filesystem: String,
    /// Where that is mounted.
    pub mount: PathBuf,
    /// From what.
    pub source: String,
    /// With which options, of the mount and of the file system.
    pub options: String,
}

impl Machine {
    /// This machine, with these directories.
    pub(super) fn here(dirs: &[PathBuf], tools: &Tools) -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let mounts = read("/proc/self/mountinfo");
        let dirs: Vec<Place> = dirs.iter().map(|dir| Place::of(dir, &mounts)).collect();
        let memory = field(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
        Machine {
            kernel: format!("{} {}", read("/proc/sys/kernel/ostype").trim(), read("/proc/sys/kernel/osrelease").trim()),
            arch: std::env::consts::ARCH.to_owned(),
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".to_owned()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: memory.split(' ').next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024,
            load: read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
            filesystem: dirs.first().map_or_else(|| "unknown".to_owned(), |place| place.filesystem.clone()),
            dirs,
            programs: [
                Some(format!("noclobber {}", env!("CARGO_PKG_VERSION"))),
                version(&tools.queue, &["--version"]),
                version(&tools.python, &["--version"]),
                version(&tools.python, &["-c", "import sqlite3; print('SQLite', sqlite3.sqlite_version)"]),
                version(&tools.node, &["--version"]).map(|version| format!("node {version}")),
            ]
            .into_iter()
            .flatten()
            .collect(),
        }
    }
}

impl Place {
    /// What `/proc/self/mountinfo` says of a directory.
    fn of(dir: &Path, mounts: &str) -> Place {
        let whole = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let unknown = || "unknown".to_owned();
        let mut place = Place {
            dir: dir.to_owned(),
            filesystem: unknown(),
            mount: PathBuf::from("/"),
            source: unknown(),
            options: String::new(),
        };
        let mut longest = 0;
        for line in mounts.lines() {
            let Some((mount, system)) = line.split_once(" - ") else { continue };
            let mount: Vec<&str> = mount.split(' ').collect();
            let system: Vec<&str> = system.split(' ').collect();
            let (Some(at), Some(options), [kind, source, of_system, ..]) = (mount.get(4), mount.get(5), &system[..])
            else {
                continue;
            };
            let at = PathBuf::from(at.replace("\\040", " "));
            // Of mounts at one place the last one is what is seen.
            if whole.starts_with(&at) && at.components().count() >= longest {
                longest = at.components().count();
                place.filesystem = (*kind).to_owned();
                place.source = (*source).to_owned();
                place.options = format!("{options}; {of_system}");
                place.mount = at;
            }
        }
        place
    }
}

/// The first line that a program says of its version.
fn version(program: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next()?.trim();
    (output.status.success() && !line.is_empty()).then(|| line.chars().take(80).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_that_was_made_last_counts() {
        let mounts = "1 0 8:1 / / rw,relatime - ext4 /dev/vda rw,discard\n\
                      2 1 0:2 / /x rw - tmpfs one rw\n\
                      3 1 0:3 / /x rw,noexec - xfs two rw,size=1k\n\
                      4 1 0:4 / /xyz rw - tmpfs three rw\n\
                      garbage\n";
        let place = Place::of(Path::new("/x/y"), mounts);
        assert_eq!((place.filesystem.as_str(), place.source.as_str()), ("xfs", "two"));
        assert_eq!(place.options, "rw,noexec; rw,size=1k");
        assert_eq!(Place::of(Path::new("/xy"), mounts).filesystem, "ext4");
        assert_eq!(Place::of(Path::new("/xy"), "").filesystem, "unknown");
    }
}
