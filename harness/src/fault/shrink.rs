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
