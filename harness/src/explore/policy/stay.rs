//! Choice 0: keep running the same actor.

use super::Pick;
use crate::world::{ActorId, Choice, View};

/// Keeps running the actor that ran last while it can, else the first in scenario order; wakes a sleeper early only
/// when nothing else can be done.
pub(crate) struct Stay;

impl Pick for Stay {
    fn pick(&mut self, view: &View<'_>, options: &[Choice]) -> Option<Choice> {
        stay(view.last, options)
    }
}

/// The choice that [`Stay`] makes.
pub(crate) fn stay(last: Option<ActorId>, options: &[Choice]) -> Option<Choice> {
    last.map(Choice::Step).filter(|same| options.contains(same)).or_else(|| options.first().copied())
}
