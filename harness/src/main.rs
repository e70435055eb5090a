//! The `noclobber` command.

use clap::Parser;
use noclobber::cli::{Args, ExitCode};

fn main() -> std::process::ExitCode {
    // clap answers mistakes with 2 and help with 0, as the contract wants.
    let args = Args::try_parse().unwrap_or_else(|e| {
        let _ = e.print();
        if let Some(tip) = noclobber::cli::tip(&e, std::env::args_os()) {
            eprintln!("\n  tip: {tip}");
        }
        std::process::exit(e.exit_code());
    });
    match perform(&args) {
        Ok(code) => code,
        Err(e) => {
            eprintln!("noclobber: internal error: {e:#}");
            ExitCode::Internal.into()
        }
    }
}

#[cfg(target_os = "linux")]
fn perform(args: &Args) -> anyhow::Result<std::process::ExitCode> {
    // Before anything else: the commands are to find signals as we found them, and their exit code is ours.
    if let noclobber::cli::Command::Record(record) = &args.command {
        return noclobber::cli::perform_record(record, &args.output).map(Into::into);
    }
    noclobber::cli::perform(args).map(Into::into)
}

#[cfg(not(target_os = "linux"))]
fn perform(args: &Args) -> anyhow::Result<std::process::ExitCode> {
    // Evidence can be read anywhere.
    match &args.command {
        noclobber::cli::Command::Audit(audit) => {
            return noclobber::cli::perform_audit(audit, &args.output, &Default::default()).map(Into::into);
        }
        noclobber::cli::Command::Incident(incident) => {
            return noclobber::cli::perform_incident(incident, &args.output).map(Into::into);
        }
        _ => {}
    }
    eprintln!("noclobber: controlling processes needs Linux on x86_64; run it in a Linux container or virtual machine");
    Ok(ExitCode::CannotTell.into())
}
