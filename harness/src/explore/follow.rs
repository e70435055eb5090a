//! Following a plan: its prefix, then its sleep set and policy.

use super::policy::{self, Pick, conflict, stay};
use crate::world::{Access, ActorId, Choice, Chooser, Decision, Plan, Run, Step, View};

/// The scheduler of a plan: what an engine asks at each choice point.
pub fn chooser(plan: &Plan) -> Box<dyn Chooser> {
    Box::new(Follower {
        prefix: plan.prefix.clone(),
        lenient: plan.lenient,
        sleep: plan.sleep.clone(),
        policy: policy::of(&plan.then),
        executed: 0,
        diverged: None,
        waking: false,
        probing: None,
        broken: false,
    })
}

struct Follower {
    prefix: Vec<Choice>,
    lenient: bool,
    /// Actors whose next step was explored already. Filtered from the last step of the prefix on.
    sleep: Vec<(ActorId, Vec<Access>)>,
    policy: Box<dyn Pick>,
    /// How many chosen steps were executed.
    executed: usize,
    diverged: Option<usize>,
    /// The last decision was a wake-up, which depends on everything.
    waking: bool,
    /// The actor that the prefix wants at this point, while another is tried that has to wait.
    probing: Option<ActorId>,
    /// A strict prefix was left.
    broken: bool,
}

impl Follower {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        if self.broken {
            return Decision::Infeasible;
        }
        self.probing = None;
        let ready = view.ready.iter().map(|a| Choice::Step(*a));
        let wakes = view.wakeable.iter().map(|a| Choice::Wake(*a));
        let mut options: Vec<Choice> = ready.chain(wakes).collect();
        if let Some(&planned) = self.prefix.get(view.number) {
            // A recorded serial order wakes its sleepers in fair time too.
            let serial = matches!(planned, Choice::Wake(a) if view.asleep.contains(&a));
            if options.contains(&planned) || serial {
                return Decision::Go(planned);
            }
            // Fair time wakes a sleeper only when everybody else has been found to wait, which takes trying them.
            if let (Choice::Step(sleeper), Some(&Choice::Step(other))) = (planned, options.first())
                && view.asleep.contains(&sleeper)
            {
                self.probing = Some(sleeper);
                return Decision::Go(Choice::Step(other));
            }
            if !self.lenient {
                return Decision::Infeasible;
            }
            self.diverged.get_or_insert(view.number);
            return stay(view.last, &options).map_or(Decision::Infeasible, Decision::Go);
        }
        let asleep = |c: &Choice| matches!(c, Choice::Step(a) if self.sleep.iter().any(|(b, _)| a == b));
        options.retain(|choice| !asleep(choice));
        if options.is_empty() {
            return Decision::SleepSet;
        }
        self.policy.pick(view, &options).map_or(Decision::Infeasible, Decision::Go)
    }
}

impl Chooser for Follower {
    fn choose(&mut self, view: &View<'_>) -> Decision {
        let decision = self.decide(view);
        self.waking = matches!(decision, Decision::Go(Choice::Wake(_)));
        decision
    }

    fn stepped(&mut self, step: &Step) {
        if step.chosen {
            if self.probing.take().is_some_and(|wanted| wanted != step.actor) {
                self.diverged.get_or_insert(self.executed);
                self.broken = !self.lenient;
            }
            self.executed += 1;
            self.policy.stepped(step);
        }
        if self.executed >= self.prefix.len() {
            filter(&mut self.sleep, step.actor, &step.accesses, step.barrier || self.waking);
        }
    }

    fn diverged(&self) -> Option<usize> {
        self.diverged
    }
}

/// Who of the sleep set of a plan is still asleep at the first choice after the prefix, given a run of that prefix.
pub fn effective_sleep(plan: &Plan, run: &Run) -> Vec<(ActorId, Vec<Access>)> {
    let mut sleep = plan.sleep.clone();
    let Some(last) = plan.prefix.len().checked_sub(1) else { return sleep };
    let mut chosen = 0;
    for step in &run.steps {
        if step.chosen {
            chosen += 1;
        }
        if chosen > last + 1 {
            break;
        }
        if chosen == last + 1 {
            let waking = step.chosen && matches!(plan.prefix[last], Choice::Wake(_));
            filter(&mut sleep, step.actor, &step.accesses, step.barrier || waking);
        }
    }
    sleep
}

/// Wakes what a step of `actor` conflicts with: the actor itself, and everybody whose next step depends on it.
pub(crate) fn filter(sleep: &mut Vec<(ActorId, Vec<Access>)>, actor: ActorId, touched: &[Access], everything: bool) {
    sleep.retain(|(sleeper, next)| !everything && *sleeper != actor && !conflict(next, touched));
}
