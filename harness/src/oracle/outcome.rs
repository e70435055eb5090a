//! Equality of whole outcomes, and what of an outcome is noise.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    compare::same_content,
    mask::{Mask, Noise},
    rules::{Rules, STATE, STDOUT},
};
use crate::world::{ActorEnd, Node, Outcome};

/// Permission bits, without the file type.
const PERMISSIONS: u32 = 0o7777;

/// How two outcomes are compared.
pub(super) struct Comparison<'a> {
    /// The scenario's rules.
    pub(super) rules: &'a Rules,
    /// Noise of the reference; `None` compares exactly.
    pub(super) noise: Option<&'a OutcomeNoise>,
    /// Workers (indices) that are not in the reference, or whose exit and stdout say nothing.
    pub(super) loose: &'a BTreeSet<usize>,
    /// Files of the candidate that may be there though the reference lacks them.
    pub(super) left_behind: &'a BTreeSet<String>,
}

/// The result of a comparison: equal when there is no difference.
#[derive(Debug, Default)]
pub(super) struct Compared {
    /// What differs, a sentence each, at most [`MAX_DIFFERENCES`].
    pub(super) differences: Vec<String>,
    /// Contents that are equal only thanks to a mask that covers more than half of them.
    pub(super) heavy: Vec<String>,
    /// Places that a mask was needed for.
    pub(super) masked: Vec<String>,
    /// Files tolerated as left behind.
    pub(super) left_behind: Vec<String>,
}

/// More differences than these are not listed.
pub(super) const MAX_DIFFERENCES: usize = 8;

impl Comparison<'_> {
    /// Compares `candidate` with `reference`; `names` are the workers' names.
    pub(super) fn compare(&self, reference: &Outcome, candidate: &Outcome, names: &[&str]) -> Compared {
        let mut out = Compared::default();
        match (&reference.state, &candidate.state) {
            (Some((exit_a, a)), Some((exit_b, b))) => {
                if exit_a != exit_b {
                    out.say(format!("the state command exits with {} instead of {}", code(*exit_b), code(*exit_a)));
                }
                self.content(&mut out, STATE, "the state", a, b);
            }
            _ => self.files(&mut out, reference, candidate),
        }
        for (at, name) in names.iter().enumerate() {
            if self.loose.contains(&at) {
                continue;
            }
            let (Some(a), Some(b)) = (reference.actors.get(at), candidate.actors.get(at)) else { continue };
            if ending(a) != ending(b) && !idle(a) && !idle(b) {
                out.say(format!("{name} {} instead of {}", ending_text(b), ending_text(a)));
            }
            if self.rules.stdout {
                self.content(&mut out, STDOUT, &format!("the output of {name}"), &a.stdout, &b.stdout);
            }
        }
        out
    }

    fn files(&self, out: &mut Compared, reference: &Outcome, candidate: &Outcome) {
        for (path, a) in reference.files.iter().filter(|(path, _)| !self.rules.ignores(path)) {
            match candidate.files.get(path) {
                Some(b) => self.node(out, path, a, b),
                None => out.say(format!("{path} is missing")),
            }
        }
        for path in candidate.files.keys().filter(|path| !reference.files.contains_key(*path)) {
            if self.rules.ignores(path) {
                continue;
            }
            if self.left_behind.contains(path) {
                out.left_behind.push(path.clone());
            } else {
                out.say(format!("{path} is there and should not be"));
            }
        }
    }

    fn node(&self, out: &mut Compared, path: &str, a: &Node, b: &Node) {
        match (a, b) {
            (Node::File { mode: mode_a, bytes: a }, Node::File { mode: mode_b, bytes: b }) => {
                mode(out, path, *mode_a, *mode_b);
                self.content(out, path, path, a, b);
            }
            (Node::Dir { mode: a }, Node::Dir { mode: b }) => mode(out, path, *a, *b),
            (Node::Symlink { target: a }, Node::Symlink { target: b }) if a == b => {}
            (Node::Symlink { target: a }, Node::Symlink { target: b }) => {
                out.say(format!("{path} points to {b} instead of {a}"));
            }
            (Node::Other { mode: a }, Node::Other { mode: b }) if a == b => {}
            _ => out.say(format!("{path} is {} instead of {}", type_name(b), type_name(a))),
        }
    }

    fn content(&self, out: &mut Compared, key: &str, label: &str, a: &[u8], b: &[u8]) {
        if a == b {
            return;
        }
        let rules = self.rules.content(key);
        let exact = match same_content(a, b, &rules, &Mask::Nothing) {
            Ok(()) => return,
            Err(difference) => difference,
        };
        if let Some(noise) = self.noise.and_then(|noise| noise.contents.get(label))
            && same_content(a, b, &rules, &noise.mask).is_ok()
        {
            if noise.heavy() {
                out.heavy.push(label.to_owned());
            }
            out.masked.extend(noise.places.iter().map(|place| format!("{label} {place}")));
            return;
        }
        let place = if exact.place.is_empty() { String::new() } else { format!(" {}", exact.place) };
        out.say(format!("{label}{place}: {}", exact.detail));
    }
}

impl Compared {
    fn say(&mut self, difference: String) {
        if self.differences.len() < MAX_DIFFERENCES {
            self.differences.push(difference);
        }
    }

