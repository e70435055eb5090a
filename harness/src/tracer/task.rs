//! One process or thread of a worker, and where it is held.

use std::{fs::File, os::fd::OwnedFd, os::unix::fs::FileExt, rc::Rc, time::Duration};

use nix::unistd::Pid;

use super::{
    arch::Registers,
    calls::{Call, OnTimeout},
    walk::PrivateFile,
};

/// A visible step that a task is about to make, held at its seccomp stop (or at its exit event).
#[derive(Clone, Copy, Debug)]
pub(super) enum Pending {
    /// A system call on the world, with the registers at its entry.
    Call { call: Call, entry: Registers },
    /// The task is about to exit.
    Exit,
    /// A call of no interest in itself, held for a delay: when it is over the call is looked at again.
    Again { entry: Registers },
}

/// What is to be done at the exit stop of the call in which a task is.
#[derive(Clone, Copy, Debug)]
pub(super) enum InCall {
    /// Nothing.
    Plain,
    /// A waiting call. `entry`: the registers to restore when arguments were changed.
    Waiting { entry: Registers, changed: bool, on_timeout: OnTimeout },
    /// A sleep, turned into a wait for signals. `remaining`: where to store the rest when interrupted.
    Sleeping { entry: Registers, remaining: u64 },
    /// A call of the stat family on a file of the sandbox's own file systems, or without a name.
    PrivateStat { buffer: u64, extended: bool, file: PrivateFile },
    /// A readlink of `/proc/P/ns/NAME` or `/proc/P/fd/N`.
    MagicLink { buffer: u64, len: u64 },
    /// A call that says what a file system holds.
    FileSystem { buffer: u64 },
    /// A first look at the world's directory.
    FirstLook { buffer: u64, extended: bool },
    /// A vfork parent, until its child execs or exits.
    Vfork,
    /// Connecting to an address outside.
    Connecting { address: u64, len: u64 },
    /// Seen asleep in a call that is not known to sleep.
    Unknown,
    /// Stopped by a job-control signal.
    Stopped,
}

/// Where a task is.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// Created; its first stop has not been seen yet.
    Starting,
    /// Runs until its next stop.
    Running,
    /// In a call that may sleep; its exit stop will come.
    Calling(InCall),
    /// The same, and it sleeps.
    Asleep(InCall),
    /// Held; may go on privately, with this signal delivered (0: none).
    Ready(i32),
    /// Held before a visible step.
    AtStep(Pending),
    /// Held before a step that would wait.
    Blocked(Pending),
    /// Was let go to die.
    Exiting,
    /// A first thread that is dead, and is reported when the others of its process are.
    Zombie,
}

impl State {
    /// Whether something of it must still be waited for.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, State::Starting | State::Running | State::Calling(_) | State::Exiting)
    }
}

/// One process or thread.
#[derive(Debug)]
pub(super) struct Task {
    /// Thread number as the tracer sees it (and the tracee: they share the namespace).
    pub pid: Pid,
    /// Its process (thread group).
    pub process: Pid,
    /// Its actor.
    pub actor: usize,
    /// Its place among the actor's tasks.
    pub number: u32,
    /// Where it is.
    pub state: State,
    /// Clock reads so far: each moves its own time by a microsecond.
    pub clock_reads: u64,
    /// Its stream of random bytes.
    pub random: RandomStream,
    /// Its process, for borrowing descriptors.
    pub pidfd: Rc<OwnedFd>,
    /// When its sleep or time-out is over, microseconds since the start.
    pub deadline: Option<u64>,
    /// When that sleep began, and after how many steps of the run.
    pub slept_from: u64,
    /// See `slept_from`.
    pub slept_at: usize,
    /// When the time-out of the wait that it is held at is over, however often it was tried.
    pub wait_until: Option<u64>,
    /// Delays before the step that it is held at were looked for.
    pub delay_checked: bool,
    /// Faults at the step that it is held at were looked for.
    pub fault_checked: bool,
    /// A call that is done in two parts: its registers at the entry, and the bytes of the first part (0: not made yet).
    pub split: Option<(Registers, u64)>,
    /// A fault killed it: nothing of its end is to be noted.
    pub killed: bool,
    /// Where its thread number is kept in its memory; 0: not known.
    pub tid_address: u64,
    /// Its process has had a world file open for writing.
    pub wrote: bool,
    /// `/proc/P/task/T/stat` and `.../syscall`, kept open.
    files: [File; 2],
}

/// Of so many tasks of an actor, each has nanoseconds of its own.
const OWN_NANOS: u32 = 62;
/// Of so many actors, too.
const ACTORS_NANOS: u64 = 16;

