//! Logs of what was executed and what was generated: JSON lines, CSV, or whatever a regular expression finds.

use std::{collections::HashMap, path::PathBuf};

use jiff::{Timestamp, tz::TimeZone};
use regex::bytes::Regex;
use serde_json::Value;

use super::stamp;
use crate::evidence::{
    EvidenceError,
    source::{LineEnd, next_line, open},
};

/// How a log's lines are read.
#[derive(Clone, Debug, Default)]
pub enum LogFormat {
    /// JSON objects, one a line.
    #[default]
    JsonLines,
    /// Comma-separated, the first line names the fields.
    Csv,
    /// A regular expression with groups named `id`, and, if they are there, `at` and `pid`.
    Regex(Box<Regex>),
}

impl std::str::FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "jsonl" => Ok(LogFormat::JsonLines),
            None if text == "csv" => Ok(LogFormat::Csv),
            Some(("regex", pattern)) => {
                let regex = regex::bytes::RegexBuilder::new(pattern)
                    .size_limit(10 << 20)
                    .build()
                    .map_err(|e| format!("the expression cannot be read: {e}"))?;
                match regex.capture_names().flatten().any(|name| name == "id") {
                    true => Ok(LogFormat::Regex(Box::new(regex))),
                    false => Err("the expression has no group (?P<id>...)".to_owned()),
                }
            }
            _ => Err("write jsonl, csv or regex:RE with the groups at, id, pid".to_owned()),
        }
    }
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) at: Option<Timestamp>,
    pub(super) pid: Option<u64>,
}

/// What a log says of each id.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    /// Entries of each id, in the order of the lines: the first few, and how many there are.
    pub(super) of: HashMap<String, (Vec<Entry>, u64)>,
    /// The times of its first and last entry.
    pub(super) span: Option<(Timestamp, Timestamp)>,
    /// Entries.
    pub(super) entries: u64,
    /// Lines that say no id.
    pub(super) skipped: u64,
}

/// At most this many entries of one id are kept.
const KEPT: usize = 16;
/// At most this many ids are told apart.
const MAX_IDS: usize = 5_000_000;
const MAX_LINE: usize = 1 << 20;
/// Names of the fields, the contract's first.
const AT: [&str; 6] = ["at", "time", "timestamp", "ts", "@timestamp", "date"];
const ID: [&str; 6] = ["id", "task_id", "taskId", "task", "job_id", "uuid"];
const PID: [&str; 4] = ["pid", "process", "process_id", "worker_pid"];

/// Reads logs.
pub(super) fn read(files: &[PathBuf], format: &LogFormat, zone: &TimeZone) -> Result<Log, EvidenceError> {
    let mut log = Log::default();
    for file in files {
        let mut from = open(file)?;
        if let LogFormat::Csv = format {
            csv(&mut from, zone, &mut log).map_err(|e| EvidenceError::unreadable(file, e))?;
            continue;
        }
        let mut line = Vec::new();
        loop {
            match next_line(&mut from, &mut line, MAX_LINE).map_err(|e| EvidenceError::unreadable(file, e))? {
                LineEnd::Nothing => break,
                LineEnd::TooLong => log.skipped += 1,
                _ if line.trim_ascii().is_empty() => {}
                _ => match parse(&line, format, zone) {
                    Some((id, entry)) => log.add(id, entry),
                    None => log.skipped += 1,
                },
            }
        }
    }
    Ok(log)
}

