//! For GitHub Actions: annotations by workflow commands, a line each.

use std::io::{self, Write};

use super::{Report, Reporter, junit::headline, text::line};
use crate::world::WarningKind;

/// Writes workflow commands: an error for each scenario not as expected, a warning for what was not controlled.
#[derive(Debug)]
pub struct Github<W> {
    out: W,
}

impl<W: Write> Github<W> {
    /// A reporter that writes to `out`.
    pub fn new(out: W) -> Self {
        Github { out }
    }

    /// What was written to.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn command(&mut self, level: &str, report: &Report, message: &str) -> io::Result<()> {
        let title = property(&format!("noclobber: {}", line(&report.scenario)));
        let file = match &report.file {
            Some(file) => format!("file={},", property(&line(&file.to_string_lossy()))),
            None => String::new(),
        };
        writeln!(self.out, "::{level} {file}title={title}::{}", data(message))
    }
}

impl<W: Write> Reporter for Github<W> {
    fn report(&mut self, report: &Report) -> io::Result<()> {
        if !report.as_expected {
            let mut message = headline(report);
            if let Some(replay) = &report.replay {
                message += &format!("\nreplay: noclobber replay {}", line(&shell_words::quote(replay)));
            }
            message += &format!("\ncoverage: {}", line(&report.coverage));
            self.command("error", report, &message)?;
        }
        for warning in report.warnings.iter().filter(|w| w.kind == WarningKind::NotControlled) {
            self.command("warning", report, &line(&warning.text))?;
        }
        self.out.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The message of a command: a per cent sign and line ends are escaped.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property of a command: also what separates properties.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