impl Task {
    /// A task that was just created.
    pub(super) fn new(pid: Pid, process: Pid, actor: usize, number: u32, variant: u32) -> std::io::Result<Self> {
        let open = |name: &str| File::open(format!("/proc/{process}/task/{pid}/{name}"));
        let pidfd = rustix::process::pidfd_open(
            rustix::process::Pid::from_raw(process.as_raw()).ok_or(std::io::ErrorKind::InvalidInput)?,
            rustix::process::PidfdFlags::empty(),
        )?;
        Ok(Task {
            pid,
            process,
            actor,
            number,
            state: State::Starting,
            clock_reads: 0,
            random: RandomStream::new(variant, actor, number),
            pidfd: Rc::new(pidfd),
            deadline: None,
            slept_from: 0,
            slept_at: 0,
            wait_until: None,
            delay_checked: false,
            fault_checked: false,
            split: None,
            killed: false,
            tid_address: 0,
            wrote: false,
            files: [open("stat")?, open("syscall")?],
        })
    }

    /// The nanoseconds, below a microsecond, of every clock that it reads. Programs make names from the time alone, and
    /// no two of them ever read a clock at the same nanosecond, so here no two may either. They only grow from task to
    /// task of an actor, so that time does not run backwards from one to the next.
    pub(super) fn nanos(&self) -> u64 {
        u64::from(self.number.min(OWN_NANOS - 1)) * ACTORS_NANOS + self.actor as u64 % ACTORS_NANOS
    }

    /// Whether the kernel has put it to sleep inside a system call. Both files are needed, in this order: either
    /// alone is sometimes wrong.
    pub(super) fn is_asleep(&self) -> bool {
        let mut call = [0; 16];
        match self.files[1].read_at(&mut call, 0) {
            Ok(n) if n > 0 && !call.starts_with(b"running") => {}
            _ => return false,
        }
        self.sleeps_on()
    }

    /// Whether one that was asleep still is. Somebody whom a death woke, and who now waits for a page or a lock of the
    /// kernel's on its way out of the call, is not: only the parent of a vfork sleeps in that state.
    pub(super) fn sleeps_on(&self) -> bool {
        match self.run_state() {
            b'S' => true,
            b'D' => matches!(self.state, State::Calling(InCall::Vfork) | State::Asleep(InCall::Vfork)),
            _ => false,
        }
    }

    /// How long it has been on a CPU; with the first thread of a process counts what its gone children used. Nothing when
    /// it is gone.
    pub(super) fn cpu_time(&self) -> Duration {
        let mut stat = [0; 512];
        let read = self.files[0].read_at(&mut stat, 0).unwrap_or(0);
        cpu_time(&String::from_utf8_lossy(&stat[..read]), self.pid == self.process).unwrap_or_default()
    }

    /// The state letter of `/proc/.../stat`; `X` when it is gone.
    pub(super) fn run_state(&self) -> u8 {
        let mut stat = [0; 64];
        let Ok(n) = self.files[0].read_at(&mut stat, 0) else { return b'X' };
        let text = &stat[..n];
        // The name is in parentheses and may hold any byte, at most 15 of them.
        text.iter().rposition(|b| *b == b')').and_then(|end| text.get(end + 2)).copied().unwrap_or(b'X')
    }
}

/// Clock ticks a second of `/proc/P/stat`, on every Linux.
const TICKS: u64 = 100;

/// The time on a CPU that a line of `/proc/P/stat` tells: its own, and that of children that its process has waited for,
/// which each of its threads tells.
fn cpu_time(stat: &str, children: bool) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(") ")?;
    // Counted from the state: user, system, and both of the children.
    let ticks = rest
        .split(' ')
        .skip(11)
        .take(if children { 4 } else { 2 })
        .map(str::parse::<u64>)
        .sum::<Result<u64, _>>()
        .ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS))
}

/// Random bytes that depend on actor, task and place in the stream only.
#[derive(Clone, Debug)]
pub(super) struct RandomStream {
    reader: blake3::OutputReader,
}

impl RandomStream {
    fn new(variant: u32, actor: usize, task: u32) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("noclobber random bytes of a task v1");
        for number in [variant, actor as u32, task] {
            hasher.update(&number.to_le_bytes());
        }
        RandomStream { reader: hasher.finalize_xof() }
    }

    /// The next bytes.
    pub(super) fn fill(&mut self, into: &mut [u8]) {
        self.reader.fill(into);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_on_a_cpu_is_told_whatever_the_program_is_called() {
        let stat = "7 (a) b 9 9) S 1 7 7 0 -1 4194560 153 2 3 4 250 31 8 11 20 0 1 0 676543 8192000 900\n";
        assert_eq!(cpu_time(stat, true), Some(Duration::from_millis(3000)));
        assert_eq!(cpu_time(stat, false), Some(Duration::from_millis(2810)), "no other thread's share");
        for other in ["", "7 (a", "7 (a) S 1 7", "7 (a) S 1 7 7 0 -1 4194560 153 2 3 4 x 31 8 11"] {
            assert!(cpu_time(other, true).is_none_or(|time| time.is_zero()), "{other}");
        }
    }
}
