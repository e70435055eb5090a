//! What is called certain is true in every history that fits the evidence: against an enumeration of all of them, and
//! against what truly happened.

mod evidence_support;

use std::collections::{BTreeMap, BTreeSet};

use evidence_support::{Evidence, Habits, Rng, Seen, State, Truth, certain};

/// The enumeration: every choice of a base for every state, filtered by the rules that a history must keep.
struct Enumeration {
    nodes: Vec<(State, i64, bool)>,
    after_said: bool,
}

const SKEW: i64 = 2_000;

impl Enumeration {
    fn new(truth: &Truth, copies: &[Seen], after_said: bool) -> Self {
        let mut nodes: Vec<(State, i64, bool)> = Vec::new();
        for seen in copies {
            let state = truth.states[seen.state].clone();
            // Equal copies are one state copied twice, unless each copy is said to be a write.
            let newest = nodes.last().map_or(0, |n| n.1);
            let last = nodes.len().wrapping_sub(1);
            let same = nodes.iter().enumerate().rev().find(|(i, (known, at, _))| {
                let now = if seen.live { newest } else { seen.at };
                *known == state && (*i == last || (now - at).abs() <= SKEW)
            });
            let same = same.map(|(i, _)| i).filter(|_| !after_said || seen.live);
            match same {
                Some(i) => nodes[i].2 |= seen.live,
                None => nodes.push((state, seen.at, seen.live)),
            }
        }
        Enumeration { nodes, after_said }
    }

    /// The live file is last, whatever its time; a state that a copy shows has the time of that copy.
    fn may_precede(&self, a: usize, b: usize) -> bool {
        let only_live = |n: usize| self.nodes[n].1 == i64::MAX;
        if only_live(a) || only_live(b) {
            return only_live(b) && !only_live(a);
        }
        self.nodes[a].1 - self.nodes[b].1 <= SKEW
    }

    fn has(&self, id: &str, n: usize) -> bool {
        self.nodes[n].0.items.contains_key(id)
    }

    /// All choices in which versions rise by one; None: some state but the first has no base.
    fn choices(&self) -> Option<Vec<Vec<Option<usize>>>> {
        let lowest = self.nodes.iter().map(|n| n.0.version).min()?;
        let mut all: Vec<Vec<Option<usize>>> = vec![Vec::new()];
        for k in 0..self.nodes.len() {
            let version = self.nodes[k].0.version;
            let candidates: Vec<Option<usize>> = if version == lowest {
                vec![None]
            } else {
                let fits = |b: &usize| self.nodes[*b].0.version + 1 == version && self.may_precede(*b, k);
                (0..self.nodes.len()).filter(fits).map(Some).collect()
            };
            all = all.iter().flat_map(|c| candidates.iter().map(|x| [&c[..], &[*x]].concat())).collect();
        }
        let roots = self.nodes.iter().filter(|n| n.0.version == lowest).count();
        let versions: BTreeSet<u64> = self.nodes.iter().map(|n| n.0.version).collect();
        (roots == 1 && !all.is_empty() && versions.len() > 1).then_some(all)
    }

    fn introductions(&self, id: &str, choice: &[Option<usize>]) -> usize {
        let put_in = |k: &usize| self.has(id, *k) && choice[*k].is_none_or(|b| !self.has(id, b));
        (0..self.nodes.len()).filter(put_in).count()
    }

