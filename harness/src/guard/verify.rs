//! One scenario, from its first run to its report.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use super::{
    canary,
    decisions::Decisions,
    findings::Findings,
    inputs::inputs,
    pool::Pool,
    shared::{GuardError, Settings, Shared},
    watch::Teller,
};
use crate::{
    explore::{Explorer, Replay, Stop, Summary, TraceHash, coverage},
    fault::Sweep,
    oracle::{Atomic, Case, Judge, Judgement, Lockset, Sharing, witness_warnings},
    report::{EndedBy, Explored, Part, Report, Verdict, as_expected, classes_hash},
    scenario::{Expect, FaultKind, Kind, Scenario, SearchKind, Serial},
    world::{ActorId, Ended, Plan, Policy, Run, Warning, WarningKind, Weakening},
};

/// What is said of one worker all by itself.
const ALONE: &str = "there is one command, and nothing that it could race with: name another one after `:::`, or give \
                     --copies 2 (two of it at once), --grow, or --faults kill";

/// How long, at most, the judging of a run may go on when the time limit is reached meanwhile: for as long as the limit,
/// and no longer than this.
const GRACE: Duration = Duration::from_secs(10);

/// What is said when that was not enough.
const NOT_JUDGED: &str = "the time limit was reached while a schedule was compared with the serial orders: nobody knows \
                          whether it went wrong";

/// Verifies a scenario.
///
/// # Errors
/// A mistake in the scenario, or a machine on which nothing can be told.
pub fn verify(scenario: &Scenario, settings: &Settings) -> Result<Report, GuardError> {
    verify_weakened(scenario, settings, None, &mut |_| {})
}

/// The same while the programs lack a protection. `see` is shown every run of the search.
pub(super) fn verify_weakened(
    scenario: &Scenario,
    settings: &Settings,
    weakening: Option<&Weakening>,
    see: &mut dyn FnMut(&Run),
) -> Result<Report, GuardError> {
    let teller = Teller::new(settings.watch.clone(), scenario, weakening);
    static CANARY: OnceLock<Result<bool, String>> = OnceLock::new();
    if let Err(silent) = CANARY.get_or_init(canary::sing) {
        return Err(GuardError::CannotTell(silent.clone()));
    }
    let engine = RefCell::new(Pool::start(scenario, settings)?);
    let initial = engine.borrow().initial().clone();
    engine.borrow_mut().limit(scenario.search.time_limit);
    let judge = Judge::new(scenario, initial.clone()).map_err(|e| GuardError::Mistake(e.to_string()))?;
    let mut search = scenario.search.clone();
    if search.search == SearchKind::Auto && !scenario.delays.is_empty() {
        search.search = SearchKind::Timeline;
    }
    let (actors, delayed, flag) = (scenario.workers.len(), !scenario.delays.is_empty(), settings.interrupt.clone());
    let placement = {
        let (search, flag) = (search.clone(), flag.clone());
        move || Explorer::new(&search, actors, delayed).interrupt(flag.clone())
    };
    let mut sweep = Sweep::new(scenario, &search, flag, placement).map_err(|e| GuardError::Mistake(e.to_string()))?;
    if let Some((part, of)) = settings.part {
        sweep = sweep.partition(part as usize - 1, of as usize);
    }
    let part = settings.part.map(|(part, of)| Part {
        part,
        of,
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        inputs: Some(inputs(scenario, &initial, settings)),
        workers: scenario.workers.iter().map(|w| w.name.clone()).collect(),
        ..Part::default()
    });
    let hunt = Hunt {
        scenario,
        settings,
        engine: Shared::new(&engine).weakened(weakening),
        see,
        case: Case { scenario, initial: &initial },
        judge,
        findings: Findings::new(scenario, settings),
        sharing: Sharing::new(),
        lockset: Lockset::new(),
        atomic: Atomic::new(),
        warnings: BTreeSet::new(),
        doubts: Vec::new(),
        outcomes: BTreeSet::new(),
        lost_control: false,
        came_to_end: false,
        part,
        search: search.search,
        decisions: Decisions::default(),
        teller,
    };
    hunt.run(sweep)
}

