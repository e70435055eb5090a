//! What `/proc` and the other file systems of the sandbox show that differs from run to run: replaced by fixed values, or
//! by those of virtual time.

use nix::unistd::Pid;
use rustix::fs::SeekFrom;

use super::{
    calls::Buffer,
    clock::{MONOTONIC, WALL},
    inodes::Nanos,
    machine::Machine,
    memory, mounts,
    opened::Opened,
    rewrite,
    walk::PrivateFile,
};
use crate::world::Inode;

/// When every process is said to have been started, in clock ticks since the machine was: process numbers are never
/// used twice in a run, so it need not tell processes apart.
const PROCESS_STARTED: &str = "100000";
/// What names the machine's starts, but for the last digits, which count them: all runs share the first one, and a power cut
/// is the end of it.
const BOOT_ID: &str = "6e6f636c-6f62-4265-8000-00000000";
/// Numbers of the first namespaces of a machine (linux/proc_ns.h): workers are shown these.
const NAMESPACES: [(&str, u64); 10] = [
    ("ipc", 0xEFFF_FFFF),
    ("uts", 0xEFFF_FFFE),
    ("user", 0xEFFF_FFFD),
    ("pid", 0xEFFF_FFFC),
    ("pid_for_children", 0xEFFF_FFFC),
    ("cgroup", 0xEFFF_FFFB),
    ("time", 0xEFFF_FFFA),
    ("time_for_children", 0xEFFF_FFFA),
    ("net", 0xEFFF_FFF9),
    ("mnt", 0xEFFF_FFF8),
];

/// A file of `/proc` whose content is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcFile {
    /// `/proc/P/stat`, or a thread's.
    Stat,
    /// `/proc/P/status`.
    Status,
    /// `/proc/P/statm`.
    Pages,
    /// `/proc/meminfo`.
    Memory,
    /// `/proc/uptime`.
    Uptime,
    /// `/proc/loadavg`.
    Load,
    /// `/proc/stat`.
    Counters,
    /// `/proc/sys/kernel/random/boot_id`.
    BootId,
    /// `/proc/sys/kernel/random/uuid`.
    Uuid,
    /// `/proc/P/fdinfo/N`.
    Descriptor,
    /// `/proc/P/mountinfo`.
    Mounts,
    /// What is counted, by the machine or of a process: statistics.
    Counts,
}

/// Files of `/proc` that hold statistics of the machine.
const COUNTS: [&str; 16] = [
    "vmstat",
    "diskstats",
    "interrupts",
    "softirqs",
    "zoneinfo",
    "buddyinfo",
    "pagetypeinfo",
    "slabinfo",
    "schedstat",
    "pressure/cpu",
    "pressure/io",
    "pressure/memory",
    "sys/fs/file-nr",
    "sys/fs/inode-nr",
    "sys/fs/inode-state",
    "sys/fs/dentry-state",
];
/// The same of a process or thread.
const COUNTS_OF_PROCESS: [&str; 5] = ["sched", "schedstat", "io", "smaps", "smaps_rollup"];

impl ProcFile {
    /// The file with this path, if its content is replaced.
    pub(super) fn of(path: &str) -> Option<Self> {
        let process = path.strip_prefix("/proc/").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        Some(match path {
            "/proc/meminfo" => ProcFile::Memory,
            "/proc/uptime" => ProcFile::Uptime,
            "/proc/loadavg" => ProcFile::Load,
            "/proc/stat" => ProcFile::Counters,
            "/proc/sys/kernel/random/boot_id" => ProcFile::BootId,
            "/proc/sys/kernel/random/uuid" => ProcFile::Uuid,
            _ if process && path.ends_with("/stat") => ProcFile::Stat,
            _ if process && path.ends_with("/status") => ProcFile::Status,
            _ if process && path.ends_with("/statm") => ProcFile::Pages,
            _ if process && path.ends_with("/mountinfo") => ProcFile::Mounts,
            _ if process && path.contains("/fdinfo/") => ProcFile::Descriptor,
            _ if process && path.rsplit('/').next().is_some_and(|name| COUNTS_OF_PROCESS.contains(&name)) => {
                ProcFile::Counts
            }
            _ if path.strip_prefix("/proc/").is_some_and(|name| COUNTS.contains(&name)) => ProcFile::Counts,
            _ => return None,
        })
    }

