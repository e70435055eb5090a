//! Equality of contents: JSON as values, text and everything else as bytes, under rules and masks.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    json::{self, canonical, place_text},
    mask::Mask,
    rules::ContentRules,
    text::{as_text, is_word, tokens},
};

/// Elements or lines of a multiset that are matched one by one when they are masked; more are compared in order.
const MAX_MATCHED: usize = 512;

/// The first difference found: where, and what stands there instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContentDiffers {
    /// JSON pointer, `line N`, or empty.
    pub(super) place: String,
    /// `... instead of ...`.
    pub(super) detail: String,
}

/// Compares a content with a reference.
pub(super) fn same_content(
    reference: &[u8],
    candidate: &[u8],
    rules: &ContentRules,
    mask: &Mask,
) -> Result<(), ContentDiffers> {
    if reference == candidate {
        return Ok(());
    }
    if let (Some(reference), Some(candidate)) = (json::parse(reference), json::parse(candidate)) {
        return Values { rules }.same(&reference, &candidate, mask, &mut Vec::new());
    }
    let (Some(a), Some(b)) = (as_text(reference), as_text(candidate)) else {
        let place = reference.iter().zip(candidate).take_while(|(a, b)| a == b).count();
        let detail = format!("other bytes ({} instead of {})", candidate.len(), reference.len());
        return Err(ContentDiffers { place: format!("byte {place}"), detail });
    };
    if rules.multiset {
        return same_lines(a, b, mask);
    }
    match mask {
        Mask::Tokens(_) if same_text(a, b, mask) => Ok(()),
        _ => Err(first_line(a, b)),
    }
}

fn first_line(a: &str, b: &str) -> ContentDiffers {
    let (mut left, mut right) = (a.split('\n'), b.split('\n'));
    let mut number = 1;
    loop {
        match (left.next(), right.next()) {
            (Some(a), Some(b)) if a == b => number += 1,
            (a, b) => {
                let show =
                    |line: Option<&str>| line.map_or("nothing".to_owned(), |l| format!("`{}`", json::shorten(l)));
                return ContentDiffers {
                    place: format!("line {number}"),
                    detail: format!("{} instead of {}", show(b), show(a)),
                };
            }
        }
    }
}

/// Whether two texts are equal but for masked words.
fn same_text(reference: &str, candidate: &str, mask: &Mask) -> bool {
    let Mask::Tokens(masked) = mask else { return reference == candidate };
    let (a, b) = (tokens(reference), tokens(candidate));
    a.len() == b.len()
        && a.iter().zip(&b).enumerate().all(|(at, (a, b))| a == b || (masked.contains(&at) && is_word(a) && is_word(b)))
}

/// Compares lines as multisets; the words of a mask are counted through the whole text, so they are handed out to lines.
fn same_lines(a: &str, b: &str, mask: &Mask) -> Result<(), ContentDiffers> {
    let mut reference = Vec::new();
    let mut first = 0;
    for line in a.split('\n') {
        let count = tokens(line).len();
        let mut own = Mask::Nothing;
        if let Mask::Tokens(masked) = mask {
            let words: std::collections::BTreeSet<usize> =
                masked.range(first..first + count).map(|at| at - first).collect();
            if !words.is_empty() {
                own = Mask::Tokens(words);
            }
        }
        reference.push((line, own));
        first += count + 1;
    }
    let candidate: Vec<&str> = b.split('\n').collect();
    match match_all(&reference, &candidate, |line| (*line).to_owned(), |a, b, mask| same_text(a, b, mask)) {
        Ok(()) => Ok(()),
        Err(Unmatched { missing, extra }) => Err(ContentDiffers {
            place: "lines".to_owned(),
            detail: format!("{} instead of {}", quoted(extra), quoted(missing)),
        }),
    }
}

fn quoted(line: Option<String>) -> String {
    line.map_or("nothing".to_owned(), |line| format!("`{}`", json::shorten(&line)))
}