struct Hunt<'a> {
    scenario: &'a Scenario,
    settings: &'a Settings,
    engine: Shared<'a>,
    see: &'a mut dyn FnMut(&Run),
    case: Case<'a>,
    judge: Judge,
    findings: Findings<'a>,
    sharing: Sharing,
    lockset: Lockset,
    atomic: Atomic,
    warnings: BTreeSet<Warning>,
    /// Why the answer cannot be "clean".
    doubts: Vec<String>,
    outcomes: BTreeSet<[u8; 32]>,
    lost_control: bool,
    /// Some run of the search came to its end.
    came_to_end: bool,
    /// What is said of the part of the search that this is.
    part: Option<Part>,
    /// The search, once delays have had their say.
    search: SearchKind,
    decisions: Decisions,
    teller: Teller,
}

impl<'a> Hunt<'a> {
    fn run(mut self, mut explorer: Sweep) -> Result<Report, GuardError> {
        let mut searched = self.begin(&mut explorer);
        while let Ok(true) = searched {
            searched = self.one(&mut explorer);
        }
        match (searched, self.engine.cut()) {
            (Ok(_), _) => {}
            // The time was over within a schedule: what is known so far is the answer.
            (Err(_), Some(why)) => explorer.cut(why),
            (Err(e), None) => return Err(e),
        }
        self.engine.engine.borrow_mut().over();
        if self.findings.is_empty() && !self.lost_control {
            self.fitting_faults(&explorer)?;
        }
        explorer.close();
        self.report(explorer.summary(), explorer.class_names(), &explorer.coverage())
    }

    /// The first schedule, twice; then the committed ones. False when the search is over.
    fn begin(&mut self, explorer: &mut Sweep) -> Result<bool, GuardError> {
        let shares_first_run = explorer.shares_first_run();
        let Some(mut plan) = explorer.next_plan() else { return Ok(false) };
        plan.record |= self.judge.needs_record();
        let run = self.engine.run(&plan)?;
        if let Some(part) = self.part.as_mut().filter(|_| shares_first_run) {
            let mut hash = TraceHash::default();
            hash.add(&run);
            part.first_run = Some(hash.hex());
        }
        self.check_first(&plan, &run)?;
        if self.lost_control {
            // Nothing that this run shows can be believed, but it was made.
            self.learn(&run);
            let _ = explorer.observe(&run);
            return Ok(false);
        }
        if self.committed()? && self.satisfied() {
            return Ok(false);
        }
        let goes_on = self.take(explorer, &run)?;
        if goes_on {
            self.engine.engine.borrow_mut().grow();
        }
        Ok(goes_on)
    }

    /// One schedule of the search. False when it is over.
    fn one(&mut self, explorer: &mut Sweep) -> Result<bool, GuardError> {
        self.teller.searching(self.findings.len(), || explorer.summary());
        let Some(mut plan) = explorer.next_plan() else { return Ok(false) };
        let record = self.judge.needs_record();
        plan.record |= record;
        let run = self.engine.run_ahead(&plan, &mut |n| {
            let recorded = |plan: Plan| Plan { record: plan.record | record, ..plan };
            explorer.upcoming(n).into_iter().map(recorded).collect()
        })?;
        self.take(explorer, &run)
    }

    /// Judges the run of the last plan and learns from it: only what was judged counts as explored.
    fn take(&mut self, explorer: &mut Sweep, run: &Run) -> Result<bool, GuardError> {
        self.came_to_end |= matches!(run.ended, Ended::Done | Ended::Deadlock(_) | Ended::Livelock(_));
        self.learn(run);
        self.judge_in_time(run)?;
        if let Err(unrepeatable) = explorer.observe(run) {
            self.lose(format!("the same prefix of a schedule did something else: {unrepeatable}"));
        }
        if let Some(why) = self.engine.cut() {
            explorer.cut(why);
            return Ok(false);
        }
        Ok(!self.lost_control && !self.satisfied())
    }

    /// Schedules that failed before, and were committed beside the scenario, come first.
    fn committed(&mut self) -> Result<bool, GuardError> {
        for path in committed_replays(self.scenario) {
            let replay = Replay::read(&path).map_err(|e| GuardError::Mistake(e.to_string()))?;
            // One without a protection says nothing of the programs that have it, and the reverse.
            if replay.scenario.name != self.scenario.name || replay.weakening.as_ref() != self.engine.weakening() {
                continue;
            }
            let plan = Plan { record: true, ..replay.plan() };
            let run = self.engine.run(&plan)?;
            self.learn(&run);
            self.judge_in_time(&run)?;
        }
        Ok(!self.findings.is_empty())
    }

