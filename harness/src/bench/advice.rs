//! What the numbers say, in words, and no more than they say.

use super::{
    Need,
    competitor::Durability,
    results::{Results, Run},
    stats::Pooled,
};

/// From which short-time fairness on nobody starves.
const FAIR: f64 = 0.5;

/// The probability that of a group whose strategies are all alike one is called better than another.
const MISS: f64 = 0.05;

/// Sentences, the answer first.
pub fn advise(results: &Results, needs: &[Need]) -> Vec<String> {
    let mut advice = Vec::new();
    let repeated: Vec<Vec<f64>> = results.runs.iter().map(|run| run.repetitions.clone()).collect();
    let pooled = Pooled::of(&repeated);
    let mut groups: Vec<Vec<&Run>> = Vec::new();
    for run in results.runs.iter().filter(|run| run.ops > 0) {
        match groups.iter_mut().find(|group| group[0].group() == run.group()) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    if needs.contains(&Need::Durable) && !groups.iter().any(|group| group[0].durability == Durability::Full) {
        advice.push(
            "Nothing was measured with durability full, which is what `durable` needs: add --durability full.".into(),
        );
    }
    // Of each durability and directory the group with the most strategies, and of these the one with most workers.
    let mut spoken: Vec<(Durability, &std::path::Path)> = Vec::new();
    let mut order: Vec<&Vec<&Run>> = groups.iter().filter(|group| group.len() > 1).collect();
    order.sort_by_key(|group| std::cmp::Reverse((group.len(), group[0].processes)));
    for group in order {
        let key = (group[0].durability, group[0].dir.as_path());
        let wanted = !needs.contains(&Need::Durable) || group[0].durability == Durability::Full;
        if wanted && !spoken.contains(&key) {
            spoken.push(key);
            advice.push(of_group(group, needs, pooled.as_ref(), results.machine.dirs.len() > 1));
        }
    }
    advice.extend(losers(results));
    if let Some(a_a) = results.noise.a_a {
        advice.push(format!(
            "The same strategy measured against itself differs by {:.0} % (half of all cases); differences below that mean nothing here.",
            a_a * 100.0
        ));
    }
    advice
}

fn of_group(group: &[&Run], needs: &[Need], pooled: Option<&Pooled>, name_dir: bool) -> String {
    let first = group[0];
    let place = if name_dir { format!(" in {} ({})", first.dir.display(), first.filesystem) } else { String::new() };
    let load = format!(
        "Durability {}, {}, {} tasks kept{place}",
        first.durability,
        if first.processes == 1 { "1 process".to_owned() } else { format!("{} processes", first.processes) },
        first.kept
    );
    let fits = |run: &&&Run| {
        !run.wrong()
            && run.error.is_none()
            && (!needs.contains(&Need::Fair) || run.fairness_100ms >= FAIR)
            && (!needs.contains(&Need::Portable) || run.portable)
    };
    let mut fit: Vec<&Run> = group.iter().filter(fits).copied().collect();
    fit.sort_by(|a, b| b.ops_per_s.total_cmp(&a.ops_per_s));
    let asked = needs.iter().filter(|need| **need != Need::Durable).map(|need| format!("{need:?}").to_lowercase());
    let asked: Vec<String> = asked.collect();
    let asked = if asked.is_empty() { String::new() } else { format!("is {} and ", asked.join(" and ")) };
    let Some(best) = fit.first() else {
        return format!("{load}: nothing that was measured {asked}lost nothing.");
    };
    // Slower for certain, or perhaps not. The best of many alike looks better than it is, so any two of them may be meant.
    let miss = MISS / (fit.len() * fit.len().saturating_sub(1) / 2).max(1) as f64;
    let sure = |run: &Run| pooled.is_some_and(|pooled| pooled.greater(&best.repetitions, &run.repetitions, miss));
    let alike: Vec<String> =
        fit[1..].iter().filter(|run| !sure(run)).map(|run| format!("`{}`", run.strategy)).collect();
    let mut text = format!(
        "{load}: of what {asked}lost nothing, `{}` did most, {:.0} operations a second",
        best.strategy, best.ops_per_s
    );
    if let Some(next) = fit[1..].iter().find(|run| sure(run)) {
        text.push_str(&format!(", {:.1} times `{}`", best.ops_per_s / next.ops_per_s, next.strategy));
    }
    if !alike.is_empty() {
        text.push_str(&format!("; no difference was shown to {}", alike.join(", ")));
    }
    text.push('.');
    if !needs.contains(&Need::Fair) && first.processes > 1 && best.fairness_100ms < FAIR {
        let fair = fit.iter().find(|run| run.fairness_100ms >= FAIR);
        let gap = match best.fairness_100ms {
            none if none < 0.01 => "one of its workers often does nothing for a tenth of a second".to_owned(),
            some => {
                format!("within a tenth of a second its idlest worker often does {some:.2} of what its busiest does")
            }
        };
        let fair =
            fair.map_or(String::new(), |run| format!("; `{}` is fair ({:.0} a second)", run.strategy, run.ops_per_s));
        text.push_str(&format!(" But {gap}{fair}."));
    }
    text
}

fn losers(results: &Results) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    for run in results.runs.iter().filter(|run| run.wrong()) {
        if !names.contains(&run.strategy.as_str()) {
            names.push(&run.strategy);
        }
    }
    let told = names.into_iter().map(|name| {
        let all: Vec<&Run> = results.runs.iter().filter(|run| run.strategy == name).collect();
        let sum = |count: fn(&Run) -> u64| all.iter().map(|run| count(run)).sum::<u64>();
        let damaged = sum(|run| run.damaged);
        let damaged = match damaged {
            0 => String::new(),
            1 => ", and left a queue that nobody can read once".to_owned(),
            n => format!(", and left a queue that nobody can read {n} times"),
        };
        let processes: Vec<usize> = all.iter().filter(|run| run.wrong()).map(|run| run.processes).collect();
        format!(
            "`{name}` lost {} tasks and duplicated {} in {} operations{damaged} (with {} processes or more): whatever its speed, it is no choice.",
            sum(|run| run.lost),
            sum(|run| run.duplicated),
            sum(|run| run.ops),
            processes.iter().min().copied().unwrap_or(1)
        )
    });
    told.collect()
}
