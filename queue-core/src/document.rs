//! The queue file as a whole: `{"version": N, "tasks": [...]}`.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::Malformed;
use crate::json::{Key, MAX_DEPTH, Source, deeper_than, quoted};
use crate::task::Task;

/// A queue: its version, its tasks in order, and whatever other fields the file has.
///
/// Reading and writing keeps every field that is not ours with its text and in its place. On writing each task gets a
/// line of its own.
#[derive(Debug, Clone)]
pub struct Document {
    version: u64,
    tasks: Vec<Task>,
    /// Every field of the object, in the order of the file.
    fields: Vec<Field>,
}

#[derive(Debug, Clone)]
enum Field {
    Version,
    Tasks,
    Other(String, Box<RawValue>),
}

impl Document {
    /// A queue that was never written: version 0, no tasks.
    pub fn empty() -> Self {
        Document { version: 0, tasks: Vec::new(), fields: vec![Field::Version, Field::Tasks] }
    }

    /// Reads a queue file.
    ///
    /// # Errors
    /// [`Malformed`], with the place, for bytes that are not UTF-8 or not JSON; for a text that is not an object with
    /// one `version` (a whole number from 0) and one `tasks` (a list of tasks); for two tasks of one id; and for
    /// nesting beyond [`MAX_DEPTH`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let valid = &bytes[..error.valid_up_to()];
            Malformed {
                position: crate::error::Position { line: 1 + crate::json::count_newlines(valid), offset: valid.len() },
                reason: "not UTF-8, so not JSON".into(),
            }
        })?;
        let source = Source(text);
        if text.trim_ascii().is_empty() {
            return Err(source.complain(
                text,
                "empty, where an object with `version` and `tasks` should be (a writer without a lock may be at work, or was interrupted)",
            ));
        }
        let Entries(entries) = serde_json::from_str(text).map_err(|error| source.translate(text, &error))?;

        let (mut version, mut tasks) = (None, None);
        let mut fields = Vec::with_capacity(entries.len());
        for entry in entries {
            match entry {
                Entry::Tasks(texts) => {
                    if tasks.is_some() {
                        return Err(source.complain(text, "`tasks` twice in one queue"));
                    }
                    tasks = Some(parse_tasks(source, &texts)?);
                    fields.push(Field::Tasks);
                }
                Entry::Other(key, value) if key == "version" => {
                    let number = serde_json::from_str::<u64>(value.get())
                        .map_err(|_| source.complain(value.get(), "`version` must be a whole number from 0"))?;
                    if version.replace(number).is_some() {
                        return Err(source.complain(value.get(), "`version` twice in one queue"));
                    }
                    fields.push(Field::Version);
                }
                Entry::Other(key, value) if deeper_than(value.get(), MAX_DEPTH - 1) => {
                    let reason = format!("`{key}` is nested deeper than {} levels", MAX_DEPTH - 1);
                    return Err(source.complain(value.get(), reason));
                }
                Entry::Other(key, value) => fields.push(Field::Other(key.into_owned(), value.to_owned())),
            }
        }
        let lacks = |name| source.complain(text.trim_ascii_start(), format!("an object without `{name}`"));
        Ok(Document {
            version: version.ok_or_else(|| lacks("version"))?,
            tasks: tasks.ok_or_else(|| lacks("tasks"))?,
            fields,
        })
    }

    /// The file's text.
    pub fn to_bytes(&self) -> Vec<u8> {
        let size: usize = self.tasks.iter().map(|task| task.text().len() + 4).sum();
        let mut out = String::with_capacity(size + 128);
        for field in &self.fields {
            out.push_str(if out.is_empty() { "{" } else { ", " });
            match field {
                Field::Version => out.push_str(&format!(r#""version": {}"#, self.version)),
                Field::Tasks => {
                    out.push_str(r#""tasks": ["#);
                    for (index, task) in self.tasks.iter().enumerate() {
                        out.push_str(if index == 0 { "\n  " } else { ",\n  " });
                        out.push_str(task.text());
                    }
                    out.push_str(if self.tasks.is_empty() { "]" } else { "\n]" });
                }
                Field::Other(key, value) => {
                    out.push_str(&quoted(key));
                    out.push_str(": ");
                    out.push_str(value.get());
                }
            }
        }
        out.push_str("}\n");
        out.into_bytes()
    }

    /// How often the queue was written. 0 before the first write.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Makes this the next version; false if there is none.
    pub(crate) fn advance(&mut self) -> bool {
        match self.version.checked_add(1) {
            Some(next) => {
                self.version = next;
                true
            }
            None => false,
        }
    }

    /// The tasks, oldest first.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The task of this id.
    pub fn get(&self, id: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.id() == id)
    }

    /// The first task that fits, to be changed.
    pub(crate) fn find_mut(&mut self, fits: impl Fn(&Task) -> bool) -> Option<&mut Task> {
        self.tasks.iter_mut().find(|task| fits(task))
    }

    /// Appends a task. Its id must be new to the document.
    pub(crate) fn push(&mut self, task: Task) {
        debug_assert!(self.get(task.id()).is_none(), "ids are unique");
        self.tasks.push(task);
    }

    /// Takes the task of this id out.
    pub(crate) fn remove(&mut self, id: &str) -> Option<Task> {
        let index = self.tasks.iter().position(|task| task.id() == id)?;
        Some(self.tasks.remove(index))
    }
}

/// The fields of a document, in the order of the text. The tasks are told apart in the first pass over the text already:
/// they are most of it.
struct Entries<'a>(Vec<Entry<'a>>);

