//! Clock reads without stops. The kernel gives every program a vDSO with functions that read clocks; they are replaced
//! by ones that count the running task's reads and add them to virtual time, both kept in memory that the tracer
//! shares with every worker. One piece for all is enough: one task runs user code at a time.

use nix::{sys::ptrace, unistd::Pid};
use object::{
    Endianness, Object, ObjectSymbol,
    read::elf::{ElfFile64, FileHeader},
};

use super::{
    arch,
    clock::{Clock, MONOTONIC, WALL},
    kernel::SharedPages,
    memory,
    task::Task,
};

const PAGE: usize = 4096;
const WORD: usize = 8;
/// Places of the four words.
const READS: usize = 0;
const WALL_AT: usize = 1;
const MONOTONIC_AT: usize = 2;
const NANOS_AT: usize = 3;

/// The shared memory, and what is to be changed in a new program's vDSO.
pub(super) struct SharedClock {
    pages: SharedPages,
    /// The pieces to be overwritten: offset and bytes.
    patches: Vec<(usize, Vec<u8>)>,
    /// A piece of code that nobody reaches any more: offset and length.
    spare: (usize, usize),
    /// The task whose reads the memory counts.
    pub owner: Option<Pid>,
}

impl SharedClock {
    /// `None`: this machine's vDSO is not as expected, or shared memory is refused. It is hidden from workers then, and
    /// each clock read is a system call.
    pub(super) fn new() -> Option<Self> {
        let image = own_vdso()?;
        let pages = SharedPages::new(2 * PAGE).ok()?;
        pages.write(PAGE, arch::clock_code());
        let (patches, spare) = patches(&image)?;
        Some(SharedClock { pages, patches, spare, owner: None })
    }

    /// The running task's reads so far.
    pub(super) fn reads(&self) -> u64 {
        self.pages.load(READS)
    }

    /// A task is about to run user code.
    pub(super) fn show(&mut self, task: &Task, clock: &Clock) {
        self.owner = Some(task.pid);
        self.pages.store(READS, task.clock_reads);
        self.pages.store(NANOS_AT, task.nanos());
        self.pages.store(WALL_AT, clock.show(WALL, 0));
        self.pages.store(MONOTONIC_AT, clock.show(MONOTONIC, 0));
    }

    /// Changes the vDSO of a new program at its exec event. Returns where it must begin instead of at `entry`.
    pub(super) fn install(&self, pid: Pid, vdso: u64, entry: u64) -> nix::Result<u64> {
        for (offset, bytes) in &self.patches {
            poke(pid, vdso + *offset as u64, bytes)?;
        }
        let start = vdso + self.spare.0 as u64;
        poke(pid, start, &arch::map_clock(self.pages.id(), entry))?;
        Ok(start)
    }
}

/// The vDSO of this process: the same code as in every other one.
fn own_vdso() -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|l| l.ends_with("[vdso]"))?;
    let (from, to) = line.split(' ').next()?.split_once('-')?;
    let from = u64::from_str_radix(from, 16).ok()?;
    let len = u64::from_str_radix(to, 16).ok()?.checked_sub(from)?;
    let mut image = vec![0; usize::try_from(len).ok()?];
    memory::read(Pid::this(), from, &mut image).ok()?;
    Some(image)
}

/// What to overwrite in a vDSO, and which part of it is then unused. All clock functions must be there.
#[allow(clippy::type_complexity)]
fn patches(image: &[u8]) -> Option<(Vec<(usize, Vec<u8>)>, (usize, usize))> {
    let file = ElfFile64::<Endianness>::parse(image).ok()?;
    // An image that is not linked to address 0 is none that we know.
    let _ = file.elf_header().endian().ok()?;
    let mut patches = Vec::new();
    let mut spare = (0, 0);
    for (name, to) in arch::clock_functions() {
        let Some(symbol) = file.dynamic_symbols().find(|s| s.name() == Ok(name)) else { continue };
        let jump = arch::jump_to(to);
        let (offset, size) = (symbol.address() as usize, symbol.size() as usize);
        if size < jump.len() || offset + size > image.len() {
            return None;
        }
        let behind = (offset + jump.len()).next_multiple_of(WORD);
        let left = (offset + size).saturating_sub(behind);
        if left > spare.1 {
            spare = (behind, left);
        }
        patches.push((offset, jump));
    }
    let clocks = ["__vdso_clock_gettime", "__vdso_gettimeofday"];
    let found = |name| file.dynamic_symbols().any(|s| s.name() == Ok(name));
    (clocks.into_iter().all(found) && spare.1 >= arch::map_clock(0, 0).len()).then_some((patches, spare))
}

/// Writes into code, word by word: only ptrace may.
fn poke(pid: Pid, address: u64, bytes: &[u8]) -> nix::Result<()> {
    let first = address / WORD as u64 * WORD as u64;
    let end = (address + bytes.len() as u64).next_multiple_of(WORD as u64);
    let mut words = vec![0; (end - first) as usize];
    memory::read(pid, first, &mut words)?;
    let at = (address - first) as usize;
    words[at..at + bytes.len()].copy_from_slice(bytes);
    for (n, word) in words.chunks_exact(WORD).enumerate() {
        let value = i64::from_ne_bytes(word.try_into().unwrap_or_default());
        ptrace::write(pid, (first + (n * WORD) as u64) as ptrace::AddressType, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machines_vdso_can_be_changed_and_what_is_none_cannot() {
        let image = own_vdso().expect("this machine has a vDSO");
        let (patches, spare) = super::patches(&image).expect("with the clock functions");
        assert!(patches.len() >= 2);
        assert!(patches.iter().all(|(at, bytes)| at + bytes.len() <= spare.0 || *at >= spare.0 + spare.1));
        assert!(super::patches(&image[..64]).is_none());
        assert!(super::patches(&[0; 4096]).is_none());
    }
}
