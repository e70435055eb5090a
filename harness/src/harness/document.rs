//! A harness as the text of a scenario file, and back: so that there is one reader, one set of rules and one text for
//! each mistake.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::{Error, Harness, Worker};
use crate::{
    cli::worker_name,
    scenario::{self, Scenario, parse_draft, printable},
};

/// A file as a harness.
pub(super) fn read(file: &Path) -> Result<Harness, Error> {
    // Its own mistakes are told with their lines.
    let draft = scenario::load_draft(file).map_err(|e| Error::Mistake(e.to_string()))?;
    let text = std::fs::read_to_string(file).map_err(|e| Error::Mistake(format!("{}: {e}", file.display())))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut table: Table = text.parse().map_err(|e: toml::de::Error| Error::Mistake(e.to_string()))?;
    let workers = match table.remove("worker") {
        Some(Value::Array(workers)) => workers,
        _ => Vec::new(),
    };
    let as_written = |value: Value| match value {
        Value::Table(table) => Worker::written(table),
        other => Worker::written(Table::from_iter([("run".to_owned(), other)])),
    };
    table.entry("name").or_insert(Value::String(draft.scenario.name));
    Ok(Harness {
        table,
        workers: workers.into_iter().map(as_written).collect(),
        file: Some(file.to_owned()),
        ..Harness::default()
    })
}

/// The scenario of a harness.
pub(super) fn scenario(harness: &Harness) -> Result<Scenario, Error> {
    let mut table = harness.table.clone();
    if !table.contains_key("name") {
        let thread = std::thread::current();
        let name = thread.name().filter(|name| *name != "main").unwrap_or("harness");
        table.insert("name".into(), Value::String(name.to_owned()));
    }
    let workers = harness.workers.iter().enumerate();
    let workers = workers.map(|(i, worker)| worker.table(&worker_name(i)).map(Value::Table));
    table.insert("worker".into(), Value::Array(workers.collect::<Result<_, _>>().map_err(Error::Mistake)?));
    let text = toml::to_string(&table).map_err(|e| Error::Mistake(e.to_string()))?;
    // `SCENARIO_DIR` is the file's folder, or the caller's.
    let stand_in = harness.file.clone().unwrap_or_else(|| PathBuf::from("harness"));
    let draft = parse_draft(&text, &stand_in).map_err(|e| mistake(harness, &e))?;
    let mut scenario = draft.scenario;
    scenario.file.clone_from(&harness.file);
    scenario.search.seed = harness.seed.unwrap_or(scenario.search.seed);
    if let Some(dir) = scenario.dir.as_ref().filter(|dir| !dir.is_dir()) {
        return Err(Error::Mistake(format!("`dir`: there is no folder {}", printable(&dir.to_string_lossy()))));
    }
    if !scenario.is_judged() {
        let why = "`serial` is off, and nothing else judges: give a check, a state or what is conserved";
        return Err(Error::Mistake(why.into()));
    }
    Ok(scenario)
}

/// The lines of the text in between mean nothing to anybody.
fn mistake(harness: &Harness, error: &scenario::ScenarioError) -> Error {
    let of = harness.file.as_ref().map(|file| format!("{}: ", printable(&file.to_string_lossy()))).unwrap_or_default();
    let key = match error.place.key.as_str() {
        "" => String::new(),
        key => format!("`{}`: ", printable(key)),
    };
    Error::Mistake(format!("{of}{key}{}\n  {}", error.problem, error.problem.way_out()))
}

/// A path of the caller's, absolute.
pub(super) fn path(path: &Path) -> Value {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    Value::String(absolute.to_string_lossy().into_owned())
}

/// Adds to a list, which may have been written as one value.
pub(super) fn push(table: &mut Table, key: &str, value: Value) {
    match table.entry(key).or_insert_with(|| Value::Array(Vec::new())) {
        Value::Array(list) => list.push(value),
        single => *single = Value::Array(vec![single.clone(), value]),
    }
}

/// The table under a key.
pub(super) fn table_at<'t>(table: &'t mut Table, key: &str) -> &'t mut Table {
    let entry = table.entry(key).or_insert_with(|| Value::Table(Table::new()));
    if !entry.is_table() {
        *entry = Value::Table(Table::new());
    }
    match entry {
        Value::Table(table) => table,
        _ => unreachable!("it was made a table"),
    }
}
