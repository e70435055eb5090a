//! JSON texts kept as they were written.
//!
//! The queue must give back what it does not understand byte for byte: numbers that no machine type holds, the order
//! of keys, fields of later versions. So nothing is turned into values that need not be: an object is a list of keys
//! with the *text* of each value.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{Malformed, Position};

/// How deep arrays and objects may be nested in a whole document: what serde_json reads by default, so that every
/// other program that uses it can read the file too.
pub const MAX_DEPTH: usize = 127;

/// An object as keys and value texts, in the order of the text. Repeated keys are kept.
#[derive(Debug)]
pub(crate) struct RawObject<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for RawObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = RawObject<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
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

/// A key that borrows from the text where it can (serde's own `Cow` always copies).
#[derive(Deserialize)]
pub(crate) struct Key<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// A document's text, to say where in it a part lies.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a>(pub(crate) &'a str);

impl Source<'_> {
    /// A complaint about `part`, which must be a slice of this text.
    pub(crate) fn complain(self, part: &str, reason: impl Into<String>) -> Malformed {
        self.at(self.offset_of(part), reason.into())
    }

    /// What serde_json found wrong with `part`, which must be a slice of this text.
    pub(crate) fn translate(self, part: &str, error: &serde_json::Error) -> Malformed {
        let within = offset_in(part, error.line(), error.column());
        let text = error.to_string();
        // The message repeats its own position, which is relative to the part: cut it off.
        let reason = text.rfind(" at line ").map_or(&*text, |end| &text[..end]);
        self.at(self.offset_of(part) + within, reason.to_owned())
    }

    fn offset_of(self, part: &str) -> usize {
        let offset = (part.as_ptr() as usize).saturating_sub(self.0.as_ptr() as usize);
        offset.min(self.0.len())
    }

    fn at(self, offset: usize, reason: String) -> Malformed {
        let offset = offset.min(self.0.len());
        let line = 1 + count_newlines(&self.0.as_bytes()[..offset]);
        Malformed { position: Position { line, offset }, reason }
    }
}

/// The number of newlines in `bytes`.
pub(crate) fn count_newlines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte == b'\n').count()
}

/// serde_json counts lines from 1 and, within a line, the bytes read so far.
fn offset_in(text: &str, line: usize, column: usize) -> usize {
    let start = if line <= 1 {
        0
    } else {
        text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n').nth(line - 2).map_or(0, |(newline, _)| newline + 1)
    };
    start + column.saturating_sub(1)
}

/// Whether arrays and objects in a well-formed JSON text are nested deeper than `limit`.
pub(crate) fn deeper_than(text: &str, limit: usize) -> bool {
    // Every level takes two bytes at least, so an ordinary value needs no look at all.
    if text.len() <= 2 * limit {
        return false;
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// The text that a JSON string stands for. None: the value is no string.
pub(crate) fn unquoted(value: &RawValue) -> Option<String> {
    let inner = value.get().strip_prefix('"')?.strip_suffix('"')?;
    match inner.contains('\\') {
        // Most strings stand for themselves.
        false => Some(inner.to_owned()),
        true => serde_json::from_str(value.get()).ok(),
    }
}

/// `text` as a JSON string, quotes included.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_counted_outside_of_strings_only() {
        assert!(!deeper_than("[[[]]]", 3));
        assert!(deeper_than("[[[[ ]]]]", 3));
        assert!(!deeper_than(r#"["[[[[[[[[[[[["]"#, 3));
        assert!(!deeper_than(r#"["\"[[[[[[[[[[[["]"#, 3));
        assert!(deeper_than(r#"["\\",[[[{}]]]]"#, 3));
    }

    #[test]
    fn quoting_is_what_serde_json_reads_back() {
        let nasty: String = (0..0x80).filter_map(char::from_u32).chain("é😀\u{2028}".chars()).collect();
        assert_eq!(serde_json::from_str::<String>(&quoted(&nasty)).unwrap(), nasty);
    }

    #[test]
    fn positions_are_those_of_the_whole_text() {
        let text = "{\n  \"a\": 1,\n  \"b\": nope\n}";
        let error = serde_json::from_str::<RawObject<'_>>(text).unwrap_err();
        let malformed = Source(text).translate(text, &error);
        assert_eq!(malformed.position.line, 3);
        assert_eq!(&text[malformed.position.offset..][..1], "o");
        assert!(!malformed.reason.contains("line"), "{}", malformed.reason);
    }
}
