//! What was found: named from a recorded run, made plain, and written down.

use std::{collections::BTreeSet, path::Path};

use super::{
    shared::{Settings, Shared},
    verify::difference,
};
use crate::{
    explore::{Memory, Origin, Replay, pivot, shrink},
    fault::shrink_faults,
    oracle::{Case, Film, Judge, Judgement, Named, Wrong, name, outcome_digest, step_lines},
    report::Anomaly,
    scenario::{Command, Kind, Scenario, save},
    world::{Ended, Op, Plan, Policy, Run, Weakening},
};

/// Runs that shrinking a short schedule may take.
const SHRINK_RUNS: u64 = 60;
/// Runs that shrinking its faults may take.
const FAULT_RUNS: u64 = 20;
/// Runs that looking for the pivot of a short schedule may take.
const PIVOT_RUNS: u64 = 20;
/// What counts as short, in steps.
const SHORT: u64 = 3_000;
/// What starting a process costs, in steps.
const START: u64 = 300;

struct Finding {
    named: Named,
    run: Run,
}

/// The anomalies of one scenario.
pub(super) struct Findings<'a> {
    scenario: &'a Scenario,
    settings: &'a Settings,
    found: Vec<Finding>,
    /// Outcomes that were named before.
    known: BTreeSet<[u8; 32]>,
}

