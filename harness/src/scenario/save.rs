//! [`Scenario`] -> TOML: what `explore --save` writes. `parse(save(s)) == s`.

use std::{collections::BTreeMap, fmt::Write as _, io, path::Path};

use super::{
    Command, Ends, Expect, IgnorePointer, Kind, Limits, Nth, Problem, Scenario, ScenarioError, Search, Serial, Worker,
    error::Place, format_duration, time_name,
};
use crate::publish::publish;

/// Writes a scenario as TOML. Paths below its folder become relative, and `$SCENARIO_DIR/...` in argument lists. Only
/// what differs from the defaults is written. A path that is not UTF-8 is an error.
pub fn save(scenario: &Scenario) -> Result<String, ScenarioError> {
    let mut out = Toml::default();
    let dir = &scenario.scenario_dir;
    out.string("name", &scenario.name);
    if !scenario.about.is_empty() {
        out.string("about", &scenario.about);
    }
    match &scenario.expect {
        None => {}
        Some(Expect::Kinds(kinds)) if kinds.len() != 1 => out.strings("expect", kinds.iter().map(|k| k.name())),
        Some(expect) => out.string("expect", &expect.to_string()),
    }
    if let Some(world) = &scenario.dir {
        out.string("dir", &relative(scenario, world)?);
    }
    out.flag("dir_filtered", scenario.dir_filtered);
    out.optional("setup", scenario.setup.as_deref());
    out.optional("check", scenario.check.as_deref());
    if !scenario.watch.is_empty() {
        let watch = scenario.watch.iter().map(|path| relative(scenario, path)).collect::<Result<Vec<_>, _>>()?;
        out.strings("watch", watch.iter().map(String::as_str));
    }
    out.flag("home_in_world", scenario.home_in_world);
    out.table("files", &scenario.files);
    out.table("env", &scenario.env);
    out.search(&scenario.search);
    out.oracle(scenario);
    out.limits(&scenario.limits);
    for (from, to) in groups(&scenario.workers) {
        out.worker(&scenario.workers, from, to, dir);
    }
    for delay in &scenario.delays {
        out.header("[[delay]]");
        out.names("worker", &scenario.workers, &delay.workers);
        out.string(if delay.after { "after" } else { "before" }, &delay.at.text);
        if delay.nth != 1 {
            out.plain("nth", delay.nth);
        }
        out.string("for", &format_duration(delay.duration));
    }
    for fault in &scenario.faults {
        out.header("[[fault]]");
        out.names("worker", &scenario.workers, &fault.workers);
        out.string("kind", &fault.kind);
        out.optional("at", fault.at.as_ref().map(|at| at.text.as_str()));
        match fault.nth {
            Nth::Each => {}
            Nth::All => out.string("nth", "all"),
            Nth::Number(n) => out.plain("nth", n),
        }
    }
    Ok(out.text)
}

/// Saves a scenario beside the others, as one step: nobody ever reads half of it.
pub fn save_to(scenario: &Scenario, file: &Path) -> io::Result<()> {
    let text = save(scenario).map_err(io::Error::other)?;
    publish(file, text.as_bytes())
}

fn relative(scenario: &Scenario, path: &Path) -> Result<String, ScenarioError> {
    let short = match path.strip_prefix(&scenario.scenario_dir) {
        Ok(rest) if rest.as_os_str().is_empty() => Path::new("."),
        Ok(rest) => rest,
        Err(_) => path,
    };
    short.to_str().map(str::to_owned).ok_or_else(|| ScenarioError {
        place: Place { file: path.to_owned(), line: 0, column: 0, key: String::new() },
        problem: Box::new(Problem::NotWritable("the path".into())),
    })
}

