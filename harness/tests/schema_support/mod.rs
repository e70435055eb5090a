//! Checking values against the published schemas.
#![allow(dead_code, missing_docs, unreachable_pub)]

use jsonschema::Validator;
use noclobber::schema::Schema;
use serde_json::{Map, Number, Value};
use toml::de::{DeTable, DeValue};

/// The schema, ready to be asked.
pub fn validator(schema: Schema) -> Validator {
    let value: Value = serde_json::from_str(schema.text()).expect("JSON");
    jsonschema::draft7::new(&value).expect("a schema")
}

/// What is wrong with a value, place by place; empty when nothing is.
pub fn complaints(schema: Schema, value: &Value) -> Vec<String> {
    validator(schema).iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

/// Fails unless the value is as the schema says.
pub fn assert_valid(schema: Schema, value: &Value) {
    let complaints = complaints(schema, value);
    assert!(complaints.is_empty(), "{}\nin {value}", complaints.join("\n"));
}

/// A TOML file as an editor's schema sees it.
pub fn toml_value(text: &str) -> Value {
    let root = DeTable::parse(text).expect("TOML");
    table(root.get_ref())
}

fn table(table: &DeTable<'_>) -> Value {
    let entry = |(key, value): (&toml::Spanned<std::borrow::Cow<'_, str>>, &toml::Spanned<DeValue<'_>>)| {
        (key.get_ref().to_string(), plain(value.get_ref()))
    };
    Value::Object(table.iter().map(entry).collect::<Map<_, _>>())
}

fn plain(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        // Seeds go up to 2^64 - 1.
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(n) => Value::Number(Number::from_i128(n).expect("a number")),
            Err(e) => panic!("{}: {e}", number.as_str()),
        },
        DeValue::Float(number) => Value::from(number.as_str().parse::<f64>().expect("a number")),
        DeValue::Boolean(truth) => Value::from(*truth),
        DeValue::Datetime(time) => Value::from(time.to_string()),
        DeValue::Array(items) => items.iter().map(|item| plain(item.get_ref())).collect(),
        DeValue::Table(entries) => table(entries),
    }
}
