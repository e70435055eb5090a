//! For CI servers: a JUnit file, a case per scenario.
//!
//! There is no standard of this format. What is written is what both the schema of Jenkins' xUnit plugin (`junit-10`) and
//! that of Maven's Surefire (3.0, from `testsuite` on) allow: no properties of a case, no further attributes. The verdict,
//! the replay command and the trace hash stand in a case's output instead.

use std::{io, path::PathBuf};

use quick_xml::{Writer, events::BytesText};

use super::{HumanOptions, Report, Reporter, Verdict, human, text::line};
use crate::publish::publish;

/// Writes a JUnit file. It is written anew, as one step, after each scenario, so that a crash loses nothing.
#[derive(Debug)]
pub struct Junit {
    file: PathBuf,
    cases: Vec<Case>,
}

impl Junit {
    /// A reporter that writes this file.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Junit { file: file.into(), cases: Vec::new() }
    }

    fn write(&self) -> io::Result<()> {
        let mut xml = Writer::new_with_indent(Vec::new(), b' ', 2);
        let count = |ended| self.cases.iter().filter(|case| case.ended == ended).count().to_string();
        let (tests, failures, errors) = (self.cases.len().to_string(), count(Ended::Failure), count(Ended::Error));
        let time = seconds(self.cases.iter().map(|case| case.seconds).sum());
        let sums = || {
            let sums = [("tests", &tests), ("failures", &failures), ("errors", &errors), ("time", &time)];
            [("name", "noclobber")].into_iter().chain(sums.into_iter().map(|(name, value)| (name, value.as_str())))
        };
        xml.create_element("testsuites").with_attributes(sums()).write_inner_content(|xml| {
            let suite = xml.create_element("testsuite").with_attributes(sums()).with_attribute(("skipped", "0"));
            suite.write_inner_content(|xml| self.cases.iter().try_for_each(|case| case.write(xml)))?;
            Ok(())
        })?;
        let mut text = b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_vec();
        text.append(&mut xml.into_inner());
        text.push(b'\n');
        publish(&self.file, &text)
    }
}

impl Reporter for Junit {
    fn report(&mut self, report: &Report) -> io::Result<()> {
        self.cases.push(Case::of(report));
        self.write()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.write()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Well,
    Failure,
    Error,
}

#[derive(Debug)]
struct Case {
    name: String,
    class: String,
    seconds: f64,
    ended: Ended,
    verdict: &'static str,
    message: String,
    /// What to know at a glance.
    facts: String,
    /// The report for people.
    text: String,
}

impl Case {
    fn of(report: &Report) -> Case {
        let replay = report.replay.as_ref().map(|file| format!("noclobber replay {}", shell_words::quote(file)));
        let facts = [
            ("verdict", Some(report.verdict.name().to_owned())),
            ("replay", replay),
            ("trace hash", report.trace_hash.clone()),
        ];
        let fact = |(name, value): (&str, Option<String>)| value.map(|value| format!("{name}: {}\n", line(&value)));
        Case {
            name: plain(&line(&report.scenario)),
            class: plain(&report.file.as_ref().map_or_else(|| "explore".into(), |f| line(&f.to_string_lossy()))),
            seconds: report.explored.seconds,
            ended: match report.verdict {
                _ if report.as_expected => Ended::Well,
                Verdict::CannotTell => Ended::Error,
                _ => Ended::Failure,
            },
            verdict: report.verdict.name(),
            message: plain(&headline(report)),
            facts: plain(&facts.into_iter().filter_map(fact).collect::<String>()),
            text: plain(&human::render(report, HumanOptions { width: 100, ..HumanOptions::default() })),
        }
    }

    fn write(&self, xml: &mut Writer<Vec<u8>>) -> io::Result<()> {
        let time = seconds(self.seconds);
        let case = xml.create_element("testcase").with_attributes([
            ("name", self.name.as_str()),
            ("classname", self.class.as_str()),
            ("time", time.as_str()),
        ]);
        case.write_inner_content(|xml| {
            let element = match self.ended {
                Ended::Well => None,
                Ended::Failure => Some("failure"),
                Ended::Error => Some("error"),
            };
            if let Some(element) = element {
                let element = xml.create_element(element);
                let element = element.with_attributes([("type", self.verdict), ("message", self.message.as_str())]);
                element.write_text_content(BytesText::new(&self.text))?;
            }
            let report = if element.is_none() { &self.text } else { "" };
            let output = format!("{report}{}{}", if report.is_empty() { "" } else { "\n" }, self.facts);
            xml.create_element("system-out").write_text_content(BytesText::new(&output))?;
            Ok(())
        })?;
        Ok(())
    }
}

/// Seconds as every reader takes them; the sum of none is minus zero, which is none of them.
fn seconds(seconds: f64) -> String {
    format!("{:.3}", if seconds.is_finite() { seconds.max(0.0) } else { 0.0 } + 0.0)
}

/// Without the two characters that are harmless on a terminal and that XML cannot have.
fn plain(text: &str) -> String {
    text.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
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
