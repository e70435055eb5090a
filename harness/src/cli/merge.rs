//! `noclobber merge`: one report from those of the parts.

use std::path::PathBuf;

use super::{
    ExitCode, Output,
    perform::{Reporters, mistake},
};
use crate::merge::{merge, read_reports};

/// `noclobber merge`.
#[derive(Clone, Debug, clap::Args)]
pub struct MergeArgs {
    /// Files with the JSON reports of all parts, one a line (`-`: standard input).
    #[arg(required = true, value_name = "REPORT")]
    pub reports: Vec<PathBuf>,
}

pub(super) fn perform(args: &MergeArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let mut parts = Vec::new();
    for file in &args.reports {
        match read_reports(file) {
            Ok(reports) => parts.extend(reports),
            Err(e) => return Ok(mistake(&e)),
        }
    }
    let merged = match merge(parts) {
        Ok(merged) => merged,
        Err(e) => return Ok(mistake(&e)),
    };
    let mut reporters = Reporters::new(output, merged.len())?;
    for report in &merged {
        reporters.report(report)?;
    }
    reporters.finish()?;
    Ok(ExitCode::first_of(merged.iter().map(ExitCode::of)))
}
