//! Reading TOML with places: every value knows where it stands and what its key is called, so that every error can
//! say so.

use std::{ops::Range, path::PathBuf, time::Duration};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{Problem, ScenarioError, duration::parse_duration, error::Place, keys, names::nearest};

/// The text being read.
#[derive(Debug)]
pub(super) struct Source<'a> {
    /// The file, as the user named it.
    pub(super) file: PathBuf,
    /// All of it.
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// The place of a byte range.
    pub(super) fn place(&self, span: &Range<usize>, key: &str) -> Place {
        let mut start = span.start.min(self.text.len());
        while !self.text.is_char_boundary(start) {
            start -= 1;
        }
        let before = &self.text[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Place {
            file: self.file.clone(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            key: key.to_owned(),
        }
    }
}

/// A table whose keys are all known.
#[derive(Clone, Debug)]
pub(super) struct Table<'a> {
    source: &'a Source<'a>,
    /// What the table is called in messages: `[search]`, `worker[1]`, `the file`.
    title: String,
    /// Prefix of its keys.
    prefix: String,
    span: Range<usize>,
    entries: &'a DeTable<'a>,
}

impl<'a> Table<'a> {
    /// The whole file.
    pub(super) fn root(source: &'a Source<'a>, root: &'a Spanned<DeTable<'a>>) -> Result<Self, ScenarioError> {
        let table =
            Table { source, title: "the file".into(), prefix: String::new(), span: 0..0, entries: root.get_ref() };
        table.check_keys(keys::TOP)?;
        Ok(table)
    }

    fn check_keys(&self, known: &[&str]) -> Result<(), ScenarioError> {
        let unknown = self.entries.keys().filter(|k| !known.contains(&k.get_ref().as_ref()));
        // The first in the file, not in the alphabet.
        match unknown.min_by_key(|k| k.span().start) {
            None => Ok(()),
            Some(key) => {
                let word = key.get_ref().as_ref();
                Err(self.source.error(
                    &key.span(),
                    &format!("{}{word}", self.prefix),
                    Problem::UnknownKey {
                        key: word.to_owned(),
                        nearest: nearest(word, known).unwrap_or_default().to_owned(),
                        known: known.iter().map(|k| (*k).to_owned()).collect(),
                        belongs_to: keys::home_of(word),
                    },
                ))
            }
        }
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<Item<'a>> {
        self.entries.iter().find(|(k, _)| k.get_ref() == key).map(|(k, v)| self.item(k.get_ref(), v))
    }

    /// The value of a key that must be there.
    pub(super) fn need(&self, key: &'static str, example: &'static str) -> Result<Item<'a>, ScenarioError> {
        self.get(key).ok_or_else(|| self.error(Problem::Missing { key, table: self.title.clone(), example }))
    }

    /// All entries, keys in alphabetical order, each with the place of its key.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, Item<'a>)> + '_ {
        self.entries.iter().map(|(k, v)| (k.get_ref().as_ref(), self.item(k.get_ref(), v)))
    }

    fn item(&self, key: &str, value: &'a Spanned<DeValue<'a>>) -> Item<'a> {
        Item { source: self.source, key: format!("{}{key}", self.prefix), value }
    }

    /// An error about the table itself.
    pub(super) fn error(&self, problem: impl Into<Problem>) -> ScenarioError {
        self.source.error(&self.span, self.prefix.trim_end_matches('.'), problem)
    }
}

impl Source<'_> {
    fn error(&self, span: &Range<usize>, key: &str, problem: impl Into<Problem>) -> ScenarioError {
        ScenarioError { place: self.place(span, key), problem: Box::new(problem.into()) }
    }

    /// A syntax error.
    pub(super) fn syntax(&self, e: &toml::de::Error) -> ScenarioError {
        let message = e.message().lines().collect::<Vec<_>>().join("; ");
        self.error(&e.span().unwrap_or(0..0), "", Problem::Syntax(message))
    }
}

