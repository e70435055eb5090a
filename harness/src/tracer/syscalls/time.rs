//! Calls about time: reading clocks, sleeping, waiting for so long.

use std::time::Duration;

use nix::{libc, unistd::Pid};

use super::answer;
use crate::tracer::{
    arch::{self, Registers},
    calls::{ClockRead, OnTimeout, Timeout},
    machine::{Lost, Machine, must},
    memory,
    task::{InCall, State},
};

/// `struct rusage`.
const RUSAGE: usize = 144;
/// Clock ticks a second of times(2).
const TICKS: u64 = 100;

impl Machine {
    pub(super) fn start_sleep(&mut self, pid: Pid, length: u64, remaining: u64, entry: Registers) -> Result<(), Lost> {
        if length == 0 {
            answer(pid, entry, 0)?;
            return self.go_on(pid, 0);
        }
        let mut regs = entry;
        regs.replace_call(arch::PAUSE);
        must("writing registers", regs.set(pid))?;
        self.delay(pid, Duration::from_micros(length));
        self.call(pid, State::Calling(InCall::Sleeping { entry, remaining }))
    }

    /// How long a call waits at most, in microseconds; `None`: for ever.
    pub(in crate::tracer) fn wait_length(&self, pid: Pid, timeout: Timeout, entry: &Registers) -> Option<u64> {
        let args = entry.args();
        match timeout {
            Timeout::None => None,
            Timeout::Millis { arg } => u64::try_from(args[arg] as i32).ok().map(|ms| ms * 1000),
            Timeout::Timespec { arg, absolute } => memory::read_pair(pid, args[arg]).ok().map(|t| match absolute {
                None => micros(t, 1000),
                Some(clock) => self.clock.deadline(clock, micros(t, 1000)).saturating_sub(self.clock.since_start()),
            }),
            Timeout::Timeval { arg } => memory::read_pair(pid, args[arg]).ok().map(|t| micros(t, 1)),
        }
    }

    pub(in crate::tracer) fn start_wait(
        &mut self,
        pid: Pid,
        timeout: Timeout,
        on_timeout: OnTimeout,
        entry: Registers,
    ) -> Result<(), Lost> {
        let mut regs = entry;
        match timeout {
            Timeout::None => {}
            Timeout::Millis { arg } => regs.set_arg(arg, u64::MAX),
            Timeout::Timespec { arg, .. } | Timeout::Timeval { arg } => regs.set_arg(arg, 0),
        }
        let length = self.wait_length(pid, timeout, &entry);
        // A time-out of zero never sleeps: the kernel answers at once.
        let changed = length.is_some_and(|l| l > 0);
        if let Some(length) = length.filter(|_| changed) {
            must("writing registers", regs.set(pid))?;
            self.delay(pid, Duration::from_micros(length));
        }
        self.call(pid, State::Calling(InCall::Waiting { entry, changed, on_timeout }))
    }

    pub(super) fn answer_clock(&mut self, pid: Pid, read: ClockRead, entry: Registers) -> Result<(), Lost> {
        let clock = self.clock;
        let task = self.task_mut(pid);
        let reads = task.clock_reads;
        task.clock_reads += 1;
        let nanos = task.nanos();
        let show = |id| clock.show(id, reads);
        let pair = |us: u64, unit: u64, below: u64| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&(us / 1_000_000).to_ne_bytes());
            bytes[8..].copy_from_slice(&(us % 1_000_000 * unit + below).to_ne_bytes());
            bytes
        };
        let (address, bytes, result) = match read {
            ClockRead::Timespec { clock, at } => (at, pair(show(clock), 1000, nanos).to_vec(), 0),
            ClockRead::Timeval { at } => (at, pair(show(libc::CLOCK_REALTIME), 1, 0).to_vec(), 0),
            ClockRead::Seconds { at } => {
                let seconds = show(libc::CLOCK_REALTIME) / 1_000_000;
                (at, seconds.to_ne_bytes().to_vec(), seconds as i64)
            }
            ClockRead::Times { at } => {
                let ticks = show(libc::CLOCK_MONOTONIC) / (1_000_000 / TICKS);
                (at, vec![0; 32], ticks as i64)
            }
            ClockRead::Usage { at } => (at, vec![0; RUSAGE], 0),
            ClockRead::Machine { at } => (at, machine(show(libc::CLOCK_BOOTTIME) / 1_000_000), 0),
        };
        let written = if address == 0 { Ok(()) } else { memory::write(pid, address, &bytes) };
        answer(pid, entry, if written.is_ok() { result } else { -i64::from(libc::EFAULT) })?;
        self.go_on(pid, 0)
    }
}

/// `struct sysinfo` of a machine that does nothing, and has been up for so many seconds.
fn machine(uptime: u64) -> Vec<u8> {
    use arch::layout::sysinfo::*;
    let memory = rustix::system::sysinfo();
    let ram = memory.totalram * u64::from(memory.mem_unit);
    let mut bytes = vec![0; SIZE];
    for (at, value) in [(UPTIME, uptime), (RAM, ram), (FREE_RAM, ram)] {
        bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    }
    bytes[PROCESSES..PROCESSES + 2].copy_from_slice(&1u16.to_ne_bytes());
    bytes[UNIT..UNIT + 4].copy_from_slice(&1u32.to_ne_bytes());
    bytes
}

pub(in crate::tracer) fn micros((seconds, parts): (u64, u64), per_micro: u64) -> u64 {
    (seconds as i64).max(0) as u64 * 1_000_000 + parts / per_micro
}
