//! A search spread over four processes by an existing job runner, GNU parallel, and joined, is the search in one.

use std::process::Command;

use scenarios::{answer, folder, programs};
use serde_json::Value;

#[test]
fn four_processes_under_gnu_parallel_are_the_whole() {
    let here = tempfile::tempdir().expect("a folder");
    let scenario = folder().join("catalogue/claim-by-copy-and-delete/fixed.toml");
    let scenario = scenario.to_str().expect("UTF-8");
    let whole = answer(here.path(), &["run", scenario]);
    let whole = whole.report();

    let script = folder().join("../harness/bindings/ci/parallel.sh");
    let output = Command::new(script)
        .args(["4", scenario])
        .current_dir(here.path())
        .env("PATH", programs().path())
        .env("NOCLOBBER_MERGE", "--format json")
        .output()
        .expect("bash starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let merged: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_eq!(output.status.code(), Some(0), "{said}");
    for key in ["scenario", "verdict", "expected", "as_expected"] {
        assert_eq!(merged[key], whole[key], "{key}: {merged}");
    }
    for key in ["classes", "classes_hash", "outcomes", "exhausted", "ended_by"] {
        assert_eq!(merged["explored"][key], whole["explored"][key], "{key}: {merged}");
    }
    assert_eq!(merged["explored"]["exhausted"], true, "{merged}");
    assert!(merged["explored"]["classes"].as_u64() > Some(4), "a search that is worth spreading: {merged}");
}

#[test]
fn a_part_that_is_missing_is_not_passed_over() {
    let here = tempfile::tempdir().expect("a folder");
    let script = folder().join("../harness/bindings/ci/parallel.sh");
    // No part can be run: there is nothing to join, and that is no pass.
    let output = Command::new(script)
        .args(["4", "no-such-file.toml"])
        .current_dir(here.path())
        .env("PATH", programs().path())
        .output()
        .expect("bash starts");
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
