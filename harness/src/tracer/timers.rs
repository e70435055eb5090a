//! Timers (alarm, setitimer, POSIX timers, timerfd) on virtual time: the kernel's own are never started. A timer that
//! is due is like a sleep that is over: its signal is sent, or its descriptor becomes readable, then.

use std::{os::fd::AsFd, os::fd::OwnedFd, rc::Rc};

use nix::{
    libc,
    poll::{PollFd, PollFlags, PollTimeout},
    unistd::Pid,
};
use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec};

use super::{
    arch::Registers,
    channels::look,
    kernel,
    machine::{Lost, Machine},
    memory,
    syscalls::{answer, micros},
};
use crate::world::WarningKind;

/// A call on a timer. Addresses are in the tracee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimerCall {
    /// alarm(2).
    Alarm { seconds: u64 },
    /// setitimer(2).
    SetInterval { which: i32, new: u64, old: u64 },
    /// getitimer(2).
    GetInterval { which: i32, at: u64 },
    /// timer_create(2).
    Create { clock: i32, event: u64, id: u64 },
    /// timer_settime(2).
    Set { id: i32, flags: i32, new: u64, old: u64 },
    /// timer_gettime(2).
    Get { id: i32, at: u64 },
    /// timer_getoverrun(2).
    Overrun { id: i32 },
    /// timer_delete(2).
    Delete { id: i32 },
    /// timerfd_settime(2).
    SetFd { fd: i32, flags: i32, new: u64, old: u64 },
    /// timerfd_gettime(2).
    GetFd { fd: i32, at: u64 },
}

/// What happens when a timer is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// SIGALRM to the process.
    Real,
    /// A POSIX timer's signal (0: none), to one thread or to the process.
    Posix { id: i32, clock: i32, signal: i32, thread: Option<Pid>, value: u64 },
    /// The descriptor becomes readable.
    Descriptor { fd: i32 },
}

/// One timer of a process.
#[derive(Clone, Debug)]
pub(super) struct Timer {
    process: Pid,
    /// Its actor.
    pub actor: usize,
    kind: Kind,
    /// When, in microseconds since the start.
    pub due: Option<u64>,
    interval: u64,
    /// When it was set, and after how many steps of the run.
    pub set_from: u64,
    /// See `set_from`.
    pub set_at: usize,
    pidfd: Rc<OwnedFd>,
}

/// The timers of one run.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// In the order in which they were made.
    pub list: Vec<Timer>,
}

impl Timers {
    /// The timer among those of fitting actors that is due first.
    pub(super) fn next(&self, of: impl Fn(usize) -> bool) -> Option<(u64, usize, usize)> {
        let due = self.list.iter().enumerate().filter(|(_, t)| of(t.actor));
        due.filter_map(|(n, t)| Some((t.due?, t.actor, n))).min()
    }

    /// A process is gone, or runs another program (which keeps only the interval timer).
    pub(super) fn forget(&mut self, process: Pid, exec: bool) {
        self.list.retain(|t| t.process != process || exec && !matches!(t.kind, Kind::Posix { .. }));
    }
}

/// Value and interval in microseconds as two pairs in memory; `parts` of a unit smaller than a microsecond in one.
fn store(pid: Pid, at: u64, interval: u64, left: u64, parts: u64) -> i64 {
    if at == 0 {
        return 0;
    }
    let words = [interval / 1_000_000, interval % 1_000_000 * parts, left / 1_000_000, left % 1_000_000 * parts];
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    memory::write(pid, at, &bytes).map_or(-i64::from(libc::EFAULT), |()| 0)
}

const NANOS: u64 = 1000;

