//! Runs that were made, so that none is made twice: after a find most candidates for a plainer schedule turn out to be
//! the same run, and a run of real programs is what costs.

use super::{
    policy::stay,
    system::{Lost, System},
};
use crate::world::{Choice, Plan, Policy, Run, Step};

/// A system, and the runs that it made of plans which go on with choice 0.
pub struct Memory<'a> {
    system: &'a mut dyn System,
    runs: Vec<Run>,
    made: u64,
}

impl<'a> Memory<'a> {
    /// Nothing is known yet.
    pub fn new(system: &'a mut dyn System) -> Self {
        Memory { system, runs: Vec::new(), made: 0 }
    }

    /// Learns a run that was made elsewhere, with the same environment and recording as the plans that will be asked.
    pub fn learn(&mut self, run: &Run) {
        if !self.runs.iter().any(|known| known.choices == run.choices) {
            self.runs.push(run.clone());
        }
    }

    /// How many schedules were really run.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// The run of a plan that goes on with choice 0: a known one when it is certain that the plan gives it.
    ///
    /// # Errors
    /// [`Lost`] when the engine lost control.
    pub fn run(&mut self, plan: &Plan) -> Result<Run, Lost> {
        if let Some(known) = self.runs.iter().find(|run| gives(plan, run)) {
            return Ok(known.clone());
        }
        self.made += 1;
        let run = self.system.run(plan)?;
        self.learn(&run);
        Ok(run)
    }

    /// Whether the run of a plan is known.
    pub fn knows(&self, plan: &Plan) -> bool {
        self.runs.iter().any(|run| gives(plan, run))
    }
}

/// Whether the plan gives this run for certain: at each point it wants the choice that was made.
fn gives(plan: &Plan, run: &Run) -> bool {
    if plan.then != Policy::Stay
        || !plan.sleep.is_empty()
        || run.outcome.is_none()
        || plan.prefix.len() > run.choices.len()
    {
        return false;
    }
    let points: Vec<&Step> = run.steps.iter().filter(|step| step.chosen).collect();
    if points.len() != run.choices.len() {
        return false;
    }
    points.iter().zip(&run.choices).enumerate().all(|(n, (step, &made))| {
        let ready = step.enabled.iter().map(|a| Choice::Step(*a));
        let options: Vec<Choice> = ready.chain(step.wakeable.iter().map(|a| Choice::Wake(*a))).collect();
        let last = n.checked_sub(1).map(|n| points[n].actor);
        match plan.prefix.get(n) {
            Some(planned) if options.contains(planned) => *planned == made,
            // Who never runs again has ended or waits for ever: it cannot be asleep, and choice 0 takes its place.
            Some(Choice::Step(gone)) if plan.lenient && points[n..].iter().all(|later| later.actor != *gone) => {
                stay(last, &options) == Some(made)
            }
            Some(_) => false,
            None => stay(last, &options) == Some(made),
        }
    })
}
