//! `--copies N`: each worker N times, and everything that names it means its copies.

use super::ArgError;
use crate::scenario::{Scenario, Worker};

/// The most workers a run can have.
pub(super) const MAX_WORKERS: usize = 1_000;

/// Gives each worker this number of copies.
pub(super) fn set_copies(scenario: &mut Scenario, copies: usize) -> Result<(), ArgError> {
    let old = std::mem::take(&mut scenario.workers);
    // Old groups as ranges, and the new copies of each.
    let mut groups: Vec<(std::ops::Range<usize>, std::ops::Range<usize>)> = Vec::new();
    let mut new: Vec<Worker> = Vec::new();
    let mut from = 0;
    for i in 1..=old.len() {
        if i < old.len() && old[i].group == old[from].group {
            continue;
        }
        let first = &old[from];
        let start = new.len();
        if copies == 1 && first.name == first.group {
            new.push(first.clone());
        } else {
            new.extend((1..=copies).map(|n| Worker { name: format!("{}.{n}", first.group), ..first.clone() }));
        }
        groups.push((from..i, start..new.len()));
        from = i;
    }
    let map = |chosen: &[usize]| -> Result<Vec<usize>, ArgError> {
        let mut mapped = Vec::new();
        for (old_range, new_range) in &groups {
            if old_range.clone().all(|i| chosen.contains(&i)) {
                mapped.extend(new_range.clone());
                continue;
            }
            // Single copies keep their number.
            for i in old_range.clone().filter(|i| chosen.contains(i)) {
                let moved = new_range.start + (i - old_range.start);
                if moved >= new_range.end {
                    return Err(ArgError::LostCopy { copies, name: old[i].name.clone() });
                }
                mapped.push(moved);
            }
        }
        Ok(mapped)
    };
    for worker in &mut new {
        worker.after = map(&worker.after)?;
    }
    for delay in &mut scenario.delays {
        delay.workers = map(&delay.workers)?;
    }
    for fault in &mut scenario.faults {
        fault.workers = map(&fault.workers)?;
    }
    if new.len() > MAX_WORKERS {
        return Err(ArgError::TooManyWorkers { found: new.len(), cap: MAX_WORKERS });
    }
    scenario.workers = new;
    Ok(())
}
