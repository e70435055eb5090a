//! **noclobber**: loom for processes and files.
//!
//! Runs real, unmodified programs that share files, lets exactly one file-system step happen at a time, explores
//! the orders that can matter, and shows the order in which somebody's update is silently overwritten.
//!
//! [`Harness`] is for the tests of a Rust project, [`cli`] is the `noclobber` command. Both need Linux on x86_64.
//!
//! Data flows one way: [`scenario`] -> [`world`] -> [`explore`] -> [`oracle`] -> [`report`].

#[cfg(target_os = "linux")]
pub mod bench;
pub mod cli;
#[cfg(target_os = "linux")]
pub mod doctor;
pub mod evidence;
pub mod explore;
pub mod fault;
#[cfg(target_os = "linux")]
pub mod guard;
#[cfg(target_os = "linux")]
pub mod harness;
pub mod merge;
pub mod oracle;
mod publish;
pub mod report;
pub mod scenario;
pub mod schema;
#[cfg(target_os = "linux")]
pub mod tracer;
pub mod world;

#[cfg(target_os = "linux")]
pub use harness::{Delay, Error, Fault, Harness, Worker};
pub use report::{Anomaly, Report, Verdict};
pub use scenario::{FaultKind, Kind};
