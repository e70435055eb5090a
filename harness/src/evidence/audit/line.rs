//! One audit line.

use std::borrow::Cow;

use serde::{
    Deserialize,
    de::{Deserializer, IgnoredAny, SeqAccess, Visitor},
};

/// What is read of an audit line; it borrows from the line where it can.
///
/// Fields that are not known are passed over, so that later versions of the format may add some.
#[derive(Clone, Debug, Deserialize)]
pub struct Line<'a> {
    /// The format; 1, or not given.
    #[serde(default = "one")]
    pub schema: u64,
    /// When the line was made, RFC 3339.
    #[serde(borrow, default)]
    pub at: Cow<'a, str>,
    /// On which machine.
    #[serde(borrow, default)]
    pub host: Cow<'a, str>,
    /// By which process.
    pub pid: u64,
    /// The queue file.
    #[serde(borrow)]
    pub file: Cow<'a, str>,
    /// What was done.
    #[serde(borrow)]
    pub op: Cow<'a, str>,
    /// The version that was read.
    pub read: u64,
    /// The version that was written.
    pub wrote: u64,
    /// The hash of what was read; empty if not given.
    #[serde(borrow, default)]
    pub read_hash: Cow<'a, str>,
    /// The hash of what was written; empty if not given.
    #[serde(borrow, default)]
    pub wrote_hash: Cow<'a, str>,
    /// The tasks that were added, changed or removed.
    #[serde(borrow, default)]
    pub ids: Ids<'a>,
    /// The copy of what was written, beside the lines, if a recorder wrote the line.
    #[serde(borrow, default)]
    pub copy: Option<Cow<'a, str>>,
    /// The newest version that it can have been made from, if more than one fits.
    #[serde(default)]
    pub read_to: Option<u64>,
    /// It can have been made from something that was never published.
    #[serde(default)]
    pub unsure: bool,
    #[serde(borrow, default)]
    by: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    sum: Option<Cow<'a, str>>,
}

fn one() -> u64 {
    1
}

/// At most this many ids are kept of one line.
const MAX_IDS: usize = 10_000;

/// The ids of a line; what is not a text is kept as its number.
#[derive(Clone, Debug, Default)]
pub struct Ids<'a>(pub Vec<Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for Ids<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Ids<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of ids")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut ids = Vec::new();
                while ids.len() < MAX_IDS {
                    match seq.next_element::<Text<'de>>()? {
                        Some(Text(id)) => ids.push(id),
                        None => return Ok(Ids(ids)),
                    }
                }
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Ids(ids))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Why a line is no audit line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The reason.
    pub reason: String,
    /// The process, if that much can be read.
    pub pid: Option<u64>,
}

impl<'a> Line<'a> {
    /// Whether `noclobber record` wrote it: versions are numbered by the recorder, and no write of a watched program is
    /// missing.
    pub fn recorded(&self) -> bool {
        self.by.as_deref() == Some("record")
    }

    /// Reads a line without its newline.
    ///
    /// # Errors
    /// [`Malformed`] for what is no JSON, lacks a field, is of a later format, or does not match its `sum`. A line
    /// without a `sum` is taken as it is.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let malformed = |reason: String| Malformed { reason, pid: pid_of(bytes) };
        let text = std::str::from_utf8(bytes).map_err(|_| malformed("not UTF-8".to_owned()))?;
        let line: Line<'a> = serde_json::from_str(text).map_err(|e| {
            let text = e.to_string();
            // It is one line: only the column says something.
            malformed(text.replace(" at line 1 column ", " at byte "))
        })?;
        if line.schema != 1 {
            return Err(malformed(format!("schema {} is not known (only 1 is)", line.schema)));
        }
        match &line.sum {
            Some(sum) if !sum_fits(text, sum) => {
                Err(malformed("its sum is wrong: altered, or two lines in one".into()))
            }
            _ => Ok(line),
        }
    }
}

