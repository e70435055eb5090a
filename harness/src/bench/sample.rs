//! What one slice of time, in which one competitor ran, says in numbers.

use hdrhistogram::Histogram;

use super::{
    conserve::Conservation,
    protocol::{Done, Op, Record},
    turns::{Turn, hand_overs},
    usage::Usage,
};

/// How long a window of the short-time fairness is.
const WINDOW_NS: u64 = 100_000_000;

/// Waiting below this is no waiting: taking a lock that is free takes that long.
pub(super) const WAITS_NS: u64 = 2_000;

/// Times in nanoseconds.
#[derive(Clone, Debug)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        // Two digits: a hundredth is finer than any two slices agree.
        let histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 2);
        Times(histogram.unwrap_or_else(|e| unreachable!("bounds that make sense: {e}")))
    }
}

impl Times {
    pub(super) fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }

    pub(super) fn add(&mut self, other: &Times) {
        // Equal bounds, so that everything fits.
        let _ = self.0.add(&other.0);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time in microseconds that this part (0 to 1) of all does not exceed; none of none.
    pub fn quantile_us(&self, part: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(part) as f64 / 1000.0)
    }

    /// The longest, in microseconds.
    pub fn max_us(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.max() as f64 / 1000.0)
    }
}

/// What happened in a slice.
#[derive(Debug)]
pub struct Slice {
    /// What each worker reported.
    pub workers: Vec<Vec<Record>>,
    /// When the warm-up was over.
    pub from: u64,
    /// When the workers were to end.
    pub until: u64,
    /// What they used in the whole time, warm-up included.
    pub(super) usage: Usage,
    /// Whether everything is still there.
    pub conservation: Conservation,
}

/// A slice in numbers.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Operations that ended after the warm-up and in time: pushes, and claims with their completion.
    pub ops: u64,
    /// The same a second.
    pub ops_per_s: f64,
    /// What failed, in the whole time.
    pub failed: u64,
    /// From the beginning of an operation to its end.
    pub latency: Times,
    /// Of pushes alone.
    pub push: Times,
    /// Of claims with their completion alone.
    pub take: Times,
    /// Waiting in each single operation, where it is known.
    pub wait: Times,
    /// From the end of one worker's operation to the moment when another one, which waited for it, has the lock; as far
    /// as the end was noted before.
    pub hand_over: Times,
    /// Fewest operations of a worker by most.
    pub fairness: f64,
    /// The same in each tenth of a second.
    pub windows: Vec<f64>,
    /// Microseconds of CPU an operation.
    pub cpu_us: f64,
    /// Bytes written an operation.
    pub bytes: f64,
    /// Of these, bytes that went on towards a disk.
    pub disk_bytes: f64,
}

impl Sample {
    /// The numbers of a slice.
    pub fn of(slice: &Slice, one_lock: bool) -> Sample {
        let mut sample = Sample::default();
        let span = slice.until.saturating_sub(slice.from).max(1);
        let windows = usize::try_from(span / WINDOW_NS).unwrap_or(1).max(1);
        let mut counts = vec![vec![0u64; windows]; slice.workers.len()];
        let mut all = 0;
        for (worker, records) in slice.workers.iter().enumerate() {
            for op in operations(records) {
                all += 1;
                if (slice.from..slice.until).contains(&op.end) {
                    let window = usize::try_from((op.end - slice.from) / WINDOW_NS).unwrap_or(0);
                    sample.ops += 1;
                    counts[worker][window.min(windows - 1)] += 1;
                }
                // Those that began in time and ended late count too: else whoever starves is not seen.
                if (slice.from..slice.until).contains(&op.start) {
                    let took = op.end - op.start;
                    sample.latency.record(took);
                    if op.push { &mut sample.push } else { &mut sample.take }.record(took);
                }
            }
            for record in records {
                sample.failed += u64::from(record.done == Done::Failed);
                if let (Some(waited), true) = (record.waited, (slice.from..slice.until).contains(&record.start)) {
                    sample.wait.record(waited);
                }
            }
        }
        sample.ops_per_s = sample.ops as f64 * 1e9 / span as f64;
        sample.fairness = fairness(counts.iter().map(|windows| windows.iter().sum()));
        sample.windows = (0..windows).map(|w| fairness(counts.iter().map(|worker| worker[w]))).collect();
        if one_lock {
            hand_overs(turns(slice), &mut sample.hand_over);
        }
        let each = |total: u64| if all == 0 { 0.0 } else { total as f64 / all as f64 };
        sample.cpu_us = each(slice.usage.cpu_ns) / 1000.0;
        sample.bytes = each(slice.usage.written);
        sample.disk_bytes = each(slice.usage.to_disk);
        sample
    }
}

/// Fewest by most; 1 of a single worker, 0 where nobody did anything.
fn fairness(counts: impl Iterator<Item = u64>) -> f64 {
    let (min, max) = counts.fold((u64::MAX, 0), |(min, max), count| (min.min(count), max.max(count)));
    if max == 0 { 0.0 } else { min as f64 / max as f64 }
}

