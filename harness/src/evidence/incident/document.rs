//! A copy's text: its version, and the items of its list with the place of each.

use std::{borrow::Cow, collections::HashMap};

use serde::{
    Deserialize,
    de::{Deserializer, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::shape::{IdKind, Shape};

/// An item of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item<'a> {
    /// Its id; of a number its text.
    pub(super) id: Cow<'a, str>,
    /// Its text.
    pub(super) text: &'a str,
    /// Somebody has taken it: it says so by its state or an owner.
    pub(super) taken: bool,
}

/// A copy that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Document<'a> {
    /// Its version, if it has one.
    pub(super) version: Option<u64>,
    /// The items that have an id.
    pub(super) items: Vec<Item<'a>>,
    /// Items that have none.
    pub(super) without_id: usize,
}

/// A copy that cannot be read as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Torn {
    /// Its version, if that much is there.
    pub(super) version: Option<u64>,
    /// The ids of the items that are whole.
    pub(super) ids: Vec<String>,
    /// What is wrong, and where.
    pub(super) reason: String,
}

/// States in which a task is in somebody's hands, or over.
const TAKEN: [&str; 26] = [
    "claimed",
    "taken",
    "running",
    "processing",
    "in_progress",
    "in-progress",
    "inprogress",
    "in progress",
    "started",
    "active",
    "working",
    "assigned",
    "leased",
    "reserved",
    "locked",
    "executing",
    "acquired",
    "done",
    "complete",
    "completed",
    "finished",
    "succeeded",
    "success",
    "processed",
    "failed",
    "dead",
];
const STATE_KEYS: [&str; 2] = ["state", "status"];
const OWNER_KEYS: [&str; 4] = ["claimed_by", "worker", "owner", "locked_by"];

/// An object as keys and texts, in order, repeated keys kept.
struct RawObject<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for RawObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = RawObject<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::with_capacity(8);
                while let Some(Key(key)) = map.next_key()? {
                    fields.push((key, map.next_value()?));
                }
                Ok(RawObject(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// A key that borrows where it can.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// Reads a copy.
///
/// # Errors
/// [`Torn`] for what is not UTF-8, not JSON, or has no list where the shape says.
pub(super) fn read<'a>(bytes: &'a [u8], shape: &Shape) -> Result<Document<'a>, Torn> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) => {
            let sound = std::str::from_utf8(&bytes[..e.valid_up_to()]).unwrap_or_default();
            return Err(salvage(sound, shape, format!("not UTF-8 from byte {}", e.valid_up_to())));
        }
    };
    let trimmed = text.strip_prefix('\u{feff}').unwrap_or(text);
    if shape.id == IdKind::Line {
        return Ok(lines(trimmed));
    }
    whole(trimmed, shape).map_err(|reason| salvage(trimmed, shape, reason))
}

/// Lines as items. One that stands there more than once is as many items.
fn lines(text: &str) -> Document<'_> {
    let mut times: HashMap<&str, usize> = HashMap::new();
    let item = |line| {
        let n = times.entry(line).or_default();
        *n += 1;
        let id = if *n == 1 { Cow::Borrowed(line) } else { Cow::Owned(format!("{line} ({n})")) };
        Item { id, text: line, taken: false }
    };
    Document { version: None, items: text.lines().filter(|line| !line.is_empty()).map(item).collect(), without_id: 0 }
}

