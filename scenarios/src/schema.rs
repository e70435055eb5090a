//! What `noclobber` prints is as its published schemas say.

use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::Value;

/// A format that has a schema.
#[derive(Clone, Copy, Debug)]
pub enum Format {
    /// A line of `run`, `explore`, `replay` and `merge`.
    Report,
    /// A line of `teeth`.
    Teeth,
}

/// One line of a report, read and held against its schema.
///
/// # Panics
/// When it is no JSON, or not what the schema says.
pub fn checked(format: Format, line: &str) -> Value {
    static REPORT: LazyLock<Validator> =
        LazyLock::new(|| validator(include_str!("../../harness/schema/report.schema.json")));
    static TEETH: LazyLock<Validator> =
        LazyLock::new(|| validator(include_str!("../../harness/schema/teeth.schema.json")));
    let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("no JSON object: {e}: {line}"));
    let schema = match format {
        Format::Report => &REPORT,
        Format::Teeth => &TEETH,
    };
    let wrong: Vec<String> = schema.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(wrong.is_empty(), "not as the schema says: {}\n{line}", wrong.join("; "));
    value
}

fn validator(schema: &str) -> Validator {
    let schema = serde_json::from_str(schema).expect("a schema is JSON");
    jsonschema::draft7::new(&schema).expect("a schema")
}