struct Operation {
    push: bool,
    start: u64,
    end: u64,
}

/// The acknowledged operations: a push, or a claim with its completion.
fn operations(records: &[Record]) -> impl Iterator<Item = Operation> {
    let mut claimed: Option<&Record> = None;
    records.iter().filter(|record| record.done == Done::Ok).filter_map(move |record| match record.op {
        Op::Push => Some(Operation { push: true, start: record.start, end: record.end }),
        Op::Claim => {
            claimed = Some(record);
            None
        }
        Op::Complete => {
            let claim = claimed.take().filter(|claim| claim.id == record.id)?;
            Some(Operation { push: false, start: claim.start.min(record.start), end: record.end })
        }
    })
}

/// When each worker had the lock. Where that is not said, it is when it had waited, and until its operation was over.
fn turns<'a>(slice: &'a Slice) -> impl Iterator<Item = Turn> + 'a {
    let window = slice.from..slice.until;
    slice.workers.iter().zip(0..).flat_map(move |(records, worker)| {
        let window = window.clone();
        records.iter().filter_map(move |record| {
            let waited = record.waited?;
            let (had, gave) = record.lock.unwrap_or((record.start + waited, record.end));
            let waited = waited > WAITS_NS;
            window.contains(&had).then_some(Turn { worker, began: record.start, waited, had, gave })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(workers: &[&[&str]], from: u64, until: u64) -> Slice {
        let parse = |lines: &&[&str]| lines.iter().map(|line| Record::parse(line).unwrap()).collect();
        Slice {
            workers: workers.iter().map(parse).collect(),
            from,
            until,
            usage: Usage { cpu_ns: 8_000, written: 400, to_disk: 40 },
            conservation: Conservation::default(),
        }
    }

    #[test]
    fn operations_are_counted_in_their_time() {
        let first: &[&str] = &[
            "push ok 10 0 90 w0-1",          // warm-up
            "push ok 100 5 200 w0-2",        // one
            "claim ok 210 0 250 k-0",        // with its completion
            "complete ok 260 0 300 k-0",     // two
            "claim none 310 0 320 -",        // nothing
            "push fail 330 0 340 w0-3",      // failed
            "push ok 900 50 1500 w0-4",      // began in time, ended late
            "complete ok 1500 0 1501 other", // of no claim
        ];
        let sample = Sample::of(&slice(&[first, &["push ok 100 0 400 w1-1"]], 100, 1000), true);
        assert_eq!((sample.ops, sample.failed), (3, 1));
        assert_eq!((sample.latency.count(), sample.push.count(), sample.take.count()), (4, 3, 1));
        assert_eq!(sample.ops_per_s, 3.0 * 1e9 / 900.0);
        assert_eq!(sample.fairness, 0.5);
        assert_eq!(sample.windows, [0.5]);
        assert_eq!(sample.cpu_us, 8.0 / 5.0, "five were acknowledged in all");
        assert_eq!(sample.take.max_us().map(f64::round), Some(0.0));
    }

    #[test]
    fn somebody_who_starves_is_unfair_in_his_window_though_not_in_all() {
        let ms = 1_000_000;
        let line = |at: u64| format!("push ok {at} 0 {} x", at + 1);
        let early: Vec<String> = (0..10).map(|n| line(n * ms)).collect();
        let late: Vec<String> = (0..10).map(|n| line(150 * ms + n * ms)).collect();
        let as_str = |lines: &[String]| lines.iter().map(|line| Record::parse(line).unwrap()).collect();
        let slice = Slice { workers: vec![as_str(&early), as_str(&late)], ..slice(&[], 0, 200 * ms) };
        let sample = Sample::of(&slice, false);
        assert_eq!(sample.fairness, 1.0);
        assert_eq!(sample.windows, [0.0, 0.0]);
    }

    #[test]
    fn a_hand_over_needs_somebody_who_waited() {
        let waits = Sample::of(&slice(&[&["push ok 0 0 50000 a"], &["push ok 10000 56000 80000 b"]], 0, 100_000), true);
        assert_eq!(waits.hand_over.max_us().map(f64::round), Some(16.0));
        let noted_late =
            Sample::of(&slice(&[&["push ok 0 0 70000 a"], &["push ok 10000 56000 80000 b"]], 0, 100_000), true);
        assert_eq!(noted_late.hand_over.count(), 0);
        let known = ["push ok 0 0 90000 a 1000 50000", "push ok 10000 30000 99000 b 51000 80000"];
        let known = Sample::of(&slice(&[&known[..1], &known[1..]], 0, 100_000), true);
        assert_eq!(known.hand_over.max_us().map(f64::round), Some(11.0), "not what was left to do without the lock");
        let comes_later = Sample::of(&slice(&[&["push ok 0 0 50 a"], &["push ok 60 5000 9000 b"]], 0, 100_000), true);
        assert_eq!(comes_later.hand_over.count(), 0);
    }
}