impl Machine {
    /// Answers a call on a timer.
    pub(super) fn answer_timer(&mut self, pid: Pid, call: TimerCall, entry: Registers) -> Result<(), Lost> {
        let result = match call {
            TimerCall::Alarm { seconds } => {
                let (left, _) = self.left(pid, Kind::Real);
                self.set_timer(pid, Kind::Real, seconds.min(u64::from(u32::MAX)) * 1_000_000, 0);
                // A part of a second counts as one.
                left.div_ceil(1_000_000) as i64
            }
            TimerCall::SetInterval { which, new, old } => self.set_interval(pid, which, new, old),
            TimerCall::GetInterval { which: libc::ITIMER_REAL, at } => {
                let (left, interval) = self.left(pid, Kind::Real);
                store(pid, at, interval, left, 1)
            }
            TimerCall::GetInterval { at, .. } => store(pid, at, 0, 0, 1),
            TimerCall::Create { clock, event, id } => self.create_timer(pid, clock, event, id),
            TimerCall::Set { id, flags, new, old } => match self.posix(pid, id) {
                Some(kind @ Kind::Posix { clock, .. }) => self.set_spec(pid, kind, clock, flags, new, old),
                _ => -i64::from(libc::EINVAL),
            },
            TimerCall::Get { id, at } => match self.posix(pid, id) {
                Some(kind) => {
                    let (left, interval) = self.left(pid, kind);
                    store(pid, at, interval, left, NANOS)
                }
                None => -i64::from(libc::EINVAL),
            },
            TimerCall::Overrun { id } => self.posix(pid, id).map_or(-i64::from(libc::EINVAL), |_| 0),
            TimerCall::Delete { id } => match self.posix(pid, id) {
                Some(kind) => {
                    let process = self.task(pid).process;
                    self.timers.list.retain(|t| t.process != process || t.kind != kind);
                    0
                }
                None => -i64::from(libc::EINVAL),
            },
            TimerCall::SetFd { fd, flags, new, old } => match self.timer_fd(pid, fd) {
                Some((file, clock)) => {
                    // What was left unread is gone, as the kernel has it.
                    let _ = rustix::time::timerfd_settime(&file, TimerfdTimerFlags::empty(), &spec(0));
                    self.set_spec(pid, Kind::Descriptor { fd }, clock, flags, new, old)
                }
                None => return self.go_on(pid, 0),
            },
            TimerCall::GetFd { fd, at } => match self.timer_fd(pid, fd) {
                Some(_) => {
                    let (left, interval) = self.left(pid, Kind::Descriptor { fd });
                    store(pid, at, interval, left, NANOS)
                }
                None => return self.go_on(pid, 0),
            },
        };
        answer(pid, entry, result)?;
        self.go_on(pid, 0)
    }

    fn set_interval(&mut self, pid: Pid, which: i32, new: u64, old: u64) -> i64 {
        let words = (memory::read_pair(pid, new), memory::read_pair(pid, new + 16));
        let (Ok(interval), Ok(value)) = words else {
            return if new == 0 { 0 } else { -i64::from(libc::EFAULT) };
        };
        let (interval, value) = (micros(interval, 1), micros(value, 1));
        if which != libc::ITIMER_REAL {
            if value > 0 {
                let name = self.actor_name(pid);
                let text = format!("{name} uses a timer of processor time, which stands still here");
                self.warn(WarningKind::NotControlled, text);
            }
            return store(pid, old, 0, 0, 1);
        }
        let (left, was) = self.left(pid, Kind::Real);
        self.set_timer(pid, Kind::Real, value, interval);
        store(pid, old, was, left, 1)
    }

    /// timer_settime and timerfd_settime.
    fn set_spec(&mut self, pid: Pid, kind: Kind, clock: i32, flags: i32, new: u64, old: u64) -> i64 {
        let words = (memory::read_pair(pid, new), memory::read_pair(pid, new + 16));
        let (Ok(interval), Ok(value)) = words else { return -i64::from(libc::EFAULT) };
        let given = value != (0, 0);
        let (interval, mut value) = (micros(interval, NANOS), micros(value, NANOS));
        if flags & libc::TIMER_ABSTIME != 0 && given {
            value = self.clock.deadline(clock, value).saturating_sub(self.clock.since_start());
        }
        // One in the past, or shorter than we count, is due at once.
        let value = if given { value.max(1) } else { 0 };
        let (left, was) = self.left(pid, kind);
        self.set_timer(pid, kind, value, interval);
        store(pid, old, was, left, NANOS)
    }

    fn create_timer(&mut self, pid: Pid, clock: i32, event: u64, id: u64) -> i64 {
        let process = self.task(pid).process;
        // `struct sigevent`: value, signal, kind of notification, thread.
        let mut bytes = [0; 24];
        if event != 0 && memory::read(pid, event, &mut bytes).is_err() {
            return -i64::from(libc::EFAULT);
        }
        let word = |at: usize| i32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let own = |t: &&Timer| t.process == process;
        let next = self.timers.list.iter().filter(own).filter_map(|t| match t.kind {
            Kind::Posix { id, .. } => Some(id + 1),
            _ => None,
        });
        let number = next.max().unwrap_or(0);
        let (mut signal, mut thread, mut value) = (libc::SIGALRM, None, number as u64);
        if event != 0 {
            value = u64::from_ne_bytes(bytes[..8].try_into().unwrap_or_default());
            signal = if word(12) == libc::SIGEV_NONE { 0 } else { word(8) };
            thread = (word(12) == libc::SIGEV_THREAD_ID).then(|| Pid::from_raw(word(16)));
        }
        if memory::write(pid, id, &number.to_ne_bytes()).is_err() {
            return -i64::from(libc::EFAULT);
        }
        let kind = Kind::Posix { id: number, clock, signal, thread, value };
        let task = self.task(pid);
        let (actor, pidfd) = (task.actor, task.pidfd.clone());
        self.timers.list.push(Timer { process, actor, kind, due: None, interval: 0, set_from: 0, set_at: 0, pidfd });
        0
    }

