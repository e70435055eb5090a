//! What is measured: one competitor under one load, and which of these a benchmark goes through.

use super::competitor::{Competitor, Durability};

/// One competitor under one load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Case {
    /// Its place among the competitors.
    pub competitor: usize,
    /// The place of the directory among those that were named.
    pub dir: usize,
    /// What an operation has to survive.
    pub durability: Durability,
    /// How many workers.
    pub processes: usize,
    /// How many tasks are in the queue.
    pub kept: usize,
    /// About how long a task is.
    pub task_bytes: usize,
    /// Microseconds between operations.
    pub think_us: u64,
}

/// Values of one load, the usual one first.
#[derive(Clone, Debug)]
pub struct Dimension<T> {
    /// The values.
    pub values: Vec<T>,
    /// Whether the user named them: then they are combined with all others. Else each but the first is tried with the
    /// usual values of the others only.
    pub named: bool,
}

/// The loads of a benchmark.
#[derive(Clone, Debug)]
pub struct Loads {
    /// How many directories.
    pub dirs: usize,
    /// What operations have to survive.
    pub durabilities: Vec<Durability>,
    /// How many workers.
    pub processes: Dimension<usize>,
    /// How many tasks.
    pub kept: Dimension<usize>,
    /// How long a task is.
    pub task_bytes: Dimension<usize>,
    /// Microseconds between operations.
    pub think_us: Dimension<u64>,
}

/// Bits: whether a value is an unusual one of a dimension that was not named.
fn unusual<T>(dimension: &Dimension<T>, place: usize) -> usize {
    usize::from(!dimension.named && place > 0)
}

impl Loads {
    /// The cases, those that are compared with each other side by side.
    pub fn cases(&self, competitors: &[Competitor]) -> Vec<Case> {
        let mut cases = Vec::new();
        for dir in 0..self.dirs {
            for &durability in &self.durabilities {
                for (a, &kept) in self.kept.values.iter().enumerate() {
                    for (b, &task_bytes) in self.task_bytes.values.iter().enumerate() {
                        for (c, &think_us) in self.think_us.values.iter().enumerate() {
                            for (d, &processes) in self.processes.values.iter().enumerate() {
                                let odd = unusual(&self.kept, a)
                                    + unusual(&self.task_bytes, b)
                                    + unusual(&self.think_us, c)
                                    + unusual(&self.processes, d);
                                if odd > 1 {
                                    continue;
                                }
                                let takes_part = |one: &Competitor| one.durabilities.contains(&durability);
                                cases.extend((0..competitors.len()).filter(|&n| takes_part(&competitors[n])).map(
                                    |competitor| Case {
                                        competitor,
                                        dir,
                                        durability,
                                        processes,
                                        kept,
                                        task_bytes,
                                        think_us,
                                    },
                                ));
                            }
                        }
                    }
                }
            }
        }
        cases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(named: bool) -> Loads {
        Loads {
            dirs: 1,
            durabilities: vec![Durability::None, Durability::Full],
            processes: Dimension { values: vec![8, 1], named },
            kept: Dimension { values: vec![100, 10, 1000], named },
            task_bytes: Dimension { values: vec![150], named },
            think_us: Dimension { values: vec![0], named },
        }
    }

    #[test]
    fn loads_that_were_named_are_combined_and_others_vary_one_at_a_time() {
        let both = Competitor::of_user("x", vec![Durability::None, Durability::Full], "x");
        let none = Competitor::of_user("y", vec![Durability::None], "y");
        let all = [both, none];
        assert_eq!(loads(true).cases(&all).len(), 3 * 6);
        let few = loads(false).cases(&all);
        assert_eq!(few.len(), 3 * 4, "the usual load, another number of workers, two other sizes");
        assert!(few.iter().all(|case| case.processes == 8 || case.kept == 100));
    }
}
