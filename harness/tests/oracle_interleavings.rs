//! All interleavings of small programs: the judge says wrong exactly where the final state is wrong, and every wrong
//! run gets a name.

mod oracle_support;

use std::collections::BTreeMap;

use noclobber::{
    oracle::{Case, Judge, Judgement, name},
    scenario::Kind,
    world::Node,
};
use oracle_support::*;

/// All words with so many of each letter.
fn interleavings(a: usize, b: usize) -> Vec<String> {
    match (a, b) {
        (0, 0) => vec![String::new()],
        _ => {
            let mut all = Vec::new();
            if a > 0 {
                all.extend(interleavings(a - 1, b).into_iter().map(|rest| format!("A{rest}")));
            }
            if b > 0 {
                all.extend(interleavings(a, b - 1).into_iter().map(|rest| format!("B{rest}")));
            }
            all
        }
    }
}

/// Judges every interleaving; how often each kind came, `None` for right.
fn kinds(
    programs: &mut Programs,
    lengths: (usize, usize),
    truth: impl Fn(&BTreeMap<String, Node>) -> bool,
) -> BTreeMap<Option<Kind>, usize> {
    let scenario = scenario(2);
    let initial = programs.initial.clone();
    let case = Case { scenario: &scenario, initial: &initial };
    let mut judge = Judge::new(&scenario, initial.clone()).unwrap();
    let mut out: BTreeMap<Option<Kind>, usize> = BTreeMap::new();
    for schedule in interleavings(lengths.0, lengths.1) {
        let run = programs.run(&schedule);
        let good = truth(&run.outcome.as_ref().unwrap().files);
        let kind = match judge.judge(&run, programs).unwrap() {
            Judgement::Right { .. } => None,
            Judgement::Wrong(wrong) => {
                let named = name(&case, &run, &wrong, &judge.references());
                assert!(!named.summary.is_empty() && !named.evidence.is_empty() && !named.actors.is_empty());
                Some(named.kind)
            }
            Judgement::Unknown(reason) => panic!("{schedule}: {reason}"),
        };
        assert_eq!(kind.is_none(), good, "{schedule}: {kind:?}");
        *out.entry(kind).or_default() += 1;
    }
    out
}

fn adds(list: &str, item: &str) -> String {
    match list.strip_suffix("]") {
        Some("[") => format!("[\"{item}\"]"),
        Some(rest) => format!("{rest},\"{item}\"]"),
        None => format!("[\"{item}\"]"),
    }
}

fn has_both(files: &BTreeMap<String, Node>) -> bool {
    let Node::File { bytes, .. } = &files["q"] else { return false };
    let mut list: Vec<String> = serde_json::from_slice(bytes).unwrap_or_default();
    list.sort();
    list == ["A", "B"]
}

#[test]
fn rewriting_in_place() {
    let worker = |me: &'static str| acts([read("q"), rewrite("q", compute(move |mind| adds(&mind.read["q"], me)))]);
    let mut programs = programs(&[("q", "[]")], [worker("A"), worker("B")]);
    let kinds = kinds(&mut programs, (6, 6), has_both);
    // Also when the second one read the first one's half-written file: what the first one added is gone.
    assert_eq!(kinds, BTreeMap::from([(None, 74), (Some(Kind::LostUpdate), 850)]));
}

#[test]
fn renaming_a_private_file() {
    let worker = |me: &'static str, temporary: &'static str| {
        acts([read("q"), replace("q", temporary, compute(move |mind| adds(&mind.read["q"], me)))])
    };
    let mut programs = programs(&[("q", "[]")], [worker("A", "a.tmp"), worker("B", "b.tmp")]);
    let kinds = kinds(&mut programs, (7, 7), has_both);
    // Right only when one renames before the other opens; otherwise it is overwritten, and nothing else can happen.
    assert_eq!(kinds, BTreeMap::from([(None, 2), (Some(Kind::LostUpdate), 3430)]));
}
