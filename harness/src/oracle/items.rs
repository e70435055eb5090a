//! What a content holds, as items that can be lost one by one: ids, elements, lines, members.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    json::{self, canonical, escape},
    text::as_text,
};

/// Contents with more items are compared as a whole.
const MAX_ITEMS: usize = 200_000;

/// Something a content holds. The order of the variants is the order in which a loss is best told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Item {
    /// An object with an id.
    Id(String),
    /// A scalar in an array: the array's place and the value.
    Element(String, String),
    /// A line of a text.
    Line(String),
    /// A member (or other scalar): its place and the value.
    Member(String, String),
    /// The content as a whole: its digest.
    Whole([u8; 32]),
}

impl Item {
    /// For `lost` lists: the id, the element, the line, the member's place.
    pub(super) fn label(&self, path: &str) -> String {
        match self {
            Item::Id(id) => id.clone(),
            Item::Element(_, value) => value.clone(),
            Item::Line(line) => json::shorten(line.trim()),
            Item::Member(place, _) if place.is_empty() => path.to_owned(),
            Item::Member(place, _) => place.clone(),
            Item::Whole(_) => path.to_owned(),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Item::Id(_) => 0,
            Item::Element(..) => 1,
            Item::Line(_) => 2,
            Item::Member(..) => 3,
            Item::Whole(_) => 4,
        }
    }

    /// Of several items those of the best told kind.
    pub(super) fn foremost(items: &BTreeSet<Item>) -> Vec<&Item> {
        let best = items.iter().map(Item::rank).min();
        items.iter().filter(|item| Some(item.rank()) == best).collect()
    }
}

/// Everything a content holds. `id` is the member that makes an object a thing of its own.
pub(super) fn items(bytes: &[u8], id: &str) -> BTreeSet<Item> {
    let mut out = BTreeSet::new();
    if let Some(value) = json::parse(bytes) {
        collect(&value, id, String::new(), false, &mut out);
    } else if let Some(text) = as_text(bytes) {
        out.extend(text.lines().filter(|line| !line.trim().is_empty()).map(|line| Item::Line(line.to_owned())));
    } else {
        out.insert(Item::Whole([0; 32]));
    }
    if out.len() > MAX_ITEMS || out.contains(&Item::Whole([0; 32])) {
        return BTreeSet::from([Item::Whole(*blake3::hash(bytes).as_bytes())]);
    }
    out
}

fn collect(value: &Value, id: &str, place: String, in_array: bool, out: &mut BTreeSet<Item>) {
    if out.len() > MAX_ITEMS {
        return;
    }
    match value {
        Value::Object(members) => {
            let own = members.get(id).and_then(json::id_text);
            let place = match own {
                Some(own) => {
                    out.insert(Item::Id(own.clone()));
                    format!("{}/{}", place.trim_end_matches("/*"), escape(&own))
                }
                None => place,
            };
            // A counter of versions changes with every write and says nothing of what is in it.
            let counts = place.is_empty();
            for (key, member) in members.iter().filter(|(key, _)| !(counts && *key == "version")) {
                collect(member, id, format!("{place}/{}", escape(key)), false, out);
            }
        }
        Value::Array(elements) => {
            for element in elements {
                collect(element, id, format!("{place}/*"), true, out);
            }
        }
        scalar if in_array => {
            let text = json::id_text(scalar).unwrap_or_else(|| scalar.to_string());
            out.insert(Item::Element(place, text));
        }
        scalar => {
            out.insert(Item::Member(place, canonical(scalar)));
        }
    }
}

/// The ids in the lines of a log: JSON objects with the id member, JSON strings, bare tokens. Of other lines those
/// words that are ids known from elsewhere.
pub(super) fn logged_ids(bytes: &[u8], id: &str, known: &BTreeSet<String>) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut out = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match json::parse(line.as_bytes()) {
            Some(Value::Object(members)) => out.extend(members.get(id).and_then(json::id_text)),
            Some(value @ (Value::String(_) | Value::Number(_))) => out.extend(json::id_text(&value)),
            _ if line.split_whitespace().count() == 1 => out.push(line.to_owned()),
            _ => {
                let trim = |c: char| !c.is_alphanumeric();
                out.extend(
                    line.split_whitespace()
                        .map(|word| if known.contains(word) { word } else { word.trim_matches(trim) })
                        .filter(|word| known.contains(*word))
                        .map(str::to_owned),
                );
            }
        }
    }
    out
}

/// The ids in an array of a document.
pub(super) fn array_ids(bytes: &[u8], pointer: &str, id: &str) -> Option<Vec<String>> {
    let value = json::parse(bytes)?;
    let elements = value.pointer(pointer)?.as_array()?;
    Some(elements.iter().filter_map(|element| json::id_text(element.get(id).unwrap_or(element))).collect())
}

/// Where in a JSON text the object with this id stands: a half-open range of bytes.
pub(super) fn object_range(bytes: &[u8], id_member: &str, id: &str) -> Option<(usize, usize)> {
    const LONGEST: usize = 1 << 20;
    let mut open = Vec::new();
    let mut in_string = false;
    let mut escaped = false;
    for (at, byte) in bytes.iter().enumerate() {
        if in_string {
            in_string = escaped || *byte != b'"';
            escaped = *byte == b'\\' && !escaped;
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' => open.push(at),
            b'}' => {
                let from = open.pop()?;
                let text = &bytes[from..=at];
                // The innermost object closes first, and the outermost would be the whole document.
                if text.len() <= LONGEST
                    && text.windows(id.len().max(1)).any(|window| window == id.as_bytes())
                    && let Ok(Value::Object(members)) = serde_json::from_slice::<Value>(text)
                    && members.get(id_member).and_then(json::id_text).as_deref() == Some(id)
                {
                    return Some((from, at + 1));
                }
            }
            _ => {}
        }
    }
    None
}

/// The part of `bytes` that `other` does not have: what is left without common beginning and end.
pub(super) fn differing_range(bytes: &[u8], other: &[u8]) -> (usize, usize) {
    let start = bytes.iter().zip(other).take_while(|(a, b)| a == b).count();
    let most = bytes.len().min(other.len()) - start;
    let end = bytes.iter().rev().zip(other.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    (start, bytes.len() - end)
}
