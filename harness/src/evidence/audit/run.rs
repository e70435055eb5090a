//! Reading audit files line by line.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use super::{Fault, FaultKind, Judge, Line, rotation::series};
use crate::evidence::{
    EvidenceError,
    source::{LineEnd, next_line, open},
};

/// The longest line that is read; a longer one is malformed.
pub const MAX_LINE: usize = 1 << 20;
/// At most this many faults are kept; the others are counted.
pub const MAX_FAULTS: usize = 10_000;
/// At most this many queue files are told apart.
const MAX_QUEUES: usize = 100_000;

/// What audit lines say.
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// Lines that were read; empty ones do not count.
    pub lines: u64,
    /// Queue files that they are about.
    pub queues: usize,
    /// `recovered` lines: a process died between its write and its line.
    pub recovered: u64,
    /// The first [`MAX_FAULTS`] faults, in the order of the lines.
    pub faults: Vec<Fault>,
    /// All faults.
    pub fault_count: u64,
    /// What limits this inspection.
    pub warnings: Vec<String>,
}

impl Inspection {
    /// Whether nothing is wrong.
    pub fn ok(&self) -> bool {
        self.fault_count == 0
    }
}

/// Reads audit files, plain or gzip, in the order in which they were rotated, and judges every queue file in them.
/// `found` is told of each fault at once. Memory does not grow with the length of the files.
///
/// # Errors
/// [`EvidenceError::Unreadable`] for a file that cannot be opened or read.
pub fn inspect(files: &[PathBuf], found: &mut dyn FnMut(&Fault)) -> Result<Inspection, EvidenceError> {
    let mut inspection = Inspection::default();
    for series in series(files)? {
        let mut reading = Reading::default();
        for file in &series.files {
            reading.begin(file);
            let mut from = open(file)?;
            let mut line = Vec::new();
            loop {
                let end = match next_line(&mut from, &mut line, MAX_LINE) {
                    Ok(end) => end,
                    // A gzip file that is cut off or damaged: what it held before that counts.
                    Err(e) => {
                        reading.malformed(format!("the file cannot be read on: {e}"), None, &mut inspection, found);
                        break;
                    }
                };
                if end == LineEnd::Nothing {
                    break;
                }
                reading.line(&line, end, &mut inspection, found);
            }
        }
        reading.end(&mut inspection);
    }
    if inspection.lines == 0 {
        inspection.warnings.push("there is no line in these files: nothing was inspected".to_owned());
    }
    let kept = inspection.faults.len() as u64;
    if inspection.fault_count > kept {
        let more = inspection.fault_count - kept;
        inspection.warnings.push(format!("{more} more faults are not listed (the first {MAX_FAULTS} are)"));
    }
    Ok(inspection)
}

/// The judges of one series of files, and where in it the reading is.
#[derive(Debug, Default)]
pub(super) struct Reading {
    judges: HashMap<String, Judge>,
    audit: String,
    number: u64,
    files: u64,
    /// The file before which a queue file's judge was last told of a new file.
    begun: HashMap<String, u64>,
    too_many: bool,
}

impl Reading {
    /// What follows is in this file, from its first line.
    pub(super) fn begin(&mut self, file: &Path) {
        self.audit = file.to_string_lossy().into_owned();
        self.number = 0;
        self.files += 1;
    }

    /// Judges the next line.
    pub(super) fn line(
        &mut self,
        bytes: &[u8],
        end: LineEnd,
        inspection: &mut Inspection,
        found: &mut dyn FnMut(&Fault),
    ) {
        self.number += 1;
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        if bytes.trim_ascii().is_empty() && end != LineEnd::TooLong {
            return;
        }
        inspection.lines += 1;
        if end == LineEnd::TooLong {
            return self.malformed(format!("longer than {MAX_LINE} bytes"), None, inspection, found);
        }
        let line = match Line::parse(bytes) {
            Ok(line) => line,
            Err(why) => {
                let torn =
                    if end == LineEnd::Missing { "; it has no newline: its writer died, or is at it" } else { "" };
                return self.malformed(format!("{}{torn}", why.reason), why.pid, inspection, found);
            }
        };
        inspection.recovered += u64::from(line.op == "recovered" && !line.recorded());
        if !self.judges.contains_key(&*line.file) {
            if self.judges.len() == MAX_QUEUES {
                self.too_many = true;
                return;
            }
            self.judges.insert(line.file.to_string(), Judge::default());
        }
        let judge = self.judges.get_mut(&*line.file).expect("it was put there");
        let begun = self.begun.get_mut(&*line.file);
        if begun.as_deref() != Some(&self.files) {
            judge.begins_file();
            match begun {
                Some(begun) => *begun = self.files,
                None => drop(self.begun.insert(line.file.to_string(), self.files)),
            }
        }
        if let Some((kind, detail)) = judge.line(&line, self.number) {
            let fault = Fault {
                kind,
                file: line.file.into_owned(),
                audit: self.audit.clone(),
                line: self.number,
                pid: Some(line.pid),
                detail,
            };
            keep(fault, inspection, found);
        }
    }

    fn malformed(
        &mut self,
        detail: String,
        pid: Option<u64>,
        inspection: &mut Inspection,
        found: &mut dyn FnMut(&Fault),
    ) {
        self.judges.values_mut().for_each(Judge::missed_one);
        let (file, audit) = (self.audit.clone(), self.audit.clone());
        let fault = Fault { kind: FaultKind::Malformed, file, audit, line: self.number, pid, detail };
        keep(fault, inspection, found);
    }

    /// Nothing follows.
    pub(super) fn end(self, inspection: &mut Inspection) {
        inspection.queues += self.judges.len();
        let mut forgot: Vec<&String> = self.judges.iter().filter(|(_, j)| j.forgot()).map(|(file, _)| file).collect();
        forgot.sort();
        for file in forgot {
            inspection.warnings.push(format!(
                "{file}: so many versions are missing that the oldest were forgotten: a second use of them is not seen"
            ));
        }
        if self.too_many {
            inspection
                .warnings
                .push(format!("more than {MAX_QUEUES} queue files: the lines of the others were not judged"));
        }
    }
}

fn keep(fault: Fault, inspection: &mut Inspection, found: &mut dyn FnMut(&Fault)) {
    found(&fault);
    inspection.fault_count += 1;
    if inspection.faults.len() < MAX_FAULTS {
        inspection.faults.push(fault);
    }
}