    fn posix(&self, pid: Pid, wanted: i32) -> Option<Kind> {
        let process = self.task(pid).process;
        let mut own = self.timers.list.iter().filter(|t| t.process == process).map(|t| t.kind);
        own.find(|kind| matches!(kind, Kind::Posix { id, .. } if *id == wanted))
    }

    /// Microseconds that are left, and the interval.
    fn left(&self, pid: Pid, kind: Kind) -> (u64, u64) {
        let process = self.task(pid).process;
        let timer = self.timers.list.iter().find(|t| t.process == process && t.kind == kind);
        timer.and_then(|t| Some((t.due?.saturating_sub(self.clock.since_start()).max(1), t.interval))).unwrap_or((0, 0))
    }

    fn set_timer(&mut self, pid: Pid, kind: Kind, value: u64, interval: u64) {
        let now = self.clock.since_start();
        let (task, set_at) = (self.task(pid), self.steps.len());
        let process = task.process;
        let due = (value > 0).then_some(now + value);
        let timer =
            Timer { process, actor: task.actor, kind, due, interval, set_from: now, set_at, pidfd: task.pidfd.clone() };
        match self.timers.list.iter_mut().find(|t| t.process == process && t.kind == kind) {
            Some(known) => *known = timer,
            None => self.timers.list.push(timer),
        }
    }

    /// A timer descriptor and its clock.
    fn timer_fd(&self, pid: Pid, fd: i32) -> Option<(OwnedFd, i32)> {
        let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).ok()?;
        let clock = info.lines().find_map(|l| l.strip_prefix("clockid:"))?.trim().parse().ok()?;
        let file = kernel::borrow_fd(&self.task(pid).pidfd, fd).ok()?;
        Some((file, clock))
    }

    /// A task of the process that a timer belongs to.
    pub(super) fn timer_task(&self, timer: usize) -> Option<Pid> {
        let process = self.timers.list.get(timer)?.process;
        self.tasks.values().find(|t| t.process == process).map(|t| t.pid)
    }

    /// A timer is due.
    pub(super) fn fire(&mut self, timer: usize) {
        /// The kernel's own timer, of a nanosecond, needs a moment.
        const MOMENT_MS: u16 = 1000;
        let Some(entry) = self.timers.list.get_mut(timer) else { return };
        let now = entry.due.take().unwrap_or_default();
        if entry.interval > 0 {
            entry.due = Some(now + entry.interval);
            (entry.set_from, entry.set_at) = (now, self.steps.len());
        }
        let (process, kind, pidfd) = (entry.process, entry.kind, entry.pidfd.clone());
        match kind {
            Kind::Real => self.send_signal(process, None, libc::SIGALRM),
            Kind::Posix { signal: 0, .. } => {}
            Kind::Posix { id, signal, thread, value, .. } => {
                self.timers_fired.push((process, signal, id, value));
                self.send_signal(process, thread, signal);
            }
            Kind::Descriptor { fd } => match kernel::borrow_fd(&pidfd, fd) {
                Ok(file) => {
                    let _ = rustix::time::timerfd_settime(&file, TimerfdTimerFlags::empty(), &spec(1));
                    let mut fds = [PollFd::new(file.as_fd(), PollFlags::POLLIN)];
                    look(&mut fds, PollTimeout::from(MOMENT_MS));
                }
                // It was closed.
                Err(_) => drop(self.timers.list.remove(timer)),
            },
        }
    }

    /// What a signal says of its origin when a timer sent it.
    pub(super) fn timer_origin(&mut self, process: Pid, signal: i32) -> Option<(i32, u64)> {
        let at = self.timers_fired.iter().position(|f| f.0 == process && f.1 == signal)?;
        let (_, _, id, value) = self.timers_fired.remove(at);
        Some((id, value))
    }
}

fn spec(nanos: i64) -> Itimerspec {
    let time = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    Itimerspec { it_interval: time(0), it_value: time(nanos) }
}
