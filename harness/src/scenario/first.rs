//! A first scenario, to be read and changed: what `noclobber init` writes.

use super::{Scenario, ScenarioError, save};

/// What is said of each key or table, before its line.
const REMARKS: &[(&str, &str)] = &[
    ("name =", "What reports call it."),
    ("expect =", "What has to come out: \"clean\", a kind (\"lost-update\", ...), a list of kinds, or \"anomaly\"."),
    (
        "dir =",
        "The world before the first step: a copy of this folder, relative to this file. The original is never written.",
    ),
    ("[[worker]]", "One program. All of them run at once in that world; SCENARIO_DIR is this file's folder."),
];

/// What can be added, as comments.
const MORE: &str = r#"
# What else can be said; take the `#` away.
#
# setup = "printf '[]' > queue.json"       # a shell command that prepares the world, once
# check = "jq -e 'length == 2' queue.json" # rejects a final world: anything but exit 0
#
# [files]                                  # files of the world, instead of or beside `dir`
# "queue.json" = "[]"
#
# [oracle]
# ignore = ["*.log"]                       # files that may differ
# conserve = { file = "queue.json", pointer = "/tasks", id = "id", done = "done.log" }
#
# [search]
# max_schedules = 1000
# time_limit = "60s"
# exhaustive = true                        # less than every order is no answer
#
# [[delay]]                                # one window instead of a search
# worker = "B"
# after = "read queue.json"
# for = "3s"
"#;

/// A scenario as TOML with remarks for who has never seen one. It parses to the scenario.
///
/// # Errors
/// A path that cannot be written as TOML.
pub fn first(scenario: &Scenario) -> Result<String, ScenarioError> {
    let mut out = String::from("# Run it: noclobber run FILE. Completion in an editor: noclobber schema --help\n\n");
    let mut said = Vec::new();
    for line in save(scenario)?.lines() {
        if let Some((key, remark)) = REMARKS.iter().find(|(key, _)| line.starts_with(key))
            && !said.contains(key)
        {
            said.push(key);
            out += &format!("# {remark}\n");
        }
        out += line;
        out.push('\n');
    }
    Ok(out + MORE)
}
