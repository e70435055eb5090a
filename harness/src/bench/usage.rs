//! What processes have used so far: CPU time and bytes written, by process group.

use std::{collections::HashMap, fs};

/// What was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Nanoseconds of CPU time, of ended and waited-for children too.
    pub(super) cpu_ns: u64,
    /// Bytes given to write calls.
    pub(super) written: u64,
    /// Bytes that went on towards a disk.
    pub(super) to_disk: u64,
}

impl Usage {
    /// What was used since `earlier`.
    pub(super) fn since(self, earlier: Usage) -> Usage {
        Usage {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            written: self.written.saturating_sub(earlier.written),
            to_disk: self.to_disk.saturating_sub(earlier.to_disk),
        }
    }
}

/// What all living processes of these groups have used. A process that cannot be looked at counts as nothing.
pub(super) fn of_groups(groups: &[u32]) -> Usage {
    let mut all = Usage::default();
    let Ok(entries) = fs::read_dir("/proc") else { return all };
    let ticks = rustix::param::clock_ticks_per_second().max(1);
    for name in entries.flatten().map(|entry| entry.file_name()) {
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let Some((group, in_ticks)) = group_and_ticks(&stat) else { continue };
        if !groups.contains(&group) {
            continue;
        }
        // Ticks are coarse but count children; the scheduler's statistics are exact but of living threads only.
        all.cpu_ns += (in_ticks.saturating_mul(1_000_000_000) / ticks).max(exact(pid));
        let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let io: HashMap<&str, u64> = io
            .lines()
            .filter_map(|line| line.split_once(": "))
            .filter_map(|(key, value)| Some((key, value.parse().ok()?)))
            .collect();
        all.written += io.get("wchar").copied().unwrap_or(0);
        all.to_disk += io.get("write_bytes").copied().unwrap_or(0);
    }
    all
}

/// Process group, and user and system time with that of the children, of a line of `/proc/PID/stat`. The second field,
/// the program's name, may hold blanks and brackets: count from its end.
fn group_and_ticks(stat: &str) -> Option<(u32, u64)> {
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_ascii_whitespace().collect();
    let group = fields.get(2)?.parse().ok()?;
    let ticks = fields.get(11..15)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    Some((group, ticks))
}

/// Nanoseconds on a CPU of all living threads.
fn exact(pid: u32) -> u64 {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let of_task = |entry: fs::DirEntry| -> Option<u64> {
        let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        text.split_ascii_whitespace().next()?.parse().ok()
    };
    tasks.flatten().filter_map(of_task).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_confuses_nobody() {
        let stat = "7 (a) b) S 1 42 7 0 -1 0 0 0 0 0 3 4 5 6 20 0 1 0 9";
        assert_eq!(group_and_ticks(stat), Some((42, 18)));
        assert_eq!(group_and_ticks("nonsense"), None);
    }

    #[test]
    fn work_of_this_group_is_seen() {
        let group = nix::unistd::getpgrp().as_raw() as u32;
        let before = of_groups(&[group]);
        let mut sum = 0u64;
        let begun = std::time::Instant::now();
        while begun.elapsed() < std::time::Duration::from_millis(60) {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        assert!(of_groups(&[group]).since(before).cpu_ns > 1_000_000);
        assert_eq!(of_groups(&[]), Usage::default());
    }
}
