//! How a command ends: the exit codes of the contract.

use crate::report::{Report, Verdict};

/// The exit code of every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ExitCode {
    /// 0: everything is as expected (for `explore` without `--expect`: no anomaly).
    AsExpected = 0,
    /// 1: an anomaly, or not as expected.
    Anomaly = 1,
    /// 2: a mistake in the arguments or a file.
    Usage = 2,
    /// 3: cannot tell.
    CannotTell = 3,
    /// 4: an internal error.
    Internal = 4,
}

impl ExitCode {
    /// Which code wins over which, over several scenarios.
    const PRECEDENCE: [ExitCode; 5] =
        [ExitCode::Internal, ExitCode::Usage, ExitCode::Anomaly, ExitCode::CannotTell, ExitCode::AsExpected];

    /// The code of one report.
    pub fn of(report: &Report) -> ExitCode {
        match report.verdict {
            _ if report.as_expected => ExitCode::AsExpected,
            // An anomaly wins over cannot-tell.
            Verdict::CannotTell if report.anomalies.is_empty() => ExitCode::CannotTell,
            _ => ExitCode::Anomaly,
        }
    }

    /// The first of 4, 2, 1, 3, 0 that occurs. Of no code at all nothing can be told: 3, so that a run of nothing
    /// never passes.
    pub fn first_of(codes: impl IntoIterator<Item = ExitCode>) -> ExitCode {
        let codes: Vec<ExitCode> = codes.into_iter().collect();
        ExitCode::PRECEDENCE.into_iter().find(|code| codes.contains(code)).unwrap_or(ExitCode::CannotTell)
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        std::process::ExitCode::from(code as u8)
    }
}

/// The exit code over several scenarios.
pub fn exit_code(reports: &[Report]) -> ExitCode {
    ExitCode::first_of(reports.iter().map(ExitCode::of))
}
