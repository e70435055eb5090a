//! Would this guard notice? Every protection that the programs use is weakened in turn, and the search made again.

use std::collections::BTreeSet;

use super::{
    protections::{Protections, Use},
    shared::{GuardError, Settings},
    verify::verify_weakened,
};
use crate::{
    report::{Report, Teeth, Tooth, Verdict},
    scenario::{Expect, Scenario},
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
    let mut protections = Protections::new(scenario);
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
        let (weakening, advice, together) = (weakening.clone(), Vec::new(), Vec::new());
        result.teeth.push(Tooth { weakening, workers, needed, covered_by: None, together, report, advice });
    }
    cover(&mut result, &protections);
    for (n, group) in together(&result, &protections).into_iter().enumerate() {
        let suffix = format!(".teeth-{}", found.len() + n + 1);
        let settings = Settings { replay_suffix: suffix, ..settings.clone() };
        let report = verify_weakened(scenario, &settings, Some(&group), &mut |_| {})?;
        if !matches!(report.verdict, Verdict::Anomaly(_)) {
            continue;
        }
        let members: Vec<Weakening> = group.each().cloned().map(alone).collect();
        for tooth in result.teeth.iter_mut().filter(|t| members.contains(&t.weakening)) {
            tooth.needed = Some(true);
            tooth.together = members.iter().filter(|one| **one != tooth.weakening).cloned().collect();
            tooth.report = report.clone();
            tooth.advice.clear();
        }
    }
    for tooth in result.teeth.iter_mut().filter(|t| t.is_gap()) {
        let used = protections.contended().find(|(w, _)| **w == tooth.weakening).map(|(_, used)| used);
        tooth.advice = advice(&tooth.weakening, &tooth.report, used);
    }
    if found.len() > MAX_TEETH {
        let text =
            format!("only the first {MAX_TEETH} of {} protections were weakened: split the scenario", found.len());
        result.notes.push(text);
    }
    for (lock, actor) in protections.lonely() {
        result.notes.push(format!("only {} takes `{lock}`: it keeps nobody out", name(actor)));
    }
    for (lock, actors) in protections.in_turns() {
        let who: Vec<String> = actors.iter().map(|a| name(*a)).collect();
        let text = format!("`{lock}` is taken by {}, each after the one before has ended", who.join(" and "));
        result.notes.push(text);
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

fn alone(weakening: Weakening) -> Weakening {
    Weakening { with: Vec::new(), ..weakening }
}

/// Locks that nobody misses one by one, though each is only ever taken under another of them: any one may do for all.
fn together(result: &Teeth, protections: &Protections) -> BTreeSet<Weakening> {
    let gaps: BTreeSet<&Weakening> = result.teeth.iter().filter(|t| t.is_gap()).map(|t| &t.weakening).collect();
    let mut groups = BTreeSet::new();
    for (weakening, used) in protections.contended().filter(|(w, _)| gaps.contains(w)) {
        let under: BTreeSet<&Weakening> = used.under.iter().flatten().filter(|w| gaps.contains(w)).collect();
        if under.is_empty() {
            continue;
        }
        let mut all: BTreeSet<&Weakening> = under;
        all.insert(weakening);
        let mut all = all.into_iter().cloned();
        if let Some(first) = all.next() {
            groups.insert(Weakening { with: all.collect(), ..first });
        }
    }
    groups
}

/// Finds what stands in for protections that are not needed, and says what would show that the others are missing.
fn cover(result: &mut Teeth, protections: &Protections) {
    let needed: BTreeSet<Weakening> =
        result.teeth.iter().filter(|t| t.needed == Some(true)).map(|t| t.weakening.clone()).collect();
    let mut harmless = Vec::new();
    for tooth in result.teeth.iter_mut().filter(|t| t.needed == Some(false)) {
        let Some((_, used)) = protections.contended().find(|(w, _)| **w == tooth.weakening) else { continue };
        tooth.covered_by = used.under.iter().flatten().find(|w| needed.contains(w)).cloned();
        if tooth.covered_by.is_none() && tooth.weakening.kind == Protection::Mkdir && !used.undone {
            harmless.push(tooth.weakening.clone());
        }
    }
    for weakening in &harmless {
        let path = &weakening.path;
        result.notes.push(format!("{path} is a folder that everybody makes sure of: no lock, as nobody removes it"));
    }
    result.teeth.retain(|t| !harmless.contains(&t.weakening));
}

/// What would show that a protection is missing, when this guard does not.
fn advice(weakening: &Weakening, report: &Report, used: Option<&Use>) -> Vec<String> {
    let mut advice = Vec::new();
    let path = &weakening.path;
    let appended: Vec<&str> = used.into_iter().flat_map(|u| &u.guards).map(|(path, _)| path.as_str()).collect();
    if weakening.kind != Protection::Rename
        && !appended.is_empty()
        && used.is_some_and(|used| used.guards.values().all(|whole| *whole))
    {
        advice.push(format!(
            "all that is changed under it is {}, by whole appends (O_APPEND), which need no lock",
            appended.join(", ")
        ));
    }
    if report.explored.search == "timeline" {
        advice.push("only the window of [[delay]] was run: give search = \"auto\", and every order is".to_owned());
    } else if !report.explored.exhausted {
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
