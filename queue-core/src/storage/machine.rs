//! Facts about this machine and its processes, from /proc.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

use super::{FileSystem, Liveness, Process};

/// Who we are. Read once: a fork in a library's user would have the parent's pid otherwise, so the pid is asked anew.
pub(super) fn this_process() -> Process {
    static FACTS: OnceLock<Process> = OnceLock::new();
    let facts = FACTS.get_or_init(|| Process {
        host: host_name(),
        pid: std::process::id(),
        start: start_of("self").map_or(0, |(start, _)| start),
        boot: boot_id(),
        namespace: fs::metadata("/proc/self/ns/pid").map_or(0, |meta| meta.ino()),
    });
    Process { pid: std::process::id(), ..facts.clone() }
}

/// Whether the process still runs, as far as can be seen from here.
pub(super) fn liveness(process: &Process) -> Liveness {
    let me = this_process();
    if process.host != me.host {
        return Liveness::Unknown;
    }
    if process.boot != me.boot {
        // One machine, another boot: nobody has outlived it. Two machines of one name look the same, so an unknown boot
        // proves nothing.
        return if process.boot.is_empty() || me.boot.is_empty() { Liveness::Unknown } else { Liveness::Dead };
    }
    if process.namespace != me.namespace || me.start == 0 {
        return Liveness::Unknown;
    }
    match start_of(&process.pid.to_string()) {
        Some((start, state)) if start == process.start && !matches!(state, 'Z' | 'X') => Liveness::Alive,
        _ => Liveness::Dead,
    }
}

fn host_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map_or(String::new(), |id| id.trim().to_owned())
}

/// Start time and state of a process: fields 22 and 3 of its `stat`. The second field, the program's name, may hold
/// blanks and brackets: count from its end.
fn start_of(process: &str) -> Option<(u64, char)> {
    // By one call: the file is made anew for each, and two halves need not fit.
    let mut buffer = [0; 4096];
    let count = fs::File::open(format!("/proc/{process}/stat")).ok()?.read(&mut buffer).ok()?;
    let stat = String::from_utf8_lossy(&buffer[..count]);
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((fields.nth(18)?.parse().ok()?, state))
}

/// File systems that another machine or another program answers for, by the number that statfs(2) gives.
const REMOTE: [(i64, &str); 13] = [
    (0x6969, "nfs"),
    (0x517b, "smb"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x6573_5546, "fuse"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "afs"),
    (0x6b41_4653, "kafs"),
    (0x00c3_6400, "ceph"),
    (0x7375_7245, "coda"),
    (0x564c, "ncp"),
    (0x0bd0_0bd0, "lustre"),
    (0x786f_4256, "vboxsf"),
];

/// The file systems that a queue usually lies on.
const LOCAL: [(i64, &str); 9] = [
    (0xef53, "ext4"),
    (0x0102_1994, "tmpfs"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x794c_7630, "overlay"),
    (0x2fc1_2fc1, "zfs"),
    (0xf2f5_2010, "f2fs"),
    (0xca45_1a4e, "bcachefs"),
    (0x4d44, "vfat"),
];

/// The file system that holds `path`.
pub(super) fn file_system(path: &Path) -> std::io::Result<FileSystem> {
    let number = nix::sys::statfs::statfs(path)?.filesystem_type().0 as i64 & 0xffff_ffff;
    let named = |list: &[(i64, &'static str)]| list.iter().find(|(magic, _)| *magic == number).map(|(_, name)| *name);
    Ok(match (named(&REMOTE), named(&LOCAL)) {
        (Some(name), _) => FileSystem { name: name.to_owned(), remote: true },
        (None, Some(name)) => FileSystem { name: name.to_owned(), remote: false },
        (None, None) => FileSystem { name: format!("0x{number:x}"), remote: false },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_itself() {
        let process = this_process();
        assert_eq!(process.pid, std::process::id());
        assert!(process.start > 0 && process.namespace > 0 && !process.boot.is_empty());
        assert_eq!(liveness(&process), Liveness::Alive);
    }

    #[test]
    fn another_start_or_boot_is_another_process() {
        let me = this_process();
        for (process, expected) in [
            (Process { start: me.start + 1, ..me.clone() }, Liveness::Dead),
            (Process { boot: "another".into(), ..me.clone() }, Liveness::Dead),
            (Process { boot: String::new(), ..me.clone() }, Liveness::Unknown),
            (Process { host: "elsewhere".into(), ..me.clone() }, Liveness::Unknown),
            (Process { namespace: 1, ..me.clone() }, Liveness::Unknown),
            (Process { pid: u32::MAX, ..me.clone() }, Liveness::Dead),
        ] {
            assert_eq!(liveness(&process), expected, "{process:?}");
        }
    }

    #[test]
    fn a_zombie_is_dead() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        let start = start_of(&pid.to_string()).map(|(start, _)| start).unwrap();
        // Until it is waited for it stays in /proc.
        while start_of(&pid.to_string()).is_some_and(|(_, state)| state != 'Z') {
            std::thread::yield_now();
        }
        assert_eq!(liveness(&Process { pid, start, ..this_process() }), Liveness::Dead);
        child.wait().unwrap();
    }
}