enum Entry<'a> {
    Tasks(Vec<&'a RawValue>),
    Other(Cow<'a, str>, &'a RawValue),
}

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Entries<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object with `version` and `tasks`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(Key(key)) = map.next_key()? {
                    entries.push(match &*key {
                        "tasks" => Entry::Tasks(map.next_value::<List<'_>>()?.0),
                        _ => Entry::Other(key, map.next_value()?),
                    });
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// The texts of the tasks.
struct List<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for List<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items;
        impl<'de> Visitor<'de> for Items {
            type Value = List<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("`tasks` to be a list of tasks")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = list.next_element()? {
                    texts.push(text);
                }
                Ok(List(texts))
            }
        }
        deserializer.deserialize_seq(Items)
    }
}

fn parse_tasks(source: Source<'_>, texts: &[&RawValue]) -> Result<Vec<Task>, Malformed> {
    let tasks = texts.iter().map(|text| Task::parse(source, text)).collect::<Result<Vec<_>, _>>()?;

    // Sorting rather than hashing: no random state, no bad case, and ids that were pushed in order are sorted already.
    let mut by_id: Vec<usize> = (0..tasks.len()).collect();
    by_id.sort_by_key(|&index| (tasks[index].id(), index));
    let second = by_id.windows(2).find(|pair| tasks[pair[0]].id() == tasks[pair[1]].id());
    match second {
        None => Ok(tasks),
        Some(pair) => {
            let reason = format!("a second task with the id {:?}", tasks[pair[1]].id());
            Err(source.complain(texts[pair[1]].get(), reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> Malformed {
        Document::parse(text.as_bytes()).expect_err(text)
    }

    #[test]
    fn what_is_not_ours_keeps_its_text_and_its_place() {
        let text = concat!(
            r#"{"$schema": 1.0e400, "version": 7, "tasks": ["#,
            "\n  ",
            r#"{"id":"t","params":{"$serde_json::private::Number":"1"},"big":123456789012345678901234567890},"#,
            "\n  ",
            r#"{ "later": null, "id" : "u" }"#,
            "\n",
            r#"], "note": {"b":1,"a":2}}"#,
            "\n"
        );
        let document = Document::parse(text.as_bytes()).unwrap();
        assert_eq!(document.version(), 7);
        assert_eq!(String::from_utf8(document.to_bytes()).unwrap(), text);
    }

    #[test]
    fn an_empty_document_can_be_read_back() {
        let bytes = Document::empty().to_bytes();
        assert_eq!(Document::parse(&bytes).unwrap().version(), 0);
        assert_eq!(bytes, b"{\"version\": 0, \"tasks\": []}\n");
    }

    #[test]
    fn refusals_name_the_reason_and_the_place() {
        for (text, reason, line) in [
            ("", "empty", 1),
            (" \n ", "empty", 1),
            ("not json", "expected ident", 1),
            ("{\"version\": 1, \"tasks\": [] ", "EOF", 1),
            ("{\"version\": 1,\n \"tasks\": []} x", "trailing", 2),
            ("[]", "expected an object", 1),
            ("{\"tasks\": []}", "without `version`", 1),
            ("{\"version\": 1}", "without `tasks`", 1),
            ("{\"version\":\n \"1\", \"tasks\": []}", "`version` must be", 2),
            ("{\"version\": -1, \"tasks\": []}", "`version` must be", 1),
            ("{\"version\": 1.5, \"tasks\": []}", "`version` must be", 1),
            ("{\"version\": 1e3, \"tasks\": []}", "`version` must be", 1),
            ("{\"version\": 18446744073709551616, \"tasks\": []}", "`version` must be", 1),
            ("{\"version\": 1, \"version\": 2, \"tasks\": []}", "`version` twice", 1),
            ("{\"version\": 1, \"tasks\": {}}", "`tasks` to be a list", 1),
            ("{\"version\": 1, \"tasks\": [7]}", "must be an object", 1),
            ("{\"version\": 1, \"tasks\": [\n{\"id\":\"t\"},\n{\"id\":\"t\"}]}", "second task with the id \"t\"", 3),
            ("{\"version\": 1, \"tasks\": []\0}", "expected `,`", 1),
            ("\u{feff}{\"version\": 1, \"tasks\": []}", "expected value", 1),
        ] {
            let malformed = refusal(text);
            assert!(malformed.reason.contains(reason), "{text:?}: {malformed}");
            assert_eq!(malformed.position.line, line, "{text:?}: {malformed}");
            assert!(malformed.position.offset <= text.len());
        }
        let malformed = Document::parse(b"{\"version\": \xff").unwrap_err();
        assert_eq!(malformed.position.offset, 12);
    }

    #[test]
    fn nesting_is_bounded_as_other_readers_bound_it() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for (depth, outside) in [(1, 0), (MAX_DEPTH - 1, 0), (1, MAX_DEPTH - 3), (MAX_DEPTH - 1, MAX_DEPTH - 3)] {
            let text = format!(
                r#"{{"version":1,"x":{},"tasks":[{{"id":"t","params":{}}}]}}"#,
                nested(depth),
                nested(outside.max(1))
            );
            assert!(Document::parse(text.as_bytes()).is_ok());
            assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        }
        for text in [
            format!(r#"{{"version":1,"x":{},"tasks":[]}}"#, nested(MAX_DEPTH)),
            format!(r#"{{"version":1,"tasks":[{{"id":"t","params":{}}}]}}"#, nested(MAX_DEPTH - 2)),
        ] {
            assert!(refusal(&text).reason.contains("nested deeper"));
            assert!(serde_json::from_str::<serde_json::Value>(&text).is_err());
        }
        // A million levels cost no stack.
        let bomb = format!(r#"{{"version":1,"tasks":{}}}"#, nested(1_000_000));
        refusal(&bomb);
    }
}
