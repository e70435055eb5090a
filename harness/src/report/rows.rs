//! Which steps of a long trace are shown.

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

/// Chooses rows: the pivot and its neighbours first, then what changes something, then what was refused or has a
/// version, then the rest; the nearer to the pivot (or to the end) the better.
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
    let rank = |i: usize| match shown[i] {
        _ if distance(i) <= 2 => 0,
        step if changes(&step.op) => 1,
        step if step.note.is_some() || step.op == "lock" || step.result.starts_with('E') => 2,
        _ => 3,
    };
    let mut order: Vec<usize> = (0..shown.len()).collect();
    order.sort_by_key(|i| (rank(*i), distance(*i), *i));
    let mut kept = order[..MAX_ROWS].to_vec();
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
    Rows { rows, unaffected, left_out: shown.len() - MAX_ROWS }
}

fn changes(op: &str) -> bool {
    matches!(
        op,
        "create" | "truncate" | "write" | "rename" | "exchange" | "link" | "symlink" | "unlink" | "mkdir" | "rmdir"
    )
}
