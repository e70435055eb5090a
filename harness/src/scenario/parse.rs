//! TOML -> [`Scenario`]: the file as a whole and its workers. The other tables are read in `steer` and `judge`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::Read,
    path::{Component, Path, PathBuf},
};

use toml::de::DeTable;

use super::{
    Command, Ends, Expect, Kind, Limits, OracleConfig, Problem, Scenario, ScenarioError, Search, UnknownName, Worker,
    compile_glob,
    error::Place,
    judge, keys,
    names::parse_ends,
    roster::{MAX_WORKERS, Roster},
    steer,
    table::{Item, Source, Table},
};

/// The largest scenario file, in bytes.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// A scenario as its file has it. What a command line may still add is not demanded yet; [`Draft::finish`] does.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The scenario, open to changes from the command line.
    pub scenario: Scenario,
    top: Place,
    serial: Option<Place>,
    dir: Option<Place>,
}

impl Draft {
    /// Demands what every scenario must have: an expectation, and something that judges.
    pub fn finish(self) -> Result<Scenario, ScenarioError> {
        let fail = |place: Place, problem| Err(ScenarioError { place, problem: Box::new(problem) });
        if self.scenario.expect.is_none() {
            return fail(self.top, Problem::NoExpectation);
        }
        if !self.scenario.is_judged() {
            return fail(self.serial.unwrap_or(self.top), Problem::NoJudge);
        }
        Ok(self.scenario)
    }

    /// Demands that the folders it names exist.
    fn check_folders(self) -> Result<Draft, ScenarioError> {
        match (&self.scenario.dir, &self.dir) {
            (Some(dir), Some(place)) if !dir.is_dir() => {
                Err(ScenarioError { place: place.clone(), problem: Box::new(Problem::NoFolder(dir.clone())) })
            }
            _ => Ok(self),
        }
    }
}

impl Scenario {
    /// Whether anything judges the runs: with `serial = false`, a check, conservation or a state must.
    pub fn is_judged(&self) -> bool {
        let oracle = &self.oracle;
        let by_user = self.check.is_some() || oracle.conserve.is_some() || oracle.state.is_some();
        oracle.serial != super::Serial::Off || by_user
    }
}

/// Reads a scenario file.
pub fn load(file: &Path) -> Result<Scenario, ScenarioError> {
    load_draft(file)?.finish()
}

/// Reads a scenario file to which a command line may add.
pub fn load_draft(file: &Path) -> Result<Draft, ScenarioError> {
    parse_draft(&read_capped(file)?, file)?.check_folders()
}

/// Parses the text of a scenario file; `file` is only its name, for messages and for `SCENARIO_DIR`.
pub fn parse(text: &str, file: &Path) -> Result<Scenario, ScenarioError> {
    parse_draft(text, file)?.finish()
}

/// Reads a file of at most [`MAX_FILE_BYTES`] as text.
fn read_capped(file: &Path) -> Result<String, ScenarioError> {
    let whole = Place { file: file.to_owned(), line: 0, column: 0, key: String::new() };
    let fail = |problem| ScenarioError { place: whole.clone(), problem: Box::new(problem) };
    let io = |e: std::io::Error| fail(Problem::Unreadable(e.to_string()));
    let handle = File::open(file).map_err(io)?;
    let meta = handle.metadata().map_err(io)?;
    if meta.len() > MAX_FILE_BYTES {
        return Err(fail(Problem::TooLarge { bytes: meta.len(), cap: MAX_FILE_BYTES }));
    }
    // The file may grow while it is read, or be a device without a size.
    let mut bytes = Vec::new();
    handle.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(fail(Problem::TooLarge { bytes: bytes.len() as u64, cap: MAX_FILE_BYTES }));
    }
    String::from_utf8(bytes).map_err(|e| fail(Problem::NotText(e.utf8_error().valid_up_to())))
}

