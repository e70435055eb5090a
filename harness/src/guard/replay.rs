//! One recorded schedule, run again.

use std::{
    cell::RefCell,
    path::{Path, PathBuf},
};

use super::{
    pool::Pool,
    shared::{GuardError, Settings, Shared},
};
use crate::{
    explore::{Divergence, Replay},
    oracle::{Case, Film, Judge, Judgement, Named, name, step_lines},
    report::StepLine,
    scenario::{Scenario, parse_draft},
};

/// What a replay showed.
#[derive(Debug)]
pub struct Replayed {
    /// The scenario.
    pub scenario: Scenario,
    /// The kind that the file says it shows.
    pub shows: Option<String>,
    /// What it shows now; `None`: the run is right.
    pub named: Option<Named>,
    /// Why nothing can be told of the run.
    pub unknown: Option<String>,
    /// The first step that is not as recorded.
    pub divergence: Option<Divergence>,
    /// The steps.
    pub steps: Vec<StepLine>,
    /// The run as a film, when it is wrong.
    pub film: Option<Box<Film>>,
}

/// Runs the schedule of a replay file.
///
/// # Errors
/// A file that cannot be used, or a machine on which nothing can be told.
pub fn replay(file: &Path, settings: &Settings) -> Result<Replayed, GuardError> {
    let recorded = Replay::read(file).map_err(|e| GuardError::Mistake(e.to_string()))?;
    let scenario = load(&recorded, file)?;
    again(&recorded, scenario, settings)
}

/// Runs a recorded schedule with this scenario.
pub(super) fn again(recorded: &Replay, mut scenario: Scenario, settings: &Settings) -> Result<Replayed, GuardError> {
    let mistake = |e: &dyn std::fmt::Display| GuardError::Mistake(e.to_string());
    scenario.search.time = recorded.time;
    let engine = RefCell::new(Pool::start(&scenario, settings)?);
    let initial = engine.borrow().initial().clone();
    let case = Case { scenario: &scenario, initial: &initial };
    let mut judge = Judge::new(&scenario, initial.clone()).map_err(|e| mistake(&e))?;
    let mut shared = Shared::new(&engine);
    let run = shared.run(&recorded.plan())?;
    let judgement = judge.judge(&run, &mut shared).map_err(|e| GuardError::CannotTell(e.to_string()))?;
    let (named, unknown) = match judgement {
        Judgement::Wrong(wrong) => (Some(name(&case, &run, &wrong, &judge.references())), None),
        Judgement::Unknown(why) => (None, Some(why)),
        Judgement::Right { .. } => (None, None),
    };
    let film = named.as_ref().map(|_| Box::new(Film::of(&case, &run)));
    let (divergence, steps) = (recorded.divergence(&run), step_lines(&case, &run));
    drop(engine);
    Ok(Replayed { shows: recorded.shows.clone(), named, unknown, divergence, steps, film, scenario })
}

/// The scenario as it was; its file is asked for the folder only, so that a later edit does not change the case.
pub(super) fn load(recorded: &Replay, file: &Path) -> Result<Scenario, GuardError> {
    let toml = recorded
        .scenario
        .toml
        .as_deref()
        .ok_or_else(|| GuardError::Mistake(format!("{}: the replay file holds no scenario", file.display())))?;
    // Elsewhere than on the machine where it was found, the scenario lies beside the replay file.
    let there = |place: &PathBuf| place.parent().is_some_and(Path::is_dir);
    let place = recorded.scenario.file.clone().filter(there).unwrap_or_else(|| file.to_owned());
    let draft = parse_draft(toml, &place).map_err(|e| GuardError::Mistake(e.to_string()))?;
    Ok(draft.scenario)
}
