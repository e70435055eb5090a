//! Whether the mended forms of the catalogue would notice that their protections are gone.

use std::{fs, path::Path, process::Command};

use scenarios::{Format, checked, folder, programs};
use serde_json::Value;

/// `noclobber teeth --format json`: exit code, the objects, and what was said besides.
fn teeth(here: &Path, arguments: &[&str]) -> (Option<i32>, Vec<Value>, String) {
    let mut command = Command::new(programs().noclobber());
    command.args(["teeth", "--format", "json"]).args(arguments).current_dir(here).env("PATH", programs().path());
    let output = command.output().expect("noclobber starts");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let objects = lines.lines().map(|line| checked(Format::Teeth, line)).collect();
    (output.status.code(), objects, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Kind, path, and what became of it: the verdict when it is needed, `covered by` what, or `not seen`.
fn summary(object: &Value) -> Vec<String> {
    let one = |p: &Value| {
        let fate = match (&p["needed"], &p["covered_by"]) {
            (Value::Bool(true), _) => p["verdict"].as_str().unwrap_or_default().to_owned(),
            (Value::Bool(false), Value::Null) => "not seen".to_owned(),
            (Value::Bool(false), other) => format!("covered by {}", other["path"].as_str().unwrap_or_default()),
            _ => format!("cannot tell: {}", p["reason"]),
        };
        format!("{} {}: {fate}", p["kind"].as_str().unwrap_or_default(), p["path"].as_str().unwrap_or_default())
    };
    object["protections"].as_array().expect("protections").iter().map(one).collect()
}

#[test]
fn every_protection_of_the_catalogue_is_needed_or_covered() {
    let cases: &[(&str, &[&str])] = &[
        // Two owners at once, and what the one wrote is overwritten: the verdict is the more severe of the two.
        ("check-then-create-lock", &["mkdir names.lock: lost-update"]),
        ("claim-by-copy-and-delete", &["rename pending/t1: duplicate-delivery"]),
        ("max-plus-one", &["link tasks/2: unserializable"]),
        ("naive", &["flock queue.lock: lost-update", "rename queue.json: covered by queue.lock"]),
        ("torn-append", &[]),
        // Either of two that are always held together is enough; without both it is red.
        ("two-locks-two-orders", &["flock ann.lock: broken-lock", "flock bob.lock: broken-lock"]),
    ];
    for (case, expected) in cases {
        let here = tempfile::tempdir().expect("a folder");
        let file = folder().join("catalogue").join(case).join("fixed.toml");
        let (exit, objects, said) = teeth(here.path(), &[file.to_str().expect("UTF-8")]);
        let [object] = &objects[..] else { panic!("{case}: {said}") };
        assert_eq!(summary(object), *expected, "{case}");
        assert_eq!((exit, &object["as_expected"]), (Some(0), &Value::Bool(true)), "{case}: {object}");
        if *case == "torn-append" {
            assert!(object["notes"][0].as_str().is_some_and(|n| n.contains("O_APPEND")), "{object}");
        }
        // A schedule that loses without the protection loses again, and says without which.
        for protection in object["protections"].as_array().expect("protections") {
            let Some(replay) = protection["replay"].as_str() else { continue };
            let text = fs::read_to_string(here.path().join(replay)).expect("a replay file");
            let recorded: Value = serde_json::from_str(&text).expect("JSON");
            // Of several that are weakened together the first one has the others with it.
            let weakened = &recorded["weakening"];
            let others = weakened["with"].as_array().map(Vec::as_slice).unwrap_or_default();
            let all: Vec<&Value> = std::iter::once(weakened).chain(others).map(|w| &w["path"]).collect();
            assert!(all.contains(&&protection["path"]), "{case}: {weakened}");
            let mut command = Command::new(programs().noclobber());
            command.args(["replay", "--format", "json", replay]).current_dir(&here).env("PATH", programs().path());
            let output = command.output().expect("noclobber starts");
            let again: Value = serde_json::from_slice(&output.stdout).expect("a report");
            assert_eq!(again["verdict"], protection["verdict"], "{case}: {again}");
            assert_eq!(output.status.code(), Some(1), "{case}");
        }
    }
}

#[test]
fn a_lock_that_keeps_nobody_out_is_a_gap() {
    let here = tempfile::tempdir().expect("a folder");
    // Each worker has a file of its own: the lock they share protects nothing.
    let text = "name = \"toothless\"\nexpect = \"clean\"\n[oracle]\nshares_nothing = true\n\
                [[worker]]\nname = \"A\"\nrun = \"flock lock -c 'echo a > a'\"\n\
                [[worker]]\nname = \"B\"\nrun = \"flock lock -c 'echo b > b'\"\n";
    fs::write(here.path().join("toothless.toml"), text).expect("a scenario");
    let (exit, objects, said) = teeth(here.path(), &["toothless.toml"]);
    assert_eq!(exit, Some(1), "{said}");
    assert_eq!(summary(&objects[0]), ["flock lock: not seen"]);
    let advice = objects[0]["protections"][0]["advice"].to_string();
    assert!(advice.contains("--grow") && advice.contains("conserve"), "{advice}");
    assert_eq!(objects[0]["as_expected"], false);
}

#[test]
fn what_guards_nothing_is_no_guard() {
    let here = tempfile::tempdir().expect("a folder");
    let buggy = folder().join("catalogue/naive/buggy.toml");
    // It says itself that it is wrong.
    let (exit, objects, said) = teeth(here.path(), &[buggy.to_str().expect("UTF-8")]);
    assert_eq!((exit, objects.len()), (Some(2), 0), "{said}");
    assert!(said.contains("only what is clean has protections to weaken"), "{said}");
    // It should be clean and is not: in the first order that fails B reads while A writes, as `run` says too.
    let (exit, objects, _) = teeth(here.path(), &["--expect", "clean", buggy.to_str().expect("UTF-8")]);
    assert_eq!(exit, Some(1));
    assert_eq!(objects[0]["verdict"], "torn-read");
    let mut run = Command::new(programs().noclobber());
    run.args(["run", "--format", "json", "--expect", "clean"]).arg(&buggy).current_dir(&here);
    let output = run.env("PATH", programs().path()).output().expect("noclobber starts");
    let ran: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(objects[0]["verdict"], ran["verdict"], "{ran}");
    assert_eq!(objects[0]["protections"], Value::Array(Vec::new()));
}
