//! The book's reference has every key, operation and kind.

use std::{collections::BTreeMap, fs, path::Path};

use noclobber::{scenario::Kind, world::Op};

fn read(page: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/reference").join(page);
    fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

#[test]
fn every_key_of_a_scenario_is_in_the_reference() {
    let page = read("scenario.md");
    let mut section = "Top".to_owned();
    let mut rows: BTreeMap<String, String> = BTreeMap::new();
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading.trim_matches(['`', '[', ']']).to_owned();
        } else if line.starts_with("`conserve`:") {
            section = "conserve".into();
        } else if let Some(row) = line.strip_prefix("| `") {
            let keys = row.split(" | ").next().unwrap_or_default();
            *rows.entry(section.clone()).or_default() += &format!("`{keys} ");
        }
    }
    for (table, keys) in noclobber::scenario::all_keys() {
        for key in keys {
            let has = rows.get(table).is_some_and(|rows| rows.contains(&format!("`{key}`")));
            assert!(has, "{key} of {table}: {rows:?}");
        }
    }
}

#[test]
fn every_kind_and_operation_is_in_the_reference() {
    let anomalies = read("anomalies.md");
    let mut at = 0;
    for kind in Kind::ALL {
        // In the order of severity.
        let row = anomalies[at..].find(&format!("| [`{kind}`](../catalogue/{kind}.md) |"));
        at += row.unwrap_or_else(|| panic!("{kind} is not there, or not in its place"));
    }
    let scenario = read("scenario.md");
    for op in Op::ALL {
        assert!(scenario.contains(&format!("`{op}`")), "{op}");
    }
}
