//! Which steps of a long trace are shown.

use std::collections::{BTreeMap, BTreeSet};

use super::StepLine;

/// The most steps shown, unless all are asked for.
const MAX_ROWS: usize = 40;

/// A row of the lanes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Row<'a> {
    /// A step.
    Step(&'a StepLine),
    /// So many steps are left out here.
    Gap(usize),
}

/// The steps of a trace worth showing, in order.
#[derive(Clone, Debug)]
pub(super) struct Rows<'a> {
    /// What is shown.
    pub(super) rows: Vec<Row<'a>>,
    /// Steps not shown since no order can affect them.
    pub(super) unaffected: usize,
    /// Steps not shown since there are too many.
    pub(super) left_out: usize,
}

/// Chooses rows of a long trace: the pivot and its neighbours first, then what happens on paths that workers meet on,
/// then what else changes something, then what was refused; the nearer to the pivot (or to the end) the better. What
/// only looks at something that nobody changes is left out.
pub(super) fn rows(steps: &[StepLine], pivot: Option<(usize, usize)>, all: bool) -> Rows<'_> {
    let any_chosen = steps.iter().any(|s| s.chosen);
    let shown: Vec<&StepLine> = steps
        .iter()
        .filter(|s| all || !any_chosen || s.chosen || pivot.is_some_and(|(n, m)| s.n == n || s.n == m))
        .collect();
    let unaffected = steps.len() - shown.len();
    if all || shown.len() <= MAX_ROWS {
        return Rows { rows: shown.into_iter().map(Row::Step).collect(), unaffected, left_out: 0 };
    }
    let at = |n: usize| shown.iter().position(|s| s.n == n);
    let end = shown.len() - 1;
    let anchors: Vec<usize> = match pivot {
        Some((n, m)) => [at(n), at(m)].into_iter().flatten().collect(),
        None => vec![end],
    };
    let distance = |i: usize| anchors.iter().map(|a| a.abs_diff(i)).min().unwrap_or(end - i);
    let met = contended(&shown);
    let rank = |i: usize| match shown[i] {
        _ if distance(i) <= 2 => 0,
        step if step.note.is_some() => 1,
        step if (changes(step) || locks(step)) && paths(step).any(|path| met.contains(path)) => 1,
        step if paths(step).any(|path| met.contains(path)) => 2,
        step if changes(step) => 3,
        step if locks(step) || (!met.is_empty() && step.op == "exit") => 4,
        step if met.is_empty() && step.result.starts_with('E') => 5,
        _ => 6,
    };
    // Without anything that workers meet on, nobody knows what matters.
    let worth = |i: &usize| met.is_empty() || rank(*i) < 6;
    let mut order: Vec<usize> = (0..shown.len()).filter(worth).collect();
    order.sort_by_key(|i| (rank(*i), distance(*i), *i));
    order.truncate(MAX_ROWS);
    let mut kept = order;
    let left_out = shown.len() - kept.len();
    kept.sort_unstable();

    let mut rows = Vec::new();
    let mut next = 0;
    for i in kept.into_iter().chain([shown.len()]) {
        if i > next {
            rows.push(Row::Gap(i - next));
        }
        rows.extend(shown.get(i).map(|step| Row::Step(step)));
        next = i + 1;
    }
    Rows { rows, unaffected, left_out }
}

/// Whether the step changes what others see.
fn changes(step: &StepLine) -> bool {
    match step.op.as_str() {
        "create" | "truncate" | "write" | "rename" | "exchange" | "link" | "symlink" | "unlink" | "mkdir" | "rmdir" => {
            !is_error(&step.result)
        }
        "open" => step.result.contains("truncated"),
        _ => false,
    }
}

fn locks(step: &StepLine) -> bool {
    matches!(step.op.as_str(), "lock" | "unlock")
}

/// An error's name, as results have it.
fn is_error(result: &str) -> bool {
    let word = result.split([' ', ':']).next().unwrap_or_default();
    word.len() > 2 && word.starts_with('E') && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
}

/// The paths of a step: one, or the two of a rename.
fn paths(step: &StepLine) -> impl Iterator<Item = &str> {
    step.path.split(" -> ").filter(|path| !path.is_empty())
}

/// Paths that more than one actor touches and somebody changes, or locks.
fn contended<'a>(steps: &[&'a StepLine]) -> BTreeSet<&'a str> {
    let mut touched: BTreeMap<&str, (BTreeSet<&str>, bool)> = BTreeMap::new();
    for step in steps {
        for path in paths(step) {
            let (actors, changed) = touched.entry(path).or_default();
            actors.insert(&step.actor);
            *changed |= changes(step) || locks(step);
        }
    }
    touched.into_iter().filter(|(_, (actors, changed))| actors.len() > 1 && *changed).map(|(path, _)| path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(n: usize, actor: &str, op: &str, path: &str, result: &str) -> StepLine {
        StepLine {
            n,
            actor: actor.into(),
            op: op.into(),
            path: path.into(),
            result: result.into(),
            time_ms: 0,
            note: None,
            chosen: true,
        }
    }

    /// Two interpreters look for their files a hundred times, and meet on one.
    #[test]
    fn what_workers_meet_on_is_shown_and_what_nobody_changes_is_not() {
        let mut steps = Vec::new();
        for actor in ["A", "B"] {
            for i in 0..50 {
                steps.push(step(steps.len() + 1, actor, "stat", &format!("lib/{i}.py"), "ENOENT"));
            }
            steps.push(step(steps.len() + 1, actor, "read", "hits.json", "2 bytes"));
            steps.push(step(steps.len() + 1, actor, "create", &format!("tmp.{actor}"), "ok"));
            steps.push(step(steps.len() + 1, actor, "rename", &format!("tmp.{actor} -> hits.json"), "ok"));
        }
        let pivot = Some((51, 106));
        let rows = rows(&steps, pivot, false);
        let shown: Vec<usize> = rows
            .rows
            .iter()
            .filter_map(|row| match row {
                Row::Step(step) => Some(step.n),
                Row::Gap(_) => None,
            })
            .collect();
        assert_eq!(shown, [49, 50, 51, 52, 53, 104, 105, 106]);
        assert_eq!(rows.left_out, steps.len() - shown.len());
        assert_eq!(rows.rows.iter().filter(|row| matches!(row, Row::Gap(_))).count(), 2);
    }

    #[test]
    fn errors_are_told_from_words() {
        for (result, error) in
            [("ENOENT", true), ("EAGAIN: locked", true), ("Everything", false), ("E", false), ("12 bytes", false)]
        {
            assert_eq!(is_error(result), error, "{result}");
        }
    }
}
