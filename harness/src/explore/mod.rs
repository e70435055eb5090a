//! Which order of steps to try next.
//!
//! An engine (a [`System`]) executes one whole schedule; exploration decides which. It is stateless: a schedule is a
//! [`Plan`](crate::world::Plan), a finished [`Run`](crate::world::Run) says what happened, and nothing else is kept of
//! the programs. The caller runs, judges, and stops when it likes:
//!
//! ```
//! use noclobber::{
//!     explore::{Explorer, System, coverage},
//!     scenario::Search,
//!     world::Run,
//! };
//!
//! fn explore(
//!     system: &mut dyn System,
//!     actors: usize,
//!     wrong: impl Fn(&Run) -> bool,
//! ) -> Result<String, Box<dyn std::error::Error>> {
//!     let mut explorer = Explorer::new(&Search::default(), actors, false);
//!     while let Some(plan) = explorer.next_plan() {
//!         let run = system.run(&plan)?;
//!         explorer.observe(&run)?;
//!         if wrong(&run) {
//!             break;
//!         }
//!     }
//!     Ok(coverage(&explorer.summary(), &[]))
//! }
//! ```
//!
//! | file | noun |
//! |---|---|
//! | `system` | the port to the engine |
//! | `follow`, `policy` | the scheduler of one plan: prefix, sleep set, policy |
//! | `trace`, `class` | a run as a partial order; the name of its class |
//! | `races`, `dpor` | source-DPOR with sleep sets |
//! | `elsewhere` | races of steps that touch something else in another state |
//! | `portfolio` | random walk, POS and PCT in turns |
//! | `partition` | one search as several independent parts |
//! | `explorer`, `coverage` | the search as a whole, and what may be said after it |
//! | `memory` | runs that were made, so that none is made twice
//! | `shrink`, `pivot` | a found schedule made plain, and the two steps that decide |
//! | `replay`, `trace_hash` | schedules on disk; one number for everything seen |

mod class;
mod coverage;
mod dpor;
mod elsewhere;
mod explorer;
mod follow;
mod memory;
mod partition;
mod pivot;
mod policy;
mod portfolio;
mod races;
mod replay;
mod rng;
mod shrink;
mod system;
mod trace;
mod trace_hash;

pub use class::class_key;
pub use coverage::coverage;
pub use dpor::Unrepeatable;
pub use explorer::{Explorer, Seen, Stop, Summary};
pub use follow::{chooser, effective_sleep};
pub use memory::Memory;
pub use pivot::{Pivot, pivot};
pub use portfolio::miss_bound;
pub use replay::{Divergence, Expected, Origin, Replay, ReplayError};
pub use shrink::{Shrunk, context_switches, shrink};
pub use system::{Lost, System};
pub use trace_hash::TraceHash;
