//! What is particular to a processor, one file each: registers, call numbers, layouts of kernel structures.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
mod x86_64_calls;
#[cfg(target_arch = "x86_64")]
mod x86_64_clock;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64_layout;

#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::*;
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64_calls::*;
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64_clock::*;
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64_layout as layout;
