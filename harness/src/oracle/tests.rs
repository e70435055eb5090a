//! Properties of the private parts: equality, masks, orders, conflict graphs.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{
    compare::same_content,
    graph::{Builder, Graph},
    json::canonical,
    mask::{Mask, Noise},
    orders::Precedence,
    rules::ContentRules,
    text::tokens,
};
use crate::{
    scenario::{Command, Ends, Worker},
    world::{Access, Inode, Mode, Object},
};

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-3i64..3).prop_map(Value::from),
        "[a-c]{0,2}( [a-c0-9]{1,2})?".prop_map(Value::String),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map("[a-c]{1,2}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Any content: JSON, text, bytes.
fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        value().prop_map(|value| value.to_string().into_bytes()),
        "([a-c]{1,3}[ .:\n]){0,6}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..12),
    ]
}

/// The same value written differently: other key order, spaces, other spelling of numbers.
fn respell(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let parts: Vec<String> =
                members.iter().rev().map(|(key, value)| format!("{} : {}", json!(key), respell(value))).collect();
            format!("{{ {} }}", parts.join(" ,\n"))
        }
        Value::Array(items) => format!("[{} ]", items.iter().map(respell).collect::<Vec<_>>().join(",\t")),
        Value::Number(number) => format!("{number}.0e0"),
        plain => plain.to_string(),
    }
}

/// Changes the scalar at this number (counted in document order); the text of the place changed.
fn change(value: &mut Value, at: &mut usize, to: &Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| change(item, at, to)),
        Value::Object(members) => members.values_mut().for_each(|member| change(member, at, to)),
        scalar => {
            if *at == 0 {
                *scalar = to.clone();
            }
            *at = at.wrapping_sub(1);
        }
    }
}

fn same(a: &[u8], b: &[u8], rules: &ContentRules, mask: &Mask) -> bool {
    same_content(a, b, rules, mask).is_ok()
}

fn all_rules() -> [ContentRules; 2] {
    [ContentRules::default(), ContentRules { multiset: true, ..ContentRules::default() }]
}

