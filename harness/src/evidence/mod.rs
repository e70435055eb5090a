//! From the evidence of a real incident to what happened.
//!
//! Evidence is what writers leave behind on purpose: timestamped copies of a shared file, and a line per
//! read-modify-write. [`audit`] inspects such lines; [`incident`] says what the copies show, and how sure that is, and makes
//! a scenario of it; [`recording`] writes both for programs that leave none. Nothing here runs a program, so all of it
//! works on any system.

pub mod audit;
pub mod incident;
pub mod recording;

mod error;
mod source;

pub use error::EvidenceError;