    /// The first run tells whether anything can be told: the same plan gives the same run, the scenario's patterns
    /// fit, and every worker can succeed.
    fn check_first(&mut self, plan: &Plan, run: &Run) -> Result<(), GuardError> {
        // The run was a fresh start, whatever was run before it; the next ones use templates.
        let afresh = self.engine.engine.borrow_mut().templates(true)?;
        self.decisions.started(afresh);
        let again = self.engine.run(plan)?;
        if let Some(differs) = difference(run, &again) {
            self.decisions.copies_differ(differs);
            // Without templates the programs may well repeat themselves.
            self.engine.engine.borrow_mut().templates(false)?;
            let fresh = self.engine.run(plan)?;
            if let Some(difference) = difference(run, &fresh) {
                self.lose(format!("the same schedule, run twice, differed: {difference}"));
            }
        }
        let mut runner = self.engine;
        // Without serial judge nothing but the first run says what a worker can do: one in which nobody disturbs it.
        let everyone = (0..self.scenario.workers.len()).map(|i| ActorId(i as u16)).collect();
        let undisturbed = match self.scenario.oracle.serial {
            Serial::Off => &self.engine.strong().run(&Plan::from_policy(Policy::Serial(everyone)))?,
            Serial::Operations | Serial::Workers => run,
        };
        match self.judge.first_reference(undisturbed, &mut runner) {
            // A worker that fails does not come to the steps that the patterns mean, nor need a weakened one.
            Ok(None) if self.engine.weakening().is_some() => {}
            Ok(None) => fitting(run)?,
            Ok(Some(reason)) => self.doubt(reason),
            Err(e) => return Err(GuardError::CannotTell(e.to_string())),
        }
        Ok(())
    }

    /// Every pattern of a fault must have matched, and every fault must be one that can be injected.
    fn fitting_faults(&mut self, sweep: &Sweep) -> Result<(), GuardError> {
        // A worker that fails does not come to the steps that the patterns mean.
        if !self.doubts.is_empty() {
            return Ok(());
        }
        let Some(pattern) = sweep.unmatched().into_iter().next() else { return Ok(()) };
        if self.engine.weakening().is_some() {
            // The whole program came to it, or its guard was refused.
            return Ok(());
        }
        if self.settings.part.is_some() {
            // Another part may come to it.
            self.doubt(never_matched(&pattern).to_string());
            return Ok(());
        }
        Err(never_matched(&pattern))
    }

    fn learn(&mut self, run: &Run) {
        (self.see)(run);
        self.sharing.observe(run);
        self.decisions.observe(run);
        self.lockset.observe(run);
        self.atomic.observe(run);
        self.warnings.extend(run.warnings.iter().cloned());
        if let Some(outcome) = &run.outcome {
            self.outcomes.insert(crate::oracle::outcome_digest(outcome));
        }
    }

    /// Judges a run. When the time is over meanwhile this one gets a little more: a run that was made, and perhaps went
    /// wrong, is not passed over. If that is not enough either, nothing is called clean.
    fn judge_in_time(&mut self, run: &Run) -> Result<(), GuardError> {
        let Err(e) = self.judge(run) else { return Ok(()) };
        if self.engine.cut() != Some(Stop::Time) {
            return Err(e);
        }
        self.engine.engine.borrow_mut().limit(self.scenario.search.time_limit.map(|limit| limit.min(GRACE)));
        self.judge(run).inspect_err(|_| self.doubt(NOT_JUDGED.to_owned()))
    }

