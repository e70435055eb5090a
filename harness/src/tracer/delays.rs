//! `[[delay]]`: holding a worker for some virtual time before or after a step.

use std::time::Duration;

use nix::unistd::Pid;

use super::draft::Draft;
use crate::{
    scenario::{Delay, PatternMatcher},
    world::{Op, Step},
};

#[derive(Debug)]
struct Rule {
    delay: Delay,
    matcher: PatternMatcher,
    /// Matches (for reads: groups of reads) so far, per worker.
    seen: Vec<u64>,
    fired: bool,
}

/// Reads through one open: process, descriptor and file.
type Group = (Pid, i32, u64);

/// The delays of a scenario, in one run.
#[derive(Debug, Default)]
pub(super) struct Delays {
    rules: Vec<Rule>,
    /// Groups of reads that go on, per worker.
    groups: Vec<(usize, Group)>,
    /// A delay that is due when this group is over.
    armed: Vec<(usize, Group, Duration)>,
}

impl Delays {
    /// Delays whose globs were checked when the scenario was read.
    pub(super) fn new(delays: &[Delay], workers: usize) -> Self {
        let rule = |delay: &Delay| {
            let matcher = delay.at.matcher().ok()?;
            Some(Rule { delay: delay.clone(), matcher, seen: vec![0; workers], fired: false })
        };
        Delays { rules: delays.iter().filter_map(rule).collect(), ..Delays::default() }
    }

    /// Starts a run.
    pub(super) fn begin(&mut self) {
        for rule in &mut self.rules {
            rule.seen.fill(0);
            rule.fired = false;
        }
        self.groups.clear();
        self.armed.clear();
    }

    /// Nothing to look for.
    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// A step was reached for the first time: how long to wait before it.
    pub(super) fn before(&mut self, actor: usize, draft: &Draft, group: Option<Group>) -> Option<Duration> {
        // Only the first of a group of reads counts.
        if draft.op == Op::Read && group.is_some_and(|g| self.groups.contains(&(actor, g))) {
            return None;
        }
        self.fire(actor, false, |m| m.matches_parts(draft.op, draft.path.as_deref(), draft.path2.as_deref()))
    }

    /// A step was made: how long to wait after it. For reads the delay is armed, and due when the group is over.
    pub(super) fn after(&mut self, actor: usize, step: &Step, group: Option<Group>) -> Option<Duration> {
        if let (Op::Read, Some(group)) = (step.op, group) {
            if !self.groups.contains(&(actor, group)) {
                self.groups.push((actor, group));
                if let Some(wait) = self.fire(actor, true, |m| m.matches(step)) {
                    self.armed.push((actor, group, wait));
                }
            }
            return None;
        }
        self.fire(actor, true, |m| m.matches(step))
    }

    /// The worker does something else than read on through `still`: the delay that was waiting for this. A descriptor
    /// that is closed ends its group.
    pub(super) fn group_over(&mut self, actor: usize, still: Option<Group>, closes: Option<Group>) -> Option<Duration> {
        if let Some(group) = closes {
            self.groups.retain(|g| *g != (actor, group));
        }
        let at = self.armed.iter().position(|(a, group, _)| *a == actor && Some(*group) != still)?;
        Some(self.armed.remove(at).2)
    }

    /// Patterns that matched too rarely to fire, as written.
    pub(super) fn unmatched(&self) -> Vec<String> {
        self.rules.iter().filter(|r| !r.fired).map(|r| r.delay.at.text.clone()).collect()
    }

    fn fire(&mut self, actor: usize, after: bool, matches: impl Fn(&PatternMatcher) -> bool) -> Option<Duration> {
        let mut total = None;
        for rule in &mut self.rules {
            if rule.delay.after == after && rule.delay.workers.contains(&actor) && matches(&rule.matcher) {
                rule.seen[actor] += 1;
                if rule.seen[actor] == rule.delay.nth {
                    rule.fired = true;
                    total = Some(total.unwrap_or(Duration::ZERO) + rule.delay.duration);
                }
            }
        }
        total
    }
}
