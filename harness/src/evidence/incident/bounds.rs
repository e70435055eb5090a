//! How often each item was taken, at least and at most, over all histories that fit.

use std::collections::HashMap;

use super::{
    bases::Bases,
    history::{History, Mark},
};

/// Sums over all states; each state's base is chosen on its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Writes by somebody who saw the item and took it, finished it or threw it out.
    pub(super) handled: (i64, i64),
    /// Times it was taken less times it was given back.
    pub(super) net: (i64, i64),
    /// States in which it can have been taken, with the bases for which it was.
    pub(super) takers: Vec<(usize, Vec<usize>)>,
}

/// What one write does to one item: handled, net.
fn effect(base: Mark, node: Mark) -> (i64, i64) {
    let gone = !node.is_present();
    let handled = base.is_present() && (gone || (base.is_available() && node.is_taken()));
    let taken = base.is_available() && (gone || node.is_taken());
    let given_back = base.is_taken() && node.is_available();
    (i64::from(handled), i64::from(taken) - i64::from(given_back))
}

/// The bounds of every item that some write can have changed.
pub(super) fn bounds(history: &History, bases: &Bases) -> HashMap<u32, Bounds> {
    let mut all: HashMap<u32, Bounds> = HashMap::new();
    for node in 0..history.nodes.len() {
        let candidates = &bases.of[node];
        let mut ids: Vec<u32> = candidates.iter().flat_map(|&base| history.diff(base, node)).collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            let here = history.at(id, node);
            let mut effects: Vec<(i64, i64)> =
                candidates.iter().map(|&base| effect(history.at(id, base), here)).collect();
            if bases.from_torn[node] {
                let unseen = i64::from(!here.is_available());
                effects.extend([(0, 0), (unseen, unseen), (0, -i64::from(here.is_available()))]);
            }
            let range = |of: fn(&(i64, i64)) -> i64| {
                (effects.iter().map(of).min().unwrap_or(0), effects.iter().map(of).max().unwrap_or(0))
            };
            let (handled, net) = (range(|e| e.0), range(|e| e.1));
            if handled == (0, 0) && net == (0, 0) {
                continue;
            }
            let bounds = all.entry(id).or_default();
            bounds.handled = (bounds.handled.0 + handled.0, bounds.handled.1 + handled.1);
            bounds.net = (bounds.net.0 + net.0, bounds.net.1 + net.1);
            if net.1 > 0 {
                let takes = |&base: &usize| effect(history.at(id, base), here).1 > 0;
                bounds.takers.push((node, candidates.iter().copied().filter(takes).collect()));
            }
        }
    }
    all
}