    /// What is shown instead of `text`.
    fn shown(self, text: &str, now: &Now) -> Option<String> {
        let Now { uptime_us, booted_s, boot, random } = *now;
        Some(match self {
            ProcFile::Stat => fixed_stat(text)?,
            ProcFile::Status => text.split_inclusive('\n').map(fixed_status).collect(),
            ProcFile::Pages => zeroed(text),
            ProcFile::Memory => fixed_memory(text),
            ProcFile::Uptime => format!("{}.{:02} 0.00\n", uptime_us / 1_000_000, uptime_us / 10_000 % 100),
            ProcFile::Load => "0.00 0.00 0.00 1/1 1\n".to_owned(),
            ProcFile::Counters => text.split_inclusive('\n').map(|line| fixed_counters(line, booted_s)).collect(),
            ProcFile::BootId => format!("{BOOT_ID}{boot:04x}\n"),
            ProcFile::Uuid => uuid(random),
            ProcFile::Descriptor => text.split_inclusive('\n').map(fixed_descriptor).collect(),
            ProcFile::Counts => text.split_inclusive('\n').map(uncounted).collect(),
            // Needs to know the file systems of the sandbox.
            ProcFile::Mounts => return None,
        })
    }
}

/// What depends on the moment at which such a file is read.
#[derive(Clone, Copy, Debug)]
struct Now {
    /// Virtual time since the machine was started, in microseconds.
    uptime_us: u64,
    /// When that was, in seconds since 1970.
    booted_s: u64,
    /// Which start it was, from 1.
    boot: u16,
    /// Random bytes of the task that reads.
    random: [u8; 16],
}

impl Machine {
    fn now(&mut self, pid: Pid, which: ProcFile) -> Now {
        let mut random = [0; 16];
        if which == ProcFile::Uuid {
            self.task_mut(pid).random.fill(&mut random);
        }
        let uptime_us = self.clock.show(MONOTONIC, 0);
        Now { uptime_us, booted_s: (self.clock.show(WALL, 0) - uptime_us) / 1_000_000, boot: self.boot, random }
    }

    /// Answers a read of such a file. Its numbers have other widths in each run, so that parts of it differ wherever they
    /// begin, and who reads it in small pieces asks for such parts; here the position of the open file counts in the text
    /// that is shown. Returns the result; none: there is nothing to be read.
    pub(super) fn read_shown(
        &mut self,
        pid: Pid,
        (which, path): (ProcFile, &str),
        file: &Opened,
        buffer: Buffer,
        offset: Option<i64>,
    ) -> Option<i64> {
        // A process may have any bytes for its name.
        let whole = String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned();
        let text = match which {
            ProcFile::Mounts => mounts::shown(&whole, &|minor| self.walker.shown_minor(minor)),
            _ => which.shown(&whole, &self.now(pid, which))?,
        };
        let begin = match offset {
            Some(offset) => u64::try_from(offset).ok()?,
            None => file.position(),
        };
        let from = usize::try_from(begin).unwrap_or(usize::MAX).min(text.len());
        let mut rest = &text.as_bytes()[from..];
        let mut total = 0;
        for (address, len) in memory::pieces(pid, buffer) {
            let (piece, after) = rest.split_at(rest.len().min(usize::try_from(len).unwrap_or(usize::MAX)));
            memory::write(pid, address, piece).ok()?;
            total += piece.len() as u64;
            rest = after;
        }
        if offset.is_none() {
            rustix::fs::seek(&file.file, SeekFrom::Start(begin + total)).ok()?;
        }
        i64::try_from(total).ok()
    }

    /// At the exit of a call of the stat family on a file of one of the sandbox's own file systems.
    pub(super) fn show_private_file(&mut self, pid: Pid, buffer: u64, extended: bool, file: PrivateFile) {
        let time: Nanos = self.clock.epoch() * 1000;
        rewrite::stat_of(pid, buffer, extended, file.device_minor, Inode(file.number), (time, time));
        if file.linked {
            rewrite::hide_links(pid, buffer, extended);
        }
    }
}