struct Values<'a> {
    rules: &'a ContentRules,
}

impl Values<'_> {
    fn same(&self, a: &Value, b: &Value, mask: &Mask, place: &mut Vec<String>) -> Result<(), ContentDiffers> {
        if self.rules.ignored.iter().any(|pointer| pointer.matches(place)) {
            return Ok(());
        }
        match (a, b) {
            (Value::Object(a), Value::Object(b)) => {
                for (key, a) in a {
                    place.push(key.clone());
                    match b.get(key) {
                        Some(b) => self.same(a, b, member(mask, key), place)?,
                        None if self.skipped(place) => {}
                        None => return Err(differs(place, Some(a), None)),
                    }
                    place.pop();
                }
                for (key, b) in b.iter().filter(|(key, _)| !a.contains_key(*key)) {
                    place.push(key.clone());
                    if !self.skipped(place) {
                        return Err(differs(place, None, Some(b)));
                    }
                    place.pop();
                }
                Ok(())
            }
            (Value::Array(a), Value::Array(b)) => {
                if self.rules.multiset || self.rules.multisets.iter().any(|pointer| pointer.matches(place)) {
                    return self.same_multiset(a, b, mask, place);
                }
                for (at, a) in a.iter().enumerate() {
                    place.push(at.to_string());
                    match b.get(at) {
                        Some(b) => self.same(a, b, element(mask, at), place)?,
                        None if self.skipped(place) => {}
                        None => return Err(differs(place, Some(a), None)),
                    }
                    place.pop();
                }
                for (at, b) in b.iter().enumerate().skip(a.len()) {
                    place.push(at.to_string());
                    if !self.skipped(place) {
                        return Err(differs(place, None, Some(b)));
                    }
                    place.pop();
                }
                Ok(())
            }
            _ if same_scalar(a, b, mask) => Ok(()),
            _ => Err(differs(place, Some(a), Some(b))),
        }
    }

    fn skipped(&self, place: &[String]) -> bool {
        self.rules.ignored.iter().any(|pointer| pointer.matches(place))
    }

    fn same_multiset(&self, a: &[Value], b: &[Value], mask: &Mask, place: &[String]) -> Result<(), ContentDiffers> {
        // Below a multiset the rules see the element of the reference's number, so pointers must use `*` there.
        let reference: Vec<(&Value, Mask)> =
            a.iter().enumerate().map(|(at, value)| (value, element(mask, at).clone())).collect();
        let candidate: Vec<&Value> = b.iter().collect();
        let mut inner = place.to_vec();
        inner.push("*".to_owned());
        let plain = self.rules.ignored.is_empty() && !self.rules.multiset && self.rules.multisets.len() <= 1;
        let key = |value: &&Value| if plain { canonical(value) } else { self.reduced(value, &mut inner.clone()) };
        match match_all(&reference, &candidate, key, |a, b, mask| self.same(a, b, mask, &mut inner.clone()).is_ok()) {
            Ok(()) => Ok(()),
            Err(Unmatched { missing, extra }) => Err(ContentDiffers {
                place: place_text(place),
                detail: format!("{} instead of {}", quoted(extra), quoted(missing)),
            }),
        }
    }

    /// The canonical text of a value without what is ignored, multisets sorted.
    fn reduced(&self, value: &Value, place: &mut Vec<String>) -> String {
        if self.skipped(place) {
            return String::new();
        }
        match value {
            Value::Array(items) => {
                let mut texts = Vec::new();
                for (at, item) in items.iter().enumerate() {
                    place.push(at.to_string());
                    texts.push(self.reduced(item, place));
                    place.pop();
                }
                if self.rules.multiset || self.rules.multisets.iter().any(|pointer| pointer.matches(place)) {
                    texts.sort_unstable();
                }
                format!("[{}]", texts.join(","))
            }
            Value::Object(members) => {
                let sorted: BTreeMap<&String, &Value> = members.iter().collect();
                let mut texts = Vec::new();
                for (key, member) in sorted {
                    place.push(key.clone());
                    if !self.skipped(place) {
                        let name = Value::String(key.clone()).to_string();
                        texts.push(format!("{name}:{}", self.reduced(member, place)));
                    }
                    place.pop();
                }
                format!("{{{}}}", texts.join(","))
            }
            scalar => canonical(scalar),
        }
    }
}

