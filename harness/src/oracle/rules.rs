//! What of a world is compared, and how: `ignore`, `ignore_pointer`, `multiset`, `stdout`.

use globset::{Glob, GlobMatcher};

use super::{error::OracleError, json::Pointer};
use crate::scenario::OracleConfig;

/// The name under which rules address a worker's standard output.
pub(super) const STDOUT: &str = "stdout";
/// The name under which rules address the output of the `state` command.
pub(super) const STATE: &str = "state";

/// Compiled comparison rules of a scenario.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    ignore: Vec<GlobMatcher>,
    pointers: Vec<(Option<GlobMatcher>, Pointer)>,
    multisets: Vec<(GlobMatcher, Option<Pointer>)>,
    /// Whether each worker's stdout is compared.
    pub(super) stdout: bool,
}

/// The rules for one content.
#[derive(Clone, Debug, Default)]
pub(super) struct ContentRules {
    /// Places left out.
    pub(super) ignored: Vec<Pointer>,
    /// Lines, and elements of all arrays, compare as multisets.
    pub(super) multiset: bool,
    /// Arrays here compare as multisets.
    pub(super) multisets: Vec<Pointer>,
}

impl Rules {
    /// Compiles a scenario's rules.
    pub(super) fn new(config: &OracleConfig) -> Result<Rules, OracleError> {
        let mut rules = Rules {
            ignore: Vec::new(),
            pointers: Vec::new(),
            multisets: Vec::new(),
            stdout: config.stdout != Some(false),
        };
        for text in &config.ignore {
            rules.ignore.push(glob("ignore", text)?);
        }
        for entry in &config.ignore_pointer {
            let file = entry.file.as_deref().map(|file| glob("ignore_pointer", file)).transpose()?;
            rules.pointers.push((file, pointer("ignore_pointer", &entry.pointer)?));
        }
        for text in &config.multiset {
            let (file, place) = match text.split_once("#/") {
                Some((file, rest)) => (file, Some(pointer("multiset", &format!("/{rest}"))?)),
                None => (text.as_str(), None),
            };
            rules.multisets.push((glob("multiset", file)?, place));
        }
        Ok(rules)
    }

    /// Whether a path (or a directory above it) is not compared at all.
    pub(super) fn ignores(&self, path: &str) -> bool {
        path.split('/').any(|part| part == "__pycache__")
            || self.ignore.iter().any(|glob| ancestors(path).any(|above| glob.is_match(above)))
    }

    /// The rules for the content of a file, or of [`STDOUT`] or [`STATE`].
    pub(super) fn content(&self, path: &str) -> ContentRules {
        let mut rules = ContentRules::default();
        for (file, pointer) in &self.pointers {
            if file.as_ref().is_none_or(|glob| glob.is_match(path)) {
                rules.ignored.push(pointer.clone());
            }
        }
        for (file, pointer) in &self.multisets {
            if file.is_match(path) {
                match pointer {
                    Some(pointer) => rules.multisets.push(pointer.clone()),
                    None => rules.multiset = true,
                }
            }
        }
        rules
    }
}

/// A path and every directory above it.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rsplit_once('/').map(|(above, _)| above)).filter(|p| !p.is_empty())
}

/// Compiles a glob; `*` also matches `/`.
pub(super) fn glob(key: &'static str, text: &str) -> Result<GlobMatcher, OracleError> {
    match Glob::new(text) {
        Ok(glob) => Ok(glob.compile_matcher()),
        Err(source) => Err(OracleError::Glob { key, text: text.to_owned(), source }),
    }
}

/// Parses a JSON pointer.
pub(super) fn pointer(key: &'static str, text: &str) -> Result<Pointer, OracleError> {
    Pointer::parse(text).ok_or_else(|| OracleError::Pointer { key, text: text.to_owned() })
}
