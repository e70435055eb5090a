//! What is told of a search while it goes on.

use std::{
    fmt::Debug,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{explore::Summary, scenario::Scenario, world::Weakening};

/// How often it is told.
const OFTEN: Duration = Duration::from_millis(100);

/// What is being done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Doing {
    /// Whether this machine is under control, and whether the first schedule repeats itself.
    #[default]
    Checking,
    /// Orders are tried.
    Searching,
    /// What was found is made as short as it can be.
    Shortening,
}

/// How far a search has come.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// The scenario.
    pub scenario: String,
    /// The protection that is weakened, if one is.
    pub without: Option<String>,
    /// What is being done.
    pub doing: Doing,
    /// Schedules tried.
    pub schedules: u64,
    /// The budget of schedules.
    pub max_schedules: u64,
    /// Distinct classes of orders executed.
    pub classes: u64,
    /// Anomalies found.
    pub found: usize,
    /// The budget of time.
    pub time_limit: Option<Duration>,
    /// Time since the search began.
    pub elapsed: Duration,
}

impl Progress {
    /// How long it will take at most, by the budgets and the pace so far; unknown at first.
    pub fn at_most_left(&self) -> Option<Duration> {
        let limit = self.time_limit.map(|limit| limit.saturating_sub(self.elapsed));
        let pace = (self.schedules > 0 && !self.elapsed.is_zero())
            .then(|| self.elapsed.as_secs_f64() / self.schedules as f64)
            .map(|each| each * self.max_schedules.saturating_sub(self.schedules) as f64)
            .and_then(|left| Duration::try_from_secs_f64(left).ok());
        limit.into_iter().chain(pace).min()
    }
}

/// Somebody who is told how far a search has come.
pub trait Watch: Debug + Send + Sync {
    /// It has come so far.
    fn progress(&self, progress: &Progress);

    /// Time passes within a schedule.
    fn tick(&self) {}
}

/// Tells not more often than anybody can see.
#[derive(Debug)]
pub(super) struct Teller {
    watch: Option<Arc<dyn Watch>>,
    last: Option<Instant>,
    now: Progress,
}

impl Teller {
    pub(super) fn new(watch: Option<Arc<dyn Watch>>, scenario: &Scenario, weakening: Option<&Weakening>) -> Self {
        let now = Progress {
            scenario: scenario.name.clone(),
            without: weakening.map(ToString::to_string),
            max_schedules: scenario.search.max_schedules,
            time_limit: scenario.search.time_limit,
            ..Progress::default()
        };
        let teller = Teller { watch, last: None, now };
        teller.tell();
        teller
    }

    fn tell(&self) {
        if let Some(watch) = &self.watch {
            watch.progress(&self.now);
        }
    }

    /// The search goes on.
    pub(super) fn searching(&mut self, found: usize, summary: impl FnOnce() -> Summary) {
        if self.watch.is_none() || self.last.is_some_and(|last| last.elapsed() < OFTEN) {
            return;
        }
        self.last = Some(Instant::now());
        let summary = summary();
        self.now.doing = Doing::Searching;
        (self.now.schedules, self.now.classes) = (summary.schedules, summary.classes);
        (self.now.found, self.now.elapsed) = (found, summary.elapsed);
        self.tell();
    }

    /// The search is over, and this is what it found.
    pub(super) fn shortening(&mut self, found: usize, summary: &Summary) {
        self.now.doing = Doing::Shortening;
        (self.now.schedules, self.now.classes) = (summary.schedules, summary.classes);
        (self.now.found, self.now.elapsed) = (found, summary.elapsed);
        self.tell();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_that_of_the_tighter_budget() {
        let progress = |schedules, limit| Progress {
            schedules,
            max_schedules: 100,
            time_limit: limit,
            elapsed: Duration::from_secs(10),
            ..Progress::default()
        };
        let secs = Duration::from_secs;
        assert_eq!(progress(0, None).at_most_left(), None);
        assert_eq!(progress(20, None).at_most_left(), Some(secs(40)));
        assert_eq!(progress(20, Some(secs(60))).at_most_left(), Some(secs(40)));
        assert_eq!(progress(20, Some(secs(30))).at_most_left(), Some(secs(20)));
        assert_eq!(progress(0, Some(secs(5))).at_most_left(), Some(Duration::ZERO));
    }
}
