//! The port through which a scheduler decides, step by step.

use super::{Access, ActorId, Choice, Step};

/// What a scheduler sees at a choice point.
pub struct View<'a> {
    /// How many choice points came before.
    pub number: usize,
    /// Who made the last chosen step.
    pub last: Option<ActorId>,
    /// Actors with a next step that is not known to wait, in scenario order.
    pub ready: &'a [ActorId],
    /// Sleepers whose sleep or time-out may end early now (adversarial time only), in scenario order.
    pub wakeable: &'a [ActorId],
    /// All sleepers and waiters with a time-out, in every model of time, in scenario order. A serial order wakes the
    /// running worker (`Choice::Wake`) although others could run: it is to run as if it were alone.
    pub asleep: &'a [ActorId],
    /// Actors that have ended, in scenario order.
    pub ended: &'a [ActorId],
    /// What the next step of an actor will touch, as far as it can be known before it runs. Costly: ask when needed.
    pub predict: &'a dyn Fn(ActorId) -> Vec<Access>,
}

/// A scheduler's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Do this.
    Go(Choice),
    /// Everything that could run is in the sleep set: cut the run.
    SleepSet,
    /// The prefix demands what cannot be done here.
    Infeasible,
}

/// A scheduler. The world calls [`choose`](Chooser::choose) at each choice point; if the chosen step turns out to
/// wait (a lock that is held), nothing has happened, the actor is no longer in `ready`, and `choose` is called again
/// for the same `number`. After each executed step, chosen or not, it calls [`stepped`](Chooser::stepped).
pub trait Chooser {
    /// Decides what happens next. `view.ready` and `view.wakeable` are not both empty.
    fn choose(&mut self, view: &View<'_>) -> Decision;
    /// Learns what happened.
    fn stepped(&mut self, step: &Step);
    /// The first choice point at which a lenient prefix could not be followed.
    fn diverged(&self) -> Option<usize>;
}
