//! Scenario files: what to run and what to expect (TOML).
//!
//! [`load`] reads a file, [`discover`] finds the files of a folder, [`save`] writes a scenario back. A command line
//! may add to a file: [`load_draft`] gives a [`Draft`], whose [`finish`](Draft::finish) demands what is still missing.
//! Every mistake is a [`ScenarioError`] with its file, line, column and key, and the way out.

mod acknowledge;
mod contents;
mod discover;
mod duration;
mod error;
mod fault_kind;
mod first;
mod judge;
mod keys;
mod model;
mod names;
mod parse;
mod pattern;
mod printable;
mod roster;
mod save;
mod steer;
mod table;

pub use acknowledge::Acknowledging;
pub use contents::{Contents, ContentsError, MAX_DIR_BYTES, MAX_DIR_FILES, contents};
pub use discover::discover;
pub use duration::{DurationError, format_duration, parse_duration};
pub use error::{Place, Problem, ScenarioError};
pub use fault_kind::{FaultKind, FaultKindError};
pub use first::first;
pub use keys::all_keys;
pub use model::{
    Command, Conserve, Delay, Ends, Expect, Fault, IgnorePointer, Kind, Limits, Nth, OracleConfig, Pattern, Scenario,
    Search, SearchKind, Serial, Worker,
};
pub use names::{UnknownName, nearest, parse_disk, parse_op, parse_time, time_name};
pub use parse::{Draft, MAX_FILE_BYTES, load, load_draft, parse, parse_draft};
pub use pattern::{GlobError, PatternError, PatternMatcher, compile_glob};
pub use printable::{is_printable, printable};
pub use save::{save, save_to};
pub use steer::MAX_FAULTS;
