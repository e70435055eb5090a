//! The table that says how runs are judged: `[oracle]`.

use super::{
    Conserve, IgnorePointer, Kind, OracleConfig, Problem, ScenarioError, Serial, UnknownName, error::Place, keys,
    pattern::compile_glob, table::Item,
};

/// `[oracle]`, and where its `serial` stands, for an error that only shows when the whole file is known.
pub(super) struct Oracle {
    pub(super) config: OracleConfig,
    pub(super) serial_place: Option<Place>,
}

pub(super) fn oracle(item: &Item<'_>) -> Result<Oracle, ScenarioError> {
    let table = item.table(Some(keys::ORACLE), "an `[oracle]` table")?;
    let serial = table.get("serial");
    let config = OracleConfig {
        serial: serial.as_ref().map_or(Ok(Serial::default()), serial_judge)?,
        state: table.get("state").map(|i| i.string("a shell command in quotes").map(str::to_owned)).transpose()?,
        stdout: table.get("stdout").map(|i| i.boolean()).transpose()?,
        multiset: table.get("multiset").map_or(Ok(Vec::new()), |i| globs(&i))?,
        ignore: table.get("ignore").map_or(Ok(Vec::new()), |i| globs(&i))?,
        ignore_pointer: table.get("ignore_pointer").map_or(Ok(Vec::new()), |i| pointers(&i))?,
        conserve: table.get("conserve").map(|i| conserve(&i)).transpose()?,
        allow: table.get("allow").map_or(Ok(Vec::new()), |i| kinds(&i))?,
        shares_nothing: table.get("shares_nothing").map_or(Ok(false), |i| i.boolean())?,
    };
    Ok(Oracle { config, serial_place: serial.map(|i| i.place()) })
}

fn serial_judge(item: &Item<'_>) -> Result<Serial, ScenarioError> {
    if item.is_boolean() {
        return Ok(if item.boolean()? { Serial::Operations } else { Serial::Off });
    }
    match item.string("`true`, `false` or `\"workers\"`")? {
        "workers" => Ok(Serial::Workers),
        word => Err(item.error(UnknownName::new("serial judge", word, ["workers"]))),
    }
}

/// A kind or a list of kinds.
pub(super) fn kinds(item: &Item<'_>) -> Result<Vec<Kind>, ScenarioError> {
    let kind = |item: Item<'_>| {
        let word = item.string("an anomaly kind in quotes")?;
        word.parse::<Kind>().map_err(|e| item.error(e))
    };
    item.one_or_many()?.into_iter().map(kind).collect()
}

fn globs(item: &Item<'_>) -> Result<Vec<String>, ScenarioError> {
    let glob = |item: Item<'_>| {
        let text = item.string("a glob in quotes, or a list of globs")?;
        compile_glob(text).map_err(|e| item.error(e))?;
        Ok(text.to_owned())
    };
    item.one_or_many()?.into_iter().map(glob).collect()
}

fn pointers(item: &Item<'_>) -> Result<Vec<IgnorePointer>, ScenarioError> {
    let pointer = |item: Item<'_>| {
        let text = item.string("`\"/pointer\"` or `\"FILE#/pointer\"`, or a list of them")?;
        IgnorePointer::parse(text).map_err(|problem| item.error(problem))
    };
    item.one_or_many()?.into_iter().map(pointer).collect()
}

impl IgnorePointer {
    /// Reads `[FILE#]/pointer`. The file ends at the first `#/` (or at a final `#`: the whole document); a text
    /// without either is a pointer into every JSON file, and so is one whose file is `*`.
    pub fn parse(text: &str) -> Result<IgnorePointer, Problem> {
        let (file, pointer) = match (text.find("#/"), text.strip_suffix('#')) {
            (Some(at), _) => (Some(&text[..at]), &text[at + 1..]),
            (None, Some(file)) => (Some(file), ""),
            (None, None) => (None, text),
        };
        let bad = |why| Problem::Pointer { pointer: text.to_owned(), why };
        match file {
            None if pointer.is_empty() => return Err(bad("it is empty and would hide every JSON file")),
            Some("" | "*") if pointer.is_empty() => return Err(bad("it would hide every JSON file")),
            _ => check_pointer(pointer).map_err(bad)?,
        }
        let file = file.filter(|file| !matches!(*file, "" | "*")).map(str::to_owned);
        if let Some(file) = &file {
            compile_glob(file)?;
        }
        Ok(IgnorePointer { file, pointer: pointer.to_owned() })
    }
}

/// RFC 6901: empty, or tokens that each begin with `/`, with `~` only in `~0` and `~1`.
fn check_pointer(pointer: &str) -> Result<(), &'static str> {
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Err("it does not begin with `/`");
    }
    let mut tildes = pointer.split('~').skip(1);
    if tildes.all(|rest| rest.starts_with(['0', '1'])) {
        Ok(())
    } else {
        Err("`~` is written `~0` (and `/` in a name `~1`)")
    }
}

fn conserve(item: &Item<'_>) -> Result<Conserve, ScenarioError> {
    let wanted = "a table, as in `{ file = \"queue.json\", pointer = \"/tasks\", id = \"id\", done = \"done.log\" }`";
    let table = item.table(Some(keys::CONSERVE), wanted)?;
    let file = table.need("file", "file = \"queue.json\"")?;
    let text = |key: &str, default: &str| match table.get(key) {
        None => Ok(default.to_owned()),
        Some(item) => item.string("a text in quotes").map(str::to_owned),
    };
    let conserve = Conserve {
        file: file.string("a path or glob in quotes")?.to_owned(),
        pointer: text("pointer", "/tasks")?,
        id: text("id", "id")?,
        done: table
            .need("done", "done = \"done.log\"` or `done = \"stdout\"")?
            .string("a file in quotes, or `\"stdout\"`")?
            .to_owned(),
        at_least_once: table.get("at_least_once").map_or(Ok(false), |i| i.boolean())?,
    };
    compile_glob(&conserve.file).map_err(|e| file.error(e))?;
    if let Err(why) = check_pointer(&conserve.pointer) {
        let at = table.get("pointer").unwrap_or(file);
        return Err(at.error(Problem::Pointer { pointer: conserve.pointer, why }));
    }
    Ok(conserve)
}