/// The number that stands for a file of the sandbox's own file systems: of its path, which tells files apart.
pub(super) fn number_of(path: &str) -> u64 {
    if let Some((_, number)) = namespace(path) {
        return number;
    }
    const PROC_NUMBERS: u64 = 0xF000_0000;
    let hash = blake3::hash(path.as_bytes());
    let low = u32::from_le_bytes(hash.as_bytes()[..4].try_into().unwrap_or_default());
    PROC_NUMBERS | u64::from(low & 0x0FFF_FFFF)
}

/// Kind and shown number of a namespace, from `pid:[4026531836]`.
pub(super) fn namespace(text: &str) -> Option<(&str, u64)> {
    let (kind, _) = text.split_once(":[")?;
    NAMESPACES.iter().find(|(name, _)| *name == kind).map(|(_, number)| (kind, *number))
}

fn fixed_stat(text: &str) -> Option<String> {
    // The name is in parentheses and may hold anything. The fields after it are counted from the state: faults and
    // CPU times, the start, memory, the CPU, waits for disks.
    let (name, rest) = text.rsplit_once(") ")?;
    let fixed = rest.split(' ').enumerate().map(|(n, field)| match n {
        7..=14 | 21 | 36 | 39 => "0",
        19 => PROCESS_STARTED,
        _ => field,
    });
    Some(format!("{name}) {}", fixed.collect::<Vec<_>>().join(" ")))
}

/// Memory and switches are counted differently each time; the CPU is shown as the first, whichever it is.
fn fixed_status(line: &str) -> String {
    let Some((key, value)) = line.split_once(':') else { return line.to_owned() };
    match key {
        // Signals that wait for any process of the user.
        "SigQ" => format!("{key}:\t0{}", &value[value.find('/').unwrap_or(value.len())..]),
        "Cpus_allowed" => format!("{key}:\t1\n"),
        "Cpus_allowed_list" => format!("{key}:\t0\n"),
        _ if key.starts_with("Vm") || key.starts_with("Rss") || key.ends_with("ctxt_switches") => {
            format!("{key}:\t{}", zeroed(value))
        }
        _ => line.to_owned(),
    }
}

/// The mount and the inode behind a descriptor have other numbers each time.
fn fixed_descriptor(line: &str) -> String {
    match line.split_once(':') {
        Some((key @ ("mnt_id" | "ino"), _)) => format!("{key}:\t1\n"),
        _ => line.to_owned(),
    }
}

/// All of the machine's memory is free.
fn fixed_memory(text: &str) -> String {
    let number = |line: &str| -> Option<u64> { line.split_whitespace().nth(1)?.parse().ok() };
    let total = text.lines().find(|l| l.starts_with("MemTotal:")).and_then(number).unwrap_or(0);
    let fixed = text.split_inclusive('\n').map(|line| match line.split_once(':') {
        Some((key @ ("MemFree" | "MemAvailable"), _)) => format!("{:<16}{total:>8} kB\n", format!("{key}:")),
        Some(("MemTotal" | "Hugepagesize" | "VmallocTotal", _)) | None => line.to_owned(),
        Some((key, value)) => format!("{key}: {}", zeroed(value)),
    });
    fixed.collect()
}

/// Nothing was counted since the machine was started.
fn fixed_counters(line: &str, booted_s: u64) -> String {
    if line.starts_with("btime ") { format!("btime {booted_s}\n") } else { zeroed(line) }
}

/// The same where words may be `name=number` and numbers have fractions.
fn uncounted(line: &str) -> String {
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let word = |word: &str| match word.split_once('=') {
        Some((name, value)) if is_number(value) => format!("{name}=0"),
        _ if is_number(word) => "0".to_owned(),
        _ => word.to_owned(),
    };
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ") + "\n"
}

/// The words of a line with every number 0. Their widths would tell how long the numbers were.
fn zeroed(text: &str) -> String {
    let words = text.split_whitespace().map(|word| if word.bytes().all(|b| b.is_ascii_digit()) { "0" } else { word });
    words.collect::<Vec<_>>().join(" ") + "\n"
}

