//! The queue file as a whole: `{"version": N, "tasks": [...], "done": [...]}`.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::Malformed;
use crate::json::{Key, MAX_DEPTH, RawObject, Source, deeper_than, quoted, unquoted};
use crate::lease::Token;
use crate::splice::{Layout, Span};
use crate::task::Task;

/// A queue: its version, its tasks in order, the ids that were done last, and whatever other fields the file has.
///
/// Reading and writing keeps every field that is not ours with its text and in its place. On writing each task gets a
/// line of its own.
#[derive(Debug, Clone)]
pub struct Document {
    version: u64,
    tasks: Vec<Task>,
    done: Vec<Done>,
    /// Every field of the object, in the order of the file.
    fields: Vec<Field>,
}

#[derive(Debug, Clone)]
enum Field {
    Version,
    Tasks,
    Done,
    Other(String, Box<RawValue>),
}

/// A task that was completed, as the ring `done` remembers it.
#[derive(Debug, Clone)]
pub struct Done {
    text: Box<RawValue>,
    id: String,
    at: Option<Timestamp>,
    attempt: Option<u64>,
}

impl Done {
    /// The task's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The claim under which it was completed.
    pub fn attempt(&self) -> Option<u64> {
        self.attempt
    }
}

impl Document {
    /// A queue that was never written: version 0, no tasks.
    pub fn empty() -> Self {
        Document { version: 0, tasks: Vec::new(), done: Vec::new(), fields: vec![Field::Version, Field::Tasks] }
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

        let (mut version, mut tasks, mut done) = (None, None, None);
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
                Entry::Other(key, value) => match parse_done(&key, value).filter(|_| done.is_none()) {
                    Some(list) => {
                        done = Some(list);
                        fields.push(Field::Done);
                    }
                    // Somebody else's `done`, then: kept as it is.
                    None => fields.push(Field::Other(key.into_owned(), value.to_owned())),
                },
            }
        }
        let lacks = |name| source.complain(text.trim_ascii_start(), format!("an object without `{name}`"));
        Ok(Document {
            version: version.ok_or_else(|| lacks("version"))?,
            tasks: tasks.ok_or_else(|| lacks("tasks"))?,
            done: done.unwrap_or_default(),
            fields,
        })
    }

    /// The file's text.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.write().0
    }

    /// The file's text, and where its parts lie in it.
    pub(crate) fn write(&self) -> (Vec<u8>, Layout) {
        let size: usize = self.tasks.iter().map(|task| task.text().len() + 4).sum();
        let size = size + self.done.iter().map(|done| done.text.get().len() + 4).sum::<usize>();
        let mut out = String::with_capacity(size + 256);
        let plain = self.tasks.iter().all(Task::is_plain) && self.done.iter().all(Done::is_plain);
        let one_line = |text: &str| memchr::memchr(b'\n', text.as_bytes()).is_none();
        let lines = self.tasks.iter().all(|task| one_line(task.text()))
            && self.done.iter().all(|done| one_line(done.text.get()));
        let tasks = Span::default();
        let mut layout = Layout { version: self.version, digits: 0, tasks, done: None, plain, lines };
        for field in &self.fields {
            out.push_str(if out.is_empty() { "{" } else { ", " });
            match field {
                Field::Version => {
                    out.push_str(r#""version": "#);
                    layout.digits = out.len();
                    out.push_str(&self.version.to_string());
                }
                Field::Tasks => {
                    out.push_str(r#""tasks": "#);
                    layout.tasks = list(&mut out, self.tasks.iter().map(Task::text));
                }
                Field::Done => {
                    out.push_str(r#""done": "#);
                    layout.done = Some(list(&mut out, self.done.iter().map(|done| done.text.get())));
                }
                Field::Other(key, value) => {
                    out.push_str(&quoted(key));
                    out.push_str(": ");
                    out.push_str(value.get());
                }
            }
        }
        out.push_str("}\n");
        (out.into_bytes(), layout)
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

    /// Gives the document the version that was read, whatever somebody wrote there.
    pub(crate) fn set_version(&mut self, version: u64) {
        self.version = version;
    }

    /// The tasks, oldest first.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The task of this id.
    pub fn get(&self, id: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.id() == id)
    }

    /// The tasks, to be changed.
    pub(crate) fn tasks_mut(&mut self) -> &mut [Task] {
        &mut self.tasks
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

    /// The completed task of this id, if it is remembered still.
    pub fn done(&self, id: &str) -> Option<&Done> {
        self.done.iter().rev().find(|done| done.id == id)
    }

    /// The ids of the tasks that were completed lately.
    pub(crate) fn done_ids(&self) -> impl Iterator<Item = &str> {
        self.done.iter().map(|done| done.id.as_str())
    }

    /// Remembers that a task was completed, for so many tasks and so long. Forgotten are the oldest, until one is met that
    /// need not be.
    pub(crate) fn finish(&mut self, token: &Token, now: Timestamp, keep: usize, age: Duration) {
        if keep == 0 || self.fields.iter().any(|field| matches!(field, Field::Other(key, _) if key == "done")) {
            return;
        }
        if !self.fields.iter().any(|field| matches!(field, Field::Done)) {
            self.fields.push(Field::Done);
        }
        self.done.retain(|done| done.id != token.id);
        let goes = |(place, done): (usize, &Done)| self.done.len() - place + 1 > keep || done.is_older_than(age, now);
        let forgotten = self.done.iter().enumerate().take_while(|&(place, done)| goes((place, done))).count();
        self.done.drain(..forgotten);
        self.done.push(Done::new(token, now));
    }

    /// Takes the task of this id out.
    pub(crate) fn remove(&mut self, id: &str) -> Option<Task> {
        let index = self.tasks.iter().position(|task| task.id() == id)?;
        Some(self.tasks.remove(index))
    }
}

impl Done {
    pub(crate) fn new(token: &Token, at: Timestamp) -> Self {
        let text = format!(r#"{{"id":{},"at":"{at}","attempt":{}}}"#, quoted(&token.id), token.attempt);
        let text = RawValue::from_string(text).unwrap_or_else(|error| unreachable!("composed of valid JSON: {error}"));
        Done { text, id: token.id.clone(), at: Some(at), attempt: Some(token.attempt) }
    }

    /// An entry of the ring; none: it is not one of ours.
    pub(crate) fn parse(text: &RawValue) -> Option<Self> {
        let RawObject(fields) = serde_json::from_str(text.get()).ok()?;
        let field = |name| fields.iter().find(|(key, _)| key == name).map(|(_, value)| *value);
        let at = field("at").and_then(unquoted).and_then(|at| at.parse().ok());
        let attempt = field("attempt").and_then(|attempt| attempt.get().parse().ok());
        let id = unquoted(field("id")?)?;
        Some(Done { text: text.to_owned(), id, at, attempt })
    }

    /// Its text in the file.
    pub(crate) fn text(&self) -> &str {
        self.text.get()
    }

    /// Whether it was completed so long ago; never, if it does not say when.
    pub(crate) fn is_older_than(&self, age: Duration, now: Timestamp) -> bool {
        let end = self.at.and_then(|at| at.checked_add(age).ok());
        end.is_some_and(|end| end <= now)
    }

    fn is_plain(&self) -> bool {
        memchr::memmem::find(self.text.get().as_bytes(), quoted(&self.id).as_bytes()).is_some()
    }
}

/// Writes a list, an entry a line; where the entries lie.
fn list<'a>(out: &mut String, entries: impl Iterator<Item = &'a str>) -> Span {
    out.push('[');
    let (begin, mut count) = (out.len(), 0);
    for entry in entries {
        out.push_str(if count == 0 { "\n  " } else { ",\n  " });
        out.push_str(entry);
        count += 1;
    }
    let end = out.len();
    out.push_str(if count == 0 { "]" } else { "\n]" });
    Span { begin, end, count }
}

/// The ring of completed ids, if the field is it.
fn parse_done(key: &str, value: &RawValue) -> Option<Vec<Done>> {
    if key != "done" {
        return None;
    }
    let List(texts) = serde_json::from_str(value.get()).ok()?;
    texts.into_iter().map(Done::parse).collect()
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
    fn the_ring_remembers_so_many_and_so_long() {
        let at = |hour: i64| Timestamp::from_second(hour * 3600).unwrap();
        let day = Duration::from_secs(24 * 3600);
        let mut document = Document::empty();
        for (number, hour) in [(1, 0), (2, 1), (3, 2), (4, 3)] {
            document.finish(&Token { id: format!("t{number}"), attempt: number }, at(hour), 3, day);
        }
        assert!(document.done("t1").is_none());
        let read = Document::parse(&document.to_bytes()).unwrap();
        assert_eq!(read.done("t3").unwrap().attempt(), Some(3));
        assert_eq!(read.to_bytes(), document.to_bytes());
        document.finish(&Token { id: "t5".into(), attempt: 1 }, at(26), 3, day);
        assert_eq!(document.done.iter().map(Done::id).collect::<Vec<_>>(), ["t4", "t5"]);
    }

    #[test]
    fn a_done_that_is_not_ours_is_left_alone() {
        for text in [r#"{"version": 1, "tasks": [], "done": true}"#, r#"{"version": 1, "tasks": [], "done": [1]}"#] {
            let mut document = Document::parse(text.as_bytes()).unwrap();
            document.finish(&Token { id: "t".into(), attempt: 1 }, Timestamp::UNIX_EPOCH, 9, Duration::MAX);
            assert_eq!(String::from_utf8(document.to_bytes()).unwrap().trim(), text);
        }
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
