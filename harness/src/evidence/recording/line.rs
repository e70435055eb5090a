//! An audit line as a recorder writes it.

use serde::Serialize;

/// What a version was made from, as far as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// The version that the writer read last; 0: there was no file.
    pub read: u64,
    /// It can have been any from `read` up to this one.
    pub read_to: u64,
    /// It can also have been something that was never published: somebody was writing meanwhile.
    pub unsure: bool,
}

impl Base {
    /// Exactly this version.
    pub fn exactly(version: u64) -> Base {
        Base { read: version, read_to: version, unsure: false }
    }

    /// Whether one version is sure.
    pub fn is_exact(&self) -> bool {
        self.read == self.read_to && !self.unsure
    }
}

/// An audit line: the contract's keys, and of ours `by`, `copy`, `read_to` and `unsure`. Versions are numbered by the
/// recorder, from 1; what a document says of its own version is the document's affair.
#[derive(Clone, Debug, Serialize)]
pub struct Written<'a> {
    /// The format.
    pub schema: u32,
    /// When, RFC 3339.
    pub at: String,
    /// On which machine.
    pub host: &'a str,
    /// The process that wrote; 0: nobody that was watched.
    pub pid: u64,
    /// When that process started, in clock ticks since boot.
    pub start: u64,
    /// The file.
    pub file: &'a str,
    /// `create`, `update`, `append`, `overwrite` (by somebody who had never read it), `remove`, or `recovered`.
    pub op: &'a str,
    /// The version that the writer had read.
    pub read: u64,
    /// The version that it wrote.
    pub wrote: u64,
    /// CRC-32C of what it had read.
    pub read_hash: String,
    /// CRC-32C of what it wrote.
    pub wrote_hash: String,
    /// Nothing: a recorder does not know what items are.
    pub ids: [&'a str; 0],
    /// Who wrote this line.
    pub by: &'static str,
    /// The copy of what was written; none: it was removed, or too large.
    pub copy: Option<&'a str>,
    /// The newest version that it can have been made from, if more than one fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_to: Option<u64>,
    /// It can have been made from something that was never published.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unsure: bool,
}

impl Written<'_> {
    /// The line with its sum and newline.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        let mut line = serde_json::to_string(self)?;
        line.pop();
        let sum = crc32c::crc32c(line.as_bytes());
        line.push_str(&format!(",\"sum\":\"{sum:08x}\"}}\n"));
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::audit::Line;

    #[test]
    fn both_readers_understand_it() {
        let written = Written {
            schema: 1,
            at: "2026-01-31T12:00:00.5Z".into(),
            host: "h",
            pid: 7,
            start: 12,
            file: "a \"sum\" \u{1b}.json",
            op: "update",
            read: 17,
            wrote: 19,
            read_hash: "ffba0104".into(),
            wrote_hash: "d743fc2e".into(),
            ids: [],
            by: "record",
            copy: Some("c.json"),
            read_to: Some(18),
            unsure: true,
        };
        let line = written.to_line().unwrap();
        let ours = Line::parse(line.trim_end().as_bytes()).unwrap();
        assert_eq!((ours.pid, ours.read, ours.wrote, ours.read_to, ours.unsure), (7, 17, 19, Some(18), true));
        assert_eq!((&*ours.file, ours.copy.as_deref(), ours.recorded()), (written.file, Some("c.json"), true));
        let theirs = queue_core::audit::Entry::parse(&line).unwrap();
        assert_eq!((theirs.read, theirs.wrote, &*theirs.op), (17, 19, "update"));
    }
}
