//! **noclobber**: loom for processes and files.
//!
//! Runs real, unmodified programs that share files, lets exactly one file-system step happen at a time, explores
//! the orders that can matter, and shows the order in which somebody's update is silently overwritten.
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
pub mod merge;
pub mod oracle;
mod publish;
pub mod report;
pub mod scenario;
pub mod schema;
#[cfg(target_os = "linux")]
pub mod tracer;
pub mod world;
