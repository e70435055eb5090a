//! The book's reference has every key, operation and kind, every command and option.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use assert_cmd::cargo::cargo_bin;
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

/// What the program says of itself.
fn help(arguments: &[&str]) -> String {
    let output = Command::new(cargo_bin!("noclobber")).args(arguments).output().expect("noclobber starts");
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The options of a help text, each with its value: `--jobs N`, `-q, --quiet`.
fn options(text: &str) -> Vec<String> {
    let plain = |line: &str| line.trim_end_matches("...").replace(" <", " ").trim_end_matches('>').replace('|', "\\|");
    let starts = |line: &&str| line.starts_with('-') && !line.starts_with("- ") && line.contains("--");
    text.lines().map(str::trim).filter(starts).map(plain).filter(|option| !option.ends_with("--help")).collect()
}

#[test]
fn every_command_and_option_is_in_the_reference() {
    let page = read("commands.md");
    let mut sections: BTreeMap<&str, &str> = BTreeMap::new();
    for section in page.split("\n## ").skip(1) {
        let (heading, text) = section.split_once('\n').expect("a heading");
        sections.insert(heading.trim_matches('`'), text);
    }
    let has = |section: &str, option: &str| {
        sections.get(section).is_some_and(|text| text.contains(&format!("\n| `{option}` | ")))
    };
    let listed = help(&["help"]);
    let commands = listed.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"explore") && commands.contains(&"bench"), "{commands:?}");
    let mut seen = 0;
    for command in commands.into_iter().filter(|command| *command != "help") {
        assert!(sections.contains_key(command), "{command} has no section");
        let overrides = ["run", "teeth"].contains(&command);
        for option in options(&help(&[command, "--help"])) {
            let there =
                has(command, &option) || has("Of every command", &option) || overrides && has("explore", &option);
            assert!(there, "{option} of {command}");
            seen += 1;
        }
    }
    assert!(seen > 150, "only {seen} options were looked for");
}
