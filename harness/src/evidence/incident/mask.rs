//! Making evidence fit to be shared: ids become numbers, values become nothing, the structure stays.

use serde_json::{Map, Value};

/// The name of the n-th id.
pub(super) fn id(n: usize) -> String {
    format!("id-{}", n + 1)
}

/// A fragment with its keys but without its values. What is no JSON is masked as a whole.
pub(super) fn fragment(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(value) => blank(&value).to_string(),
        Err(_) => "***".to_owned(),
    }
}

fn blank(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Bool(_) => Value::Bool(false),
        Value::Number(_) => Value::from(0),
        Value::String(_) => Value::from("***"),
        Value::Array(items) => Value::Array(items.iter().map(blank).collect()),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(key, value)| (key.clone(), blank(value))).collect::<Map<_, _>>())
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn values_are_gone() {
        let text = r#"{"id":"secret","n":[4111,true,null,{"to":"ann@example.org"}]}"#;
        assert_eq!(super::fragment(text), r#"{"id":"***","n":[0,false,null,{"to":"***"}]}"#);
        assert_eq!(super::fragment("{half"), "***");
    }
}
