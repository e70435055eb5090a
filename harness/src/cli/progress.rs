//! How far a search has come, on a terminal: one line of standard error that is gone when the answer comes.

use std::{
    ffi::OsStr,
    io::IsTerminal,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{Format, Output};
use crate::{
    guard::{Doing, Progress, Watch},
    scenario::printable,
};

/// The line, or nothing where nobody would see it.
#[derive(Clone, Debug, Default)]
pub(super) struct Line(Option<Arc<Drawn>>);

#[derive(Debug)]
struct Drawn {
    /// How many scenarios there are, and which one this is, from 1.
    of: usize,
    state: Mutex<State>,
    interrupt: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct State {
    at: usize,
    bar: Option<ProgressBar>,
    progress: Progress,
}

impl Line {
    /// A line for so many scenarios; none unless a person looks.
    pub(super) fn new(output: &Output, of: usize, interrupt: &Arc<AtomicBool>) -> Self {
        let wanted = wants_progress(
            std::io::stderr().is_terminal(),
            output,
            std::env::var_os("CI").as_deref(),
            std::env::var_os("TERM").as_deref(),
        );
        let drawn = || Arc::new(Drawn { of, state: Mutex::default(), interrupt: interrupt.clone() });
        Line(wanted.then(drawn))
    }

    /// What a search is to tell.
    pub(super) fn watch(&self) -> Option<Arc<dyn Watch>> {
        self.0.clone().map(|drawn| drawn as Arc<dyn Watch>)
    }

    /// The next scenario begins.
    pub(super) fn next(&self) {
        if let Some(drawn) = &self.0 {
            drawn.state().at += 1;
        }
    }

    /// Takes the line away: an answer follows.
    pub(super) fn clear(&self) {
        if let Some(drawn) = &self.0
            && let Some(bar) = drawn.state().bar.take()
        {
            bar.finish_and_clear();
        }
    }
}

/// Only where a person looks at a terminal: not for a machine, not in CI, not when asked to be quiet.
fn wants_progress(is_terminal: bool, output: &Output, ci: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    let in_ci = ci.is_some_and(|ci| !ci.is_empty() && ci != "false" && ci != "0");
    is_terminal && !output.quiet && output.format == Format::Human && !in_ci && term != Some(OsStr::new("dumb"))
}

impl Drawn {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw(&self, state: &mut State) {
        let interrupted = self.interrupt.load(Ordering::Relaxed);
        let text = text(&state.progress, state.at, self.of, interrupted);
        let bar = state.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        bar.set_message(text);
        bar.tick();
    }
}

impl Watch for Drawn {
    fn progress(&self, progress: &Progress) {
        let mut state = self.state();
        state.progress.clone_from(progress);
        self.draw(&mut state);
    }

    fn tick(&self) {
        self.draw(&mut self.state());
    }
}

/// `3/40 queue: 412 of at most 1,000 schedules, 87 classes, 3 s; at most 5 s left`.
fn text(progress: &Progress, at: usize, of: usize, interrupted: bool) -> String {
    let which = if of > 1 { format!("{at}/{of} ") } else { String::new() };
    let without = progress.without.as_ref().map(|what| format!(" without {}", printable(what))).unwrap_or_default();
    let head = format!("{which}{}{without}", printable(&progress.scenario));
    if interrupted {
        return format!("{head}: stopping, what is known so far follows (once more: stop at once)");
    }
    let counts = || {
        let classes = if progress.classes == 1 { "class" } else { "classes" };
        format!(
            "{} of at most {} schedules, {} {classes}",
            progress.schedules, progress.max_schedules, progress.classes
        )
    };
    match progress.doing {
        Doing::Checking => format!("{head}: checking that everything is under control"),
        Doing::Searching => {
            let found = match progress.found {
                0 => String::new(),
                1 => ", 1 anomaly".to_owned(),
                n => format!(", {n} anomalies"),
            };
            let left = match progress.at_most_left() {
                Some(left) if progress.elapsed >= Duration::from_secs(1) => {
                    format!("; at most {} left", rough(left))
                }
                _ => String::new(),
            };
            format!("{head}: {}{found}, {}{left}", counts(), rough(progress.elapsed))
        }
        Doing::Shortening => format!("{head}: found after {}; making it as short as it can be", counts()),
    }
}

/// A time as a person wants to know it.
fn rough(time: Duration) -> String {
    match time.as_secs() {
        s if s < 100 => format!("{s} s"),
        s if s < 6000 => format!("{} min", s.div_ceil(60)),
        s => format!("{} h", s.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_where_a_person_looks() {
        let plain = Output::default();
        let quiet = Output { quiet: true, ..Output::default() };
        let json = Output { format: Format::Json, ..Output::default() };
        let os = OsStr::new;
        let cases = [
            (true, &plain, None, None, true),
            (true, &plain, Some(os("false")), Some(os("xterm")), true),
            (false, &plain, None, None, false),
            (true, &quiet, None, None, false),
            (true, &json, None, None, false),
            (true, &plain, Some(os("true")), None, false),
            (true, &plain, None, Some(os("dumb")), false),
        ];
        for (terminal, output, ci, term, wanted) in cases {
            assert_eq!(wants_progress(terminal, output, ci, term), wanted, "{terminal} {output:?} {ci:?} {term:?}");
        }
    }

    #[test]
    fn it_says_how_far_it_has_come_and_how_long_it_may_take() {
        let progress = Progress {
            scenario: "queue\u{1b}[2J".into(),
            doing: Doing::Searching,
            schedules: 100,
            max_schedules: 1000,
            classes: 87,
            elapsed: Duration::from_secs(30),
            ..Progress::default()
        };
        let all = text(&progress, 3, 40, false);
        assert_eq!(all, "3/40 queue\\u{1b}[2J: 100 of at most 1000 schedules, 87 classes, 30 s; at most 5 min left");
        let first = Progress { schedules: 1, classes: 1, elapsed: Duration::from_millis(400), ..progress.clone() };
        assert_eq!(text(&first, 1, 1, false), "queue\\u{1b}[2J: 1 of at most 1000 schedules, 1 class, 0 s");
        let weakened =
            Progress { without: Some("flock lock".into()), ..Progress { doing: Doing::Checking, ..progress } };
        assert!(text(&weakened, 1, 1, false).starts_with("queue\\u{1b}[2J without flock lock: checking"));
        assert!(text(&weakened, 1, 1, true).contains("stopping"));
    }
}