proptest! {
    #[test]
    fn equality_is_reflexive_and_symmetric(a in content(), b in content()) {
        for rules in all_rules() {
            prop_assert!(same(&a, &a, &rules, &Mask::Nothing));
            prop_assert_eq!(same(&a, &b, &rules, &Mask::Nothing), same(&b, &a, &rules, &Mask::Nothing));
        }
    }

    #[test]
    fn spelling_does_not_matter(value in value()) {
        let respelled = respell(&value);
        let plain = value.to_string();
        for rules in all_rules() {
            prop_assert!(same(plain.as_bytes(), respelled.as_bytes(), &rules, &Mask::Nothing), "{} {}", plain, respelled);
        }
        let again: Value = serde_json::from_str(&respelled).unwrap();
        prop_assert_eq!(canonical(&value), canonical(&again));
    }

    #[test]
    fn a_multiset_does_not_mind_order(mut items in prop::collection::vec(value(), 0..6), seed in any::<u64>()) {
        let before = Value::Array(items.clone()).to_string();
        let turn = seed as usize % items.len().max(1);
        items.rotate_left(turn);
        let after = Value::Array(items.clone()).to_string();
        let rules = ContentRules { multiset: true, ..ContentRules::default() };
        prop_assert!(same(before.as_bytes(), after.as_bytes(), &rules, &Mask::Nothing));
        if items.pop().is_some() {
            let shorter = Value::Array(items).to_string();
            prop_assert!(!same(before.as_bytes(), shorter.as_bytes(), &rules, &Mask::Nothing));
        }
    }

    /// Two environments differ in some scalars; a third document differs in one scalar that they have in common.
    #[test]
    fn a_mask_never_hides_what_is_equal_in_both_environments(
        start in value(), noise in prop::collection::vec((0usize..12, -9i64..-3), 0..4), lost in 0usize..12,
    ) {
        let mut other = start.clone();
        for (at, to) in noise {
            change(&mut other, &mut at.clone(), &json!(to));
        }
        let (a, b) = (start.to_string(), other.to_string());
        let Ok(found) = Noise::between(a.as_bytes(), b.as_bytes()) else { return Ok(()) };
        let rules = ContentRules::default();
        prop_assert!(same(a.as_bytes(), b.as_bytes(), &rules, &found.mask), "the mask covers its own noise");
        let stands_apart = json!(4711);
        let (mut in_start, mut in_other) = (start.clone(), other.clone());
        change(&mut in_start, &mut lost.clone(), &stands_apart);
        change(&mut in_other, &mut lost.clone(), &stands_apart);
        let equal_here = scalar(&start, lost) == scalar(&other, lost);
        if scalar(&start, lost).is_some() && equal_here {
            prop_assert!(!same(a.as_bytes(), in_start.to_string().as_bytes(), &rules, &found.mask));
            prop_assert!(!same(a.as_bytes(), in_other.to_string().as_bytes(), &rules, &found.mask));
        }
    }

    #[test]
    fn a_text_mask_covers_only_words_that_change(words in prop::collection::vec(("[a-c]{1,2}", "[a-c]{1,2}"), 1..6), lost in 0usize..6) {
        let join = |side: fn(&(String, String)) -> &String| words.iter().map(side).cloned().collect::<Vec<_>>().join(" ");
        let (a, b) = (join(|w| &w.0), join(|w| &w.1));
        let found = Noise::between(a.as_bytes(), b.as_bytes()).unwrap();
        let rules = ContentRules::default();
        prop_assert!(same(a.as_bytes(), b.as_bytes(), &rules, &found.mask));
        if let Some((first, second)) = words.get(lost) {
            let mut changed: Vec<String> = words.iter().map(|word| word.1.clone()).collect();
            changed[lost] = "zzz".to_owned();
            let hidden = same(a.as_bytes(), changed.join(" ").as_bytes(), &rules, &found.mask);
            prop_assert_eq!(hidden, first != second);
        }
    }

    #[test]
    fn tokens_join_to_the_text(text in "\\PC{0,40}") {
        prop_assert_eq!(tokens(&text).concat(), text);
    }

    #[test]
    fn a_graph_without_cycle_is_a_serializable_history(
        steps in prop::collection::vec((
            0usize..4, 0u64..3, prop::sample::select(vec![Mode::Read, Mode::Add, Mode::Write]),
            // Reads and writes know their range, emptying and appending do not: both meet on one file.
            prop::option::of(prop::sample::select(vec![(0u64, 1u64), (1, 2), (0, 2)])),
        ), 0..9),
    ) {
        let access = |object: u64, mode, range| Access { range, ..Access::new(Object::Content(Inode(object)), mode) };
        let accesses: Vec<(usize, Access)> =
            steps.iter().map(|(node, object, mode, range)| (*node, access(*object, *mode, *range))).collect();
        let mut builder = Builder::new(4);
        for (number, (node, access)) in accesses.iter().enumerate() {
            builder.step(number, *node, std::slice::from_ref(access));
        }
        let graph = builder.finish().0;
        // Brute force: some order of the four keeps every conflicting pair in its order.
        let serializable = permutations(4).into_iter().any(|order| {
            let place = |node: usize| order.iter().position(|other| *other == node);
            (0..accesses.len()).all(|i| (i + 1..accesses.len()).all(|j| {
                let ((a, first), (b, second)) = (&accesses[i], &accesses[j]);
                a == b || !first.conflicts(second) || place(*a) < place(*b)
            }))
        });
        prop_assert_eq!(graph.order().is_some(), serializable);
        prop_assert_eq!(graph.cycle().is_none(), serializable);
    }

    #[test]
    fn orders_are_all_linear_extensions(pairs in prop::collection::vec((0usize..4, 0usize..4), 0..4), workers in prop::collection::btree_set(0usize..4, 0..=4)) {
        // Only edges to later numbers, so that there is no cycle.
        let workers_of = |at: usize| Worker {
            name: String::new(), group: String::new(), run: Command::Args(Vec::new()), env: Default::default(), ends: Ends::Exit,
            after: pairs.iter().filter(|(a, b)| a < b && *b == at).map(|(a, _)| *a).collect(), exit: vec![0], acknowledges: None,
        };
        let precedence = Precedence::new(&(0..4).map(workers_of).collect::<Vec<_>>());
        let mut expected: Vec<Vec<usize>> = permutations(4);
        // The transitive order of all, restricted to the chosen ones.
        expected.retain(|order| pairs.iter().filter(|(a, b)| a < b).all(|(a, b)| {
            order.iter().position(|w| w == a) < order.iter().position(|w| w == b)
        }));
        let expected: BTreeSet<Vec<usize>> =
            expected.into_iter().map(|order| order.into_iter().filter(|w| workers.contains(w)).collect()).collect();
        let found: Vec<Vec<usize>> = precedence.orders(&workers).collect();
        prop_assert_eq!(found.iter().cloned().collect::<BTreeSet<_>>(), expected);
        prop_assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len());
        prop_assert!(found.iter().all(|order| precedence.allows(order)));
    }
}