/// Parses the text of a scenario file to which a command line may add.
pub fn parse_draft(text: &str, file: &Path) -> Result<Draft, ScenarioError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let source = Source { file: file.to_owned(), text };
    let root = DeTable::parse(text).map_err(|e| source.syntax(&e))?;
    let top = Table::root(&source, &root)?;
    let scenario_dir = absolute_parent(file);

    let string = |key: &str, wanted| top.get(key).map(|item| item.string(wanted).map(str::to_owned)).transpose();
    let shell = "a shell command in quotes";
    let (workers, roster) = workers(&top, &scenario_dir)?;
    let oracle = top.get("oracle").map(|item| judge::oracle(&item)).transpose()?;
    let mut scenario = Scenario {
        name: string("name", "a name in quotes")?.unwrap_or_else(|| name_of(file)),
        about: string("about", "a text in quotes")?.unwrap_or_default(),
        expect: top.get("expect").map(|item| expect(&item)).transpose()?,
        file: Some(file.to_owned()),
        dir: string("dir", "a folder in quotes")?.map(|dir| scenario_dir.join(dir)),
        dir_filtered: top.get("dir_filtered").map_or(Ok(false), |item| item.boolean())?,
        files: top.get("files").map_or(Ok(BTreeMap::new()), |item| files(&item))?,
        setup: string("setup", shell)?,
        check: string("check", shell)?,
        watch: top.get("watch").map_or(Ok(Vec::new()), |item| watch(&item, &scenario_dir))?,
        env: top.get("env").map_or(Ok(BTreeMap::new()), |item| env(&item))?,
        home_in_world: top.get("home_in_world").map_or(Ok(false), |item| item.boolean())?,
        workers,
        delays: top.get("delay").map_or(Ok(Vec::new()), |item| steer::delays(&item, &roster))?,
        faults: top.get("fault").map_or(Ok(Vec::new()), |item| steer::faults(&item, &roster))?,
        search: top.get("search").map_or(Ok(Search::default()), |item| steer::search(&item))?,
        oracle: OracleConfig::default(),
        limits: top.get("limits").map_or(Ok(Limits::default()), |item| steer::limits(&item))?,
        scenario_dir,
    };
    let serial = oracle.as_ref().and_then(|o| o.serial_place.clone());
    scenario.oracle = oracle.map(|o| o.config).unwrap_or_default();
    let whole = Place { file: file.to_owned(), line: 1, column: 1, key: String::new() };
    Ok(Draft { scenario, top: whole, serial, dir: top.get("dir").map(|item| item.place()) })
}

/// The absolute folder of a file.
fn absolute_parent(file: &Path) -> PathBuf {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    absolute.parent().map_or_else(|| PathBuf::from("/"), Path::to_owned)
}

fn name_of(file: &Path) -> String {
    file.file_stem().map_or_else(|| "scenario".into(), |stem| stem.to_string_lossy().into_owned())
}

fn expect(item: &Item<'_>) -> Result<Expect, ScenarioError> {
    let wanted = "`\"clean\"`, `\"anomaly\"`, a kind or a list of kinds";
    if item.is_list() {
        let kinds = judge::kinds(item)?;
        let conflict = Problem::Conflict("an empty list expects nothing", "write `\"clean\"`, or name a kind");
        return if kinds.is_empty() { Err(item.error(conflict)) } else { Ok(Expect::Kinds(kinds)) };
    }
    match item.string(wanted)? {
        "clean" => Ok(Expect::Clean),
        "anomaly" => Ok(Expect::Anomaly),
        word => word.parse::<Kind>().map(|kind| Expect::Kinds(vec![kind])).map_err(|_| {
            let known = ["clean", "anomaly"].into_iter().chain(Kind::ALL.iter().map(|k| k.name()));
            item.error(UnknownName::new("expectation", word, known))
        }),
    }
}

fn files(item: &Item<'_>) -> Result<BTreeMap<String, String>, ScenarioError> {
    let mut files = BTreeMap::new();
    for (path, content) in item.table(None, "a table, as in `files = { \"queue.json\" = \"[]\" }`")?.entries() {
        let normal = inside_world(path).map_err(|why| match why {
            None => content.error(Problem::Nul),
            Some(why) => content.error(Problem::Escapes { path: path.to_owned(), why }),
        })?;
        let text = content.text("the file's content in quotes (keys with dots need quotes too)")?;
        if files.insert(normal, text.to_owned()).is_some() {
            let conflict = Problem::Conflict("two keys name the same file", "take one of them out");
            return Err(content.error(conflict));
        }
    }
    // A name cannot be a file and the folder of another file.
    for path in files.keys() {
        if Path::new(path).ancestors().skip(1).any(|a| a.to_str().is_some_and(|a| files.contains_key(a))) {
            let conflict = Problem::Conflict("one file lies below another file", "rename one of them");
            return Err(item.error(conflict));
        }
    }
    Ok(files)
}