impl<'a> Findings<'a> {
    pub(super) fn new(scenario: &'a Scenario, settings: &'a Settings) -> Self {
        Findings { scenario, settings, found: Vec::new(), known: BTreeSet::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether a search for `wanted` (`None`: anything) may end. It never ends for a failed worker alone.
    pub(super) fn satisfied(&self, wanted: Option<&[Kind]>) -> bool {
        self.found
            .iter()
            .map(|f| f.named.kind)
            .any(|kind| kind != Kind::WorkerFailed && wanted.is_none_or(|wanted| wanted.contains(&kind)))
    }

    /// Adds a wrong run: the same decisions again, recorded, so that witnesses can name it.
    ///
    /// # Errors
    /// The recorded run was another one: control is lost.
    pub(super) fn add(
        &mut self,
        case: &Case<'_>,
        run: &Run,
        wrong: &Wrong,
        judge: &Judge,
        engine: Shared<'_>,
    ) -> Result<(), String> {
        let digest = run.outcome.as_ref().map(outcome_digest);
        if digest.is_some_and(|digest| self.known.contains(&digest)) && !self.found.is_empty() {
            return Ok(());
        }
        let recorded = engine.run(&again(run)).map_err(|e| e.to_string())?;
        if let Ended::Limit(limit, number) = &recorded.ended {
            return Err(format!("the limit {limit} = {number} was reached when a found schedule was run again"));
        }
        if let Some(difference) = difference(run, &recorded) {
            return Err(format!("a found schedule did something else when it was run again: {difference}"));
        }
        self.known.extend(digest);
        let named = name(case, &recorded, wrong, &judge.references());
        let allowed = self.scenario.oracle.allow.contains(&named.kind);
        let same = |f: &Finding| f.named.kind == named.kind && f.named.object == named.object;
        if !allowed && !self.found.iter().any(same) {
            self.found.push(Finding { named, run: recorded });
        }
        Ok(())
    }

    /// Shrinks what was found and writes the replay files.
    pub(super) fn finish(
        mut self,
        case: &Case<'_>,
        judge: &mut Judge,
        engine: Shared<'_>,
    ) -> Result<Vec<Anomaly>, String> {
        self.found.sort_by_key(|f| f.named.kind);
        let found = std::mem::take(&mut self.found);
        let mut anomalies = Vec::new();
        for (n, finding) in found.into_iter().enumerate() {
            anomalies.push(self.anomaly(case, judge, engine, finding, n)?);
        }
        Ok(anomalies)
    }

    fn anomaly(
        &self,
        case: &Case<'_>,
        judge: &mut Judge,
        engine: Shared<'_>,
        finding: Finding,
        n: usize,
    ) -> Result<Anomaly, String> {
        let mut template = Plan { record: true, ..Plan::from_policy(Policy::Stay) };
        let (mut named, mut run) = (finding.named, finding.run);
        let mut steps = None;
        // The one schedule of a timeline is what the user asked for: it stays as it is.
        if self.scenario.delays.is_empty() {
            let mut system = engine;
            let mut keep = |candidate: &Run| {
                let named_again = rename(case, judge, engine, candidate);
                named_again.is_some_and(|again| again.kind == named.kind && again.object == named.object)
            };
            run = shrink_faults(&mut system, &run, &template, within(FAULT_RUNS, &run), &mut keep)
                .map_err(|e| e.to_string())?;
            template.faults.clone_from(&run.faults);
            let mut memory = Memory::new(&mut system);
            let shrunk = shrink(&mut memory, &run, &template, within(SHRINK_RUNS, &run), &mut keep)
                .map_err(|e| e.to_string())?;
            run = shrunk.run;
            named = rename(case, judge, engine, &run).unwrap_or(named);
            let mut runner = engine;
            let mut passes = |run: &Run| matches!(judge.judge(run, &mut runner), Ok(Judgement::Right { .. }));
            let pivot = pivot(&mut memory, &run, &template, within(PIVOT_RUNS, &run), &mut passes)
                .map_err(|e| e.to_string())?;
            steps = pivot.steps.map(|(a, b)| (a + 1, b + 1));
        }
        let replay = self.write_replay(&run, named.kind, n, engine.weakening())?;
        Ok(Anomaly {
            kind: named.kind,
            summary: named.summary,
            lost: named.lost,
            duplicated: named.duplicated,
            actors: named.actors,
            needs: named.needs,
            steps: step_lines(case, &run),
            pivot: steps,
            evidence: named.evidence,
            replay,
            film: Some(Box::new(Film::of(case, &run))),
            run: Some(Box::new(run)),
        })
    }

    fn write_replay(
        &self,
        run: &Run,
        kind: Kind,
        n: usize,
        weakening: Option<&Weakening>,
    ) -> Result<Option<String>, String> {
        let Some(dir) = &self.settings.replay_dir else { return Ok(None) };
        let replay = Replay::new(
            origin(self.scenario),
            Some(kind.to_string()),
            self.scenario.search.time,
            crate::world::Variant::default(),
            run,
        )
        .weakened(weakening.cloned());
        let suffix = if n == 0 { String::new() } else { format!(".{}", n + 1) };
        let name = format!("{}{}{suffix}", file_name(&self.scenario.name), self.settings.replay_suffix);
        let path = dir.join(format!("{name}.replay.json"));
        let written = make_dir(dir)
            .map_err(|e| format!("{}: {e}", dir.display()))
            .and_then(|()| replay.write(&path).map_err(|e| e.to_string()));
        written.map_err(|e| format!("cannot write the replay file: {e}"))?;
        Ok(Some(path.display().to_string()))
    }
}

/// How many runs may be spent on a schedule: fewer when it is a long one, so that telling what was found does not take
/// longer than finding it. Counted, not timed: the answer must not depend on how fast the machine is.
fn within(most: u64, run: &Run) -> u64 {
    let starts = run.steps.iter().filter(|s| s.op == Op::Spawn).count() as u64;
    let length = run.steps.len() as u64 + START * starts;
    (most * SHORT / length.max(SHORT)).max(most / 6)
}

/// The same decisions, recorded.
fn again(run: &Run) -> Plan {
    Plan { prefix: run.choices.clone(), record: true, faults: run.faults.clone(), ..Plan::from_policy(Policy::Stay) }
}

fn rename(case: &Case<'_>, judge: &mut Judge, engine: Shared<'_>, run: &Run) -> Option<Named> {
    let mut runner = engine;
    match judge.judge(run, &mut runner) {
        Ok(Judgement::Wrong(wrong)) => Some(name(case, run, &wrong, &judge.references())),
        _ => None,
    }
}

/// What a replay file says of its scenario.
fn origin(scenario: &Scenario) -> Origin {
    let command = |command: &Command| match command {
        Command::Shell(text) => text.clone(),
        Command::Args(args) => shell_words::join(args),
    };
    Origin {
        name: scenario.name.clone(),
        // What is relative in it is so to this file's folder, whether there is such a file or not.
        file: {
            let file = scenario.file.clone().unwrap_or_else(|| scenario.scenario_dir.join("explore.toml"));
            Some(std::path::absolute(&file).unwrap_or(file))
        },
        workers: scenario.workers.iter().map(|w| (w.name.clone(), command(&w.run))).collect(),
        toml: save(scenario).ok(),
    }
}

/// A scenario's name as a file name.
fn file_name(name: &str) -> String {
    let safe: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' }).take(80).collect();
    if safe.trim_matches(['.', '-']).is_empty() { "scenario".into() } else { safe.trim_start_matches('.').into() }
}

/// Makes the folder of replay files; the first time, one that version control leaves alone.
fn make_dir(dir: &Path) -> std::io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(dir)?;
    std::fs::write(dir.join(".gitignore"), "*\n")
}
