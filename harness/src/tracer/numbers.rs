//! Process numbers where there is no PID namespace: workers get the machine's, which differ from run to run. In what is
//! told of a run (names of files, contents, output), each is the number that it would have been.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use nix::unistd::{ForkResult, Pid};

use super::{kernel, machine::Machine, sandbox};
use crate::world::{Node, Outcome};

/// Numbers below this are never replaced: in a container that was just started processes have them, and so have files,
/// tasks and years.
const LEAST: i32 = 3_000;

/// Whose numbers were seen in this run, dead or alive.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// The actor of a real number, and the number that is shown.
    known: BTreeMap<i32, (usize, i32)>,
}

impl Numbers {
    /// Bytes with every real number in them replaced. A number is a row of digits as long as it goes.
    fn shown_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.known.is_empty() || !bytes.iter().any(u8::is_ascii_digit) {
            return Cow::Borrowed(bytes);
        }
        let mut out = Vec::with_capacity(bytes.len());
        for row in bytes.chunk_by(|one, next| one.is_ascii_digit() == next.is_ascii_digit()) {
            // A longer one is no process number.
            let number = if row.len() <= 10 && row[0] != b'0' { std::str::from_utf8(row).ok() } else { None };
            match number.and_then(|row| self.known.get(&row.parse::<i32>().ok()?)) {
                Some((_, shown)) => out.extend_from_slice(shown.to_string().as_bytes()),
                None => out.extend_from_slice(row),
            }
        }
        Cow::Owned(out)
    }

    /// The same of a text.
    fn shown<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.shown_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // Digits for digits: it stays a text.
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// The real text of one that is shown.
    fn real(&self, text: &str) -> String {
        let back =
            Numbers { known: self.known.iter().map(|(real, (actor, shown))| (*shown, (*actor, *real))).collect() };
        back.shown(text).into_owned()
    }
}

impl Machine {
    /// A task has been seen for the first time; `nth` of its actor's.
    pub(super) fn note_number(&mut self, pid: Pid, actor: usize, nth: u32) {
        if sandbox::shared().is_some() {
            let shown = if pid.as_raw() < LEAST { pid.as_raw() } else { self.nth_pid(actor, nth) };
            self.numbers.known.insert(pid.as_raw(), (actor, shown));
        }
    }

    /// A name as it is told of.
    pub(super) fn shown(&self, name: String) -> String {
        match self.numbers.shown(&name) {
            Cow::Borrowed(_) => name,
            Cow::Owned(shown) => shown,
        }
    }

    /// Contents as they are told of and compared. A number that only looks like a process's is replaced too; then another
    /// run of the same schedule, in which the processes have other numbers, differs from this one, which is cannot-tell.
    pub(super) fn shown_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        self.numbers.shown_bytes(bytes)
    }

    /// Everything that a run left, as it is told of.
    pub(super) fn shown_outcome(&self, outcome: &mut Outcome) {
        if sandbox::shared().is_none() {
            return;
        }
        let files = std::mem::take(&mut outcome.files);
        outcome.files = files
            .into_iter()
            .map(|(name, node)| {
                let node = match node {
                    Node::File { mode, bytes } => Node::File { mode, bytes: Arc::from(&*self.shown_bytes(&bytes)) },
                    other => other,
                };
                (self.shown(name), node)
            })
            .collect();
        for end in &mut outcome.actors {
            end.stdout = self.shown_bytes(&end.stdout).into_owned();
            end.stderr = self.shown_bytes(&end.stderr).into_owned();
        }
    }

    /// The real name of one that is told of.
    pub(super) fn real_name(&self, shown: &str) -> String {
        if self.numbers.known.is_empty() { shown.to_owned() } else { self.numbers.real(shown) }
    }

    /// All processes that are to be ended with a run: everybody else in the namespace. Without one there are others, who
    /// are none of our business: then only who is known and traced by us, or a child of ours.
    pub(super) fn processes(&self) -> std::io::Result<Vec<Pid>> {
        if sandbox::shared().is_none() {
            let entries = std::fs::read_dir("/proc")?;
            let numbers = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
            return Ok(numbers.filter(|number| *number != 1).map(Pid::from_raw).collect());
        }
        let known = self.tasks.keys().chain(&self.orphans).copied();
        Ok(known.filter(|pid| is_ours(*pid, nix::unistd::getpid())).collect())
    }

    /// The other worker to which a process number belongs, dead or alive.
    pub(super) fn other_actor(&self, pid: Pid, process: i32) -> Option<usize> {
        let own = self.task(pid).actor;
        if sandbox::shared().is_some() {
            return self.numbers.known.get(&process).map(|(actor, _)| *actor).filter(|actor| *actor != own);
        }
        (0..self.actors.len()).find(|a| *a != own && self.pids(*a).contains(&process))
    }

    /// Whether this is the number of an actor's first process.
    pub(super) fn is_main(&self, actor: usize, process: i32) -> bool {
        match sandbox::shared() {
            Some(_) => self.actors[actor].main.is_some_and(|main| main.as_raw() == process),
            None => process == self.first_pid(actor),
        }
    }
}

/// Makes processes that end at once until new ones have numbers that can be told from others. It is tried once: where the
/// kernel goes round before, names that hold a number stay as they are.
pub(super) fn use_up_small_ones() -> std::io::Result<()> {
    for _ in 0..LEAST {
        match kernel::fork()? {
            ForkResult::Child => kernel::exit_now(0),
            ForkResult::Parent { child } => {
                while let Ok(None) = kernel::wait_one(child, true) {}
                if child.as_raw() >= LEAST {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Whether this process traces that one, or is its parent.
fn is_ours(pid: Pid, me: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let is_me = |name: &str| {
        let number = status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        number == Some(me.as_raw())
    };
    is_me("TracerPid:") || is_me("PPid:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_not_ours() {
        let me = nix::unistd::getpid();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_raw(child.id() as i32);
        assert!(is_ours(pid, me));
        for other in [me, nix::unistd::getppid(), Pid::from_raw(1)] {
            assert!(!is_ours(other, me), "{other}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_ours(pid, me), "there is none");
    }

    #[test]
    fn numbers_of_processes_are_shown_as_others_and_nothing_else_is() {
        let numbers = Numbers { known: [(57, (0, 100_000)), (4711, (1, 200_001))].into() };
        let table = [
            (".queue.json.57-0.tmp", ".queue.json.100000-0.tmp"),
            ("4711", "200001"),
            ("a/57/b57c/x4711.57", "a/100000/b100000c/x200001.100000"),
            ("570", "570"),
            ("057", "057"),
            ("47110 5 7 1234567890123456789", "47110 5 7 1234567890123456789"),
            ("\u{e9}57\u{e9}", "\u{e9}100000\u{e9}"),
            ("no number", "no number"),
        ];
        for (real, shown) in table {
            assert_eq!(numbers.shown(real), shown);
            assert_eq!(numbers.real(shown), real);
        }
        assert_eq!(Numbers::default().shown("57"), "57");
    }
}
