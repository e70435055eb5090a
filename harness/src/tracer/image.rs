//! A new program image: what the kernel gave it that differs from run to run is taken back before its first
//! instruction.

use nix::unistd::Pid;

use super::{
    arch::Registers,
    machine::{Lost, Machine, must},
    memory,
};

/// Entries of the auxiliary vector.
const AT_NULL: u64 = 0;
const AT_IGNORE: u64 = 1;
const AT_RANDOM: u64 = 25;
const AT_SYSINFO_EHDR: u64 = 33;
/// Longest stretch of stack that is searched for the auxiliary vector, in words (arguments and environment are
/// pointers here).
const SEARCH: usize = 1 << 20;

impl Machine {
    /// At the exec event: fixes the 16 random bytes, and replaces the vDSO's clock functions. Where that is impossible
    /// the vDSO is hidden, so that clock reads are system calls.
    pub(super) fn prepare_image(&mut self, pid: Pid) -> Result<(), Lost> {
        let mut regs = must("reading registers", Registers::get(pid))?;
        let mut stack = Stack { pid, at: regs.stack(), page: Vec::new() };
        // argc, the arguments and a zero, the environment and a zero.
        let arguments = stack.next()?;
        for _ in 0..=arguments {
            stack.next()?;
        }
        for _ in 0..SEARCH {
            if stack.next()? == 0 {
                break;
            }
        }
        loop {
            let place = stack.at;
            let (kind, value) = (stack.next()?, stack.next()?);
            match kind {
                AT_NULL => return Ok(()),
                AT_SYSINFO_EHDR => match &self.shared_clock {
                    Some(shared) => {
                        let start = must("changing the vDSO", shared.install(pid, value, regs.instruction()))?;
                        regs.set_instruction(start);
                        must("writing registers", regs.set(pid))?;
                    }
                    None => must("hiding the vDSO", memory::write(pid, place, &AT_IGNORE.to_ne_bytes()))?,
                },
                AT_RANDOM => {
                    let mut bytes = [0; 16];
                    self.task_mut(pid).random.fill(&mut bytes);
                    must("fixing the random bytes", memory::write(pid, value, &bytes))?;
                }
                _ => {}
            }
        }
    }
}

/// Words of a stack, upwards.
struct Stack {
    pid: Pid,
    at: u64,
    page: Vec<u8>,
}

impl Stack {
    fn next(&mut self) -> Result<u64, Lost> {
        if self.page.is_empty() {
            // To the end of the page: the next may not exist.
            let len = (4096 - self.at % 4096) as usize;
            let mut page = vec![0; len];
            must("reading a new program's stack", memory::read(self.pid, self.at, &mut page))?;
            self.page = page;
        }
        let word: Vec<u8> = self.page.drain(..8).collect();
        self.at += 8;
        Ok(u64::from_ne_bytes(word.try_into().unwrap_or_default()))
    }
}
