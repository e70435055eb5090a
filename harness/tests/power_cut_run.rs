//! Power cuts in real runs: what real programs did to the disk, what may be left of it, and how that is judged.

use std::path::Path;

use noclobber::{
    guard::{GuardError, Settings, replay, verify},
    report::{Report, Verdict},
    scenario::{Kind, load},
};

fn report_in(dir: &Path, run: &str, more: &str) -> Result<Report, GuardError> {
    let file = dir.join("cut.toml");
    let (fault, rest) = more.split_once('|').unwrap_or(("", more));
    let text = format!(
        "name = \"cut\"\nexpect = \"clean\"\nfiles = {{ f = \"old\\n\" }}\n\n[[worker]]\nname = \"W\"\nrun = \
         {run:?}\n\n[[fault]]\nkind = \"power-cut\"\n{fault}\n\n{rest}\n"
    );
    std::fs::write(&file, text).unwrap();
    let settings = Settings { replay_dir: Some(dir.join("replays")), ..Settings::default() };
    verify(&load(&file).unwrap(), &settings)
}

fn verdict(run: &str, more: &str) -> Verdict {
    let report = report_in(tempfile::tempdir().unwrap().path(), run, more).unwrap();
    if report.verdict == Verdict::Clean {
        assert!(report.explored.exhausted, "{run}: {}", report.coverage);
    }
    report.verdict
}

const EXT4: &str = "[search]\ndisk = \"ext4-ordered\"";

