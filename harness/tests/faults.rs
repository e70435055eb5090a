//! Faults, made to happen in real programs: each judge finds the bug that was planted for it, and nothing in the form
//! without it.

use std::path::Path;

use noclobber::{
    guard::{GuardError, Settings, replay, verify},
    report::{Report, Verdict},
    scenario::{Kind, load},
};

fn guard(dir: &Path, text: &str, settings: &Settings) -> Result<Report, GuardError> {
    let file = dir.join("case.toml");
    std::fs::write(&file, format!("name = \"case\"\nexpect = \"clean\"\n{text}")).unwrap();
    verify(&load(&file).unwrap(), settings)
}

fn report(text: &str) -> Report {
    let dir = tempfile::tempdir().unwrap();
    guard(dir.path(), text, &Settings::default()).unwrap()
}

/// One worker that is hit anywhere, or where `at` says.
fn alone(files: &str, run: &str, fault: &str) -> String {
    format!("files = {{ {files} }}\n[[worker]]\nname = \"A\"\nrun = '''{run}'''\n[[fault]]\n{fault}\n")
}

const KILL: &str = "kind = \"kill\"";

#[test]
fn every_judge_finds_what_a_fault_breaks_and_only_that() {
    let data = "n = \"one\\n\"";
    let two = "a = \"1\\n\", b = \"1\\n\"";
    let full = "kind = \"errno:ENOSPC\"\nat = \"write\"\nnth = \"all\"";
    let torn = Some(Kind::TornFile);
    let cases = [
        ("in place, killed", alone(data, "echo two > n", KILL), torn),
        ("renamed, killed", alone(data, "echo two > n.new && mv n.new n", KILL), None),
        ("two renames", alone(two, "echo 2 > x; echo 2 > y; mv x a; mv y b", KILL), Some(Kind::Unserializable)),
        ("disk full", alone(data, "echo two > n", full), torn),
        ("disk full, noticed", alone(data, "echo two > n.new && mv n.new n || rm n.new", full), None),
        ("disk full, not noticed", alone(data, "echo two > n.new; mv n.new n", full), torn),
        ("a part is killed", alone(data, "cat n n > n.new; mv n.new n", "kind = \"kill-one\"\nat = \"write\""), torn),
        ("taken whole all the same", alone(data, "echo two > n", "kind = \"short-write:1\""), None),
    ];
    for (name, text, expected) in cases {
        let report = report(&text);
        let wanted = expected.map_or(Verdict::Clean, Verdict::Anomaly);
        assert_eq!(report.verdict, wanted, "{name}: {:?} {:?}", report.reason, report.coverage);
        assert!(report.explored.exhausted || expected.is_some(), "{name}: {}", report.coverage);
    }
}

#[test]
fn a_lock_that_outlives_its_owner_is_stale_and_one_of_the_system_is_not() {
    let worker = |take: &str, give: &str| {
        format!(
            "files = {{ n = \"0\\n\" }}\n[[worker]]\nname = \"W\"\ncount = 2\nrun = '''\n{take}\nread x < n; \
             echo $((x + 1)) > n.$$; mv n.$$ n\n{give}\n'''\n[[fault]]\nworker = \"W.1\"\nkind = \"kill\"\n"
        )
    };
    let patient = "for i in 1 2 3; do mkdir l && break; sleep 1; done || exit 1; [ $i = 3 ] && exit 1";
    let stale = report(&worker(patient, "rmdir l"));
    assert_eq!(stale.verdict, Verdict::Anomaly(Kind::StaleLock), "{:?}", stale.reason);
    assert_eq!(stale.anomalies[0].needs, ["kill"]);
    assert!(stale.anomalies[0].steps.iter().any(|s| s.result.starts_with("killed before")));
    let clean = report(&worker("exec 9>l; flock 9", ""));
    assert_eq!(clean.verdict, Verdict::Clean, "{:?}", clean.reason);
}

/// A is killed between its backup and the end; who cleans up after it takes B's line back too, though B ended well.
#[test]
fn what_was_acknowledged_and_is_gone_after_the_crash_is_lost() {
    let text = "files = { n = \"0\\n\" }\n\
        [[worker]]\nname = \"A\"\nrun = 'exec 9>l; flock 9; cp n t; mv t n.bak; echo a >> n; rm n.bak'\n\
        [[worker]]\nname = \"B\"\nrun = 'exec 9>l; flock 9; echo b >> n'\n\
        [[worker]]\nname = \"R\"\nafter = [\"A\", \"B\"]\nrun = 'if [ -e n.bak ]; then mv n.bak n; fi'\n\
        [[fault]]\nworker = \"A\"\nkind = \"kill\"\n";
    let report = report(text);
    assert_eq!(report.verdict, Verdict::Anomaly(Kind::LostAfterCrash), "{:?} {}", report.reason, report.coverage);
}

#[test]
fn a_pattern_that_never_matches_is_a_mistake() {
    let dir = tempfile::tempdir().unwrap();
    let text = alone("n = \"1\\n\"", "echo 2 > n", "kind = \"kill\"\nat = \"rename\"");
    let answer = guard(dir.path(), &text, &Settings::default());
    assert!(matches!(&answer, Err(GuardError::Mistake(why)) if why.contains("rename")), "{answer:?}");
}

#[test]
fn a_fault_replays_exactly_and_the_search_repeats_itself() {
    let dir = tempfile::tempdir().unwrap();
    let text = alone("n = \"1\\n\"", "cat n > m; echo 2 > n", KILL);
    let settings = Settings { replay_dir: Some(dir.path().join("replays")), ..Settings::default() };
    let first = guard(dir.path(), &text, &settings).unwrap();
    let again = guard(dir.path(), &text, &settings).unwrap();
    assert!(first.trace_hash.is_some());
    assert_eq!(first.trace_hash, again.trace_hash);
    assert!(first.coverage.contains("kill in"), "{}", first.coverage);
    let file = first.replay.unwrap();
    let replayed = replay(Path::new(&file), &Settings::default()).unwrap();
    assert_eq!(replayed.named.map(|n| n.kind), Some(Kind::TornFile));
    assert_eq!(replayed.divergence, None);
}

#[test]
fn who_stands_still_is_not_excused() {
    // B takes a lock for left behind when it has waited for ten seconds; A only stood still.
    let text = "files = { n = \"0\\n\" }\n\
        [[worker]]\nname = \"A\"\nrun = 'mkdir l; read x < n; echo $((x + 1)) > n.a; mv n.a n; rmdir l || true'\n\
        [[worker]]\nname = \"B\"\nrun = 'i=0; until mkdir l; do i=$((i + 1)); [ $i = 10 ] && rmdir l; sleep 1; done; \
        read x < n; echo $((x + 1)) > n.b; mv n.b n; rmdir l'\n\
        [[fault]]\nworker = \"A\"\nkind = \"pause:30s\"\nat = \"rename\"\n";
    let report = report(text);
    // Both write the same number: whether that counts as lost or as two owners at once is for other tests.
    let verdict = report.verdict;
    assert!(
        matches!(verdict, Verdict::Anomaly(Kind::LostUpdate | Kind::BrokenLock)),
        "{verdict:?} {}",
        report.coverage
    );
    assert_eq!(report.anomalies[0].needs, ["pause:30s"]);
}
