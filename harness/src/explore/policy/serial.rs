//! One actor after the other, each to its end.

use super::{Pick, stay::stay};
use crate::world::{ActorId, Choice, View};

/// Runs the actors of the list one after the other, each as if it were alone: its sleeps end at once, and an actor
/// that cannot go on by itself makes the order infeasible. Actors that are not in the list follow.
pub(crate) struct Serial {
    order: Vec<ActorId>,
    at: usize,
}

impl Serial {
    pub(crate) fn new(order: Vec<ActorId>) -> Self {
        Serial { order, at: 0 }
    }
}

impl Pick for Serial {
    fn pick(&mut self, view: &View<'_>, options: &[Choice]) -> Option<Choice> {
        while self.order.get(self.at).is_some_and(|actor| view.ended.contains(actor)) {
            self.at += 1;
        }
        let Some(&actor) = self.order.get(self.at) else { return stay(view.last, options) };
        if options.contains(&Choice::Step(actor)) {
            Some(Choice::Step(actor))
        } else {
            view.asleep.contains(&actor).then_some(Choice::Wake(actor))
        }
    }
}
