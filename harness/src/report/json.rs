//! For machines: one object per scenario, one a line, nothing else. The keys are a contract.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Map, Value, json, ser::Formatter};

use super::{Anomaly, EndedBy, Report, Reporter, StepLine};
use crate::scenario::{Expect, is_printable};

/// The version of the format.
const SCHEMA: u32 = 1;

/// Writes JSON lines.
#[derive(Debug)]
pub struct Json<W> {
    out: W,
}

impl<W: Write> Json<W> {
    /// A reporter that writes to `out`.
    pub fn new(out: W) -> Self {
        Json { out }
    }

    /// What was written to.
    pub fn into_inner(self) -> W {
        self.out
    }
}

impl<W: Write> Reporter for Json<W> {
    fn report(&mut self, report: &Report) -> io::Result<()> {
        printable_json(&to_json(report), &mut self.out)?;
        self.out.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes one object on one line, with every character escaped that cannot be shown.
pub(super) fn printable_json(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut *out, Printable))?;
    writeln!(out)
}

/// Compact JSON in which every character that cannot be shown is escaped: somebody will print it on a terminal.
struct Printable;

impl Formatter for Printable {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(|c| !is_printable(c)) {
            let (plain, from) = rest.split_at(at);
            writer.write_all(plain.as_bytes())?;
            let c = from.chars().next().unwrap_or_default();
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &from[c.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

/// What was explored.
pub(super) fn explored(report: &Report) -> Value {
    let e = &report.explored;
    json!({
        "schedules": e.schedules,
        "classes": e.classes,
        "redundant": e.redundant,
        "steps": e.steps,
        "exhausted": e.exhausted,
        "ended_by": ended_by(e.ended_by),
        "search": e.search,
        "seed": e.seed,
        "seconds": e.seconds,
        "miss_bound": e.miss_bound,
        "outcomes": e.outcomes,
        "classes_hash": e.classes_hash,
        "coverage": report.coverage,
    })
}

/// The object of one report.
pub fn to_json(report: &Report) -> Value {
    let mut object = json!({
        "schema": SCHEMA,
        "scenario": report.scenario,
        "verdict": report.verdict.name(),
        "expected": report.expected.as_ref().map(expected),
        "as_expected": report.as_expected,
        "reason": report.reason,
        "explored": explored(report),
        "anomalies": report.anomalies.iter().map(anomaly).collect::<Vec<_>>(),
        "trace_hash": report.trace_hash,
        "replay": report.replay,
        "warnings": report.warnings.iter().map(|w| w.text.as_str()).collect::<Vec<_>>(),
        "decisions": report.decisions,
    });
    if let Some(part) = &report.part {
        object["partition"] = json!(part);
    }
    object
}

fn expected(expect: &Expect) -> Value {
    match expect {
        Expect::Kinds(kinds) if kinds.len() != 1 => kinds.iter().map(|k| k.name()).collect(),
        one => Value::String(one.to_string()),
    }
}

fn ended_by(ended: EndedBy) -> &'static str {
    match ended {
        EndedBy::Exhausted => "exhausted",
        EndedBy::Found => "found",
        EndedBy::Schedules => "schedules",
        EndedBy::Time => "time",
        EndedBy::Interrupt => "interrupt",
        EndedBy::LostControl => "lost-control",
    }
}

pub(super) fn anomaly(anomaly: &Anomaly) -> Value {
    json!({
        "kind": anomaly.kind.name(),
        "summary": anomaly.summary,
        "lost": anomaly.lost,
        "duplicated": anomaly.duplicated,
        "actors": anomaly.actors,
        "needs": anomaly.needs,
        "steps": anomaly.steps.iter().map(step).collect::<Vec<_>>(),
        "pivot": anomaly.pivot.map(|(n, m)| [n, m]),
        "evidence": anomaly.evidence,
        "replay": anomaly.replay,
    })
}

fn step(step: &StepLine) -> Value {
    let mut object = Map::new();
    object.insert("n".into(), json!(step.n));
    object.insert("actor".into(), json!(step.actor));
    object.insert("op".into(), json!(step.op));
    object.insert("path".into(), json!(step.path));
    object.insert("result".into(), json!(step.result));
    object.insert("time_ms".into(), json!(step.time_ms));
    object.insert("note".into(), json!(step.note));
    object.insert("chosen".into(), json!(step.chosen));
    Value::Object(object)
}
