//! The commands that judge an outcome, run for real: they must see what the workers left.

use noclobber::{
    guard::{Settings, verify},
    report::Verdict,
    scenario::{Kind, load},
};

/// Two workers that read, wait for nothing, and replace; each may be forked from a parked copy of itself.
const RACE: &str = r#"
name = "race"
expect = "clean"
files = { n = "0\n" }

[[worker]]
name = "A"
run = "read x < n; echo $((x + 1)) > n.a; mv n.a n"

[[worker]]
name = "B"
run = "read x < n; echo $((x + 1)) > n.b; mv n.b n"
"#;

fn verdict(more: &str) -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("race.toml");
    let (top, workers) = RACE.split_once("\n[[worker]]").unwrap();
    std::fs::write(&file, format!("{top}\n{more}\n[[worker]]{workers}")).unwrap();
    verify(&load(&file).unwrap(), &Settings::default()).unwrap().verdict
}

#[test]
fn the_state_of_every_outcome_is_that_outcomes_own() {
    // Both write the same: that is no overwritten change, only an outcome that no serial order gives.
    assert_eq!(verdict("[oracle]\nstate = \"cat n\"\n"), Verdict::Anomaly(Kind::Unserializable));
}

#[test]
fn the_check_of_every_outcome_is_the_scenarios() {
    let verdict = verdict("check = \"read x < n; test $x = 2\"\n\n[oracle]\nserial = false\n");
    assert_eq!(verdict, Verdict::Anomaly(Kind::CheckFailed));
}

/// A run that is cut while a worker is held at its exit (it gives a lock back there) must still come to its end.
#[test]
fn a_worker_held_at_its_exit_does_not_hold_up_the_search() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("locked.toml");
    let worker =
        |n: &str| format!("[[worker]]\nname = \"{n}\"\nrun = \"exec 9>l; flock 9; read x < n; echo $((x + 1)) > n\"\n");
    let text =
        format!("name = \"locked\"\nexpect = \"clean\"\nfiles = {{ n = \"0\\n\" }}\n{}{}", worker("A"), worker("B"));
    std::fs::write(&file, text).unwrap();
    assert_eq!(verify(&load(&file).unwrap(), &Settings::default()).unwrap().verdict, Verdict::Clean);
}
