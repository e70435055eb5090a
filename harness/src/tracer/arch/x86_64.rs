//! x86_64: registers.

use nix::{
    libc::{self, user_regs_struct},
    sys::ptrace,
    unistd::Pid,
};

/// The registers of a stopped task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers(user_regs_struct);

impl Registers {
    /// Reads them.
    pub(crate) fn get(pid: Pid) -> nix::Result<Self> {
        ptrace::getregs(pid).map(Registers)
    }

    /// Writes them.
    pub(crate) fn set(self, pid: Pid) -> nix::Result<()> {
        ptrace::setregs(pid, self.0)
    }

    /// Number of the system call at a seccomp stop.
    pub(crate) fn number(&self) -> i64 {
        self.0.orig_rax as i64
    }

    /// Arguments of the system call, in order.
    pub(crate) fn args(&self) -> [u64; 6] {
        [self.0.rdi, self.0.rsi, self.0.rdx, self.0.r10, self.0.r8, self.0.r9]
    }

    /// Which argument (index from 0) says how many bytes a read, write or copy moves.
    pub(crate) fn length_argument(&self) -> usize {
        match self.number() {
            libc::SYS_sendfile => 3,
            libc::SYS_copy_file_range | libc::SYS_splice => 4,
            _ => 2,
        }
    }

    /// Replaces one argument (index from 0).
    pub(crate) fn set_arg(&mut self, index: usize, value: u64) {
        match index {
            0 => self.0.rdi = value,
            1 => self.0.rsi = value,
            2 => self.0.rdx = value,
            3 => self.0.r10 = value,
            4 => self.0.r8 = value,
            _ => self.0.r9 = value,
        }
    }

    /// Result at a system call's exit stop.
    pub(crate) fn result(&self) -> i64 {
        self.0.rax as i64
    }

    /// Sets the result.
    pub(crate) fn set_result(&mut self, value: i64) {
        self.0.rax = value as u64;
    }

    /// At a seccomp stop: do not run the call; its result is `value`.
    pub(crate) fn skip_call(&mut self, value: i64) {
        self.0.orig_rax = u64::MAX;
        self.0.rax = value as u64;
    }

    /// At a seccomp stop: run another call instead.
    pub(crate) fn replace_call(&mut self, number: i64) {
        self.0.orig_rax = number as u64;
    }

    /// At a seccomp stop: fork instead of making the call. `tid_address` is where the child's thread number belongs.
    pub(crate) fn as_fork(&self, flags: u64, tid_address: u64) -> Registers {
        let mut regs = *self;
        regs.0.orig_rax = libc::SYS_clone as u64;
        for (index, value) in [flags, 0, 0, tid_address, 0].into_iter().enumerate() {
            regs.set_arg(index, value);
        }
        regs
    }

    /// Registers for a task that is not to return from any call.
    pub(crate) fn not_in_call(mut self) -> Registers {
        self.0.orig_rax = u64::MAX;
        self
    }

    /// Stack pointer.
    pub(crate) fn stack(&self) -> u64 {
        self.0.rsp
    }

    /// Makes `address` the next instruction.
    pub(crate) fn set_instruction(&mut self, address: u64) {
        self.0.rip = address;
    }

    /// Instruction pointer.
    pub(crate) fn instruction(&self) -> u64 {
        self.0.rip
    }

    /// At an exit stop: the same call once more, as it was entered with `entry`.
    pub(crate) fn rewound(entry: &Registers) -> Registers {
        let mut regs = *entry;
        regs.0.rip -= 2;
        regs.0.rax = regs.0.orig_rax;
        regs
    }

    /// At the exit stop of a call that was skipped: as if the call had been interrupted with this result.
    pub(crate) fn interrupted(entry: &Registers, result: i64) -> Registers {
        let mut regs = *entry;
        regs.0.rax = result as u64;
        regs
    }

    /// If the instruction is a read of the time-stamp counter, answers it with `value`.
    pub(crate) fn answer_time_stamp(&mut self, code: &[u8], value: u64) -> bool {
        let len = match code {
            [0x0f, 0x31, ..] => 2,
            [0x0f, 0x01, 0xf9, ..] => {
                self.0.rcx = 0;
                3
            }
            _ => return false,
        };
        self.0.rax = value & 0xffff_ffff;
        self.0.rdx = value >> 32;
        self.0.rip += len;
        true
    }
}
