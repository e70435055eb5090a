//! The trait of all formats.

use std::io;

use super::Report;

/// Writes finished reports in one format.
pub trait Reporter {
    /// Takes the next finished report, and writes it as far as the format allows: what follows may crash.
    fn report(&mut self, report: &Report) -> io::Result<()>;

    /// Writes what comes after the last report.
    fn finish(&mut self) -> io::Result<()>;
}
