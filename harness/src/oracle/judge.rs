//! All judges of a scenario together.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Case,
    conserve::ConserveJudge,
    ending,
    error::OracleError,
    failures::{failed, failed_workers, left_behind, worker_failed},
    history::History,
    hits::{hit_workers, power_cut},
    judgement::{Accusation, Judgement, Wrong, note},
    outcome::ending_text,
    reference::SerialRunner,
    rules::Rules,
    serial::{MAX_ORDERS, SerialJudge, SerialVerdict},
    torn_file::{Published, TornFile, torn_files},
};
use crate::{
    scenario::{Scenario, Serial},
    world::{Ended, Node, Outcome, Run, Warning},
};

/// Judges the runs of one scenario. It remembers serial orders and distinct outcomes, so it is asked for every run and
/// works only for the first of each kind.
#[derive(Debug)]
pub struct Judge {
    scenario: Scenario,
    initial: BTreeMap<String, Node>,
    serial: SerialJudge,
    conserve: Option<ConserveJudge>,
    /// With `serial = false`: how the first complete run ended.
    first: Option<Outcome>,
    /// What runs without faults published.
    published: Published,
}

impl Judge {
    /// The judge of a scenario whose world begins with these nodes (after setup).
    ///
    /// # Errors
    /// A glob or pointer of `[oracle]` is malformed.
    pub fn new(scenario: &Scenario, initial: BTreeMap<String, Node>) -> Result<Judge, OracleError> {
        let rules = Rules::new(&scenario.oracle)?;
        Ok(Judge {
            scenario: scenario.clone(),
            serial: SerialJudge::new(scenario, rules, initial.clone()),
            initial,
            conserve: scenario
                .oracle
                .conserve
                .as_ref()
                .map(|c| ConserveJudge::new(c, &scenario.workers))
                .transpose()?,
            first: None,
            published: Published::default(),
        })
    }

    /// Whether the runs to judge must be recorded: conserve counts what was ever published, and what a fault leaves
    /// behind is compared with it.
    pub fn needs_record(&self) -> bool {
        self.conserve.is_some() || !self.scenario.faults.is_empty()
    }

    /// Closes one way to a silent green: the reason for cannot-tell when a worker fails in every serial order (with
    /// `serial = false`: in the first run) and its `exit` does not allow it. `first` is the first run of exploration,
    /// without faults.
    ///
    /// # Errors
    /// A serial order could not be run, or control was lost in it.
    pub fn first_reference(
        &mut self,
        first: &Run,
        runner: &mut dyn SerialRunner,
    ) -> Result<Option<String>, OracleError> {
        if self.scenario.oracle.serial == Serial::Off {
            if first.ended != Ended::Done {
                return Ok(None);
            }
            self.first.clone_from(&first.outcome);
            let Some(outcome) = &self.first else { return Ok(None) };
            let failed = failed_workers(&self.scenario, outcome);
            return Ok(failed.first().map(|worker| self.always_fails(*worker, outcome, "in the first run")));
        }
        let everyone: BTreeSet<usize> = (0..self.scenario.workers.len()).collect();
        let mut suspects = everyone.clone();
        let mut last = None;
        for order in self.serial.orders(&first.steps, &everyone, everyone.len()).into_iter().take(MAX_ORDERS) {
            let Some(reference) = self.serial.references.get(&order, runner)? else { continue };
            let Some(outcome) = reference.outcome() else { continue };
            let fails = failed_workers(&self.scenario, outcome);
            suspects = &suspects & &fails;
            if suspects.is_empty() {
                return Ok(None);
            }
            last = Some(outcome.clone());
        }
        let suspect = suspects.first().zip(last);
        Ok(suspect.map(|(worker, outcome)| self.always_fails(*worker, &outcome, "in every serial order")))
    }

    fn always_fails(&self, worker: usize, outcome: &Outcome, when: &str) -> String {
        let name = &self.scenario.workers[worker].name;
        let end = &outcome.actors[worker];
        let last = last_lines(&end.stderr, 5);
        let mut said = if last.is_empty() { "it wrote nothing to stderr".to_owned() } else { last.join("\n") };
        if last.is_empty() || said.contains("EOF") {
            said += " (does it wait for an answer? its standard input is /dev/null)";
        }
        format!("{name} fails {when} ({}; exit = [..] allows it): {said}", ending_text(end))
    }