    fn judge(&mut self, run: &Run) -> Result<(), GuardError> {
        match &run.ended {
            Ended::SleepSet | Ended::Infeasible(_) => return Ok(()),
            Ended::LostControl(why) => {
                self.lose(format!("control was lost: {why}"));
                return Ok(());
            }
            _ => {}
        }
        let mut runner = self.engine;
        match self.judge.judge(run, &mut runner).map_err(|e| GuardError::CannotTell(e.to_string()))? {
            Judgement::Right { warnings } => self.warnings.extend(warnings),
            Judgement::Unknown(reason) => self.doubt(reason),
            Judgement::Wrong(wrong) => {
                self.warnings.extend(wrong.warnings.iter().cloned());
                let limited = self.engine.is_limited();
                let mut added = self.findings.add(&self.case, run, &wrong, &self.judge, self.engine);
                if added.is_err() && limited && !self.engine.is_limited() {
                    // The time was over while it was run once more. It is known to be wrong, and is told of.
                    added = self.findings.add(&self.case, run, &wrong, &self.judge, self.engine);
                }
                if let Err(why) = added {
                    self.lose(why);
                }
            }
        }
        Ok(())
    }

    fn doubt(&mut self, reason: String) {
        if !self.doubts.contains(&reason) {
            self.doubts.push(reason);
        }
    }

    fn lose(&mut self, reason: String) {
        self.doubt(reason);
        self.lost_control = true;
    }

    /// Nothing more needs to be found.
    fn satisfied(&self) -> bool {
        let wanted: Option<&[Kind]> = match &self.scenario.expect {
            Some(Expect::Kinds(kinds)) => Some(kinds),
            _ => None,
        };
        !self.settings.all && self.findings.satisfied(wanted)
    }

    /// The coverage in words, with what it does not reach to.
    fn covered(&self, summary: &Summary, assumptions: &[String]) -> String {
        let mut text = coverage(summary, assumptions);
        if let Some((part, of)) = self.settings.part {
            text = format!("part {part} of {of} only: {text}");
        }
        let workers = self.scenario.workers.len();
        if summary.exhausted && !self.settings.grow && workers > 1 {
            text += &format!("; tried with {workers} workers, --grow tries more");
        }
        text
    }

    fn report(mut self, summary: Summary, classes: BTreeSet<String>, faults: &[String]) -> Result<Report, GuardError> {
        let workers: Vec<String> = self.scenario.workers.iter().map(|w| w.name.clone()).collect();
        // Who fails at once shares nothing: that would only hide why.
        if self.doubts.is_empty()
            && let Some(reason) = self.sharing.reason(workers.len(), self.scenario.oracle.shares_nothing)
        {
            self.doubt(reason);
        }
        if self.settings.needs_company && workers.len() == 1 && self.scenario.faults.is_empty() {
            self.doubt(ALONE.to_owned());
        }
        let names: Vec<&str> = workers.iter().map(String::as_str).collect();
        self.warnings.extend(self.lockset.warnings(&names));
        // With calls in two parts among the faults, they were not.
        if !self.scenario.faults.iter().any(|fault| fault.parsed_kind() == Ok(FaultKind::Split)) {
            self.warnings.extend(self.atomic.warnings(&names));
        }
        let uncontrolled: Vec<String> =
            self.warnings.iter().filter(|w| w.kind == WarningKind::NotControlled).map(|w| w.text.clone()).collect();
        uncontrolled.into_iter().for_each(|text| self.doubt(text));
        let assumptions: Vec<String> =
            self.warnings.iter().filter(|w| w.kind == WarningKind::Coverage).map(|w| w.text.clone()).collect();
        // An interrupt or a time limit may come before anything was run.
        if !self.came_to_end {
            let why = if summary.stop == Some(Stop::Time) { " within the time limit" } else { "" };
            self.doubt(format!("no schedule came to its end{why}: nothing was explored"));
        }
        // A time limit is a budget that somebody chose; an interrupt is none.
        if summary.stop == Some(Stop::Interrupt) {
            self.doubt("the search was interrupted".into());
        }
        if self.scenario.search.exhaustive && !summary.exhausted {
            self.doubt("exhaustive = true, and not every class was run".into());
        }
        let hex = |outcome: &[u8; 32]| blake3::Hash::from_bytes(*outcome).to_hex().to_string();
        let covered = [vec![self.covered(&summary, &assumptions)], faults.to_vec()].concat().join("; ");
        let part = self.part.take().map(|part| Part {
            classes: classes.iter().cloned().collect(),
            outcomes: self.outcomes.iter().map(hex).collect(),
            assumptions: [&assumptions, faults].concat(),
            ..part
        });
        let mut judge = self.judge;
        let decisions = self.decisions.tell(self.scenario, &self.search, &summary, judge.references().len());
        if !self.findings.is_empty() {
            self.teller.shortening(self.findings.len(), &summary);
        }
        let anomalies = self.findings.finish(&self.case, &mut judge, self.engine).map_err(GuardError::CannotTell)?;
        let verdict = match anomalies.iter().map(|a| a.kind).min() {
            Some(kind) => Verdict::Anomaly(kind),
            None if self.doubts.is_empty() => Verdict::Clean,
            None => Verdict::CannotTell,
        };
        if let Some(run) = anomalies.first().and_then(|a| a.run.as_ref()) {
            self.warnings.extend(witness_warnings(&self.case, run));
        }
        let ended_by = match (self.lost_control, summary.stop) {
            (true, _) => EndedBy::LostControl,
            (_, None) => EndedBy::Found,
            (_, Some(Stop::Exhausted | Stop::Bounded)) => EndedBy::Exhausted,
            (_, Some(Stop::Schedules)) => EndedBy::Schedules,
            (_, Some(Stop::Time)) => EndedBy::Time,
            (_, Some(Stop::Interrupt)) => EndedBy::Interrupt,
        };
        Ok(Report {
            scenario: self.scenario.name.clone(),
            about: self.scenario.about.clone(),
            file: self.scenario.file.clone(),
            workers,
            verdict,
            expected: self.scenario.expect.clone(),
            as_expected: as_expected(self.scenario.expect.as_ref(), verdict),
            reason: (verdict == Verdict::CannotTell).then(|| self.doubts.join("\n")),
            coverage: covered,
            replay: anomalies.first().and_then(|a| a.replay.clone()),
            anomalies,
            trace_hash: summary.trace_hash.filter(|_| !self.lost_control),
            explored: Explored {
                schedules: summary.schedules,
                classes: summary.classes,
                redundant: summary.redundant,
                steps: summary.steps,
                exhausted: summary.exhausted,
                ended_by,
                search: summary.search,
                seed: summary.seed,
                seconds: summary.elapsed.as_secs_f64(),
                miss_bound: summary.miss_bound,
                outcomes: self.outcomes.len() as u64,
                classes_hash: Some(classes_hash(&classes)),
            },
            warnings: self.warnings.into_iter().collect(),
            decisions,
            part,
        })
    }
}