fn whole<'a>(text: &'a str, shape: &Shape) -> Result<Document<'a>, String> {
    if text.trim_ascii().is_empty() {
        return Err("empty".to_owned());
    }
    // Each level is one pass over its text: the first one is over all of it.
    let mut here = text;
    let mut version = None;
    for (depth, token) in shape.pointer.iter().enumerate() {
        let RawObject(fields) =
            serde_json::from_str(here).map_err(|_| match serde_json::from_str::<&RawValue>(here) {
                Ok(_) => format!("no object at /{token}"),
                Err(e) => e.to_string(),
            })?;
        if depth == 0
            && let Some(key) = &shape.version
        {
            version = fields.iter().rev().find(|(k, _)| k == key).and_then(|(_, v)| v.get().parse().ok());
        }
        here = match fields.into_iter().rev().find(|(k, _)| k == token) {
            Some((_, value)) => value.get(),
            None => return Err(format!("no `{token}` in it")),
        };
    }
    let what = |what: &str| match serde_json::from_str::<&RawValue>(here) {
        Ok(_) => what.to_owned(),
        Err(e) => e.to_string(),
    };
    let mut items = Vec::new();
    let mut without_id = 0;
    if shape.id == IdKind::Key {
        let RawObject(fields) = serde_json::from_str(here).map_err(|_| what("no object of items"))?;
        for (id, value) in fields {
            items.push(Item { id, text: value.get(), taken: taken(value.get()) });
        }
    } else {
        let list: Vec<&RawValue> = serde_json::from_str(here).map_err(|_| what("no list of items"))?;
        items.reserve(list.len());
        for value in list {
            match item(value.get(), &shape.id) {
                Some((id, taken)) => items.push(Item { id, text: value.get(), taken }),
                None => without_id += 1,
            }
        }
    }
    Ok(Document { version, items, without_id })
}

/// The id of an item and whether somebody has taken it.
fn item<'a>(text: &'a str, kind: &IdKind) -> Option<(Cow<'a, str>, bool)> {
    match kind {
        IdKind::Itself => Some((scalar(text)?, false)),
        IdKind::Field(field) => {
            let RawObject(fields) = serde_json::from_str(text).ok()?;
            let id = fields.iter().rev().find(|(key, _)| key == field).and_then(|(_, value)| scalar(value.get()))?;
            Some((id, taken_fields(&fields)))
        }
        IdKind::Key | IdKind::Line => None,
    }
}

fn taken(text: &str) -> bool {
    serde_json::from_str::<RawObject<'_>>(text).is_ok_and(|RawObject(fields)| taken_fields(&fields))
}