/// The process of a line that cannot be read, if its beginning is sound.
fn pid_of(bytes: &[u8]) -> Option<u64> {
    let key = b"\"pid\":";
    let at = memchr::memmem::find(bytes, key)? + key.len();
    let digits: Vec<u8> =
        bytes[at..].iter().copied().skip_while(|b| *b == b' ').take_while(u8::is_ascii_digit).collect();
    std::str::from_utf8(&digits).ok()?.parse().ok()
}

/// Whether `sum` is the CRC-32C, in hexadecimal digits, of all that stands before it: up to the comma before its key.
/// Whoever writes such lines by other means may have counted up to the key, to its value, or the object without it.
fn sum_fits(text: &str, sum: &str) -> bool {
    let Some(key) = text.rfind("\"sum\"") else { return true };
    let before = text[..key].trim_end();
    let body = before.strip_suffix(',').unwrap_or(before);
    let digits = sum.trim_start_matches("crc32c:");
    let said = u32::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 8);
    let fits = |crc: u32| said == Some(crc);
    let first = crc32c::crc32c(body.as_bytes());
    if fits(first) {
        return true;
    }
    let value = text[key..].find(':').map(|colon| {
        let after = &text[key + colon + 1..];
        key + colon + 1 + (after.len() - after.trim_start().len())
    });
    fits(crc32c::crc32c_append(first, b","))
        || fits(crc32c::crc32c_append(first, b"}"))
        || fits(crc32c::crc32c(&text.as_bytes()[..key]))
        || value.is_some_and(|at| {
            fits(crc32c::crc32c(&text.as_bytes()[..at]))
                || text.as_bytes().get(..=at).is_some_and(|quoted| fits(crc32c::crc32c(quoted)))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = r#"{"schema":1,"at":"2026-01-31T12:00:00Z","host":"h","pid":7,"start":12,"file":"q.json","op":"push","read":17,"wrote":18,"read_hash":"a","wrote_hash":"b","ids":["t\"1"]"#;

    #[test]
    fn sums() {
        let crc = |text: &str| format!("{:08x}", crc32c::crc32c(text.as_bytes()));
        let sound = [
            format!("{BODY},\"sum\":\"{}\"}}", crc(BODY)),
            format!("{BODY},\"sum\":\"{}\"}}", crc(&format!("{BODY},"))),
            format!("{BODY},\"sum\":\"{}\"}}", crc(&format!("{BODY},\"sum\":\""))),
            format!("{BODY},\"sum\":\"{}\"}}", crc(&format!("{BODY}}}"))),
            format!("{BODY}, \"sum\": \"{}\"}}", crc(BODY)),
            format!("{BODY}}}"),
        ];
        for line in sound {
            let read = Line::parse(line.as_bytes()).unwrap_or_else(|e| panic!("{line}: {e:?}"));
            assert_eq!((read.pid, read.read, read.wrote, &*read.ids.0[0]), (7, 17, 18, "t\"1"));
        }
        let line = format!("{BODY},\"sum\":\"{}\"}}", crc(BODY));
        for altered in
            [line.replace("17", "16"), line.replace("push", "pull"), line.replace("\"sum\":\"", "\"sum\":\"0")]
        {
            let why = Line::parse(altered.as_bytes()).unwrap_err();
            assert_eq!((why.pid, why.reason.starts_with("its sum is wrong")), (Some(7), true), "{altered}");
        }
    }

    #[test]
    fn what_is_no_line() {
        let cases: [&[u8]; 8] = [
            b"hello",
            b"",
            b"[]",
            b"\xff\xfe",
            &BODY.as_bytes()[..60],
            br#"{"schema":2,"pid":1,"file":"q","op":"x","read":1,"wrote":2}"#,
            br#"{"pid":1,"file":"q","op":"x","read":1e400,"wrote":2}"#,
            br#"{"pid":1,"file":"q","op":"x","read":-1,"wrote":2}"#,
        ];
        for case in cases {
            assert!(Line::parse(case).is_err(), "{}", String::from_utf8_lossy(case));
        }
    }
}
