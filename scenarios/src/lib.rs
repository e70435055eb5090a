//! The incident and the catalogue of lock mistakes, as scenarios that `noclobber` runs.
//!
//! The scenarios are the `*.toml` files below this folder; `./run` builds the programs and runs them. This library is
//! for the tests: it builds the same programs once and runs scenarios with them, as a user would.

pub mod book;
mod programs;
mod runner;
mod schema;
pub mod transcript;

pub use programs::{Programs, programs};
pub use runner::{Answer, answer, command, folder, run};
pub use schema::{Format, checked};