fn uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(37);
    for (n, byte) in bytes.iter().enumerate() {
        if matches!(n, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text + "\n"
}

/// Whether a signal that a thread does not block waits for it; with `shared`, also one to its process.
pub(super) fn has_signal(process: Pid, thread: Pid, shared: bool) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/task/{thread}/status")).unwrap_or_default();
    let set = |name: &str| {
        let text = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
        u64::from_str_radix(text.trim(), 16).unwrap_or(0)
    };
    let pending = set("SigPnd:") | if shared { set("ShdPnd:") } else { 0 };
    pending & !set("SigBlk:") != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_fixed_and_the_rest_stays() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 153 2 3 4 5 6 7 8 20 0 1 0 676543 8192000 900 18446744073709551615\n";
        let stat_shown =
            "7 (a) b) S 1 7 7 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 100000 8192000 0 18446744073709551615\n";
        let table = [
            ("/proc/7/stat", stat, stat_shown),
            ("/proc/7/task/8/stat", stat, stat_shown),
            ("/proc/7/statm", "12 345 6\n", "0 0 0\n"),
            (
                "/proc/7/status",
                "Name:\tcat9\nPid:\t17\nSigQ:\t12/95000\nVmRSS:\t    1234 kB\nCpus_allowed:\t2\nnonvoluntary_ctxt_switches:\t12\n",
                "Name:\tcat9\nPid:\t17\nSigQ:\t0/95000\nVmRSS:\t0 kB\nCpus_allowed:\t1\nnonvoluntary_ctxt_switches:\t0\n",
            ),
            (
                "/proc/meminfo",
                "MemTotal:       24000000 kB\nMemFree:         1234567 kB\nCached:           200000 kB\n",
                "MemTotal:       24000000 kB\nMemFree:        24000000 kB\nCached: 0 kB\n",
            ),
            ("/proc/uptime", "13800.51 20000.00\n", "1000.25 0.00\n"),
            ("/proc/loadavg", "18.47 19.74 15.25 3/200 4711\n", "0.00 0.00 0.00 1/1 1\n"),
            (
                "/proc/stat",
                "cpu  17 2 3\ncpu0 17 2 3\nctxt 4711\nbtime 1735688700\nprocs_running 2\n",
                "cpu 0 0 0\ncpu0 0 0 0\nctxt 0\nbtime 1735688600\nprocs_running 0\n",
            ),
            (
                "/proc/7/fdinfo/3",
                "pos:\t12\nflags:\t02\nmnt_id:\t162\nino:\t4711\n",
                "pos:\t12\nflags:\t02\nmnt_id:\t1\nino:\t1\n",
            ),
            ("/proc/sys/kernel/random/boot_id", "0a1b\n", "6e6f636c-6f62-4265-8000-000000000002\n"),
            ("/proc/sys/kernel/random/uuid", "0a1b\n", "07070707-0707-4707-8707-070707070707\n"),
        ];
        let now = Now { uptime_us: 1_000_250_000, booted_s: 1_735_688_600, boot: 2, random: [7; 16] };
        for (path, real, shown) in table {
            let file = ProcFile::of(path).expect(path);
            assert_eq!(file.shown(real, &now).as_deref(), Some(shown), "{path}");
        }
        for other in ["/proc/7/maps", "/proc/sys/fs/stat", "/data/7/stat", "/proc/cpuinfo"] {
            assert_eq!(ProcFile::of(other), None, "{other}");
        }
        assert_eq!(ProcFile::Stat.shown("cpu 1 2 3", &now), None);
        for path in ["/proc/7/smaps", "/proc/vmstat", "/proc/pressure/cpu", "/proc/7/task/8/sched"] {
            let file = ProcFile::of(path).expect(path);
            let counted = "se.load :  12.75\nsome avg10=0.12 total=4711\nRss:   12 kB\n";
            let shown = "se.load : 0\nsome avg10=0 total=0\nRss: 0 kB\n";
            assert_eq!(file.shown(counted, &now).as_deref(), Some(shown), "{path}");
        }
        assert_eq!(ProcFile::of("/proc/7/mountinfo"), Some(ProcFile::Mounts));
    }

    #[test]
    fn namespaces_have_their_first_numbers_and_other_files_one_of_their_path() {
        assert_eq!(number_of("pid:[4026532281]"), 4_026_531_836);
        assert_eq!(namespace("socket:[4711]"), None);
        assert_ne!(number_of("/proc/7/stat"), number_of("/proc/8/stat"));
        assert_eq!(number_of("/proc/7/stat"), number_of("/proc/7/stat"));
    }
}
