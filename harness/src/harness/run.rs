//! Running it, and saying what should come out.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
};

use super::Harness;
use crate::{
    guard::{GuardError, Settings, grow, verify},
    report::{HumanOptions, Report, render},
    scenario::{Expect, Kind, Scenario},
};

/// Where replay files go, in the current directory.
pub(super) const REPLAY_DIR: &str = ".noclobber";

/// How wide a report in a test's output is: the `thread panicked` line is wider than a terminal anyway.
const WIDTH: usize = 100;

/// Nothing could be explored.
///
/// A search that could not tell anything is no error: its report says `cannot-tell`, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A mistake in the scenario.
    #[error("{0}")]
    Mistake(String),
}

impl Harness {
    /// Explores, and reports what was found. What is expected makes no difference but for
    /// [`as_expected`](Report::as_expected): without more, that nothing goes wrong.
    ///
    /// # Errors
    /// A mistake in the scenario. Where nothing can be told, for instance because this machine does not let processes
    /// be traced, there is a report, with the verdict [`Verdict::CannotTell`](crate::Verdict::CannotTell).
    pub fn explore(&self) -> Result<Report, Error> {
        self.explored(self.scenario()?)
    }

    /// Asserts that no order of the workers goes wrong.
    ///
    /// # Panics
    /// With the report, when one does, when that cannot be told, and when the scenario has a mistake.
    #[track_caller]
    pub fn expect_clean(&self) -> Report {
        self.assert(Some(Expect::Clean))
    }

    /// Asserts that some order of the workers goes wrong in this way, and in no worse one.
    ///
    /// # Panics
    /// With the report, when none was found, and when the scenario has a mistake.
    #[track_caller]
    pub fn expect(&self, kind: Kind) -> Report {
        self.assert(Some(Expect::Kinds(vec![kind])))
    }

    /// Asserts that some order of the workers goes wrong.
    ///
    /// # Panics
    /// With the report, when none was found, and when the scenario has a mistake.
    #[track_caller]
    pub fn expect_anomaly(&self) -> Report {
        self.assert(Some(Expect::Anomaly))
    }

    /// Asserts what the scenario's file expects; without one, that no order goes wrong.
    ///
    /// # Panics
    /// With the report, when something else is found, and when the scenario has a mistake.
    #[track_caller]
    pub fn expect_as_written(&self) -> Report {
        self.assert(None)
    }

    #[track_caller]
    fn assert(&self, expect: Option<Expect>) -> Report {
        let report = self.scenario().and_then(|mut scenario| {
            if expect.is_some() {
                scenario.expect = expect;
            }
            scenario.expect.get_or_insert(Expect::Clean);
            self.explored(scenario)
        });
        match report {
            Ok(report) if report.as_expected => report,
            Ok(report) => panic!("{report}"),
            Err(e) => panic!("{e}"),
        }
    }

    fn explored(&self, scenario: Scenario) -> Result<Report, Error> {
        // Tests that run at once do not share a CPU, where there are several.
        static PLACE: AtomicUsize = AtomicUsize::new(0);
        let replay_dir = self.replay_dir.clone().unwrap_or_else(|| Some(PathBuf::from(REPLAY_DIR)));
        let place = PLACE.fetch_add(1, Ordering::Relaxed);
        // One worker all by itself is no answer, unless a file asks for it.
        let needs_company = self.file.is_none() && !self.settings.grow;
        let settings = Settings { replay_dir, place, needs_company, ..self.settings.clone() };
        let verified = if settings.grow { grow(&scenario, &settings) } else { verify(&scenario, &settings) };
        match verified {
            Ok(report) => Ok(report),
            Err(GuardError::Mistake(why)) => Err(Error::Mistake(why)),
            Err(GuardError::CannotTell(why)) => Ok(Report::silent(&scenario, why)),
        }
    }
}

impl std::fmt::Display for Report {
    /// As the command line prints it, without colour.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(render(self, HumanOptions { width: WIDTH, ..HumanOptions::default() }).trim_end())
    }
}
