//! The tables that steer the runs: `[[delay]]`, `[[fault]]`, `[search]`, `[limits]`.

use super::{
    Delay, Fault, FaultKind, Limits, Nth, Pattern, Problem, ScenarioError, Search, UnknownName, keys,
    names::parse_disk,
    parse_time,
    roster::Roster,
    table::{Item, Table},
};

/// More faults in one run than this are more than anybody waits for.
pub const MAX_FAULTS: u64 = 8;

pub(super) fn delays(item: &Item<'_>, roster: &Roster) -> Result<Vec<Delay>, ScenarioError> {
    item.list("a `[[delay]]` (two brackets)")?.iter().map(|item| delay(item, roster)).collect()
}

fn delay(item: &Item<'_>, roster: &Roster) -> Result<Delay, ScenarioError> {
    let table = item.table(Some(keys::DELAY), "a `[[delay]]` table")?;
    let (after, at) = match (table.get("after"), table.get("before")) {
        (Some(at), None) => (true, at),
        (None, Some(at)) => (false, at),
        (Some(_), Some(second)) => {
            let problem = "a delay is after a step or before it, not both";
            return Err(second.error(Problem::Conflict(problem, "take one of them out, or write two `[[delay]]`")));
        }
        (None, None) => {
            return Err(table.error(Problem::Missing {
                key: "after",
                table: "[[delay]]".into(),
                example: "after = \"read queue.json\"` or `before = \"write queue.json\"",
            }));
        }
    };
    Ok(Delay {
        workers: roster.resolve_all(&table.need("worker", "worker = \"A\"")?)?,
        after,
        at: pattern(&at)?,
        nth: table.get("nth").map_or(Ok(1), |item| item.number(1, u64::from(u32::MAX)))?,
        duration: table.need("for", "for = \"3s\"")?.duration()?,
    })
}

fn pattern(item: &Item<'_>) -> Result<Pattern, ScenarioError> {
    Pattern::parse(item.string("a pattern in quotes, as in `\"read queue.json\"`")?).map_err(|e| item.error(e))
}

pub(super) fn faults(item: &Item<'_>, roster: &Roster) -> Result<Vec<Fault>, ScenarioError> {
    item.list("a `[[fault]]` (two brackets)")?.iter().map(|item| fault(item, roster)).collect()
}

fn fault(item: &Item<'_>, roster: &Roster) -> Result<Fault, ScenarioError> {
    let table = item.table(Some(keys::FAULT), "a `[[fault]]` table")?;
    let kind_item = table.need("kind", "kind = \"kill\"")?;
    let kind = kind_item.string("a kind of fault in quotes")?;
    kind.parse::<FaultKind>().map_err(|e| kind_item.error(e))?;
    Ok(Fault {
        workers: table.get("worker").map_or_else(|| Ok(roster.all()), |item| roster.resolve_all(&item))?,
        kind: kind.to_owned(),
        at: table.get("at").map(|item| pattern(&item)).transpose()?,
        nth: nth(&table)?,
    })
}

fn nth(table: &Table<'_>) -> Result<Nth, ScenarioError> {
    let Some(item) = table.get("nth") else { return Ok(Nth::default()) };
    if !item.is_string() {
        return Ok(Nth::Number(item.number(1, u64::from(u32::MAX))?));
    }
    match item.string("a number, `\"each\"` or `\"all\"`")? {
        "each" => Ok(Nth::Each),
        "all" => Ok(Nth::All),
        word => Err(item.error(UnknownName::new("choice of matches", word, ["each", "all", "1"]))),
    }
}

pub(super) fn search(item: &Item<'_>) -> Result<Search, ScenarioError> {
    let table = item.table(Some(keys::SEARCH), "a `[search]` table")?;
    let mut search = Search::default();
    if let Some(item) = table.get("search") {
        search.search = item.string("a search in quotes")?.parse().map_err(|e: UnknownName| item.error(e))?;
    }
    if let Some(item) = table.get("seed") {
        search.seed = item.number(0, u64::MAX)?;
    }
    if let Some(item) = table.get("max_schedules") {
        search.max_schedules = item.number(1, u64::MAX)?;
    }
    if let Some(item) = table.get("time_limit") {
        search.time_limit = Some(item.duration()?);
    }
    if let Some(item) = table.get("exhaustive") {
        search.exhaustive = item.boolean()?;
    }
    if let Some(item) = table.get("time") {
        search.time = parse_time(item.string("a model of time in quotes")?).map_err(|e| item.error(e))?;
    }
    if let Some(item) = table.get("disk") {
        search.disk = parse_disk(item.string("a model of the disk in quotes")?).map_err(|e| item.error(e))?;
    }
    if let Some(item) = table.get("max_faults") {
        search.max_faults = item.number(1, MAX_FAULTS)?;
    }
    Ok(search)
}

pub(super) fn limits(item: &Item<'_>) -> Result<Limits, ScenarioError> {
    let table = item.table(Some(keys::LIMITS), "a `[limits]` table")?;
    let mut limits = Limits::default();
    let fields = [
        ("steps", &mut limits.steps),
        ("cpu_seconds", &mut limits.cpu_seconds),
        ("output_bytes", &mut limits.output_bytes),
    ];
    for (key, field) in fields {
        if let Some(item) = table.get(key) {
            *field = item.number(1, u64::MAX)?;
        }
    }
    Ok(limits)
}