    /// No difference, masks allowed for.
    pub(super) fn equal(&self) -> bool {
        self.differences.is_empty()
    }
}

fn mode(out: &mut Compared, path: &str, a: u32, b: u32) {
    let (a, b) = (a & PERMISSIONS, b & PERMISSIONS);
    if a != b {
        out.say(format!("{path} has permissions {b:o} instead of {a:o}"));
    }
}

fn type_name(node: &Node) -> &'static str {
    match node {
        Node::File { .. } => "a file",
        Node::Dir { .. } => "a directory",
        Node::Symlink { .. } => "a symbolic link",
        Node::Other { .. } => "a special file",
    }
}

/// What of an end is compared.
pub(super) fn ending(end: &ActorEnd) -> (Option<i32>, Option<i32>) {
    (end.exit, end.signal)
}

/// Ended by the harness because only repeating actors were left: its exit code says nothing.
pub(super) fn idle(end: &ActorEnd) -> bool {
    end.ended_by.as_deref() == Some("idle")
}

/// Hit by a kill, or by a power cut.
pub(super) fn killed(end: &ActorEnd) -> bool {
    matches!(end.ended_by.as_deref(), Some("kill" | "power-cut"))
}

fn code(exit: Option<i32>) -> String {
    exit.map_or("no exit code".to_owned(), |code| code.to_string())
}

/// How an actor ended, in words.
pub(super) fn ending_text(end: &ActorEnd) -> String {
    match ending(end) {
        (_, Some(signal)) => format!("was ended by signal {signal}"),
        (Some(exit), None) => format!("exits with {exit}"),
        (None, None) => "did not end".to_owned(),
    }
}

/// Noise of one serial order: what two environments left differently.
#[derive(Debug, Default)]
pub(super) struct OutcomeNoise {
    /// By label (path, `the state`, `the output of A`).
    contents: BTreeMap<String, Noise>,
    /// What could not be masked, a sentence each.
    pub(super) warnings: Vec<String>,
}

impl OutcomeNoise {
    /// Compares one serial order in two environments. `steps` names the first worker whose steps differ, if any.
    pub(super) fn between(
        a: &Outcome,
        b: &Outcome,
        names: &[&str],
        rules: &Rules,
        steps: Option<&str>,
    ) -> OutcomeNoise {
        let mut noise = OutcomeNoise::default();
        if let Some(reason) = unstable(a, b, names, rules, steps) {
            noise.warnings.push(format!("nothing is masked as environment: {reason}"));
            return noise;
        }
        if let (Some((_, a)), Some((_, b))) = (&a.state, &b.state) {
            noise.content("the state", a, b);
        } else {
            for (path, node) in a.files.iter().filter(|(path, _)| !rules.ignores(path)) {
                if let (Node::File { bytes: a, .. }, Some(Node::File { bytes: b, .. })) = (node, b.files.get(path)) {
                    noise.content(path, a, b);
                }
            }
        }
        if rules.stdout {
            for ((a, b), name) in a.actors.iter().zip(&b.actors).zip(names) {
                noise.content(&format!("the output of {name}"), &a.stdout, &b.stdout);
            }
        }
        noise
    }

    fn content(&mut self, label: &str, a: &[u8], b: &[u8]) {
        if a == b {
            return;
        }
        match Noise::between(a, b) {
            Ok(noise) => drop(self.contents.insert(label.to_owned(), noise)),
            Err(_) => self.warnings.push(format!("{label} changes its structure with the environment: not masked")),
        }
    }

    /// Every masked place.
    pub(super) fn places(&self) -> Vec<String> {
        let all = self.contents.iter();
        all.flat_map(|(label, noise)| noise.places.iter().map(move |place| format!("{label} {place}"))).collect()
    }

    /// Whether there is anything to mask.
    pub(super) fn is_empty(&self) -> bool {
        self.contents.is_empty()
    }
}

/// Why two environments are no longer the same execution.
fn unstable(a: &Outcome, b: &Outcome, names: &[&str], rules: &Rules, steps: Option<&str>) -> Option<String> {
    for ((a, b), name) in a.actors.iter().zip(&b.actors).zip(names) {
        if ending(a) != ending(b) && !idle(a) && !idle(b) {
            return Some(format!("{name} {} in one environment and {} in another", ending_text(a), ending_text(b)));
        }
    }
    if let Some(name) = steps {
        return Some(format!("{name} makes other steps in another environment"));
    }
    let compared = |outcome: &Outcome| -> BTreeSet<String> {
        outcome.files.keys().filter(|path| !rules.ignores(path)).cloned().collect()
    };
    let (a_files, b_files) = (compared(a), compared(b));
    let name = a.state.is_none().then(|| a_files.symmetric_difference(&b_files).next()).flatten()?;
    Some(format!("{name} has another name in another environment"))
}

impl OutcomeNoise {
    /// The order cannot be run in another environment.
    pub(super) fn impossible() -> OutcomeNoise {
        let warning = "nothing is masked as environment: a serial order cannot be run in another environment";
        OutcomeNoise { contents: BTreeMap::new(), warnings: vec![warning.to_owned()] }
    }
}