fn taken_fields(fields: &[(Cow<'_, str>, &RawValue)]) -> bool {
    let mut said = None;
    for (key, value) in fields {
        if STATE_KEYS.contains(&&**key)
            && let Some(state) = value.get().strip_prefix('"').and_then(|v| v.strip_suffix('"'))
        {
            said = Some(TAKEN.contains(&&*state.to_ascii_lowercase()));
        }
    }
    // A state says more than an owner: a task that was given back may still name its last one.
    said.unwrap_or_else(|| {
        let named = |value: &str| !matches!(value, "null" | "\"\"" | "false" | "[]" | "{}");
        fields.iter().any(|(key, value)| OWNER_KEYS.contains(&&**key) && named(value.get()))
    })
}

/// A string, or the text of a number, as an id.
fn scalar(text: &str) -> Option<Cow<'_, str>> {
    match text.as_bytes().first()? {
        b'"' => match text.contains('\\') {
            true => serde_json::from_str::<String>(text).ok().map(Cow::Owned),
            false => Some(Cow::Borrowed(&text[1..text.len() - 1])),
        },
        b'-' | b'0'..=b'9' => Some(Cow::Borrowed(text)),
        _ => None,
    }
}

/// What the beginning of a cut-off text still says.
fn salvage(text: &str, shape: &Shape, reason: String) -> Torn {
    let mut torn = Torn { reason, ..Torn::default() };
    let quoted = |word: &str| serde_json::to_string(word).unwrap_or_default();
    if let Some(key) = &shape.version
        && let Some(at) = text.find(&quoted(key))
    {
        let rest = text[at + quoted(key).len()..].trim_start();
        let digits: String =
            rest.trim_start_matches(':').trim_start().chars().take_while(char::is_ascii_digit).collect();
        // Digits at the very end may be the beginning of more.
        torn.version = digits.parse().ok().filter(|_| !text.trim_end().ends_with(&digits));
    }
    let mut from = 0;
    for token in &shape.pointer {
        match text[from..].find(&quoted(token)) {
            Some(at) => from += at + quoted(token).len(),
            None => return torn,
        }
    }
    if matches!(shape.id, IdKind::Key | IdKind::Line) {
        return torn;
    }
    let Some(open) = text[from..].find('[') else { return torn };
    let mut rest = &text[from + open + 1..];
    loop {
        rest = rest.trim_start_matches([',', ' ', '\n', '\r', '\t']);
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
        // A number at the end may go on; strings, objects and lists have an end of their own.
        match stream.next() {
            Some(Ok(value)) if stream.byte_offset() < rest.len() || value.get().ends_with(['"', '}', ']']) => {
                torn.ids.extend(item(value.get(), &shape.id).map(|(id, _)| id.into_owned()));
                rest = &rest[stream.byte_offset()..];
            }
            _ => return torn,
        }
    }
}

/// The bytes of `part` in `bytes`, which it must be a slice of.
pub(super) fn range(bytes: &[u8], part: &str) -> [u64; 2] {
    let from = (part.as_ptr() as usize).saturating_sub(bytes.as_ptr() as usize);
    [from as u64, (from + part.len()) as u64]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks() -> Shape {
        Shape::new("/tasks", Some("id"), Some("version")).unwrap()
    }

    #[test]
    fn items_with_their_places() {
        let text = br#" {"version": 18, "x": [[{"id": 1}]], "tasks": [ {"id":"t\"1", "a": {}}, {"id": 12e400},
            {"id":"t3","state":"Claimed"}, {"id":"t4","worker":"w","state":"queued"}, {"id":"t5","owner":"w"}, {}, 7 ]}"#;
        let document = read(text, &tasks()).unwrap();
        let items: Vec<(&str, bool)> = document.items.iter().map(|i| (&*i.id, i.taken)).collect();
        assert_eq!(items, [("t\"1", false), ("12e400", false), ("t3", true), ("t4", false), ("t5", true)]);
        assert_eq!((document.version, document.without_id), (Some(18), 2));
        let [from, to] = range(text, document.items[0].text);
        assert_eq!(&text[from as usize..to as usize], br#"{"id":"t\"1", "a": {}}"#);
    }

    #[test]
    fn other_shapes() {
        let cases = [
            ("[\"a\", 2]", Shape::new("", None, None).unwrap()),
            ("{\"a\": {}, \"2\": null}", Shape { id: IdKind::Key, ..Shape::new("", None, None).unwrap() }),
            ("{\"q\":{\"x/y\":[{\"k\":\"a\"},{\"k\":2}]}}", Shape::new("/q/x~1y", Some("k"), None).unwrap()),
        ];
        for (text, shape) in cases {
            let document = read(text.as_bytes(), &shape).unwrap();
            assert_eq!(document.items.iter().map(|i| &*i.id).collect::<Vec<_>>(), ["a", "2"], "{text}");
        }
    }

    #[test]
    fn half_a_copy_still_says_something() {
        let text = r#"{"version":18,"tasks":[{"id":"t1"},{"id":"t2"},{"id":"t3"}]}"#;
        let cases: [(usize, Option<u64>, &[&str]); 6] = [
            (0, None, &[]),
            (13, None, &[]),
            (14, Some(18), &[]),
            (34, Some(18), &["t1"]),
            (50, Some(18), &["t1", "t2"]),
            (59, Some(18), &["t1", "t2", "t3"]),
        ];
        for (length, version, ids) in cases {
            let torn = read(&text.as_bytes()[..length], &tasks()).unwrap_err();
            assert_eq!((torn.version, &torn.ids[..]), (version, &ids.map_owned()[..]), "{}", &text[..length]);
        }
        assert_eq!(read(b"{\"version\":1,\"tasks\":[]} \xff", &tasks()).unwrap_err().reason, "not UTF-8 from byte 25");
    }

    trait MapOwned {
        fn map_owned(&self) -> Vec<String>;
    }

    impl MapOwned for &[&str] {
        fn map_owned(&self) -> Vec<String> {
            self.iter().map(|&id| id.to_owned()).collect()
        }
    }

    #[test]
    fn deep_nesting_is_read_or_refused_but_never_harmful() {
        let deep = format!(
            r#"{{"version":1,"tasks":[{{"id":"t1","x":{}{}}}]}}"#,
            "[".repeat(1_000_000),
            "]".repeat(1_000_000)
        );
        let read = read(deep.as_bytes(), &tasks());
        assert!(read.is_err() || read.is_ok_and(|d| d.items.len() == 1));
    }
}
