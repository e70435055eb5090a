//! What can be written on the command line.

use std::path::PathBuf;

use clap::{ArgAction, Parser, Subcommand, ValueEnum};

use super::Options;
use crate::{
    evidence::incident::{GitPath, LogFormat},
    schema::Schema,
};

/// Finds the order in which programs that share files lose somebody's update.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "noclobber",
    version,
    about,
    max_term_width = 100,
    after_help = "Exit codes: 0 as expected, 1 an anomaly or not as expected, 2 a mistake in the arguments or a file, \
                  3 cannot tell, 4 an internal error."
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// How to report it.
    #[command(flatten)]
    pub output: Output,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run scenario files; each states what it expects.
    Run(Run),
    /// Find what commands do to each other; no file needed.
    Explore(Explore),
    /// Run a schedule that was found again.
    Replay(Replay),
    /// Inspect audit lines: is every write made from the version before it?
    Audit(Audit),
    /// Say what this machine allows, and how to allow what is missing.
    Doctor,
    /// Write a first scenario of commands, with remarks.
    Init(Init),
    /// Print the completion script of a shell.
    Completions(Completions),
    /// Write man pages into a folder.
    Man(Man),
    /// Print the JSON schema of scenario files or of a report.
    Schema(SchemaArgs),
    /// What happened, from copies of a file; and a scenario of it.
    Incident(IncidentArgs),
    /// What lock strategies cost, and whether they lose anything.
    #[cfg(target_os = "linux")]
    Bench(super::bench::BenchArgs),
    /// Run commands as they are and keep evidence of the files that they share.
    Record(RecordArgs),
    /// Join the reports of the parts of a search (`--partition K/N --format json`).
    #[cfg(target_os = "linux")]
    Merge(super::merge::MergeArgs),
    /// Ask whether a guard would notice: each protection weakened in turn.
    #[cfg(target_os = "linux")]
    Teeth(super::teeth::TeethArgs),
}

/// `noclobber incident`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct IncidentArgs {
    /// The folder of copies: times in their names, or modification times; plain or gzip.
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The versions of a file in git instead of a folder.
    #[arg(long, value_name = "REPO:PATH")]
    pub git: Option<GitPath>,
    /// The live file.
    #[arg(long, value_name = "FILE")]
    pub current: Option<PathBuf>,
    /// When copies were made, of each write [default: inferred].
    #[arg(long, value_enum, value_name = "before|after")]
    pub copies: Option<CopiesArg>,
    /// Audit lines (repeatable).
    #[arg(long, value_name = "FILE")]
    pub audit: Vec<PathBuf>,
    /// A log of what was generated (repeatable).
    #[arg(long, value_name = "FILE")]
    pub generated: Vec<PathBuf>,
    /// A log of what was executed (repeatable).
    #[arg(long, value_name = "FILE")]
    pub log: Vec<PathBuf>,
    /// How both logs are read: jsonl, csv, or regex:RE with groups at, id, pid [default: jsonl].
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// The zone of times that state none: Europe/Berlin, +02:00, local [default: UTC].
    #[arg(long, value_name = "ZONE", allow_hyphen_values = true)]
    pub tz: Option<String>,
    /// Where in the document the list is, as in /tasks [default: inferred].
    #[arg(long, value_name = "POINTER")]
    pub pointer: Option<String>,
    /// The field that tells items apart [default: inferred].
    #[arg(long, value_name = "FIELD")]
    pub id: Option<String>,
    /// Mask ids and values in everything that is written.
    #[arg(long)]
    pub mask: bool,
    /// Write a scenario that reproduces it.
    #[arg(short, long, value_name = "FILE.toml")]
    pub output: Option<PathBuf>,
}

/// `noclobber record`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "noclobber record [OPTIONS] -- CMD [::: CMD]",
    after_help = "The exit code is that of the command; of several, the first that is not 0. 128 and the signal's number \
                  stand for a command that a signal ended. Mistakes in the arguments are 2, a program that is not there 127."
)]
pub struct RecordArgs {
    /// A file to watch (repeatable) [default: files below the current folder that more than one process opens].
    #[arg(long, value_name = "FILE")]
    pub file: Vec<PathBuf>,
    /// Where evidence goes; a folder that is not there yet [default: .noclobber/record-TIME].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// So many copies of a file are kept; the oldest go.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub keep: u32,
    /// All copies together have so many MiB at most; the oldest go.
    #[arg(long, value_name = "MIB", default_value_t = 1_024, value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub max_size: u64,
    /// Run each command so many times at once.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub copies: u16,
    /// The commands, separated by `:::`; all run at the same time.
    #[arg(last = true, value_name = "CMD ::: CMD")]
    pub commands: Vec<String>,
}

