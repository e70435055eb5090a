//! What two of these programs do to each other, in every order that can matter.

use noclobber::{Harness, Kind, Verdict, cmd};

const SIGN: &str = env!("CARGO_BIN_EXE_sign");

fn two(options: &[&str]) -> Harness {
    let guest = |name: &str| options.iter().fold(cmd!(SIGN, "guests", name), |command, option| command.arg(option));
    Harness::new().file("guests", "").worker(guest("Ada")).worker(guest("Bob"))
}

#[test]
fn with_the_lock_nobody_is_forgotten() {
    let report = two(&["--locked"]).check("[ $(wc -l < guests) = 2 ]").exhaustive().expect_clean();
    assert!(report.explored.exhausted, "{report}");
}

/// The message of a test that fails is the report: this is how it looks.
#[test]
#[should_panic(expected = "overwrote")]
fn without_the_lock_the_test_fails() {
    two(&[]).without_replay_files().expect_clean();
}

#[test]
fn what_is_found_can_be_looked_at() {
    let folder = std::env::temp_dir().join(format!("guest-book-{}", std::process::id()));
    let report = two(&[]).replay_dir(&folder).expect(Kind::LostUpdate);
    assert_eq!(report.verdict, Verdict::Anomaly(Kind::LostUpdate));
    let anomaly = &report.anomalies[0];
    assert!(matches!(anomaly.lost.as_slice(), [name] if name.contains("Ada") || name.contains("Bob")), "{report}");
    let replay = anomaly.replay.as_ref().expect("a replay file");
    assert!(report.to_string().contains(&format!("noclobber replay {replay}")), "{report}");
    assert!(std::fs::read_to_string(replay).expect("it was written").contains("guests"));
    std::fs::remove_dir_all(&folder).expect("removed");
}