/// The scalar at this number, in document order.
fn scalar(value: &Value, at: usize) -> Option<Value> {
    fn walk(value: &Value, out: &mut Vec<Value>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| walk(item, out)),
            Value::Object(members) => members.values().for_each(|member| walk(member, out)),
            scalar => out.push(scalar.clone()),
        }
    }
    let mut all = Vec::new();
    walk(value, &mut all);
    all.into_iter().nth(at)
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..count {
        all = all
            .into_iter()
            .flat_map(|order: Vec<usize>| {
                (0..count)
                    .filter(|next| !order.contains(next))
                    .map(|next| [order.clone(), vec![next]].concat())
                    .collect::<Vec<_>>()
            })
            .collect();
    }
    all
}

#[test]
fn the_empty_graph_has_an_order_and_a_pair_in_both_directions_a_cycle() {
    let mut graph = Graph::new(3);
    assert_eq!(graph.order(), Some(vec![0, 1, 2]));
    graph.add(2, 0);
    assert_eq!(graph.order(), Some(vec![1, 2, 0]));
    graph.add(0, 2);
    assert_eq!(graph.order(), None);
    assert_eq!(graph.cycle(), Some(vec![0, 2]));
}

#[test]
fn structure_that_changes_is_not_masked() {
    for (a, b) in [
        (r#"{"a":1}"#, r#"{"b":1}"#),
        ("[1]", "[1,2]"),
        (r#"{"a":1}"#, r#"{"a":"x"}"#),
        ("one two", "one"),
        ("a-b", "a:b"),
        ("\u{0}a", "\u{0}b"),
    ] {
        assert!(Noise::between(a.as_bytes(), b.as_bytes()).is_err(), "{a} {b}");
    }
    let noise = Noise::between(br#"{"at":1,"by":"pid 7 of t1"}"#, br#"{"at":2,"by":"pid 8 of t1"}"#).unwrap();
    assert_eq!(noise.places, ["/at", "/by"]);
    assert_eq!((noise.covered, noise.total), (2, 5));
    assert!(!noise.heavy());
}

#[test]
fn masked_elements_of_a_multiset_find_their_partners() {
    let rules = ContentRules { multiset: true, ..ContentRules::default() };
    let (a, b) = (r#"[{"id":"x","at":1},{"id":"y","at":1},3]"#, r#"[{"id":"x","at":2},{"id":"y","at":2},3]"#);
    let mask = Noise::between(a.as_bytes(), b.as_bytes()).unwrap().mask;
    let same = |other: &str| same(a.as_bytes(), other.as_bytes(), &rules, &mask);
    assert!(same(r#"[3,{"id":"y","at":9},{"id":"x","at":8}]"#));
    assert!(!same(r#"[3,{"id":"y","at":9},{"id":"y","at":8}]"#));
    assert!(!same(r#"[3,{"id":"y","at":9}]"#));
    let (a, b) = ("t1 at 5\nt2 at 5\n", "t1 at 6\nt2 at 6\n");
    let mask = Noise::between(a.as_bytes(), b.as_bytes()).unwrap().mask;
    assert!(super::compare::same_content(a.as_bytes(), b"t2 at 8\nt1 at 9\n", &rules, &mask).is_ok());
    assert!(super::compare::same_content(a.as_bytes(), b"t2 at 8\nt2 at 9\n", &rules, &mask).is_err());
}

#[test]
fn an_object_is_not_its_missing_members() {
    let empty = Value::Object(Map::new()).to_string();
    assert!(!same(b"{\"a\":null}", empty.as_bytes(), &ContentRules::default(), &Mask::Nothing));
}
