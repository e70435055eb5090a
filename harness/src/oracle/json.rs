//! JSON compared as values: key order, white space and the spelling of a number do not matter; digits do.

use serde_json::{Number, Value};

/// Documents above this size are compared as bytes: a parsed document takes many times its size.
pub(super) const MAX_BYTES: usize = 16 << 20;

/// The document, or `None` when it is no JSON, too large, or too deep (the parser stops at 128 levels).
pub(super) fn parse(bytes: &[u8]) -> Option<Value> {
    if bytes.len() > MAX_BYTES {
        return None;
    }
    serde_json::from_slice(bytes).ok()
}

/// Whether two numbers have the same value: exact in decimal, so large integers are never rounded.
pub(super) fn same_number(a: &Number, b: &Number) -> bool {
    let (a, b) = (a.to_string(), b.to_string());
    a == b || matches!((decimal(&a), decimal(&b)), (Some(a), Some(b)) if a == b)
}

/// `(negative, significant digits, power of ten)`; `None` when the exponent is out of range.
fn decimal(text: &str) -> Option<(bool, String, i64)> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, power) = match rest.split_once(['e', 'E']) {
        Some((mantissa, power)) => (mantissa, power.parse::<i64>().ok()?),
        None => (rest, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return Some((false, String::new(), 0));
    }
    let power = power
        .checked_sub(i64::try_from(fraction.len()).ok()?)?
        .checked_add(i64::try_from(digits.len() - significant.len()).ok()?)?;
    Some((negative, significant.to_owned(), power))
}

/// A text that two values share exactly when they are equal as values.
pub(super) fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Number(number) => match decimal(&number.to_string()) {
            Some((negative, digits, power)) => {
                out.push_str(if negative { "-" } else { "" });
                out.push_str(if digits.is_empty() { "0" } else { &digits });
                out.push_str(&format!("e{power}"));
            }
            None => out.push_str(&number.to_string()),
        },
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut keys: Vec<&String> = members.keys().collect();
            keys.sort_unstable();
            out.push('{');
            for key in keys {
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                write_canonical(&members[key], out);
                out.push(',');
            }
            out.push('}');
        }
        plain => out.push_str(&plain.to_string()),
    }
}

/// What kind of value it is, for messages and for masks.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// An id as text: strings and numbers are ids, nothing else is.
pub(super) fn id_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A value for messages, cut to a readable length.
pub(super) fn short(value: &Value) -> String {
    shorten(&value.to_string())
}

/// A text for messages: one line, cut to a readable length.
pub(super) fn shorten(text: &str) -> String {
    shorten_to(text, 60)
}

/// A text on one line, cut after so many characters.
pub(super) fn shorten_to(text: &str, longest: usize) -> String {
    let mut line: String = text.chars().take(longest).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(longest).is_some() {
        line.push_str("...");
    }
    line
}

/// One step of a JSON pointer (RFC 6901) as written in a pointer.
pub(super) fn escape(token: &str) -> String {
    token.replace('~', "~0").replace('/', "~1")
}

/// A JSON pointer, parsed. A token `*` matches every member and element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pointer(Vec<String>);

impl Pointer {
    /// Parses a pointer: empty, or tokens each begun by `/`.
    pub(super) fn parse(text: &str) -> Option<Pointer> {
        if text.is_empty() {
            return Some(Pointer(Vec::new()));
        }
        let rest = text.strip_prefix('/')?;
        Some(Pointer(rest.split('/').map(|token| token.replace("~1", "/").replace("~0", "~")).collect()))
    }

    /// Whether it points at this place.
    pub(super) fn matches(&self, place: &[String]) -> bool {
        self.0.len() == place.len() && self.0.iter().zip(place).all(|(want, token)| want == "*" || want == token)
    }
}

/// The pointer text of a place.
pub(super) fn place_text(place: &[String]) -> String {
    place.iter().map(|token| format!("/{}", escape(token))).collect()
}
