//! Fewer and earlier faults in a found run.

use crate::{
    explore::{Lost, System},
    world::{Injection, Plan, Policy, Run},
};

/// Tries, with at most `max_runs` runs, whether the anomaly (`keep`) shows without some of the faults, then whether it
/// shows with each of them at an earlier match. The schedule is followed as far as it can be.
///
/// # Errors
/// [`Lost`] when the engine lost control.
pub fn shrink_faults(
    system: &mut dyn System,
    found: &Run,
    template: &Plan,
    max_runs: u64,
    keep: &mut dyn FnMut(&Run) -> bool,
) -> Result<Run, Lost> {
    let mut best = found.clone();
    let mut runs = 0;
    let mut improve = |best: &mut Run, candidates: fn(&[Injection]) -> Vec<Vec<Injection>>| -> Result<bool, Lost> {
        for faults in candidates(&best.faults) {
            if runs >= max_runs {
                return Ok(false);
            }
            runs += 1;
            let plan = Plan {
                prefix: best.choices.clone(),
                lenient: true,
                then: Policy::Stay,
                sleep: Vec::new(),
                faults,
                ..template.clone()
            };
            let run = system.run(&plan)?;
            if keep(&run) {
                *best = Run { diverged: None, ..run };
                return Ok(true);
            }
        }
        Ok(false)
    };
    while improve(&mut best, fewer)? {}
    while improve(&mut best, earlier)? {}
    Ok(best)
}

fn fewer(faults: &[Injection]) -> Vec<Vec<Injection>> {
    let without = |gone: usize| faults.iter().enumerate().filter(|(i, _)| *i != gone).map(|(_, f)| *f).collect();
    (0..faults.len()).map(without).collect()
}

/// Each fault at the first match, at half of the way, and one match earlier.
fn earlier(faults: &[Injection]) -> Vec<Vec<Injection>> {
    let mut out = Vec::new();
    for (i, fault) in faults.iter().enumerate() {
        let Some(nth) = fault.nth else { continue };
        let mut places = vec![1, nth / 2, nth.saturating_sub(1)];
        if let Some(loss) = fault.loss {
            // Less that is lost first, then earlier.
            let mut losses = vec![0, 1, loss / 2, loss.saturating_sub(1)];
            losses.retain(|less| *less < loss);
            losses.dedup();
            for less in losses {
                let mut candidate = faults.to_vec();
                candidate[i].loss = Some(less);
                out.push(candidate);
            }
        }
        places.retain(|place| (1..nth).contains(place));
        places.dedup();
        for place in places {
            let mut candidate = faults.to_vec();
            candidate[i].nth = Some(place);
            out.push(candidate);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{Cuts, Ended};

    /// Does nothing but remember which faults it was given.
    #[derive(Default)]
    struct Told(Vec<Vec<Injection>>);

    impl System for Told {
        fn run(&mut self, plan: &Plan) -> Result<Run, Lost> {
            assert!(plan.lenient, "without a fault the schedule may go another way");
            self.0.push(plan.faults.clone());
            Ok(with(plan.faults.clone()))
        }
    }

    fn with(faults: Vec<Injection>) -> Run {
        Run {
            steps: Vec::new(),
            choices: Vec::new(),
            faults,
            diverged: Some(3),
            ended: Ended::Done,
            pending: Vec::new(),
            outcome: None,
            unmatched: Vec::new(),
            warnings: Vec::new(),
            cuts: Cuts::default(),
        }
    }

    fn at(rule: usize, nth: u64, loss: Option<u32>) -> Injection {
        Injection { rule, actor: None, nth: Some(nth), loss }
    }

    fn shrunk(faults: Vec<Injection>, max_runs: u64, keep: fn(&[Injection]) -> bool) -> (Vec<Injection>, usize) {
        let mut system = Told::default();
        let template = Plan::from_policy(Policy::Stay);
        let best = shrink_faults(&mut system, &with(faults), &template, max_runs, &mut |run| keep(&run.faults));
        (best.expect("control is kept").faults, system.0.len())
    }

    #[test]
    fn only_the_faults_that_are_needed_stay_and_each_at_its_first_place() {
        // A kill of rule 0 at its second match or later is what goes wrong; the pause of rule 1 has no part in it.
        let kill = |faults: &[Injection]| faults.iter().any(|fault| fault.rule == 0 && fault.nth >= Some(2));
        assert_eq!(shrunk(vec![at(1, 3, None), at(0, 37, None)], 100, kill).0, [at(0, 2, None)]);
        // Both are needed.
        let both = |faults: &[Injection]| faults.len() == 2;
        assert_eq!(shrunk(vec![at(1, 3, None), at(0, 7, None)], 100, both).0, [at(1, 1, None), at(0, 1, None)]);
        // None is.
        assert_eq!(shrunk(vec![at(1, 3, None), at(0, 7, None)], 100, |_| true).0, []);
    }

    #[test]
    fn a_power_cut_loses_as_little_as_it_can_before_it_comes_earlier() {
        let lost = |faults: &[Injection]| faults.iter().any(|cut| cut.loss >= Some(2) && cut.nth >= Some(4));
        assert_eq!(shrunk(vec![at(0, 9, Some(31))], 100, lost).0, [at(0, 4, Some(2))]);
    }

    #[test]
    fn the_budget_of_runs_is_kept_and_what_was_found_last_stays() {
        let kill = |faults: &[Injection]| faults.iter().any(|fault| fault.rule == 0);
        for budget in 0..6 {
            let (faults, runs) = shrunk(vec![at(1, 3, None), at(0, 40, None)], budget, kill);
            assert!(runs as u64 <= budget && kill(&faults), "{budget}: {runs} runs, {faults:?}");
        }
    }
}