/// Every pattern of the scenario must have matched.
fn fitting(run: &Run) -> Result<(), GuardError> {
    match run.unmatched.first().filter(|_| run.outcome.is_some()) {
        None => Ok(()),
        Some(pattern) => Err(never_matched(pattern)),
    }
}

fn never_matched(pattern: &str) -> GuardError {
    GuardError::Mistake(format!(
        "the pattern `{pattern}` never matched a step of its worker: look at the steps with -v, and mend the pattern or \
         its nth"
    ))
}

/// `*.replay.json` beside the scenario file, in order.
fn committed_replays(scenario: &Scenario) -> Vec<PathBuf> {
    let Some(dir) = scenario.file.as_deref().and_then(Path::parent) else { return Vec::new() };
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with(".replay.json"))
        .collect();
    found.sort();
    found
}

/// The first thing in which two runs of one plan differ.
pub(super) fn difference(a: &Run, b: &Run) -> Option<String> {
    let steps = a.steps.len().max(b.steps.len());
    let differs = (0..steps).find(|i| match (a.steps.get(*i), b.steps.get(*i)) {
        (Some(x), Some(y)) => {
            (x.actor, x.task, x.op, &x.path, &x.path2, x.ret, x.bytes)
                != (y.actor, y.task, y.op, &y.path, &y.path2, y.ret, y.bytes)
        }
        _ => true,
    });
    if let Some(i) = differs {
        let show = |run: &Run| match run.steps.get(i) {
            Some(s) => format!("{} {} -> {}", s.op, s.path.as_deref().unwrap_or(""), s.result),
            None => "the end".to_owned(),
        };
        return Some(format!("step {}: {}, then {}", i + 1, show(a), show(b)));
    }
    if a.ended != b.ended {
        return Some(format!("it ended {:?}, then {:?}", a.ended, b.ended));
    }
    let digest = |run: &Run| run.outcome.as_ref().map(crate::oracle::outcome_digest);
    (digest(a) != digest(b)).then(|| "the same steps left another outcome".to_owned())
}
