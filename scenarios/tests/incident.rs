//! The incident and its repairs, with three kinds of workers: what was lost and executed twice, from one run.

use std::{fs, path::PathBuf};

use scenarios::{folder, run};
use serde_json::{Value, json};

fn incident(name: &str) -> PathBuf {
    folder().join("incident").join(name)
}

#[test]
fn one_run_shows_the_duplicate_and_the_vanished_task() {
    for workers in ["queue", "python", "shell"] {
        let answer = run(&[incident(&format!("{workers}/naive.toml"))]);
        let report = answer.report();
        assert_eq!(answer.exit, Some(0), "{workers}: {report}{}", answer.stderr);
        assert_eq!(report["verdict"], "lost-update", "{workers}: {report}");
        assert_eq!(report["as_expected"], true);
        assert_eq!(report["explored"]["schedules"], 1, "{workers}: one run is enough");
        assert_eq!(report["explored"]["search"], "timeline");
        let anomaly = &report["anomalies"][0];
        assert_eq!(anomaly["lost"], json!(["t2"]), "{workers}");
        assert_eq!(anomaly["duplicated"], json!(["t1"]), "{workers}");
        // No process failed: that would be an anomaly of its own.
        assert_eq!(report["anomalies"].as_array().map(Vec::len), Some(1), "{workers}: {report}");
        let last = anomaly["steps"].as_array().and_then(|steps| steps.last()).expect("steps");
        assert_eq!(last["time_ms"], 3000, "{workers}: three virtual seconds");
        assert_eq!(last["actor"], "B", "{workers}: B writes last");
        assert!(report["trace_hash"].is_string(), "{workers}");
    }
}

#[test]
fn the_repairs_keep_every_task_in_the_same_window() {
    let repairs = ["queue/flock", "queue/sharded", "python/flock", "python/sharded", "shell/flock"];
    for repair in repairs {
        let answer = run(&[incident(&format!("{repair}.toml"))]);
        assert_eq!(answer.exit, Some(0), "{repair}: {}{}", answer.reports[0], answer.stderr);
        assert_eq!(answer.report()["verdict"], "clean", "{repair}");
    }
}

#[test]
fn what_the_published_repair_does_wrong_is_seen_by_a_check() {
    for (name, verdict) in [
        ("read-only", "check-failed"),
        ("missing-file", "check-failed"),
        ("read-only-fixed", "clean"),
        ("missing-file-fixed", "clean"),
    ] {
        let answer = run(&[incident(&format!("repair/{name}.toml"))]);
        assert_eq!(answer.exit, Some(0), "{name}: {:?}{}", answer.reports, answer.stderr);
        assert_eq!(answer.report()["verdict"], verdict, "{name}");
    }
}

#[test]
fn the_lost_acknowledgement_is_found_by_search() {
    let answer = run(&[incident("lost-acknowledgement/naive.toml")]);
    let report = answer.report();
    assert_eq!(answer.exit, Some(0), "{report}{}", answer.stderr);
    let anomaly = &report["anomalies"][0];
    assert_eq!(anomaly["kind"], "lost-update");
    assert_eq!(anomaly["lost"], json!(["/tasks/t2/checked_by"]));
    assert_eq!(anomaly["duplicated"], json!(["t1"]));
    let answer = run(&[incident("lost-acknowledgement/flock.toml")]);
    assert_eq!(answer.exit, Some(0), "{:?}{}", answer.reports, answer.stderr);
    assert_eq!(answer.report()["explored"]["exhausted"], true);
}

#[test]
fn another_expectation_is_not_met() {
    for (name, expect) in
        [("queue/naive.toml", "clean"), ("queue/naive.toml", "deadlock"), ("queue/flock.toml", "lost-update")]
    {
        let answer = run(&["--expect".into(), expect.into(), incident(name)]);
        assert_eq!(answer.exit, Some(1), "{name} expected to be {expect}: {:?}{}", answer.reports, answer.stderr);
        assert_eq!(answer.report()["as_expected"], false);
    }
}

#[test]
fn twenty_runs_are_one() {
    for workers in ["queue", "python", "shell"] {
        let hash = || run(&[incident(&format!("{workers}/naive.toml"))]).report()["trace_hash"].clone();
        let first = hash();
        assert!(first.is_string(), "{workers}");
        for _ in 1..20 {
            assert_eq!(hash(), first, "{workers}");
        }
    }
}

#[test]
fn every_scenario_of_the_folder_is_tested_above() {
    let mut found: Vec<String> = Vec::new();
    for workers in ["queue", "python", "shell", "repair", "lost-acknowledgement"] {
        let names = fs::read_dir(incident(workers)).expect("a folder of scenarios");
        let names = names.map(|entry| entry.expect("an entry").path());
        found.extend(names.filter(|p| p.extension().is_some_and(|e| e == "toml")).map(|p| p.display().to_string()));
    }
    assert_eq!(found.len(), 14, "{found:?}");
}

#[test]
fn the_report_names_the_bytes_that_vanished() {
    let answer = run(&[incident("python/naive.toml")]);
    let evidence: &Value = &answer.report()["anomalies"][0]["evidence"];
    assert!(evidence.to_string().contains("t2 stood at bytes"), "{evidence}");
}
