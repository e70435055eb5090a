//! How a worker says that what it did is done, other than by its exit: a line of its standard output, or a marker.

use globset::GlobMatcher;

use super::{GlobError, Worker, compile_glob};

/// What a worker says.
#[derive(Clone, Debug, Default)]
pub struct Acknowledging(Option<GlobMatcher>);

impl Acknowledging {
    /// Of a worker of a scenario.
    ///
    /// # Errors
    /// A malformed glob (it was refused when the scenario was read).
    pub fn new(worker: &Worker) -> Result<Acknowledging, GlobError> {
        Ok(Acknowledging(worker.acknowledges.as_deref().map(compile_glob).transpose()?))
    }

    /// The lines of an output that say so. What is not ended by a newline is no line yet.
    pub fn lines<'a>(&'a self, output: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + 'a {
        let said = |line: &&[u8]| self.0.as_ref().is_some_and(|glob| glob.is_match(&*String::from_utf8_lossy(line)));
        let whole = output.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"));
        whole.filter(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_that_match_count() {
        let says = Acknowledging(Some(compile_glob("done *").unwrap()));
        let cases: [(&str, &[&str]); 5] = [
            ("done a\n", &["done a"]),
            ("done a", &[]),
            ("begin\ndone a/b\ndone c\ndon", &["done a/b", "done c"]),
            ("not done a\n", &[]),
            ("", &[]),
        ];
        for (output, expected) in cases {
            let lines: Vec<_> = says.lines(output.as_bytes()).map(String::from_utf8_lossy).collect();
            assert_eq!(lines, expected, "{output:?}");
        }
        assert_eq!(Acknowledging::default().lines(b"done a\n").count(), 0);
    }
}
