//! Where in a document the list is, and what tells its items apart.

use serde_json::{Map, Value, value::RawValue};

/// What is an item's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum IdKind {
    /// A field of the item.
    Field(String),
    /// The item is a string or a number, and its own id.
    Itself,
    /// Items are the values of an object, ids its keys.
    Key,
    /// The document is text: its lines are the items, and their own ids.
    Line,
}

/// Where things are in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// The keys that lead to the list.
    pub(super) pointer: Vec<String>,
    /// What tells items apart.
    pub(super) id: IdKind,
    /// The key of the version, beside the first of the pointer's keys.
    pub(super) version: Option<String>,
}

const LISTS: [&str; 9] = ["tasks", "queue", "items", "jobs", "entries", "messages", "events", "todos", "data"];
const IDS: [&str; 9] = ["id", "task_id", "taskId", "job_id", "uuid", "_id", "key", "name", "uid"];
const VERSIONS: [&str; 9] = ["version", "rev", "revision", "seq", "sequence", "generation", "ver", "v", "_version"];
/// How deep the list is looked for.
const DEPTH: usize = 4;

impl Shape {
    /// A shape that was said: a JSON pointer, the id's field (none: items are their own ids), the version's key.
    pub(super) fn new(pointer: &str, id: Option<&str>, version: Option<&str>) -> Result<Self, String> {
        if !pointer.is_empty() && !pointer.starts_with('/') {
            return Err(format!("--pointer: `{pointer}` is no JSON pointer\n  write it as in /tasks"));
        }
        let unescape = |token: &str| token.replace("~1", "/").replace("~0", "~");
        Ok(Shape {
            pointer: pointer.split('/').skip(1).map(unescape).collect(),
            id: id.map_or(IdKind::Itself, |field| IdKind::Field(field.to_owned())),
            version: version.map(str::to_owned),
        })
    }

    /// The list's JSON pointer.
    pub(super) fn pointer_text(&self) -> String {
        self.pointer.iter().map(|token| format!("/{}", token.replace('~', "~0").replace('/', "~1"))).collect()
    }

    /// The shape in words.
    pub(super) fn describe(&self) -> String {
        let list = if self.pointer.is_empty() { "the whole document".to_owned() } else { self.pointer_text() };
        let id = match &self.id {
            IdKind::Field(field) => format!("by `{field}`"),
            IdKind::Itself => "by their values".to_owned(),
            IdKind::Key => "by their keys".to_owned(),
            IdKind::Line => return "the lines of a text; no versions".to_owned(),
        };
        let version = match &self.version {
            Some(key) => format!("versions in `{key}`"),
            None => "no versions".to_owned(),
        };
        format!("items in {list}, told apart {id}; {version}")
    }

    /// A text whose lines are the items.
    pub(super) fn lines() -> Shape {
        Shape { pointer: Vec::new(), id: IdKind::Line, version: None }
    }

    /// Whether this is a text of lines, and no JSON document, whole or half.
    pub(super) fn is_lines(bytes: &[u8]) -> bool {
        let Ok(text) = std::str::from_utf8(bytes) else { return false };
        let mut lines = text.lines().filter(|line| !line.trim().is_empty()).peekable();
        let plain = !text.contains('\0') && !text.trim_start().starts_with(['{', '[']);
        // JSON lines begin as JSON does, but each of them is whole.
        lines.peek().is_some() && (plain || lines.all(|line| serde_json::from_str::<&RawValue>(line).is_ok()))
    }

    /// Finds the list in a document: of objects with ids that differ, best under a usual name, best the longest.
    /// `pointer` and `id` are what was said.
    pub(super) fn infer(document: &Value, pointer: Option<&str>, id: Option<&str>) -> Option<(u64, Shape)> {
        let mut found: Vec<(u64, Shape)> = Vec::new();
        let mut path = Vec::new();
        look(document, &mut path, &mut |path, value| {
            let said = pointer.map(|p| Shape::new(p, None, None).map(|shape| shape.pointer).unwrap_or_default());
            if said.as_ref().is_some_and(|said| said[..] != *path) {
                return;
            }
            let whole = || {
                // Settings, counters: better than nothing.
                let plain = path.is_empty() && id.is_none() && value.as_object().is_some_and(|o| !o.is_empty());
                plain.then_some((0, IdKind::Key))
            };
            let Some((score, kind)) = list(value, id, said.is_some()).or_else(whole) else { return };
            let named = path.last().is_some_and(|name| LISTS.contains(&&*name.to_lowercase()));
            let score = score + if named { 1 << 40 } else { 0 };
            found.push((score, Shape { pointer: path.to_vec(), id: kind, version: None }));
        });
        let (score, mut shape) = found.into_iter().reduce(|best, next| if next.0 > best.0 { next } else { best })?;
        let version = |object: &Map<String, Value>| {
            let whole = |key: &&&str| object.get(**key).is_some_and(Value::is_u64);
            VERSIONS.iter().find(whole).map(|key| (*key).to_owned())
        };
        // Without a pointer the document is the list, and has no place for a version.
        shape.version = document.as_object().filter(|_| !shape.pointer.is_empty()).and_then(version);
        Some((score, shape))
    }
}