/// A relative path without `..`, its `.` and double slashes taken out; else why not (`None`: a NUL).
fn inside_world(path: &str) -> Result<String, Option<&'static str>> {
    if path.contains('\0') {
        return Err(None);
    }
    if path.ends_with('/') {
        return Err(Some("it names a folder"));
    }
    let mut parts = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => parts.push(name.to_str().unwrap_or_default()),
            Component::CurDir => {}
            Component::ParentDir => return Err(Some("it has `..`")),
            Component::RootDir | Component::Prefix(_) => return Err(Some("it is absolute")),
        }
    }
    if parts.is_empty() { Err(Some("it names no file")) } else { Ok(parts.join("/")) }
}

fn watch(item: &Item<'_>, scenario_dir: &Path) -> Result<Vec<PathBuf>, ScenarioError> {
    let path = |item: Item<'_>| Ok(scenario_dir.join(item.string("a path in quotes, or a list of paths")?));
    item.one_or_many()?.into_iter().map(path).collect()
}

pub(super) fn env(item: &Item<'_>) -> Result<BTreeMap<String, String>, ScenarioError> {
    let mut env = BTreeMap::new();
    for (name, value) in item.table(None, "a table of variables, as in `{ LC_ALL = \"C\" }`")?.entries() {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(value.error(Problem::VariableName(name.to_owned())));
        }
        env.insert(name.to_owned(), value.string("a value in quotes; variables are strings")?.to_owned());
    }
    Ok(env)
}

/// A worker as written, before copies are made.
struct Written<'a> {
    name: Item<'a>,
    after: Option<Item<'a>>,
    worker: Worker,
    count: Option<u64>,
}

fn workers<'a>(top: &Table<'a>, scenario_dir: &Path) -> Result<(Vec<Worker>, Roster), ScenarioError> {
    let Some(item) = top.get("worker") else { return Err(top.error(Problem::NoWorker)) };
    let tables = item.list("a `[[worker]]` (two brackets)")?;
    if tables.is_empty() {
        return Err(item.error(Problem::NoWorker));
    }
    let written = tables.iter().map(|t| worker(t, scenario_dir)).collect::<Result<Vec<_>, _>>()?;

    let mut workers = Vec::new();
    let mut roster = Roster::default();
    let mut after = Vec::new();
    for w in &written {
        let group = &w.worker.name;
        let copies = match w.count {
            None => vec![group.clone()],
            Some(count) => (1..=count).map(|n| format!("{group}.{n}")).collect(),
        };
        for name in &copies {
            if !roster.add(name, group) {
                return Err(w.name.error(Problem::DuplicateWorker { name: name.clone() }));
            }
            workers.push(Worker { name: name.clone(), ..w.worker.clone() });
            after.push(w.after.as_ref());
        }
        if !roster.close_group(group) {
            return Err(w.name.error(Problem::DuplicateWorker { name: group.clone() }));
        }
        if workers.len() > MAX_WORKERS {
            return Err(w.name.error(Problem::TooManyWorkers { found: workers.len(), cap: MAX_WORKERS }));
        }
    }
    for (worker, after) in workers.iter_mut().zip(&after) {
        if let Some(item) = after {
            worker.after = roster.resolve_all(item)?;
        }
    }
    if let Some((cycle, at)) = find_cycle(&workers) {
        let item = after[at].unwrap_or(&written[0].name);
        return Err(item.error(Problem::Cycle(cycle.iter().map(|i| workers[*i].name.clone()).collect())));
    }
    Ok((workers, roster))
}

