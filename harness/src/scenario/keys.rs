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
pub(super) const WORKER: &[&str] = &["name", "run", "after", "count", "env", "ends", "exit"];
/// `[[delay]]`.
pub(super) const DELAY: &[&str] = &["worker", "after", "before", "nth", "for"];
/// `[[fault]]`.
pub(super) const FAULT: &[&str] = &["worker", "kind", "at", "nth"];
/// `[search]`.
pub(super) const SEARCH: &[&str] = &["search", "seed", "max_schedules", "time_limit", "exhaustive", "time"];
/// `[oracle]`.
pub(super) const ORACLE: &[&str] =
    &["serial", "state", "stdout", "multiset", "ignore", "ignore_pointer", "conserve", "allow", "shares_nothing"];
/// `conserve`.
pub(super) const CONSERVE: &[&str] = &["file", "pointer", "id", "done", "at_least_once"];
/// `[limits]`.
pub(super) const LIMITS: &[&str] = &["steps", "cpu_seconds", "output_bytes"];

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
