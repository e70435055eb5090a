//! When nobody can go on, or everybody only repeats itself: the end, a deadlock, a livelock, idle workers.

use nix::sys::signal::Signal;

use super::Schedule;
use crate::{
    scenario::Ends,
    tracer::{
        machine::{Lost, Machine},
        repeats::Repeats,
    },
    world::{ActorId, Ended},
};

/// A repeated cycle must have come so often, with nobody else able to run, before it is a livelock.
const LIVELOCK_CYCLES: u64 = 1000;
/// ... or for so long in virtual time.
const LIVELOCK_TIME_US: u64 = 3_600_000_000;

impl Schedule<'_> {
    /// Nobody can run and nobody sleeps: the end, or a deadlock.
    pub(super) fn nobody_can_run(&mut self, machine: &mut Machine) -> Result<Option<Ended>, Lost> {
        if self.takes_part().all(|a| machine.actors[a].ended) {
            return Ok(Some(Ended::Done));
        }
        if !self.tried_again {
            self.tried_again = true;
            machine.retry_blocked();
            machine.settle()?;
            return Ok(None);
        }
        // What a worker leaves running when it exits, and that only waits for more work, holds nobody up.
        let left_over = |a: usize| {
            let main = machine.actors[a].main;
            machine.actors[a].started
                && main.is_some_and(|pid| !machine.tasks.contains_key(&pid))
                && machine.blocked(a).next().is_none()
        };
        if self.order.serial.is_some() {
            // The next worker may begin although this one left something running.
            if let Some(current) = self.current(machine).filter(|a| left_over(*a)) {
                machine.actors[current].ended = true;
                return Ok(None);
            }
        }
        if self.takes_part().all(|a| machine.actors[a].ended || left_over(a)) {
            return Ok(Some(Ended::Done));
        }
        if let Some(ended) = self.idle_or_livelock(machine, &[])? {
            return Ok(Some(ended));
        }
        if !self.tried_again {
            return Ok(None);
        }
        let left: Vec<usize> = self.takes_part().filter(|a| !machine.actors[*a].ended).collect();
        let waiting = left.into_iter().map(|a| (ActorId(a as u16), machine.waits_for(a))).collect();
        Ok(Some(Ended::Deadlock(waiting)))
    }

    /// Everybody only repeats itself: idle workers are asked to end; others are in a livelock after a while.
    pub(super) fn idle_or_livelock(&mut self, machine: &mut Machine, ready: &[ActorId]) -> Result<Option<Ended>, Lost> {
        // In a serial order everybody is alone, but for those who wait for more.
        let alone = self.order.serial.as_ref().and_then(|_| self.current(machine));
        let left: Vec<usize> = match alone {
            Some(alone) => vec![alone],
            None => self.takes_part().filter(|a| !machine.actors[*a].ended).collect(),
        };
        let now = machine.clock.since_start();
        let idles = |a: &usize| {
            self.order.workers[*a].ends == Ends::Idle
                && (self.repeats[*a].yields() || !ready.contains(&ActorId(*a as u16)) && !machine.sleeps(*a))
        };
        if !left.is_empty() && left.iter().all(idles) {
            if let Some(alone) = alone {
                self.parked.push(alone);
                self.tried_again = false;
                return Ok(None);
            }
            for actor in left {
                // Who goes on waiting although it was asked to end is not asked again.
                let asked = machine.actors[actor].end.ended_by.is_some();
                machine.actors[actor].end.ended_by = Some("idle".into());
                machine.signal_actor(actor, if asked { Signal::SIGKILL } else { Signal::SIGTERM });
                self.repeats[actor] = Repeats::default();
                self.tried_again = false;
            }
            machine.settle()?;
            return Ok(None);
        }
        let stuck = |a: &usize| {
            self.repeats[*a].cycles() >= LIVELOCK_CYCLES
                || self.repeats[*a].since(now).is_some_and(|us| us >= LIVELOCK_TIME_US)
        };
        let active: Vec<usize> = left.iter().copied().filter(|a| machine.sleeps(*a) || machine.is_ready(*a)).collect();
        if !active.is_empty() && active.iter().all(stuck) {
            return Ok(Some(Ended::Livelock(active.into_iter().map(|a| ActorId(a as u16)).collect())));
        }
        Ok(None)
    }
}