/// One value with its place.
#[derive(Clone, Debug)]
pub(super) struct Item<'a> {
    source: &'a Source<'a>,
    key: String,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Item<'a> {
    /// Where it stands.
    pub(super) fn place(&self) -> Place {
        self.source.place(&self.value.span(), &self.key)
    }

    /// An error about it.
    pub(super) fn error(&self, problem: impl Into<Problem>) -> ScenarioError {
        ScenarioError { place: self.place(), problem: Box::new(problem.into()) }
    }

    fn wrong(&self, wanted: &'static str) -> ScenarioError {
        let found = match self.value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number with a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date or time",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.error(Problem::WrongType { wanted, found })
    }

    /// A string that may hold anything (file contents).
    pub(super) fn text(&self, wanted: &'static str) -> Result<&'a str, ScenarioError> {
        self.value.get_ref().as_str().ok_or_else(|| self.wrong(wanted))
    }

    /// A string without NUL.
    pub(super) fn string(&self, wanted: &'static str) -> Result<&'a str, ScenarioError> {
        let text = self.text(wanted)?;
        if text.contains('\0') { Err(self.error(Problem::Nul)) } else { Ok(text) }
    }

    /// `true` or `false`.
    pub(super) fn boolean(&self) -> Result<bool, ScenarioError> {
        self.value.get_ref().as_bool().ok_or_else(|| self.wrong("`true` or `false`, without quotes"))
    }

    /// Whether it is `true` or `false`.
    pub(super) fn is_boolean(&self) -> bool {
        self.value.get_ref().is_bool()
    }

    /// Whether it is a string.
    pub(super) fn is_string(&self) -> bool {
        self.value.get_ref().is_str()
    }

    /// Whether it is a list.
    pub(super) fn is_list(&self) -> bool {
        self.value.get_ref().is_array()
    }

    /// A whole number in a range.
    pub(super) fn number(&self, from: u64, to: u64) -> Result<u64, ScenarioError> {
        let number = self.value.get_ref().as_integer().ok_or_else(|| self.wrong("a whole number, without quotes"))?;
        match u64::from_str_radix(number.as_str(), number.radix()) {
            Ok(n) if (from..=to).contains(&n) => Ok(n),
            _ => Err(self.error(Problem::OutOfRange { found: number.as_str().to_owned(), from, to })),
        }
    }

    /// A duration.
    pub(super) fn duration(&self) -> Result<Duration, ScenarioError> {
        parse_duration(self.string("a duration in quotes, as in `\"3s\"`")?).map_err(|e| self.error(e))
    }

    /// The elements of a list.
    pub(super) fn list(&self, wanted: &'static str) -> Result<Vec<Item<'a>>, ScenarioError> {
        let array = self.value.get_ref().as_array().ok_or_else(|| self.wrong(wanted))?;
        let element = |(i, value)| Item { source: self.source, key: format!("{}[{}]", self.key, i + 1), value };
        Ok(array.iter().enumerate().map(element).collect())
    }

    /// The elements of a list, or the value itself if it is none.
    pub(super) fn one_or_many(&self) -> Result<Vec<Item<'a>>, ScenarioError> {
        if self.is_list() { self.list("a list") } else { Ok(vec![self.clone()]) }
    }

    /// A table with these keys; `None` allows any.
    pub(super) fn table(&self, known: Option<&[&str]>, wanted: &'static str) -> Result<Table<'a>, ScenarioError> {
        let entries = self.value.get_ref().as_table().ok_or_else(|| self.wrong(wanted))?;
        let title = if self.key.contains(['.', '[']) { format!("`{}`", self.key) } else { format!("[{}]", self.key) };
        let prefix = format!("{}.", self.key);
        let table = Table { source: self.source, title, prefix, span: self.value.span(), entries };
        known.map_or(Ok(()), |known| table.check_keys(known))?;
        Ok(table)
    }
}
