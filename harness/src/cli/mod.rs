//! The command line, thin: what can be written ([`Args`]), how it changes a scenario ([`apply_overrides`]), how
//! commands become one ([`explore_scenario`]), and how a command ends ([`ExitCode`]).

mod args;
mod audit;
#[cfg(target_os = "linux")]
mod bench;
mod commands;
mod copies;
#[cfg(target_os = "linux")]
mod doctor;
mod error;
mod exit;
mod explore;
mod incident;
#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod keep;
#[cfg(target_os = "linux")]
mod manual;
#[cfg(target_os = "linux")]
mod merge;
mod options;
#[cfg(target_os = "linux")]
mod perform;
#[cfg(target_os = "linux")]
mod progress;
#[cfg(target_os = "linux")]
mod record;
#[cfg(target_os = "linux")]
mod replay;
#[cfg(target_os = "linux")]
mod teeth;
mod terminal;
mod tip;
#[cfg(target_os = "linux")]
mod walk;

pub use args::{
    Args, Audit, Command, Completions, CopiesArg, Explore, Format, IncidentArgs, Init, Man, Output, RecordArgs, Replay,
    Run, SchemaArgs,
};
pub use audit::perform_audit;
pub use commands::{Taken, split_commands, take_from_caller, worker_name};
pub use error::ArgError;
pub use exit::{ExitCode, exit_code};
pub use explore::{Explored, explore_scenario};
pub use incident::perform_incident;
pub use options::{Options, Partition, apply_overrides, faults_of};
#[cfg(target_os = "linux")]
pub use perform::perform;
#[cfg(target_os = "linux")]
pub use record::perform_record;
pub use terminal::wants_colour;
pub use tip::tip;
