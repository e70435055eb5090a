//! The one order that virtual time gives.

use super::Pick;
use crate::world::{Choice, View};

/// The first ready actor in scenario order. Delays and sleeps are the world's business: whoever is delayed or asleep
/// is not ready, and the world wakes by deadline.
pub(crate) struct Timeline;

impl Pick for Timeline {
    fn pick(&mut self, _view: &View<'_>, options: &[Choice]) -> Option<Choice> {
        options.first().copied()
    }
}
