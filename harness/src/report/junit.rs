//! For CI servers: a JUnit file, a case per scenario.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use quick_junit::{NonSuccessKind, Property, TestCase, TestCaseStatus, TestSuite};

use super::{HumanOptions, Report, Reporter, Verdict, human, text::line};

/// Writes a JUnit file. It is written anew, as one step, after each scenario, so that a crash loses nothing.
#[derive(Debug)]
pub struct Junit {
    file: PathBuf,
    cases: Vec<(TestCase, Duration)>,
}

impl Junit {
    /// A reporter that writes this file.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Junit { file: file.into(), cases: Vec::new() }
    }

    fn write(&self) -> io::Result<()> {
        let mut suite = TestSuite::new("noclobber");
        suite.set_time(self.cases.iter().map(|(_, time)| *time).sum());
        suite.add_test_cases(self.cases.iter().map(|(case, _)| case.clone()));
        let mut report = quick_junit::Report::new("noclobber");
        report.add_test_suite(suite);
        let text = report.to_string().map_err(io::Error::other)?;
        let dir = self.file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut temp = tempfile::NamedTempFile::new_in(dir)?;
        temp.write_all(text.as_bytes())?;
        // A temporary file is private; what reads this one is another user perhaps.
        #[cfg(unix)]
        std::fs::set_permissions(temp.path(), std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        temp.persist(&self.file)?;
        Ok(())
    }
}

impl Reporter for Junit {
    fn report(&mut self, report: &Report) -> io::Result<()> {
        let seconds = report.explored.seconds;
        let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        self.cases.push((case(report, time), time));
        self.write()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.write()
    }
}

fn case(report: &Report, time: Duration) -> TestCase {
    let text = human::render(report, HumanOptions { width: 100, ..HumanOptions::default() });
    let mut status = match report.verdict {
        _ if report.as_expected => TestCaseStatus::success(),
        Verdict::CannotTell => TestCaseStatus::non_success(NonSuccessKind::Error),
        _ => TestCaseStatus::non_success(NonSuccessKind::Failure),
    };
    if !report.as_expected {
        status.set_type(report.verdict.name());
        status.set_message(headline(report));
        status.set_description(text.clone());
    }
    let mut case = TestCase::new(line(&report.scenario), status);
    let class = report.file.as_ref().map_or_else(|| "explore".into(), |file| line(&file.to_string_lossy()));
    case.set_classname(class).set_time(time);
    if report.as_expected {
        case.set_system_out(text);
    }
    let replay = report.replay.as_ref().map(|file| format!("noclobber replay {}", line(&shell_words::quote(file))));
    let properties = [
        ("verdict", Some(report.verdict.name().to_owned())),
        ("replay", replay),
        ("trace_hash", report.trace_hash.clone()),
    ];
    for (name, value) in properties {
        if let Some(value) = value {
            case.add_property(Property::new(name, line(&value)));
        }
    }
    case
}

/// One sentence: what is not as expected.
pub(super) fn headline(report: &Report) -> String {
    match (report.verdict, report.anomalies.first()) {
        (Verdict::Anomaly(kind), Some(anomaly)) => format!("{kind}: {}", line(&anomaly.summary)),
        (Verdict::CannotTell, _) => {
            let reasons: Vec<String> =
                report.reason.as_deref().unwrap_or("no reason given").lines().map(line).collect();
            format!("cannot tell: {}", reasons.join("; "))
        }
        (verdict, _) => match &report.expected {
            Some(expect) => format!("{verdict}, expected {expect}"),
            None => verdict.name().to_owned(),
        },
    }
}
