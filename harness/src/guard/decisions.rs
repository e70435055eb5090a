//! What was decided on the way, for who asks (`-v`): how orders were looked for, which schedules were left early, how
//! workers were started, what they met on and what each had for itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    explore::{Stop, Summary},
    scenario::{Scenario, SearchKind},
    world::{Ended, Mode, Run},
};

/// Paths that are remembered, and that are named.
const MOST_PATHS: usize = 4096;
const NAMED: usize = 8;

#[derive(Debug, Default)]
struct Touched {
    by: BTreeSet<u16>,
    changed: bool,
}

/// Collects what was decided.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    /// For each worker that is started afresh for every schedule: why.
    afresh: Vec<Option<String>>,
    /// Copies of workers did something else than fresh starts.
    copies_differ: Option<String>,
    paths: BTreeMap<String, Touched>,
    asleep: u64,
    unfollowed: u64,
    unfinished: u64,
}

impl Decisions {
    /// How the workers are started.
    pub(super) fn started(&mut self, afresh: Vec<Option<String>>) {
        self.afresh = afresh;
    }

    /// Copies of the workers did something else: they are not used.
    pub(super) fn copies_differ(&mut self, difference: String) {
        self.copies_differ = Some(difference);
    }

    /// Adds one run of the search.
    pub(super) fn observe(&mut self, run: &Run) {
        match run.ended {
            Ended::SleepSet => self.asleep += 1,
            Ended::Infeasible(_) => self.unfollowed += 1,
            Ended::Limit(..) | Ended::LostControl(_) => self.unfinished += 1,
            Ended::Done | Ended::Deadlock(_) | Ended::Livelock(_) => {}
        }
        for step in run.steps.iter().filter(|s| !s.accesses.is_empty()) {
            let changes = !step.failed() && step.accesses.iter().any(|a| a.mode != Mode::Read);
            for path in [&step.path, &step.path2].into_iter().flatten() {
                if !self.paths.contains_key(path) {
                    if self.paths.len() >= MOST_PATHS {
                        continue;
                    }
                    self.paths.insert(path.clone(), Touched::default());
                }
                let Some(touched) = self.paths.get_mut(path) else { continue };
                touched.by.insert(step.actor.0);
                touched.changed |= changes;
            }
        }
    }

    /// All of it, in sentences.
    pub(super) fn tell(
        &self,
        scenario: &Scenario,
        search: &SearchKind,
        summary: &Summary,
        serial: usize,
    ) -> Vec<String> {
        let name = |i: usize| scenario.workers.get(i).map_or("?", |w| w.name.as_str());
        let mut told = vec![
            "control: built-in races were found here, and the first schedule gave the same trace each time".to_owned(),
            chosen(scenario, search),
            ended(summary),
        ];
        let left = [
            (self.asleep, "as all that could still run there was run elsewhere: their classes are counted there"),
            (self.unfollowed, "as what they were to repeat could not be followed"),
            (self.unfinished, "as a limit was reached or control was lost"),
        ];
        for (n, why) in left.into_iter().filter(|(n, _)| *n > 0) {
            let schedules = if n == 1 { "schedule was" } else { "schedules were" };
            told.push(format!("cut: {n} {schedules} left before the end, {why}"));
        }
        if serial > 0 {
            let orders = if serial == 1 { "1 serial order".into() } else { format!("{serial} serial orders") };
            told.push(format!("right: what {orders} of the workers gave"));
        }
        match &self.copies_differ {
            Some(difference) => told.push(format!(
                "start: every worker afresh for each schedule, as copies of them did something else: {difference}"
            )),
            None => {
                for (i, why) in self.afresh.iter().enumerate() {
                    told.push(match why {
                        None => format!("start: {} is copied from a process that waits at its first step", name(i)),
                        Some(why) => format!("start: {} is started afresh for each schedule, as {why}", name(i)),
                    });
                }
            }
        }
        if scenario.workers.len() > 1 {
            let met: Vec<&str> =
                self.paths.iter().filter(|(_, t)| t.by.len() > 1 && t.changed).map(|(path, _)| path.as_str()).collect();
            told.push(format!(
                "shared: {}",
                if met.is_empty() { "no path that anybody changes".into() } else { few(&met) }
            ));
            for i in 0..scenario.workers.len() {
                let own = |t: &Touched| t.changed && t.by.len() == 1 && t.by.iter().any(|by| usize::from(*by) == i);
                let own: Vec<&str> = self.paths.iter().filter(|(_, t)| own(t)).map(|(path, _)| path.as_str()).collect();
                if !own.is_empty() {
                    told.push(format!("private: only {} touches {}", name(i), few(&own)));
                }
            }
        }
        told
    }
}

fn few(paths: &[&str]) -> String {
    let more = paths.len().saturating_sub(NAMED);
    let named = paths[..paths.len() - more].join(", ");
    if more > 0 { format!("{named} and {more} more") } else { named }
}

/// Which search, and who chose it.
fn chosen(scenario: &Scenario, search: &SearchKind) -> String {
    let max = scenario.search.max_schedules;
    let seed = scenario.search.seed;
    let how = match search {
        SearchKind::Timeline if !scenario.delays.is_empty() => {
            "the order that virtual time gives, and no other: the scenario has a [[delay]]".to_owned()
        }
        SearchKind::Timeline => "the order that virtual time gives, and no other".to_owned(),
        SearchKind::Auto => format!(
            "auto: every order that can matter, one of each class, for half of {max} schedules; if that is not enough, \
             the rest is sampled (random walk, POS, PCT in turns, seed {seed})"
        ),
        SearchKind::Exhaustive => {
            format!("every order that can matter, one of each class, for at most {max} schedules")
        }
        other => format!("{max} schedules are sampled ({other}, seed {seed})"),
    };
    let faults = match scenario.faults.len() {
        0 => String::new(),
        _ => "; first without a fault, then with one at each place, in turns".to_owned(),
    };
    format!("search: {how}{faults}")
}

fn ended(summary: &Summary) -> String {
    let why = match summary.stop {
        None => "what was looked for is found",
        Some(Stop::Exhausted) if summary.exhausted => "no order is left to try",
        Some(Stop::Exhausted) => "nothing is left to try, though some runs did not come to their end",
        Some(Stop::Bounded) => "nothing is left to try, though a power cut can lead to more",
        Some(Stop::Schedules) => "the budget of schedules is gone",
        Some(Stop::Time) => "the time is over",
        Some(Stop::Interrupt) => "it was interrupted",
    };
    format!("ended: {why}, after {} in {}", words(summary.schedules, "schedule"), words(summary.classes, "class"))
}

fn words(n: u64, noun: &str) -> String {
    let plural = if noun.ends_with('s') { "es" } else { "s" };
    format!("{n} {noun}{}", if n == 1 { "" } else { plural })
}