/// Ranges of workers that are copies of one.
fn groups(workers: &[Worker]) -> Vec<(usize, usize)> {
    let mut groups = Vec::new();
    let mut from = 0;
    for i in 1..=workers.len() {
        if i == workers.len() || workers[i].group != workers[from].group {
            groups.push((from, i));
            from = i;
        }
    }
    groups
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[derive(Default)]
struct Toml {
    text: String,
}

impl Toml {
    fn plain(&mut self, key: &str, value: impl std::fmt::Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{key} = {value}");
    }

    fn string(&mut self, key: &str, value: &str) {
        self.plain(key, quoted(value));
    }

    fn optional(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.string(key, value);
        }
    }

    fn flag(&mut self, key: &str, value: bool) {
        if value {
            self.plain(key, true);
        }
    }

    fn strings<'a>(&mut self, key: &str, values: impl IntoIterator<Item = &'a str>) {
        let list: Vec<String> = values.into_iter().map(quoted).collect();
        self.plain(key, format_args!("[{}]", list.join(", ")));
    }

    fn header(&mut self, header: &str) {
        let _ = writeln!(self.text, "\n{header}");
    }

    fn table(&mut self, name: &str, entries: &BTreeMap<String, String>) {
        if !entries.is_empty() {
            self.header(&format!("[{name}]"));
            for (key, value) in entries {
                self.string(&quoted_key(key), value);
            }
        }
    }

    /// Names of workers; all copies together go by their common name.
    fn names(&mut self, key: &str, workers: &[Worker], chosen: &[usize]) {
        let mut names = Vec::new();
        for (from, to) in groups(workers) {
            if (from..to).all(|i| chosen.contains(&i)) {
                names.push(workers[from].group.as_str());
            } else {
                names.extend((from..to).filter(|i| chosen.contains(i)).map(|i| workers[i].name.as_str()));
            }
        }
        match names.as_slice() {
            [name] => self.string(key, name),
            names => self.strings(key, names.iter().copied()),
        }
    }

    fn worker(&mut self, workers: &[Worker], from: usize, to: usize, dir: &Path) {
        let worker = &workers[from];
        self.header("[[worker]]");
        self.string("name", &worker.group);
        match &worker.run {
            Command::Shell(text) => self.string("run", text),
            Command::Args(words) => {
                let words: Vec<String> = words.iter().map(|word| portable(word, dir)).collect();
                self.strings("run", words.iter().map(String::as_str));
            }
        }
        if worker.name != worker.group {
            self.plain("count", to - from);
        }
        if !worker.after.is_empty() {
            self.names("after", workers, &worker.after);
        }
        if !worker.env.is_empty() {
            let entries: Vec<String> =
                worker.env.iter().map(|(k, v)| format!("{} = {}", quoted_key(k), quoted(v))).collect();
            self.plain("env", format_args!("{{ {} }}", entries.join(", ")));
        }
        if worker.ends == Ends::Idle {
            self.string("ends", "idle");
        }
        if worker.exit != [0] {
            let codes: Vec<String> = worker.exit.iter().map(i32::to_string).collect();
            self.plain("exit", format_args!("[{}]", codes.join(", ")));
        }
        if let Some(glob) = &worker.acknowledges {
            self.string("acknowledges", glob);
        }
    }

    fn search(&mut self, search: &Search) {
        let default = Search::default();
        if *search == default {
            return;
        }
        self.header("[search]");
        if search.search != default.search {
            self.string("search", &search.search.to_string());
        }
        if search.seed != default.seed {
            self.plain("seed", search.seed);
        }
        if search.max_schedules != default.max_schedules {
            self.plain("max_schedules", search.max_schedules);
        }
        if let Some(limit) = search.time_limit {
            self.string("time_limit", &format_duration(limit));
        }
        self.flag("exhaustive", search.exhaustive);
        if search.time != default.time {
            self.string("time", time_name(search.time));
        }
        if search.disk != default.disk {
            self.string("disk", search.disk.name());
        }
        if search.max_faults != default.max_faults {
            self.plain("max_faults", format_args!("{}", search.max_faults));
        }
    }

    fn oracle(&mut self, scenario: &Scenario) {
        let oracle = &scenario.oracle;
        if *oracle == super::OracleConfig::default() {
            return;
        }
        self.header("[oracle]");
        match oracle.serial {
            Serial::Operations => {}
            Serial::Workers => self.string("serial", "workers"),
            Serial::Off => self.plain("serial", false),
        }
        self.optional("state", oracle.state.as_deref());
        if let Some(stdout) = oracle.stdout {
            self.plain("stdout", stdout);
        }
        for (key, globs) in [("multiset", &oracle.multiset), ("ignore", &oracle.ignore)] {
            if !globs.is_empty() {
                self.strings(key, globs.iter().map(String::as_str));
            }
        }
        if !oracle.ignore_pointer.is_empty() {
            let pointers: Vec<String> = oracle.ignore_pointer.iter().map(written_pointer).collect();
            self.strings("ignore_pointer", pointers.iter().map(String::as_str));
        }
        if let Some(c) = &oracle.conserve {
            let always = format!(
                "file = {}, pointer = {}, id = {}, done = {}",
                quoted(&c.file),
                quoted(&c.pointer),
                quoted(&c.id),
                quoted(&c.done)
            );
            let once = if c.at_least_once { ", at_least_once = true" } else { "" };
            self.plain("conserve", format_args!("{{ {always}{once} }}"));
        }
        if !oracle.allow.is_empty() {
            self.strings("allow", oracle.allow.iter().copied().map(Kind::name));
        }
        self.flag("shares_nothing", oracle.shares_nothing);
    }

    fn limits(&mut self, limits: &Limits) {
        let default = Limits::default();
        if *limits == default {
            return;
        }
        self.header("[limits]");
        let fields = [
            ("steps", limits.steps, default.steps),
            ("cpu_seconds", limits.cpu_seconds, default.cpu_seconds),
            ("output_bytes", limits.output_bytes, default.output_bytes),
        ];
        for (key, value, default) in fields {
            if value != default {
                self.plain(key, value);
            }
        }
    }
}

fn written_pointer(pointer: &IgnorePointer) -> String {
    match &pointer.file {
        Some(file) => format!("{file}#{}", pointer.pointer),
        // A `#/` in the pointer would be taken for the end of a file's name.
        None if pointer.pointer.contains("#/") || pointer.pointer.ends_with('#') => format!("*#{}", pointer.pointer),
        None => pointer.pointer.clone(),
    }
}

fn quoted_key(key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare { key.to_owned() } else { quoted_basic(key) }
}

/// A basic string on one line: keys may not span lines.
fn quoted_basic(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// An argument below the scenario's folder, as it is written in a file that may be moved with that folder.
fn portable(word: &str, dir: &Path) -> String {
    match dir.to_str().and_then(|dir| word.strip_prefix(dir)) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("$SCENARIO_DIR{rest}"),
        _ => word.to_owned(),
    }
}
