//! Scenario files: what to run and what to expect (TOML).

mod model;

pub use model::{
    Command, Conserve, Delay, Ends, Expect, Fault, IgnorePointer, Kind, Limits, Nth, OracleConfig, Pattern, Scenario,
    Search, SearchKind, Serial, Worker,
};
