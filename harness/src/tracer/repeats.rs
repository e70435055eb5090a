//! Noticing that an actor only repeats itself: it polls, and may run again when what it looks at has changed.

use crate::world::{Access, Op, Step};

/// Longest cycle that is noticed, in steps.
const LONGEST: usize = 48;

/// A cycle that contains a sleep or a refused attempt is polling when it came so often.
const WAITING_CYCLES: u64 = 3;
/// Any other cycle only when it came this often: programs ask the same question several times in a row without waiting
/// for another answer (shells and version managers do when they start), and holding them back leaves orders out.
const BUSY_CYCLES: u64 = 30;

/// The recent steps of one actor.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    recent: Vec<Mark>,
    /// Length of the cycle that it is in.
    cycle: Option<usize>,
    cycles: u64,
    in_cycle: usize,
    begun_us: u64,
    yields: bool,
}

#[derive(Debug)]
struct Mark {
    print: u64,
    accesses: Vec<Access>,
    waits: bool,
}

impl Repeats {
    /// Whether it has done the same again and again and nothing that it looked at has changed since.
    pub(super) fn yields(&self) -> bool {
        self.yields
    }

    /// How often the cycle came in a row.
    pub(super) fn cycles(&self) -> u64 {
        self.cycles
    }

    /// For how long it has been in its cycle, in virtual microseconds.
    pub(super) fn since(&self, now_us: u64) -> Option<u64> {
        self.cycle.map(|_| now_us.saturating_sub(self.begun_us))
    }

    /// It made a step, and then did what `private` stands for outside the world.
    pub(super) fn made(&mut self, step: &Step, private: u64, now_us: u64) {
        self.recent.push(Mark {
            print: print(step, private),
            accesses: step.accesses.clone(),
            waits: is_waiting(step),
        });
        if self.recent.len() > 3 * LONGEST {
            self.recent.drain(..LONGEST);
        }
        let len = self.recent.len();
        if let Some(cycle) = self.cycle {
            if self.recent[len - 1].print == self.recent[len - 1 - cycle].print {
                self.in_cycle += 1;
                if self.in_cycle == cycle {
                    self.in_cycle = 0;
                    self.cycles += 1;
                    let waits = self.recent[len - cycle..].iter().any(|m| m.waits);
                    self.yields = self.cycles >= if waits { WAITING_CYCLES } else { BUSY_CYCLES };
                } else {
                    // In the middle of a cycle it goes on: it holds things that others may want.
                    self.yields = false;
                }
                return;
            }
            self.cycle = None;
            self.yields = false;
        }
        self.cycle = (1..=LONGEST.min(len / 2)).find(|n| {
            let same = |i: usize| self.recent[len - 1 - i].print == self.recent[len - 1 - i - n].print;
            (0..*n).all(same) && self.recent[len - n..].iter().any(|m| m.waits || !m.accesses.is_empty())
        });
        if self.cycle.is_some() {
            self.cycles = 2;
            self.in_cycle = 0;
            self.begun_us = now_us;
        }
    }

    /// Another actor made a step.
    pub(super) fn others(&mut self, step: &Step) {
        let Some(cycle) = self.cycle else { return };
        let looked_at = &self.recent[self.recent.len() - cycle..];
        if looked_at.iter().any(|m| m.accesses.iter().any(|a| step.accesses.iter().any(|b| a.conflicts(b)))) {
            *self = Repeats::default();
        }
    }
}

/// Whether a step is one that programs repeat because they wait: a sleep, or an attempt to take what another holds.
fn is_waiting(step: &Step) -> bool {
    let refused = step.failed()
        && (step.op == Op::Lock
            || matches!(step.op, Op::Mkdir | Op::Link | Op::Symlink)
            || step.flags.iter().any(|f| f == "excl" || f == "noreplace"));
    step.op == Op::Sleep || refused
}

/// What must be the same for two steps to be a repetition: all but numbers that count. What happens outside the world
/// tells a program that waits from one that goes through a list and looks at the same thing for each of its items (an
/// interpreter that imports modules looks at its working directory for each).
fn print(step: &Step, private: u64) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    let sleeps = step.op == Op::Sleep;
    (step.op, &step.path, &step.path2, &step.flags, step.ret, step.offset, step.bytes).hash(&mut hasher);
    private.hash(&mut hasher);
    if !sleeps {
        step.result.hash(&mut hasher);
    }
    hasher.finish()
}