fn worker<'a>(item: &Item<'a>, scenario_dir: &Path) -> Result<Written<'a>, ScenarioError> {
    let table = item.table(Some(keys::WORKER), "a `[[worker]]` table")?;
    let name_item = table.need("name", "name = \"A\"")?;
    let name = name_item.string("a name in quotes")?;
    if let Some(why) = bad_name(name) {
        return Err(name_item.error(Problem::WorkerName { name: name.to_owned(), why }));
    }
    let exit = match table.get("exit") {
        None => vec![0],
        Some(item) => {
            let codes = item.one_or_many()?.into_iter().map(|code| code.number(0, 255).map(|n| n as i32));
            codes.collect::<Result<Vec<_>, _>>()?
        }
    };
    let ends = match table.get("ends") {
        None => Ends::default(),
        Some(item) => parse_ends(item.string("`\"exit\"` or `\"idle\"`")?).map_err(|e| item.error(e))?,
    };
    let acknowledges = match table.get("acknowledges") {
        None => None,
        Some(item) => {
            let glob = item.string("a glob for a line, as in `\"done *\"`")?;
            compile_glob(glob).map_err(|e| item.error(e))?;
            Some(glob.to_owned())
        }
    };
    let worker = Worker {
        name: name.to_owned(),
        group: name.to_owned(),
        run: command(&table.need("run", "run = \"python3 worker.py\"")?, scenario_dir)?,
        after: Vec::new(),
        env: table.get("env").map_or(Ok(BTreeMap::new()), |item| env(&item))?,
        ends,
        exit,
        acknowledges,
    };
    let count = table.get("count").map(|item| item.number(1, MAX_WORKERS as u64)).transpose()?;
    Ok(Written { name: name_item, after: table.get("after"), worker, count })
}

/// Why a name cannot be a worker's: it becomes the name of files in `NOCLOBBER_RESULTS` and of a lane in reports.
pub(super) fn bad_name(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("it is empty"),
        "." | ".." => Some("it would be a folder"),
        _ if name.len() > 64 => Some("it is longer than 64 bytes"),
        _ if name.contains(['/', '\\']) => Some("it has a slash"),
        _ if name.contains(',') => Some("it has a comma"),
        _ if super::printable(name) != name => Some("it has characters that cannot be shown"),
        _ => None,
    }
}

fn command(item: &Item<'_>, scenario_dir: &Path) -> Result<Command, ScenarioError> {
    let wanted = "a shell command in quotes, or a list as in `[\"python3\", \"worker.py\"]`";
    let empty = || item.error(Problem::Conflict("an empty command", "write what the worker runs"));
    if item.is_string() {
        let text = item.string(wanted)?;
        return if text.trim().is_empty() { Err(empty()) } else { Ok(Command::Shell(text.to_owned())) };
    }
    let words = item.list(wanted)?;
    let word = |w: &Item<'_>| w.string("an argument in quotes").map(|text| expand_dir(text, scenario_dir));
    let words = words.iter().map(word).collect::<Result<Vec<_>, _>>()?;
    if words.first().is_none_or(String::is_empty) { Err(empty()) } else { Ok(Command::Args(words)) }
}

/// `$SCENARIO_DIR/...` at the start of an argument: no shell would do it for an argument list.
fn expand_dir(word: &str, scenario_dir: &Path) -> String {
    let rest = word.strip_prefix("$SCENARIO_DIR").or_else(|| word.strip_prefix("${SCENARIO_DIR}"));
    match (rest, scenario_dir.to_str()) {
        (Some(rest), Some(dir)) if rest.is_empty() || rest.starts_with('/') => format!("{dir}{rest}"),
        _ => word.to_owned(),
    }
}

/// Workers that wait for each other, and one of them.
fn find_cycle(workers: &[Worker]) -> Option<(Vec<usize>, usize)> {
    let mut done: BTreeSet<usize> = BTreeSet::new();
    // Who waits only for workers that are done can be done; what is left over when nobody can waits in a circle.
    while let Some(next) =
        (0..workers.len()).find(|i| !done.contains(i) && workers[*i].after.iter().all(|a| done.contains(a)))
    {
        done.insert(next);
    }
    let start = (0..workers.len()).find(|i| !done.contains(i))?;
    let mut path = vec![start];
    loop {
        let last = path[path.len() - 1];
        let next = *workers[last].after.iter().find(|a| !done.contains(a))?;
        if let Some(at) = path.iter().position(|p| *p == next) {
            let mut cycle = path.split_off(at);
            cycle.push(next);
            return Some((cycle, next));
        }
        path.push(next);
    }
}
