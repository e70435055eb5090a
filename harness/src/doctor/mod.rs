//! What this machine allows: each thing that control of processes needs, whether it is there, and how to get it.
//!
//! The last check is the real thing: a built-in race, run and found. The others say why when it fails.

mod advice;
mod check;

pub use advice::{Place, advice, place};
pub use check::{Check, Health, examine};
