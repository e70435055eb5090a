//! Every key of the scenario file, table by table. `save` writes these and no others.

/// The top of the file.
pub(super) const TOP: &[&str] = &[
    "name",
    "about",
    "expect",
    "dir",
    "dir_filtered",
    "files",
    "setup",
    "check",
    "watch",
    "home_in_world",
    "env",
    "worker",
    "delay",
    "fault",
    "search",
    "oracle",
    "limits",
];
/// `[[worker]]`.
pub(super) const WORKER: &[&str] = &["name", "run", "after", "count", "env", "ends", "exit", "acknowledges"];
/// `[[delay]]`.
pub(super) const DELAY: &[&str] = &["worker", "after", "before", "nth", "for"];
/// `[[fault]]`.
pub(super) const FAULT: &[&str] = &["worker", "kind", "at", "nth"];
/// `[search]`.
pub(super) const SEARCH: &[&str] =
    &["search", "seed", "max_schedules", "time_limit", "exhaustive", "time", "disk", "max_faults"];
/// `[oracle]`.
pub(super) const ORACLE: &[&str] =
    &["serial", "state", "stdout", "multiset", "ignore", "ignore_pointer", "conserve", "allow", "shares_nothing"];
/// `conserve`.
pub(super) const CONSERVE: &[&str] = &["file", "pointer", "id", "done", "at_least_once"];
/// `[limits]`.
pub(super) const LIMITS: &[&str] = &["steps", "cpu_seconds", "output_bytes"];

/// Every table and its keys: what the reference has to tell.
pub fn all_keys() -> [(&'static str, &'static [&'static str]); 8] {
    [
        ("Top", TOP),
        ("worker", WORKER),
        ("delay", DELAY),
        ("fault", FAULT),
        ("search", SEARCH),
        ("oracle", ORACLE),
        ("conserve", CONSERVE),
        ("limits", LIMITS),
    ]
}

/// The table to which a key belongs, for a key that stands in the wrong one.
pub(super) fn home_of(key: &str) -> Option<&'static str> {
    let tables: [(&str, &[&str]); 7] = [
        ("[search]", SEARCH),
        ("[oracle]", ORACLE),
        ("[limits]", LIMITS),
        ("[[worker]]", WORKER),
        ("[[fault]]", FAULT),
        ("[[delay]]", DELAY),
        ("the top of the file, above the first table", TOP),
    ];
    tables.into_iter().find(|(_, keys)| keys.contains(&key)).map(|(table, _)| table)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{
        scenario::{Kind, roster::MAX_WORKERS},
        schema::Schema,
        world::Op,
    };

    /// The schema of scenario files names the keys that are read, and no others.
    #[test]
    fn the_schema_has_every_key() {
        let schema: Value = serde_json::from_str(Schema::Scenario.text()).unwrap();
        let tables = [
            ("", TOP),
            ("/definitions/worker", WORKER),
            ("/definitions/delay", DELAY),
            ("/definitions/fault", FAULT),
            ("/definitions/search", SEARCH),
            ("/definitions/oracle", ORACLE),
            ("/definitions/conserve", CONSERVE),
            ("/definitions/limits", LIMITS),
        ];
        for (table, keys) in tables {
            let at = schema.pointer(table).unwrap_or_else(|| panic!("{table}"));
            let mut named: Vec<&str> = at["properties"].as_object().unwrap().keys().map(String::as_str).collect();
            let mut keys = keys.to_vec();
            named.sort_unstable();
            keys.sort_unstable();
            assert_eq!(named, keys, "{table}");
            assert_eq!(at["additionalProperties"], false, "{table}");
            let said = |property: &Value| property["description"].is_string() || property["$ref"].is_string();
            assert!(at["properties"].as_object().unwrap().values().all(said), "{table}");
        }
    }

    /// The words of the schemas are those of the code.
    #[test]
    fn the_schemas_have_every_word() {
        let kinds: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        let ops: Vec<&str> = Op::ALL.iter().map(|op| op.name()).collect();
        for schema in [Schema::Scenario, Schema::Report, Schema::Teeth] {
            let value: Value = serde_json::from_str(schema.text()).unwrap();
            assert_eq!(value["definitions"]["kind"]["enum"], Value::from(kinds.clone()), "{schema:?}");
            if schema == Schema::Scenario {
                let pattern = value["definitions"]["pattern"]["pattern"].as_str().unwrap();
                assert!(pattern.contains(&format!("(\\*|flock|{})", ops.join("|"))), "{pattern}");
                assert_eq!(value["definitions"]["worker"]["properties"]["count"]["maximum"], MAX_WORKERS);
            } else {
                let step = &value["definitions"]["step"]["properties"]["op"]["enum"];
                assert_eq!(*step, Value::from(ops.clone()), "{schema:?}");
            }
        }
    }
}
