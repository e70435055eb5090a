//! A search in parts, run as on several machines, is the search in one.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use scenarios::{Format, checked, folder, programs};
use serde_json::Value;

fn noclobber(here: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(programs().noclobber());
    command.args(arguments).current_dir(here).env("PATH", programs().path());
    command.output().expect("noclobber starts")
}

fn report(output: &Output) -> Value {
    let line = String::from_utf8_lossy(&output.stdout);
    assert!(!line.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    checked(Format::Report, &line)
}

/// Runs all parts of a scenario; their reports as files.
fn parts(here: &Path, scenario: &str, of: u32) -> Vec<String> {
    let part = |k: u32| {
        let output = noclobber(here, &["run", "--format", "json", "--partition", &format!("{k}/{of}"), scenario]);
        let file = format!("part-{k}.json");
        fs::write(here.join(&file), &output.stdout).expect("a report");
        file
    };
    (1..=of).map(part).collect()
}

fn merged(here: &Path, files: &[String]) -> Output {
    let arguments: Vec<&str> =
        ["merge", "--format", "json"].into_iter().chain(files.iter().map(String::as_str)).collect();
    noclobber(here, &arguments)
}

#[test]
fn three_parts_are_the_whole() {
    for scenario in ["catalogue/claim-by-copy-and-delete/fixed.toml", "faults/kill-in-rewrite/fixed.toml"] {
        let here = tempfile::tempdir().expect("a folder");
        let path: PathBuf = folder().join(scenario);
        let path = path.to_str().expect("UTF-8");
        let whole = report(&noclobber(here.path(), &["run", "--format", "json", path]));
        let files = parts(here.path(), path, 3);
        let output = merged(here.path(), &files);
        let together = report(&output);
        assert_eq!(output.status.code(), Some(0), "{together}");
        for key in ["verdict", "as_expected", "scenario", "expected"] {
            assert_eq!(together[key], whole[key], "{scenario}: {key}");
        }
        for key in ["classes", "outcomes", "exhausted", "classes_hash", "ended_by"] {
            assert_eq!(together["explored"][key], whole["explored"][key], "{scenario}: {key}: {together}");
        }
        assert_eq!(together["explored"]["exhausted"], true, "{together}");
        // The same parts give the same hash.
        let again = report(&merged(here.path(), &parts(here.path(), path, 3)));
        assert!(together["trace_hash"].is_string());
        assert_eq!(together["trace_hash"], again["trace_hash"], "{scenario}");
    }
}

#[test]
fn an_anomaly_of_any_part_is_one_of_the_whole() {
    let here = tempfile::tempdir().expect("a folder");
    let path = folder().join("catalogue/naive/buggy.toml");
    let files = parts(here.path(), path.to_str().expect("UTF-8"), 2);
    let output = merged(here.path(), &files);
    let together = report(&output);
    assert_eq!(output.status.code(), Some(0), "{together}");
    assert_eq!(together["verdict"], "lost-update");
    assert_eq!(together["explored"]["exhausted"], false);
    let replay = together["replay"].as_str().expect("a replay file");
    let again = noclobber(here.path(), &["replay", "--format", "json", replay]);
    assert_eq!(report(&again)["verdict"], "lost-update");
    // For a person too.
    let shown = noclobber(here.path(), &["merge", &files[0], &files[1]]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(text.contains("lost-update") && text.contains("joined from 2 parts"), "{text}");
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let here = tempfile::tempdir().expect("a folder");
    let write = |name: &str, increment: &str, seed: u32| {
        let text = format!(
            "name = \"two visitors\"\nexpect = \"anomaly\"\nfiles = {{ n = \"0\" }}\n[search]\nseed = {seed}\n[[worker]]\n\
             name = \"A\"\nrun = \"read n < n; echo $((n + {increment})) > n\"\ncount = 2\n"
        );
        fs::write(here.path().join(name), text).expect("a scenario");
    };
    write("one.toml", "1", 0);
    write("two.toml", "2", 0);
    write("seed.toml", "1", 1);
    let part = |scenario: &str, part: &str, to: &str| {
        let output = noclobber(here.path(), &["run", "--format", "json", "--partition", part, scenario]);
        fs::write(here.path().join(to), &output.stdout).expect("a report");
    };
    part("one.toml", "1/2", "1.json");
    part("one.toml", "2/2", "2.json");
    part("two.toml", "2/2", "other.json");
    part("seed.toml", "2/2", "seed.json");
    part("one.toml", "2/3", "thirds.json");
    let whole = noclobber(here.path(), &["run", "--format", "json", "one.toml"]);
    fs::write(here.path().join("whole.json"), &whole.stdout).expect("a report");
    fs::write(here.path().join("no.json"), "hello\n").expect("a file");
    fs::write(here.path().join("empty.json"), "\n").expect("a file");
    let cases = [
        (vec!["1.json"], "part 2 of 2 is missing"),
        (vec!["1.json", "2.json", "2.json"], "part 2 of 2 is there twice"),
        (vec!["1.json", "other.json"], "are not the same"),
        (vec!["1.json", "seed.json"], "are not the same"),
        (vec!["1.json", "thirds.json"], "of 2 parts, the other of 3"),
        (vec!["1.json", "whole.json"], "the report of a whole search"),
        (vec!["1.json", "no.json"], "no.json:1: not a report"),
        (vec!["1.json", "empty.json"], "no report in it"),
        (vec!["1.json", "missing.json"], "missing.json"),
    ];
    for (files, message) in cases {
        let files: Vec<String> = files.into_iter().map(str::to_owned).collect();
        let output = merged(here.path(), &files);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{files:?}: {said}");
        assert!(said.contains(message), "{files:?}: {said}");
        assert!(output.stdout.is_empty(), "{files:?}");
    }
    let files = ["2.json".to_owned(), "1.json".to_owned()];
    assert_eq!(merged(here.path(), &files).status.code(), Some(0), "in any order");
    for wrong in ["0/2", "3/2", "1/0", "x", "1"] {
        let output = noclobber(here.path(), &["run", "--partition", wrong, "one.toml"]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("K from 1 to N"), "{wrong}: {said}");
    }
}

/// Everybody locks the file that is replaced, and reads it by its name under the lock: with two workers all is well.
/// With three, one waits for the lock of a file that is gone, and has it together with one who locked the new file.
#[test]
fn a_lock_on_a_replaced_file_is_found_by_growing() {
    let here = tempfile::tempdir().expect("a folder");
    let worker = "exec 9< n; flock 9; read n < n; echo $((n + 1)) > n.$$; mv n.$$ n; exec 9<&-";
    let scenario = format!(
        "name = \"replaced\"\nexpect = \"clean\"\nfiles = {{ n = \"0\\n\" }}\n[search]\nsearch = \"exhaustive\"\n\
         [[worker]]\nname = \"A\"\nrun = \"{worker}\"\ncount = 2\n"
    );
    fs::write(here.path().join("guard.toml"), scenario).expect("a scenario");
    let two = noclobber(here.path(), &["run", "--format", "json", "guard.toml"]);
    let report_of_two = report(&two);
    assert_eq!(two.status.code(), Some(0), "{report_of_two}");
    let coverage = report_of_two["explored"]["coverage"].as_str().expect("words");
    assert!(coverage.contains("tried with 2 workers, --grow tries more"), "{coverage}");
    let grown = noclobber(here.path(), &["run", "--grow", "--format", "json", "guard.toml"]);
    let report_grown = report(&grown);
    assert_eq!(grown.status.code(), Some(1), "{report_grown}");
    let coverage = report_grown["explored"]["coverage"].as_str().expect("words");
    assert!(coverage.starts_with("2 workers: all ") && coverage.contains("; 3 workers: "), "{coverage}");
    let anomaly = &report_grown["anomalies"][0];
    assert!(anomaly["needs"].as_array().expect("needs").contains(&"3 workers".into()), "{anomaly}");
    let replay = noclobber(here.path(), &["replay", "--format", "json", anomaly["replay"].as_str().expect("a file")]);
    assert_eq!(report(&replay)["verdict"], report_grown["verdict"]);
}
