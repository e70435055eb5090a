//! Patterns: an op or `*`, then an optional glob that matches any path of the step.
//!
//! - The op is a name of [`Op`] (`flock` is an alias of `lock`) or `*` for any.
//! - The glob is matched against the whole path, relative to the world (absolute for watched paths): `queue.json` is
//!   that file at the top and no other. `*` and `?` also match `/`, so that `*.json` matches `queues/a.json` too.
//! - A step with two paths (rename, link) matches when either does; a step without a path matches no glob.

use std::fmt;

use globset::{Glob, GlobMatcher};
use thiserror::Error;

use super::{Pattern, UnknownName, names};
use crate::world::{Op, Step};

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PatternError {
    /// Nothing is there.
    #[error("an empty pattern: write an operation or `*`, then perhaps a path, as in `write queue.json`")]
    Empty,
    /// The first word is no operation.
    #[error(transparent)]
    Op(#[from] UnknownName),
    /// The rest is no glob.
    #[error(transparent)]
    Glob(#[from] GlobError),
}

/// Why a text is no glob.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{}` is no glob: {why}", glob.escape_debug())]
pub struct GlobError {
    /// The text.
    pub glob: String,
    /// What is wrong with it.
    pub why: String,
}

impl Pattern {
    /// Reads `OP [GLOB]`, and checks that the glob compiles.
    pub fn parse(text: &str) -> Result<Pattern, PatternError> {
        let trimmed = text.trim();
        let (word, rest) = trimmed.split_once(char::is_whitespace).unwrap_or((trimmed, ""));
        let op = match word {
            "" => return Err(PatternError::Empty),
            "*" => None,
            word => Some(names::parse_op(word)?),
        };
        let glob = Some(rest.trim()).filter(|g| !g.is_empty()).map(str::to_owned);
        if let Some(glob) = &glob {
            compile_glob(glob)?;
        }
        Ok(Pattern { text: text.to_owned(), op, glob })
    }

    /// The compiled form.
    pub fn matcher(&self) -> Result<PatternMatcher, GlobError> {
        Ok(PatternMatcher { op: self.op, glob: self.glob.as_deref().map(compile_glob).transpose()? })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Compiles a glob of a scenario; the same rules hold for patterns, `ignore`, `multiset` and `ignore_pointer`.
pub fn compile_glob(text: &str) -> Result<GlobMatcher, GlobError> {
    let plain = text.strip_prefix("./").unwrap_or(text);
    Glob::new(plain)
        .map(|glob| glob.compile_matcher())
        .map_err(|e| GlobError { glob: text.to_owned(), why: e.kind().to_string() })
}

/// A pattern ready to be matched against steps.
#[derive(Clone, Debug)]
pub struct PatternMatcher {
    op: Option<Op>,
    glob: Option<GlobMatcher>,
}

impl PatternMatcher {
    /// Whether it matches this step.
    pub fn matches(&self, step: &Step) -> bool {
        self.matches_parts(step.op, step.path.as_deref(), step.path2.as_deref())
    }

    /// Whether it matches an operation on these paths, before there is a step.
    pub fn matches_parts(&self, op: Op, path: Option<&str>, path2: Option<&str>) -> bool {
        let op_fits = self.op.is_none_or(|wanted| wanted == op);
        let path_fits = match &self.glob {
            None => true,
            Some(glob) => [path, path2].into_iter().flatten().any(|p| glob.is_match(p)),
        };
        op_fits && path_fits
    }
}
