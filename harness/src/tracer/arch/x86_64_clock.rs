//! Clock reads on x86_64 without a system call: code that takes the place of the vDSO's functions, and the call that
//! maps it into a new program.
//!
//! The code lies on the second page of a shared segment, its data on the first. Four words: how often the running
//! task has read a clock, the wall clock without these reads, the monotonic clock without them (microseconds), and the
//! nanoseconds that are added.
//!
//! Code of a processor cannot be written without `unsafe`; nothing of it runs in the tracer.
#![allow(unsafe_code)]

use std::{arch::global_asm, slice};

use nix::libc;

/// Where the segment lies in every worker: far from what kernel and programs choose.
pub(crate) const CLOCK_AT: u64 = 0x7e90_0000_0000;
/// Where its code begins.
const CODE_AT: u64 = CLOCK_AT + 4096;
/// Clocks (by bit) that show wall time, and those that show time since the machine started. The rest are CPU clocks.
const WALL: u32 = 1 << libc::CLOCK_REALTIME
    | 1 << libc::CLOCK_REALTIME_COARSE
    | 1 << libc::CLOCK_REALTIME_ALARM
    | 1 << libc::CLOCK_TAI;
const MONOTONIC: u32 = 1 << libc::CLOCK_MONOTONIC
    | 1 << libc::CLOCK_MONOTONIC_RAW
    | 1 << libc::CLOCK_MONOTONIC_COARSE
    | 1 << libc::CLOCK_BOOTTIME
    | 1 << libc::CLOCK_BOOTTIME_ALARM;

global_asm!(
    ".pushsection .rodata.noclobber_clock, \"a\"",
    ".balign 16",
    ".globl noclobber_clock_code",
    "noclobber_clock_code:",
    // int clock_gettime(clockid_t edi, struct timespec *rsi)
    ".globl noclobber_clock_gettime",
    "noclobber_clock_gettime:",
    "movabs r8, {at}",
    "mov eax, 1",
    "xadd qword ptr [r8], rax",
    "cmp edi, 11",
    "ja 3f",
    "mov ecx, {wall}",
    "bt ecx, edi",
    "jc 1f",
    "mov ecx, {monotonic}",
    "bt ecx, edi",
    "jc 2f",
    "jmp 3f",
    "1: add rax, qword ptr [r8 + 8]",
    "jmp 3f",
    "2: add rax, qword ptr [r8 + 16]",
    "3: xor edx, edx",
    "mov ecx, 1000000",
    "div rcx",
    "imul rdx, rdx, 1000",
    "add rdx, qword ptr [r8 + 24]",
    "mov qword ptr [rsi], rax",
    "mov qword ptr [rsi + 8], rdx",
    "xor eax, eax",
    "ret",
    // int gettimeofday(struct timeval *rdi, struct timezone *rsi)
    ".globl noclobber_gettimeofday",
    "noclobber_gettimeofday:",
    "movabs r8, {at}",
    "mov eax, 1",
    "xadd qword ptr [r8], rax",
    "add rax, qword ptr [r8 + 8]",
    "xor edx, edx",
    "mov ecx, 1000000",
    "div rcx",
    "test rdi, rdi",
    "jz 4f",
    "mov qword ptr [rdi], rax",
    "mov qword ptr [rdi + 8], rdx",
    "4: test rsi, rsi",
    "jz 5f",
    "mov qword ptr [rsi], 0",
    "5: xor eax, eax",
    "ret",
    // time_t time(time_t *rdi)
    ".globl noclobber_time",
    "noclobber_time:",
    "movabs r8, {at}",
    "mov eax, 1",
    "xadd qword ptr [r8], rax",
    "add rax, qword ptr [r8 + 8]",
    "xor edx, edx",
    "mov ecx, 1000000",
    "div rcx",
    "test rdi, rdi",
    "jz 6f",
    "mov qword ptr [rdi], rax",
    "6: ret",
    // int getcpu(unsigned *rdi, unsigned *rsi): always the first CPU of the first node
    ".globl noclobber_getcpu",
    "noclobber_getcpu:",
    "xor eax, eax",
    "test rdi, rdi",
    "jz 7f",
    "mov dword ptr [rdi], eax",
    "7: test rsi, rsi",
    "jz 8f",
    "mov dword ptr [rsi], eax",
    "8: ret",
    // ssize_t getrandom(...): not here; the C library then makes the system call
    ".globl noclobber_getrandom",
    "noclobber_getrandom:",
    "mov rax, -38",
    "ret",
    ".globl noclobber_clock_end",
    "noclobber_clock_end:",
    // The first code of a new program: maps the segment and goes on to the program's own start.
    ".balign 16",
    ".globl noclobber_map_clock",
    "noclobber_map_clock:",
    "mov eax, {shmat}",
    "mov edi, dword ptr [rip + .Lnoclobber_segment]",
    "movabs rsi, {at}",
    "mov edx, {exec}",
    "syscall",
    "cmp rax, rsi",
    "jne 9f",
    "xor eax, eax",
    "xor ecx, ecx",
    "xor edx, edx",
    "xor esi, esi",
    "xor edi, edi",
    "xor r11d, r11d",
    "jmp qword ptr [rip + .Lnoclobber_entry]",
    "9: int3",
    ".balign 8",
    ".Lnoclobber_entry: .quad 0",
    ".Lnoclobber_segment: .long 0",
    ".long 0",
    ".globl noclobber_map_clock_end",
    "noclobber_map_clock_end:",
    ".popsection",
    at = const CLOCK_AT,
    wall = const WALL,
    monotonic = const MONOTONIC,
    shmat = const libc::SYS_shmat,
    exec = const libc::SHM_EXEC,
);

