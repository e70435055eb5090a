//! How to decide once the prefix of a plan is used up: one small struct per policy, a file each.
//!
//! | policy | what it is for |
//! |---|---|
//! | [`Stay`](stay::Stay) | choice 0: the fewest context switches; source-DPOR completes its prefixes with it |
//! | [`Serial`](serial::Serial) | the serial orders that runs are compared with |
//! | [`Timeline`](timeline::Timeline) | the one order that virtual time gives |
//! | [`Random`](random::Random), [`Pos`](pos::Pos), [`Pct`](pct::Pct) | sampling, when the space is too large |

mod pct;
mod pos;
mod random;
mod serial;
mod stay;
mod timeline;

use crate::world::{Access, Choice, Policy, Step, View};

/// A policy sees what can be chosen and picks one.
pub(crate) trait Pick {
    /// Picks one of `options` (never empty; ready actors in scenario order, then wake-ups), or `None` when the policy
    /// demands what cannot be done here.
    fn pick(&mut self, view: &View<'_>, options: &[Choice]) -> Option<Choice>;

    /// Learns of the step that was executed for a choice.
    fn stepped(&mut self, _step: &Step) {}
}

/// The policy of a plan, ready to pick.
pub(crate) fn of(policy: &Policy) -> Box<dyn Pick> {
    match *policy {
        Policy::Stay => Box::new(stay::Stay),
        Policy::Serial(ref order) => Box::new(serial::Serial::new(order.clone())),
        Policy::Timeline => Box::new(timeline::Timeline),
        Policy::Random { seed } => Box::new(random::Random::new(seed)),
        Policy::Pos { seed } => Box::new(pos::Pos::new(seed)),
        Policy::Pct { seed, depth, length } => Box::new(pct::Pct::new(seed, depth, length)),
    }
}

pub(crate) use stay::stay;

/// Whether any access of one list conflicts with any of the other.
pub(crate) fn conflict(a: &[Access], b: &[Access]) -> bool {
    a.iter().any(|x| b.iter().any(|y| x.conflicts(y)))
}