fn look(value: &Value, path: &mut Vec<String>, found: &mut dyn FnMut(&[String], &Value)) {
    found(path, value);
    if let Some(object) = value.as_object().filter(|_| path.len() < DEPTH) {
        for (key, value) in object {
            path.push(key.clone());
            look(value, path, found);
            path.pop();
        }
    }
}

/// Whether a value is a list of items, how good a one, and what their ids are.
fn list(value: &Value, id: Option<&str>, said: bool) -> Option<(u64, IdKind)> {
    match value {
        Value::Array(items) if items.is_empty() => {
            let kind = id.map_or(IdKind::Field("id".to_owned()), |id| IdKind::Field(id.to_owned()));
            Some((1, kind))
        }
        Value::Array(items) => {
            let length = items.len() as u64;
            let fields: Vec<&str> = match id {
                Some(id) => vec![id],
                None => candidates(items.iter().filter_map(Value::as_object)),
            };
            if let Some(field) = fields.into_iter().find(|f| tells_apart(items.iter().map(|item| item.get(f)))) {
                let usual = if IDS.contains(&field) || id.is_some() { 1 << 32 } else { 1 << 31 };
                return Some((usual + length, IdKind::Field(field.to_owned())));
            }
            (id.is_none() && tells_apart(items.iter().map(Some))).then_some(((1 << 20) + length, IdKind::Itself))
        }
        Value::Object(items) if id.is_none() && !items.is_empty() => {
            let objects = items.values().all(Value::is_object);
            (objects || said).then_some(((1 << 19) + items.len() as u64, IdKind::Key))
        }
        _ => None,
    }
}

/// Fields that could be ids: the usual ones first, then those that end in `id`.
fn candidates<'a>(mut items: impl Iterator<Item = &'a Map<String, Value>>) -> Vec<&'a str> {
    let Some(first) = items.next() else { return Vec::new() };
    let usual = IDS.iter().filter_map(|id| first.get_key_value(*id)).map(|(key, _)| key.as_str());
    let other = first.keys().map(String::as_str).filter(|key| !IDS.contains(key) && key.to_lowercase().ends_with("id"));
    usual.chain(other).collect()
}

/// Whether all are strings or numbers, and no two the same.
fn tells_apart<'a>(values: impl Iterator<Item = Option<&'a Value>>) -> bool {
    let mut seen = std::collections::HashSet::new();
    values.into_iter().all(|value| match value {
        Some(Value::String(text)) => seen.insert(text.clone()),
        Some(Value::Number(number)) => seen.insert(number.to_string()),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_list_is() {
        let cases = [
            (r#"{"version":17,"tasks":[{"id":"t1"}]}"#, "items in /tasks, told apart by `id`; versions in `version`"),
            (r#"{"version":17,"tasks":[]}"#, "items in /tasks, told apart by `id`; versions in `version`"),
            (
                r#"[{"uuid":"a","name":"x"},{"uuid":"b","name":"x"}]"#,
                "items in the whole document, told apart by `uuid`; no versions",
            ),
            (
                r#"{"rev":1,"workers":[{"id":1},{"id":2}],"jobs":[{"jobid":3}]}"#,
                "items in /jobs, told apart by `jobid`; versions in `rev`",
            ),
            (r#"{"n":1,"a":"x"}"#, "items in the whole document, told apart by their keys; no versions"),
            (r#"{"queue":["a","b"]}"#, "items in /queue, told apart by their values; no versions"),
            (r#"{"tasks":{"t1":{"to":"x"},"t2":{}}}"#, "items in /tasks, told apart by their keys; no versions"),
            (
                r#"{"a":{"b":{"items":[{"key":1}]}},"version":"x"}"#,
                "items in /a/b/items, told apart by `key`; no versions",
            ),
        ];
        for (text, expected) in cases {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(Shape::infer(&value, None, None).unwrap().1.describe(), expected, "{text}");
        }
        let value: Value = serde_json::from_str(r#"{"a":[{"id":1,"x":"p"}],"tasks":[{"id":2}]}"#).unwrap();
        assert_eq!(
            Shape::infer(&value, Some("/a"), Some("x")).unwrap().1.describe(),
            "items in /a, told apart by `x`; no versions"
        );
        assert_eq!(Shape::infer(&Value::Null, None, None), None);
        for (text, lines) in [
            ("one\ntwo\n", true),
            ("A=1\n", true),
            ("{\"id\":1}\n{\"id\":2}\n", true),
            ("{\"tasks\":[\n", false),
            ("\n", false),
            ("a\0b", false),
        ] {
            assert_eq!(Shape::is_lines(text.as_bytes()), lines, "{text}");
        }
    }
}