    fn certain(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let nothing = (BTreeSet::new(), BTreeSet::new());
        let ids: BTreeSet<String> = self.nodes.iter().flat_map(|n| n.0.items.keys().cloned()).collect();
        let Some(choices) = self.choices() else { return nothing };
        // An id that two states of the lowest version with it share: versions are not raised by every write.
        for id in &ids {
            let with = (0..self.nodes.len()).filter(|&n| self.has(id, n)).map(|n| self.nodes[n].0.version);
            let mut by: BTreeMap<u64, usize> = BTreeMap::new();
            with.for_each(|version| *by.entry(version).or_default() += 1);
            if by.values().next().is_some_and(|count| *count > 1) {
                return nothing;
            }
        }
        let again: BTreeSet<&String> =
            ids.iter().filter(|id| choices.iter().all(|c| self.introductions(id, c) != 1)).collect();
        let fits = |c: &&Vec<Option<usize>>| ids.iter().all(|id| again.contains(id) || self.introductions(id, c) == 1);
        let histories: Vec<&Vec<Option<usize>>> = choices.iter().filter(fits).collect();
        if histories.is_empty() {
            return nothing;
        }
        let n = self.nodes.len();
        let lasts: Vec<usize> = match self.nodes.iter().position(|n| n.2) {
            Some(live) => vec![live],
            // What every history has as a base is not the last state of any.
            None if self.after_said => (0..n)
                .filter(|&f| (0..n).all(|m| m == f || self.may_precede(m, f)))
                .filter(|&f| histories.iter().any(|c| !c.contains(&Some(f))))
                .collect(),
            None => Vec::new(),
        };
        let (mut lost, mut duplicated) = nothing;
        for id in ids.iter().filter(|id| !again.contains(id)) {
            let effects: Vec<(i64, i64)> = histories.iter().map(|c| self.effects(id, c)).collect();
            if !lasts.is_empty() && lasts.iter().all(|&f| !self.has(id, f)) && effects.iter().all(|e| e.0 == 0) {
                lost.insert(id.clone());
            }
            if effects.iter().all(|e| e.1 >= 2) {
                duplicated.insert(id.clone());
            }
        }
        (lost, duplicated)
    }

    fn effects(&self, id: &str, choice: &[Option<usize>]) -> (i64, i64) {
        let (mut handled, mut net) = (0, 0);
        for (k, base) in choice.iter().enumerate() {
            let Some(base) = base else { continue };
            match (self.nodes[*base].0.items.get(id), self.nodes[k].0.items.get(id)) {
                (Some(false), None | Some(true)) => {
                    handled += 1;
                    net += 1;
                }
                (Some(true), None) => handled += 1,
                (Some(true), Some(false)) => net -= 1,
                _ => {}
            }
        }
        (handled, net)
    }
}

fn habits(rng: &mut Rng, writes: usize) -> Habits {
    Habits { writers: 2 + rng.below(5), writes, claims: rng.chance(40), stale: [0, 20, 50][rng.below(3) as usize] }
}

fn skew(rng: &mut Rng) -> Vec<i64> {
    match rng.chance(50) {
        true => vec![0],
        // Any two clocks are at most 2 s apart.
        false => (0..6).map(|_| rng.below(2_001) as i64 - 1_000).collect(),
    }
}

#[test]
fn certain_is_what_holds_in_every_history_of_up_to_six_copies() {
    let (mut cases, mut found) = (0, [0, 0]);
    for seed in 0..2_000 {
        let mut rng = Rng(seed);
        let writes = 1 + rng.below(5) as usize;
        let truth = Truth::random(&mut rng, &habits(&mut rng_of(seed), writes));
        let after = rng.chance(50);
        let mut evidence = Evidence::full(true, after);
        evidence.skew = skew(&mut rng);
        evidence.live = rng.chance(70);
        evidence.said = rng.chance(60);
        if rng.chance(20) {
            evidence.dropped.insert(rng.below(writes as u64 + 1) as usize);
        }
        let copies = evidence.copies(&truth);
        if copies.len() < 2 || copies.len() > 6 {
            continue;
        }
        let expected = Enumeration::new(&truth, &copies, evidence.said && after).certain();
        let incident = evidence.investigate(&truth);
        assert_eq!(certain(&incident), expected, "seed {seed}: {evidence:?}\n{truth:#?}\n{incident:#?}");
        cases += 1;
        found[0] += expected.0.len();
        found[1] += expected.1.len();
    }
    // The comparison says nothing unless there is something to find.
    assert!(cases > 1_500 && found.iter().all(|n| *n > 80), "{cases} cases, {found:?} certain");
}

