//! Would this guard notice? Every protection that the programs use is weakened in turn, and the search made again.

use std::collections::BTreeSet;

use super::{
    protections::{Protections, Use},
    shared::{GuardError, Settings},
    verify::verify_weakened,
};
use crate::{
    report::{Report, Teeth, Tooth, Verdict},
    scenario::{Expect, FaultKind, Scenario},
    world::{ActorId, Protection, Weakening},
};

/// Most protections that are weakened in one scenario.
const MAX_TEETH: usize = 64;

/// Whether a scenario is one that should be clean: only such a one has protections that can be missed.
pub fn guards(scenario: &Scenario) -> bool {
    matches!(scenario.expect, None | Some(Expect::Clean))
}

/// Weakens each protection of a scenario in turn. The programs are untouched, and what is right is what they do one
/// after the other with every protection in place.
///
/// # Errors
/// As of [`verify`](super::verify).
pub fn teeth(scenario: &Scenario, settings: &Settings) -> Result<Teeth, GuardError> {
    let power_cut = |kind: &str| kind.parse::<FaultKind>().is_ok_and(|k| k == FaultKind::PowerCut);
    let mut protections = Protections::new(scenario.faults.iter().any(|f| power_cut(&f.kind)));
    let guard = verify_weakened(scenario, settings, None, &mut |run| protections.observe(run))?;
    let mut result = Teeth {
        scenario: scenario.name.clone(),
        file: scenario.file.clone(),
        guard,
        teeth: Vec::new(),
        notes: Vec::new(),
    };
    if result.guard.verdict != Verdict::Clean {
        return Ok(result);
    }
    let name = |actor: ActorId| scenario.workers.get(usize::from(actor.0)).map_or("?", |w| &w.name).to_owned();
    let found: Vec<(&Weakening, &Use)> = protections.contended().collect();
    for (n, (weakening, used)) in found.iter().copied().take(MAX_TEETH).enumerate() {
        let settings = Settings { replay_suffix: format!(".teeth-{}", n + 1), ..settings.clone() };
        let report = verify_weakened(scenario, &settings, Some(weakening), &mut |_| {})?;
        let needed = match report.verdict {
            Verdict::Anomaly(_) => Some(true),
            Verdict::Clean => Some(false),
            Verdict::CannotTell => None,
        };
        let workers = used.actors.iter().map(|actor| name(*actor)).collect();
        let (weakening, advice) = (weakening.clone(), Vec::new());
        result.teeth.push(Tooth { weakening, workers, needed, covered_by: None, report, advice });
    }
    cover(&mut result, &protections);
    if found.len() > MAX_TEETH {
        let text =
            format!("only the first {MAX_TEETH} of {} protections were weakened: split the scenario", found.len());
        result.notes.push(text);
    }
    for (lock, actor) in protections.lonely() {
        result.notes.push(format!("only {} takes `{lock}`: it keeps nobody out", name(actor)));
    }
    for (path, actors) in protections.appended() {
        let who: Vec<String> = actors.iter().map(|a| name(*a)).collect();
        let text = format!(
            "{} append to {path}, each call whole (O_APPEND): the kernel keeps them apart, there is nothing to weaken",
            who.join(" and ")
        );
        result.notes.push(text);
    }
    Ok(result)
}

/// Finds what stands in for protections that are not needed, and says what would show that the others are missing.
fn cover(result: &mut Teeth, protections: &Protections) {
    let needed: BTreeSet<Weakening> =
        result.teeth.iter().filter(|t| t.needed == Some(true)).map(|t| t.weakening.clone()).collect();
    let mut harmless = Vec::new();
    for tooth in result.teeth.iter_mut().filter(|t| t.needed == Some(false)) {
        let Some((_, used)) = protections.contended().find(|(w, _)| **w == tooth.weakening) else { continue };
        tooth.covered_by = used.under.iter().flatten().find(|w| needed.contains(w)).cloned();
        if tooth.covered_by.is_none() {
            if tooth.weakening.kind == Protection::Mkdir && !used.undone {
                harmless.push(tooth.weakening.clone());
            }
            tooth.advice = advice(&tooth.weakening, &tooth.report);
        }
    }
    for weakening in &harmless {
        let path = &weakening.path;
        result.notes.push(format!("{path} is a folder that everybody makes sure of: no lock, as nobody removes it"));
    }
    result.teeth.retain(|t| !harmless.contains(&t.weakening));
}

/// What would show that a protection is missing, when this guard does not.
fn advice(weakening: &Weakening, report: &Report) -> Vec<String> {
    let mut advice = Vec::new();
    let path = &weakening.path;
    if !report.explored.exhausted {
        advice.push("not every order was tried without it: raise --max-schedules".to_owned());
    }
    match weakening.kind {
        Protection::Rename => {
            advice.push(format!("let a worker read {path} while another replaces it"));
            advice.push(format!("a kill in the middle leaves half of {path}: add [[fault]] kind = \"kill\""));
        }
        Protection::Sync => advice.push("add [[fault]] kind = \"power-cut\"".to_owned()),
        _ => {
            advice.push("some lock faults need three workers: try --grow, or count = 3".to_owned());
            advice.push(
                "what it protects may not be compared: give --check or --state a command that looks at it, or conserve \
                 for the ids of tasks"
                    .to_owned(),
            );
        }
    }
    advice
}