unsafe extern "C" {
    static noclobber_clock_code: u8;
    static noclobber_clock_gettime: u8;
    static noclobber_gettimeofday: u8;
    static noclobber_time: u8;
    static noclobber_getcpu: u8;
    static noclobber_getrandom: u8;
    static noclobber_clock_end: u8;
    static noclobber_map_clock: u8;
    static noclobber_map_clock_end: u8;
}

/// The code of the segment's second page.
pub(crate) fn clock_code() -> &'static [u8] {
    between(&raw const noclobber_clock_code, &raw const noclobber_clock_end)
}

/// The vDSO's functions that are replaced, and where in a worker's memory what takes their place lies.
pub(crate) fn clock_functions() -> [(&'static str, u64); 5] {
    let start = &raw const noclobber_clock_code as u64;
    [
        ("__vdso_clock_gettime", &raw const noclobber_clock_gettime as u64),
        ("__vdso_gettimeofday", &raw const noclobber_gettimeofday as u64),
        ("__vdso_time", &raw const noclobber_time as u64),
        ("__vdso_getcpu", &raw const noclobber_getcpu as u64),
        ("__vdso_getrandom", &raw const noclobber_getrandom as u64),
    ]
    .map(|(name, place)| (name, CODE_AT + (place - start)))
}

/// A jump to an absolute address.
pub(crate) fn jump_to(address: u64) -> Vec<u8> {
    // mov rax, address; jmp rax
    [&[0x48, 0xb8][..], &address.to_le_bytes(), &[0xff, 0xe0]].concat()
}

/// Code that maps the segment with this number and goes on at `entry`.
pub(crate) fn map_clock(segment: i32, entry: u64) -> Vec<u8> {
    let mut code = between(&raw const noclobber_map_clock, &raw const noclobber_map_clock_end).to_vec();
    let slots = code.len() - 16;
    code[slots..slots + 8].copy_from_slice(&entry.to_le_bytes());
    code[slots + 8..slots + 12].copy_from_slice(&segment.to_le_bytes());
    code
}

fn between(from: *const u8, to: *const u8) -> &'static [u8] {
    // SAFETY: both labels stand in the read-only code above, the second after the first.
    unsafe { slice::from_raw_parts(from, to as usize - from as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_replacements_lie_in_the_code() {
        let end = CODE_AT + clock_code().len() as u64;
        assert!(clock_code().len() <= 4096);
        for (name, place) in clock_functions() {
            assert!((CODE_AT..end).contains(&place), "{name}");
        }
    }

    #[test]
    fn the_slots_of_the_first_code_are_filled() {
        let (plain, code) = (map_clock(0, 0), map_clock(0x1234_5678, 0x1122_3344_5566_7788));
        let changed: Vec<u8> = plain.iter().zip(&code).filter(|(a, b)| a != b).map(|(_, b)| *b).collect();
        assert_eq!(changed, [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x78, 0x56, 0x34, 0x12]);
    }
}