fn rng_of(seed: u64) -> Rng {
    Rng(seed ^ 0x5eed)
}

#[test]
fn without_versions_nothing_is_certain_and_everything_true_is_possible() {
    let mut seen = 0;
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let writes = 1 + rng.below(8) as usize;
        let truth = Truth::random(&mut rng, &habits(&mut rng_of(seed), writes));
        let incident = Evidence::full(false, rng.chance(50)).investigate(&truth);
        assert_eq!(certain(&incident), (BTreeSet::new(), BTreeSet::new()), "seed {seed}");
        let possible: BTreeSet<String> = incident.lost.iter().map(|l| l.id.clone()).collect();
        let published = truth.lost();
        assert!(published.is_subset(&possible), "seed {seed}: {published:?} of {possible:?}\n{truth:#?}");
        seen += published.len();
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn healthy_histories_have_nothing_certain() {
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let writes = 1 + rng.below(30) as usize;
        let habits = Habits { stale: 0, ..habits(&mut rng_of(seed), writes) };
        let truth = Truth::random(&mut rng, &habits);
        let mut evidence = Evidence::full(rng.chance(70), rng.chance(50));
        evidence.skew = skew(&mut rng);
        evidence.live = rng.chance(70);
        evidence.said = rng.chance(50);
        evidence.audit = evidence.versions && rng.chance(30);
        if rng.chance(40) {
            evidence.cut.insert(rng.below(writes as u64) as usize);
        }
        if rng.chance(40) {
            evidence.dropped.insert(rng.below(writes as u64) as usize);
        }
        if evidence.copies(&truth).iter().filter(|c| !c.live).count() < 2 {
            continue;
        }
        let incident = evidence.investigate(&truth);
        assert!(!incident.is_certain(), "seed {seed}: {evidence:?}\n{truth:#?}\n{incident:#?}");
        let complete = evidence.versions && evidence.cut.is_empty() && evidence.dropped.is_empty();
        assert!(!complete || incident.is_nothing(), "seed {seed}: {incident:#?}");
    }
}

#[test]
fn large_histories_with_full_evidence_are_exactly_right() {
    let mut seen = [0, 0];
    for seed in 0..30 {
        let mut rng = Rng(seed);
        let writes = 40 + rng.below(60) as usize;
        let truth = Truth::random(&mut rng, &habits(&mut rng_of(seed), writes));
        let mut evidence = Evidence::full(true, true);
        evidence.audit = true;
        evidence.skew = skew(&mut rng);
        let incident = evidence.investigate(&truth);
        assert_eq!(certain(&incident), (truth.lost(), truth.duplicated()), "seed {seed}");
        seen[0] += truth.lost().len();
        seen[1] += truth.duplicated().len();
    }
    assert!(seen.iter().all(|n| *n > 100), "{seen:?}");
}

#[test]
fn a_cut_off_copy_makes_nothing_certain_that_is_not_true() {
    let mut still = 0;
    for seed in 0..1_500 {
        let mut rng = Rng(seed);
        let writes = 2 + rng.below(8) as usize;
        let truth = Truth::random(&mut rng, &habits(&mut rng_of(seed), writes));
        let mut evidence = Evidence::full(true, rng.chance(50));
        evidence.skew = skew(&mut rng);
        evidence.said = rng.chance(50);
        evidence.cut.insert(rng.below(writes as u64) as usize);
        let incident = evidence.investigate(&truth);
        let (lost, duplicated) = certain(&incident);
        assert!(lost.is_subset(&truth.lost()), "seed {seed}: {lost:?}\n{evidence:?}\n{truth:#?}\n{incident:#?}");
        assert!(duplicated.is_subset(&truth.duplicated()), "seed {seed}: {duplicated:?}\n{truth:#?}\n{incident:#?}");
        still += lost.len() + duplicated.len();
    }
    assert!(still > 50, "{still}");
}
