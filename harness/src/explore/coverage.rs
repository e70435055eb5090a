//! What may be said after a search, in words. Never just "passed".

use super::explorer::{Stop, Summary};

/// The coverage statement. `assumptions` are the things on which it depends (a sleep taken to outlast others, an order
/// inside an actor that was not explored): with any of them it never says plain "all".
pub fn coverage(summary: &Summary, assumptions: &[String]) -> String {
    let mut text = if summary.exhausted && assumptions.is_empty() {
        format!("all {}", count(summary.classes, "class", "classes"))
    } else if summary.exhausted {
        format!("{}, all there are if what follows holds", count(summary.classes, "class", "classes"))
    } else if summary.search == "timeline" {
        "one schedule, this window only".to_owned()
    } else {
        format!("{}, not all orders", count(summary.classes, "class", "classes"))
    };
    text += &format!(" ({}: {}", summary.search, count(summary.schedules, "schedule", "schedules"));
    if summary.redundant > 0 {
        text += &format!(", {} redundant", number(summary.redundant));
    }
    if !summary.exhausted && summary.search != "timeline" {
        text += match summary.stop {
            Some(Stop::Schedules) => "; ended by --max-schedules",
            Some(Stop::Time) => "; ended by --time-limit",
            Some(Stop::Interrupt) => "; interrupted",
            Some(Stop::Bounded) => "; not all that a power cut can lead to",
            Some(Stop::Exhausted) => "; some runs did not come to their end",
            None => "; ended early",
        };
    }
    text += ")";
    for (sampler, missed) in summary.miss_bound.iter().flatten() {
        let depth = sampler.trim_start_matches("pct-");
        text += &format!("; a bug of depth {depth} was missed with probability at most {missed:.2}");
    }
    for assumption in assumptions {
        text += &format!("; {assumption}");
    }
    text
}

fn count(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(n), if n == 1 { one } else { many })
}

/// A number with its thousands apart.
fn number(n: u64) -> String {
    let digits = n.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned());
    groups.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn summary() -> Summary {
        Summary {
            schedules: 1016,
            classes: 14,
            redundant: 2,
            steps: 0,
            exhausted: true,
            stop: Some(Stop::Exhausted),
            search: "source-dpor".to_owned(),
            seed: 0,
            elapsed: Duration::ZERO,
            miss_bound: None,
            trace_hash: None,
        }
    }

    #[test]
    fn says_all_only_when_it_is_all() {
        let all = summary();
        assert_eq!(coverage(&all, &[]), "all 14 classes (source-dpor: 1,016 schedules, 2 redundant)");
        let held = coverage(&all, &["A's sleep of 3 s was taken to outlast B".to_owned()]);
        assert!(!held.starts_with("all") && held.ends_with("outlast B"), "{held}");
        let cut = Summary { exhausted: false, stop: Some(Stop::Schedules), ..summary() };
        assert_eq!(
            coverage(&cut, &[]),
            "14 classes, not all orders (source-dpor: 1,016 schedules, 2 redundant; ended by --max-schedules)"
        );
        let sampled = Summary { miss_bound: Some([("pct-3".to_owned(), 0.934)].into()), ..cut };
        assert!(coverage(&sampled, &[]).ends_with("; a bug of depth 3 was missed with probability at most 0.93"));
    }
}
