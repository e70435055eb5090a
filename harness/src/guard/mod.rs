//! From a scenario to its report: the one place where control, exploration and judgement meet.
//!
//! [`verify`] answers a scenario; [`replay`] answers a replay file, [`repaired`] one for other programs. All begin with what closes the ways to a silent
//! green: a built-in race that must be found (`canary`), and the first schedule run twice.

mod canary;
mod decisions;
mod findings;
mod grow;
mod inputs;
mod pool;
mod protections;
mod repaired;
mod replay;
mod shared;
mod teeth;
mod verify;
mod watch;

pub use canary::sing as canary;
pub use grow::grow;
pub use repaired::repaired;
pub use replay::{Replayed, replay};
pub use shared::{GuardError, Settings};
pub use teeth::{guards, teeth};
pub use verify::verify;
pub use watch::{Doing, Progress, Watch};