    /// Judges one run. Runs that were cut or could not be followed (`Ended::SleepSet`, `Infeasible`) have nothing to
    /// judge and are not to be given.
    ///
    /// # Errors
    /// A serial order could not be run, or control was lost in it.
    pub fn judge(&mut self, run: &Run, runner: &mut dyn SerialRunner) -> Result<Judgement, OracleError> {
        if let Some(accusation) = ending::judge(run) {
            return Ok(Judgement::Wrong(Wrong { accusations: vec![accusation], warnings: Vec::new() }));
        }
        match &run.ended {
            Ended::Limit(name, number) => {
                return Ok(Judgement::Unknown(format!("the limit {name} = {number} was reached")));
            }
            Ended::LostControl(why) => return Ok(Judgement::Unknown(format!("control was lost: {why}"))),
            Ended::SleepSet | Ended::Infeasible(_) => return Ok(Judgement::Unknown("the run was cut".to_owned())),
            Ended::Done | Ended::Deadlock(_) | Ended::Livelock(_) => {}
        }
        let Some(outcome) = &run.outcome else {
            return Ok(Judgement::Unknown("the run left no outcome to judge".to_owned()));
        };
        let mut accusations = Vec::new();
        let mut warnings = Vec::new();
        let mut unknown = None;
        let hit = hit_workers(run);
        if self.scenario.oracle.serial == Serial::Off {
            let (accused, noted) = self.against_first(outcome, &hit);
            accusations.extend(accused);
            warnings.extend(noted);
            let left = left_behind(&run.steps, outcome, &hit, &self.initial);
            warnings.extend(left.into_iter().map(|path| note(format!("left behind: {path}"))));
        } else {
            match self.serial.judge(&self.scenario, run, outcome, &hit, runner)? {
                SerialVerdict::Right(notes) => warnings = notes,
                SerialVerdict::Wrong(accusation, notes) => {
                    accusations.push(accusation);
                    warnings = notes;
                }
                SerialVerdict::Unknown(reason) => unknown = Some(reason),
                SerialVerdict::Abstains => {}
            }
        }
        let history = if self.needs_record() { History::of(run, &self.initial) } else { History::default() };
        if let Some(conserve) = &self.conserve {
            accusations.extend(conserve.judge(&history, outcome, run, &hit));
        }
        match (&self.scenario.check, &outcome.check) {
            (Some(_), Some(check)) if !check.passed => accusations
                .push(Accusation::Check { exit: check.exit, output: last_lines(&check.output, 5).join("\n") }),
            (Some(_), None) => unknown = unknown.or(Some("the check was not run".to_owned())),
            _ => {}
        }
        if hit.is_empty() && power_cut(run).is_none() {
            self.published.learn(&history, outcome);
        } else {
            self.after_fault(run, &history, outcome, &hit, &mut accusations, &mut warnings);
        }
        Ok(match (accusations.is_empty(), unknown) {
            (false, _) => Judgement::Wrong(Wrong { accusations, warnings }),
            (true, Some(reason)) => Judgement::Unknown(reason),
            (true, None) => Judgement::Right { warnings },
        })
    }

    /// The feasible serial runs of all workers so far, for naming and for reports.
    pub fn references(&self) -> Vec<&Run> {
        let everyone: BTreeSet<usize> = (0..self.scenario.workers.len()).collect();
        self.serial.references.feasible(&everyone).into_iter().map(|reference| &reference.run).collect()
    }

    /// What only a fault can do: files left half done, and locks that nobody gives back any more.
    fn after_fault(
        &self,
        run: &Run,
        history: &History,
        outcome: &Outcome,
        hit: &BTreeSet<usize>,
        accusations: &mut Vec<Accusation>,
        warnings: &mut Vec<Warning>,
    ) {
        let failed = &failed_workers(&self.scenario, outcome) - hit;
        if !accusations.is_empty() {
            let waiting = ending::stale_failures(run, outcome, hit, &failed);
            if !waiting.is_empty() {
                accusations.push(Accusation::StaleLock { waiting });
            }
        }
        // Where a state command is compared, the files are not.
        if self.scenario.oracle.state.is_some() {
            return;
        }
        let case = Case { scenario: &self.scenario, initial: &self.initial };
        let files = torn_files(&case, history, outcome, &self.published, run);
        // Where only a check decides, it has read the files and accepts them or not.
        let decided = self.scenario.oracle.serial == Serial::Off && self.scenario.check.is_some();
        if decided && accusations.is_empty() {
            let text = |file: &TornFile| format!("{} holds {}, and the check accepts that", file.path, file.holds);
            warnings.extend(files.iter().map(|file| note(text(file))));
        } else if !files.is_empty() {
            accusations.push(Accusation::TornFile { files });
        }
    }

    /// `serial = false`: exit codes that were right in the first run, and the state command's output.
    ///
    /// Where a check decides, it sees how each worker ended (`NOCLOBBER_RESULTS`) and accepts that or not: a failure
    /// that it accepts is worth a warning only.
    fn against_first(&mut self, outcome: &Outcome, hit: &BTreeSet<usize>) -> (Vec<Accusation>, Vec<Warning>) {
        let Some(first) = &self.first else {
            self.first = Some(outcome.clone());
            return (Vec::new(), Vec::new());
        };
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        let mut news = failed_workers(&self.scenario, outcome);
        news.retain(|worker| {
            if hit.contains(worker) {
                return false;
            }
            let exits = &self.scenario.workers[*worker].exit;
            first.actors.get(*worker).is_some_and(|end| !failed(exits, end))
        });
        if let (Some((exit_a, a)), Some((exit_b, b))) = (&first.state, &outcome.state)
            && (exit_a != exit_b || !self.serial.same_state(a, b))
        {
            let differences = vec!["the state is another one than in the first run".to_owned()];
            out.push(Accusation::Serial { nearest: None, differences, cycle: Vec::new() });
        }
        if self.scenario.check.is_some() {
            for worker in news {
                let name = &self.scenario.workers[worker].name;
                let end = ending_text(&outcome.actors[worker]);
                notes.push(note(format!("{name} {end} in some orders, and the check accepts that")));
            }
        } else if !news.is_empty() {
            out.push(worker_failed(&self.scenario, outcome, &news));
        }
        (out, notes)
    }
}

/// The last lines of an output that are not empty, as text.
pub(super) fn last_lines(output: &[u8], most: usize) -> Vec<String> {
    let tail = &output[output.len().saturating_sub(4096)..];
    let text = String::from_utf8_lossy(tail);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(most)..].iter().map(|line| super::json::shorten_to(line, 200)).collect()
}