fn parse(line: &[u8], format: &LogFormat, zone: &TimeZone) -> Option<(String, Entry)> {
    match format {
        LogFormat::Regex(regex) => {
            let found = regex.captures(line)?;
            let text = |name: &str| found.name(name).map(|m| String::from_utf8_lossy(m.as_bytes()).into_owned());
            let at = text("at").and_then(|at| stamp::in_log(&at, zone));
            let pid = text("pid").and_then(|pid| pid.trim().parse().ok());
            Some((text("id")?, Entry { at, pid }))
        }
        _ => {
            let value: Value = serde_json::from_slice(line).ok()?;
            let field = |names: &[&str]| names.iter().find_map(|name| value.get(*name)).and_then(plain);
            let at = field(&AT).and_then(|at| stamp::in_log(&at, zone));
            let pid = field(&PID).and_then(|pid| pid.parse().ok());
            // A list of plain ids is a log too.
            let id = field(&ID).or_else(|| plain(&value))?;
            Some((id, Entry { at, pid }))
        }
    }
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn csv(from: &mut dyn std::io::BufRead, zone: &TimeZone, log: &mut Log) -> std::io::Result<()> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).trim(csv::Trim::All).from_reader(from);
    let header = reader.byte_headers()?.clone();
    let column = |names: &[&str]| {
        let is = |field: &[u8], name: &str| field.eq_ignore_ascii_case(name.as_bytes());
        names.iter().find_map(|name| header.iter().position(|field| is(field, name)))
    };
    let (at, id, pid) = (column(&AT), column(&ID), column(&PID));
    let Some(id) = id else {
        let why = "its first line names no column `id`";
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, why));
    };
    let mut record = csv::ByteRecord::new();
    while reader.read_byte_record(&mut record)? {
        let text = |i: usize| record.get(i).map(|field| String::from_utf8_lossy(field).into_owned());
        match text(id).filter(|id| !id.is_empty()) {
            Some(id) => {
                let at = at.and_then(text).and_then(|at| stamp::in_log(&at, zone));
                let pid = pid.and_then(text).and_then(|pid| pid.parse().ok());
                log.add(id, Entry { at, pid });
            }
            None => log.skipped += 1,
        }
    }
    Ok(())
}

impl Log {
    fn add(&mut self, id: String, entry: Entry) {
        self.entries += 1;
        if let Some(at) = entry.at {
            let (from, to) = self.span.unwrap_or((at, at));
            self.span = Some((from.min(at), to.max(at)));
        }
        if !self.of.contains_key(&id) && self.of.len() == MAX_IDS {
            self.skipped += 1;
            return;
        }
        let (kept, count) = self.of.entry(id).or_default();
        *count += 1;
        if kept.len() < KEPT {
            kept.push(entry);
        }
    }

    /// How many entries an id has.
    pub(super) fn count(&self, id: &str) -> u64 {
        self.of.get(id).map_or(0, |(_, count)| *count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str, format: &str) -> (Vec<(String, u64)>, u64) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("log");
        std::fs::write(&file, text).unwrap();
        let log = read(&[file], &format.parse().unwrap(), &TimeZone::UTC).unwrap();
        let mut ids: Vec<(String, u64)> = log.of.into_iter().map(|(id, (_, count))| (id, count)).collect();
        ids.sort();
        (ids, log.skipped)
    }

    #[test]
    fn every_format() {
        let t = |id: &str, n| (id.to_owned(), n);
        let jsonl = "{\"at\":\"2026-01-31T12:00:00Z\",\"id\":\"t1\",\"pid\":7}\n{\"id\":\"t1\"}\n\nnonsense\n{\"id\":5}\n\"t3\"\n";
        assert_eq!(ids(jsonl, "jsonl"), (vec![t("5", 1), t("t1", 2), t("t3", 1)], 1));
        let csv = "pid,AT,id\n7,2026-01-31 12:00:00,t1\n8,1769860800,\"t,2\"\n9\n";
        assert_eq!(ids(csv, "csv"), (vec![t("t,2", 1), t("t1", 1)], 1));
        let plain = "12:00 [7] done t1\n12:01 [8] done t1\n12:02 idle\n";
        assert_eq!(ids(plain, r"regex:^(?P<at>\S+) \[(?P<pid>\d+)\] done (?P<id>\S+)"), (vec![t("t1", 2)], 1));
        for wrong in ["xml", "regex:(", "regex:(?P<pid>x)"] {
            assert!(wrong.parse::<LogFormat>().is_err(), "{wrong}");
        }
    }
}