#[test]
fn what_is_synced_survives_and_what_is_not_may_be_gone() {
    let torn = Verdict::Anomaly(Kind::TornFile);
    let lost = Verdict::Anomaly(Kind::LostAfterCrash);
    let cases = [
        ("echo new > t; sync t; mv t f; sync .", "", Verdict::Clean),
        ("echo new > t; mv t f; sync .", "", torn),
        // ext4 writes the bytes before a rename that replaces a file.
        ("echo new > t; mv t f; sync .", EXT4, Verdict::Clean),
        ("echo new > t; sync t; mv t f", "", lost),
        ("echo new > t; sync t; mv t f", EXT4, lost),
        // A name needs its folder; on ext4 the file is enough.
        ("echo new > g; sync g", "", lost),
        ("echo new > g; sync g", EXT4, Verdict::Clean),
        ("echo new > g; sync g .", "", Verdict::Clean),
        // One block in place is old or new.
        ("printf new | dd of=f conv=notrunc oflag=dsync status=none", "", Verdict::Clean),
        ("printf new | dd of=f conv=notrunc status=none", "", lost),
    ];
    let wrong: Vec<String> = cases
        .into_iter()
        .map(|(run, more, expected)| (run, more, expected, verdict(run, more)))
        .filter(|(_, _, expected, found)| expected != found)
        .map(|(run, more, expected, found)| format!("`{run}` {more}: {found:?} instead of {expected:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_recovery_worker_begins_with_what_the_disk_holds() {
    // Whatever is left of the temporary file, R removes it; the file itself is old or new.
    let recovery = "[[worker]]\nname = \"R\"\nafter = [\"W\"]\nrun = \"rm -f t; test -s f\"";
    assert_eq!(verdict("echo new > t; sync t; mv t f; sync .", recovery), Verdict::Clean);
    // It cannot bring back what is gone.
    let torn = verdict("echo new > t; mv t f; sync .", recovery);
    assert_eq!(torn, Verdict::Anomaly(Kind::TornFile));
}

#[test]
fn the_moment_can_be_named() {
    // Before the rename the old file is untouched.
    assert_eq!(verdict("echo new > t; mv t f", "at = \"rename\"|"), Verdict::Clean);
    assert_eq!(verdict("echo new > t; mv t f", "at = \"exit\"|"), Verdict::Anomaly(Kind::TornFile));
    let dir = tempfile::tempdir().unwrap();
    let never = report_in(dir.path(), "echo new > t; mv t f", "at = \"write nothing\"|");
    assert!(matches!(never, Err(GuardError::Mistake(_))), "{never:?}");
}

#[test]
fn it_is_deterministic_and_the_replay_shows_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let again = tempfile::tempdir().unwrap();
    let run = "echo new > t; mv t f";
    let report = report_in(dir.path(), run, "").unwrap();
    assert_eq!(report.trace_hash, report_in(again.path(), run, "").unwrap().trace_hash);
    let anomaly = &report.anomalies[0];
    assert!(anomaly.needs.contains(&"power-cut".to_owned()), "{:?}", anomaly.needs);
    let cut = anomaly.steps.iter().find(|step| step.result.starts_with("the power goes; lost: "));
    assert!(cut.is_some_and(|step| step.op == "exit" && step.chosen), "{:?}", anomaly.steps);
    let replayed = replay(Path::new(anomaly.replay.as_deref().unwrap()), &Settings::default()).unwrap();
    assert_eq!(replayed.named.map(|named| named.kind), Some(anomaly.kind));
    assert!(replayed.divergence.is_none(), "{:?}", replayed.divergence);
}

/// Compares nothing: every state of the disk is right, so that the whole search is run.
const NOTHING: &str = "[oracle]\nserial = false\nstate = \"true\"\n";

#[test]
fn more_states_than_are_tried_are_not_called_all() {
    let dir = tempfile::tempdir().unwrap();
    let many = "for i in 1 2 3 4; do echo $i > n$i; done";
    let report = report_in(dir.path(), many, &format!("at = \"exit\"|{NOTHING}")).unwrap();
    assert_eq!(report.verdict, Verdict::Clean, "{report:?}");
    assert!(!report.explored.exhausted, "{}", report.coverage);
    for said in ["not all orders", "not all that a power cut can lead to", "power-cut: 64 of "] {
        assert!(report.coverage.contains(said), "{said}: {}", report.coverage);
    }
    // What has few states is all tried, and says so.
    let few = report_in(dir.path(), "echo 1 > n1", &format!("at = \"exit\"|{NOTHING}[search]\nexhaustive = true\n"));
    let few = few.unwrap();
    assert_eq!((few.verdict, few.explored.exhausted), (Verdict::Clean, true), "{}", few.coverage);
}

#[test]
fn orders_of_those_who_come_after_the_cut_that_are_not_tried_are_told_of() {
    let after = |name: &str| format!("[[worker]]\nname = \"{name}\"\nafter = [\"W\"]\nrun = \"echo {name} >> log\"\n");
    let order = "one order of what comes after each";
    let dir = tempfile::tempdir().unwrap();
    let one = report_in(dir.path(), "echo 1 > n", &format!("{}{NOTHING}", after("R"))).unwrap();
    assert_eq!((one.verdict, one.explored.exhausted), (Verdict::Clean, true), "{}", one.coverage);
    assert!(!one.coverage.contains(order), "{}", one.coverage);
    let two = report_in(dir.path(), "echo 1 > n", &format!("{}{}{NOTHING}", after("R"), after("S"))).unwrap();
    assert_eq!((two.verdict, two.explored.exhausted), (Verdict::Clean, false), "{}", two.coverage);
    assert!(two.coverage.contains(order) && !two.coverage.starts_with("all"), "{}", two.coverage);
}

#[test]
fn several_power_cuts_are_the_moments_of_all() {
    let run = "echo new > t; mv t f; cat f";
    // Before the rename all is well; when the program has said what it did, it is not.
    let two = "at = \"rename\"\n[[fault]]\nkind = \"power-cut\"\nat = \"exit\"|";
    assert_eq!(verdict(run, two), Verdict::Anomaly(Kind::TornFile));
    let dir = tempfile::tempdir().unwrap();
    let never = report_in(dir.path(), run, "at = \"rename\"\n[[fault]]\nkind = \"power-cut\"\nat = \"write nothing\"|");
    assert!(matches!(never, Err(GuardError::Mistake(_))), "{never:?}");
}