fn same_scalar(a: &Value, b: &Value, mask: &Mask) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) if json::same_number(a, b) => true,
        (Value::String(a), Value::String(b)) if matches!(mask, Mask::Tokens(_)) => same_text(a, b, mask),
        (Value::Array(_) | Value::Object(_), _) | (_, Value::Array(_) | Value::Object(_)) => false,
        _ => a == b || (*mask == Mask::Scalar && json::kind(a) == json::kind(b)),
    }
}

fn member<'m>(mask: &'m Mask, key: &str) -> &'m Mask {
    match mask {
        Mask::Members(masks) => masks.get(key).unwrap_or(&Mask::Nothing),
        _ => &Mask::Nothing,
    }
}

fn element(mask: &Mask, at: usize) -> &Mask {
    match mask {
        Mask::Elements(masks) => masks.get(&at).unwrap_or(&Mask::Nothing),
        _ => &Mask::Nothing,
    }
}

fn differs(place: &[String], a: Option<&Value>, b: Option<&Value>) -> ContentDiffers {
    let show = |value: Option<&Value>| value.map_or("nothing".to_owned(), |value| format!("`{}`", json::short(value)));
    ContentDiffers { place: place_text(place), detail: format!("{} instead of {}", show(b), show(a)) }
}

/// An item of the reference without partner, and one of the candidate (as texts).
struct Unmatched {
    missing: Option<String>,
    extra: Option<String>,
}

/// Finds a one-to-one matching. Items with equal keys are taken first: whoever they would otherwise be needed for can
/// take the equal one. The rest, which only a mask can make equal, is matched by augmenting paths.
fn match_all<T>(
    reference: &[(T, Mask)],
    candidate: &[T],
    key: impl Fn(&T) -> String,
    same: impl Fn(&T, &T, &Mask) -> bool,
) -> Result<(), Unmatched> {
    let mut free: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, item) in candidate.iter().enumerate() {
        free.entry(key(item)).or_default().push(at);
    }
    let mut masked = Vec::new();
    let mut missing = None;
    for (item, mask) in reference {
        let text = key(item);
        if *mask != Mask::Nothing {
            masked.push((item, mask));
        } else if free.get_mut(&text).and_then(Vec::pop).is_none() {
            missing.get_or_insert(text);
        }
    }
    let rest: Vec<usize> = free.values().flatten().copied().collect();
    if missing.is_some() || rest.len() != masked.len() || masked.len() > MAX_MATCHED {
        return Err(Unmatched { missing, extra: rest.first().map(|at| key(&candidate[*at])) });
    }
    let mut partner: Vec<Option<usize>> = vec![None; rest.len()];
    for from in 0..masked.len() {
        let edge = |m: usize, r: usize| same(masked[m].0, &candidate[rest[r]], masked[m].1);
        if !augment(from, &edge, &mut partner, &mut vec![false; rest.len()]) {
            return Err(Unmatched { missing: Some(key(masked[from].0)), extra: None });
        }
    }
    Ok(())
}

fn augment(
    from: usize,
    edge: &impl Fn(usize, usize) -> bool,
    partner: &mut Vec<Option<usize>>,
    seen: &mut Vec<bool>,
) -> bool {
    for to in 0..partner.len() {
        if seen[to] || !edge(from, to) {
            continue;
        }
        seen[to] = true;
        if partner[to].is_none_or(|other| augment(other, edge, partner, seen)) {
            partner[to] = Some(from);
            return true;
        }
    }
    false
}
