//! Taking control of real processes on Linux: ptrace with a seccomp filter, in namespaces of their own.
//!
//! [`Engine`] is the only thing that others see. Inside it: `sandbox` (namespaces and mounts), `session` (a scenario
//! made ready), `schedule` (who may go next), `events` (running to rest), `syscalls` (what a call is to us), `draft`
//! and `steps` (a visible call before and after), `kernel` (all `unsafe` code), `arch` (all facts of a processor).

mod anonymous;
mod arch;
mod calls;
mod capture;
mod channels;
mod clock;
mod delays;
mod draft;
mod engine;
mod events;
mod faults;
mod filter;
mod image;
mod inodes;
mod kernel;
mod locks;
mod machine;
mod memory;
mod mounts;
mod notify;
mod numbers;
mod opened;
mod outside;
mod proc_files;
pub mod record;
mod repeats;
mod rewrite;
mod sabotage;
mod sandbox;
mod schedule;
mod session;
mod signals;
mod sockets;
mod start;
mod steps;
mod storage;
mod syscalls;
mod task;
mod template;
mod timers;
mod vdso;
mod walk;
mod weaken;

pub use engine::Engine;
#[doc(hidden)]
pub use sabotage::let_through;
pub use session::PrepareError;