/// When copies were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CopiesArg {
    /// Before each write.
    Before,
    /// After each write.
    After,
}

/// `noclobber audit`.
#[derive(Clone, Debug, clap::Args)]
pub struct Audit {
    /// Files of audit lines, plain or gzip, rotated ones in any order.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Go on as the file grows, until interrupted.
    #[arg(long)]
    pub follow: bool,
}

/// `noclobber run`.
#[derive(Clone, Debug, clap::Args)]
pub struct Run {
    /// Scenario files, or folders to search for them.
    #[arg(required = true, value_name = "FILE|DIR")]
    pub files: Vec<PathBuf>,
    /// Instead of, or beside, what the files say.
    #[command(flatten)]
    pub options: Options,
}

/// `noclobber explore`.
#[derive(Clone, Debug, clap::Args)]
#[command(override_usage = "noclobber explore [OPTIONS] -- CMD ::: CMD [::: CMD]")]
pub struct Explore {
    /// How to explore.
    #[command(flatten)]
    pub options: Options,
    /// The commands, separated by `:::`; they are named A, B, ...
    #[arg(last = true, value_name = "CMD ::: CMD")]
    pub commands: Vec<String>,
}

/// `noclobber replay`.
#[derive(Clone, Debug, clap::Args)]
#[command(override_usage = "noclobber replay FILE [OPTIONS] [-- CMD ::: CMD]")]
pub struct Replay {
    /// A replay file.
    pub file: PathBuf,
    /// Walk through the schedule step by step.
    #[arg(long)]
    pub step: bool,
    /// Run these commands instead of the recorded ones.
    #[arg(last = true, value_name = "CMD ::: CMD")]
    pub commands: Vec<String>,
}

/// `noclobber init`.
#[derive(Clone, Debug, clap::Args)]
#[command(override_usage = "noclobber init [OPTIONS] -- CMD ::: CMD [::: CMD]")]
pub struct Init {
    /// The file to write; one that is there is left alone.
    #[arg(long, value_name = "FILE.toml", default_value = "guard.toml")]
    pub file: PathBuf,
    /// The commands, separated by `:::`; they are named A, B, ...
    #[arg(last = true, value_name = "CMD ::: CMD")]
    pub commands: Vec<String>,
}

/// `noclobber completions`.
#[derive(Clone, Debug, clap::Args)]
pub struct Completions {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// `noclobber man`.
#[derive(Clone, Debug, clap::Args)]
pub struct Man {
    /// The folder; it has to be there.
    pub folder: PathBuf,
}

/// `noclobber schema`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "For completion in an editor (taplo, Even Better TOML): write the schema of scenario files beside \
                        them, and name it in the first line of each:\n\n  \
                        noclobber schema scenario > scenario.schema.json\n  \
                        #:schema ./scenario.schema.json"
)]
pub struct SchemaArgs {
    /// Of what.
    #[arg(value_name = "FORMAT")]
    pub of: Schema,
}

/// How results are shown, for every command.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Report")]
pub struct Output {
    /// What goes to standard output.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: Format,
    /// Also write a JUnit report: a case per scenario.
    #[arg(long, global = true, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Also write one self-contained page for a browser.
    #[arg(long, global = true, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Also write annotations for GitHub Actions (to standard error with `--format json`).
    #[arg(long, global = true)]
    pub github: bool,
    /// Show only what is not as expected.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Show every step and every scenario in full.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// System calls of workers that are let through unseen: a fault in control, planted by tests of the guard itself.
    #[arg(long, global = true, hide = true, value_name = "CALLS", value_delimiter = ',')]
    pub unseen: Vec<String>,
}

/// The format of standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Human,
    /// One object per scenario, one a line, nothing else.
    Json,
}
