//! Pipes, sockets and other files without a name: their numbers and times differ from run to run, so that they are shown
//! as others.

use std::collections::HashMap;

use nix::unistd::Pid;

use super::{machine::Machine, memory, proc_files::namespace, walk::PrivateFile};

/// How `/proc/P/fd/N` names such a file, and the minor number of the device that is shown for it.
const KINDS: [(&str, u32); 4] = [("pipe:[", 81), ("socket:[", 82), ("/memfd:", 83), ("anon_inode:", 84)];
/// The files of actor i are numbered from (i + 1) times this: first the two pipes that take its output, then what it
/// looked at, in that order.
const PER_ACTOR: u64 = 1_000_000;
const CAPTURED: u64 = 2;

/// Those that were looked at in this run.
#[derive(Debug, Default)]
pub(super) struct Anonymous {
    /// By device and real number.
    known: HashMap<(u32, u64), u64>,
    made: HashMap<usize, u64>,
}

impl Anonymous {
    /// The number that is shown. It depends on who looked first, and on what else that one had looked at.
    fn number(&mut self, device_minor: u32, real: u64, actor: usize) -> u64 {
        let made = &mut self.made;
        *self.known.entry((device_minor, real)).or_insert_with(|| {
            let count = made.entry(actor).or_default();
            *count += 1;
            (actor as u64 + 1) * PER_ACTOR + CAPTURED + *count
        })
    }
}

impl Machine {
    /// What is shown for a file without a name: `link` is how `/proc/P/fd/N` names it, `inode` its real number where that
    /// does not say it. None: it has a name.
    pub(super) fn anonymous(&mut self, pid: Pid, link: &str, inode: Option<u64>) -> Option<PrivateFile> {
        let (kind, device_minor) = *KINDS.iter().find(|(kind, _)| link.starts_with(kind))?;
        let real = match kind.ends_with('[') {
            true => link[kind.len()..].strip_suffix(']')?.parse().ok()?,
            false => inode?,
        };
        // All of these share one inode.
        if kind == "anon_inode:" {
            return Some(PrivateFile { number: 1, device_minor, linked: false });
        }
        let captured = self.actors.iter().zip(1..).find_map(|(actor, n)| {
            let stream = actor.capture.as_ref()?.stream_of(real)?;
            Some(n * PER_ACTOR + stream as u64)
        });
        let actor = self.task(pid).actor;
        let number = captured.unwrap_or_else(|| self.anonymous.number(device_minor, real, actor));
        Some(PrivateFile { number, device_minor, linked: false })
    }

    /// At the exit of a readlink of `/proc/P/fd/N` or `/proc/P/ns/NAME`: the number in what was read is replaced. Returns
    /// the new result.
    pub(super) fn show_magic_link(&mut self, pid: Pid, buffer: u64, len: u64, read: i64) -> Option<i64> {
        let mut bytes = vec![0; usize::try_from(read).ok().filter(|n| *n < 64)?];
        memory::read(pid, buffer, &mut bytes).ok()?;
        let link = std::str::from_utf8(&bytes).ok()?;
        let shown = match namespace(link) {
            Some((kind, number)) => format!("{kind}:[{number}]"),
            None => {
                let (kind, _) = link.split_once(":[")?;
                let number = self.anonymous(pid, link, None)?.number;
                format!("{kind}:[{number}]")
            }
        };
        let shown = &shown.as_bytes()[..shown.len().min(usize::try_from(len).ok()?)];
        memory::write(pid, buffer, shown).ok()?;
        Some(shown.len() as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_depend_on_who_looked_and_what_he_had_seen_only() {
        let numbers = |looks: &[(u32, u64, usize)]| {
            let mut anonymous = Anonymous::default();
            let mut seen: Vec<_> =
                looks.iter().map(|&(device, real, actor)| (actor, anonymous.number(device, real, actor))).collect();
            seen.sort_unstable();
            seen
        };
        let one = numbers(&[(81, 70, 0), (81, 71, 1), (82, 70, 0), (81, 70, 0)]);
        assert_eq!(one, numbers(&[(81, 9, 1), (81, 5, 0), (82, 5, 0), (81, 5, 0)]));
        assert_eq!(one, [(0, 1_000_003), (0, 1_000_003), (0, 1_000_004), (1, 2_000_003)]);
    }
}
