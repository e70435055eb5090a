//! From timestamped copies of a shared file to what happened.
//!
//! [`investigate`] finds the copies, orders them, finds the list and its ids, and asks from which state each state can
//! have been made. What holds for every answer that fits is *certain*; what holds for some is *possible*, with the
//! evidence that would settle it. Audit lines and logs join in. [`scenario`] turns a case into a guard.

mod bases;
mod bounds;
mod copies;
mod document;
mod findings;
mod git;
mod history;
mod investigate;
mod lines;
mod logs;
mod mask;
mod model;
mod read;
mod reproduce;
mod shape;
mod stamp;
mod timeline;

pub use git::GitPath;
pub use investigate::{CopiesMade, Investigation, Request, investigate};
pub use logs::LogFormat;
pub use model::{Certainty, Delivery, Duplicated, Fork, Incident, Lost, Moment, MomentKind, Write};
pub use reproduce::scenario;
