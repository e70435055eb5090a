//! The workers one after the other.
//!
//! A worker that never ends by itself is over, in such an order, when it waits for more. It stays as a service to the
//! workers after it: whenever the one whose turn it is waits, services that can go on do.

use super::Schedule;
use crate::{
    tracer::machine::{Lost, Machine},
    world::{ActorId, Ended},
};

impl Schedule<'_> {
    /// Whose turn it is in a serial order.
    pub(super) fn current(&self, machine: &Machine) -> Option<usize> {
        let order = self.order.serial.as_ref()?;
        order.iter().copied().find(|a| !machine.actors[*a].ended && !self.parked.contains(a))
    }

    /// The next step of a serial order.
    pub(super) fn serial_step(&mut self, machine: &mut Machine, ready: &[ActorId]) -> Result<Option<Ended>, Lost> {
        let current = self.current(machine);
        let serves = |a: usize| self.parked.contains(&a) && !machine.actors[a].ended;
        let service = self.actors().find(|a| serves(*a) && machine.is_ready(*a) && !self.repeats[*a].yields());
        if current.is_none() && !self.actors().any(serves) {
            return Ok(Some(Ended::Done));
        }
        let stuck = current.is_none_or(|c| self.repeats[c].yields());
        if stuck
            && service.is_none()
            && let Some(ended) = self.idle_or_livelock(machine, ready)?
        {
            return Ok(Some(ended));
        }
        if self.current(machine) != current {
            return Ok(None);
        }
        let able = current.filter(|c| machine.is_ready(*c) && (!self.repeats[*c].yields() || service.is_none()));
        if let Some(actor) = able.or(service) {
            let actor = ActorId(actor as u16);
            return self.step(machine, actor, vec![actor], Vec::new());
        }
        let parked = self.parked.clone();
        match machine.next_deadline(|a| current.is_none_or(|c| a == c || parked.contains(&a))) {
            Some(due) => self.wake(machine, due).map(|()| None),
            None => self.nobody_can_run(machine),
        }
    }
}
