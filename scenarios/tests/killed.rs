//! noclobber killed at any moment leaves nothing behind: no process, no folder.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use scenarios::{folder, programs};

const KILLS: u32 = 20;

/// Processes with this text in their environment.
fn marked(mark: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("/proc");
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    pids.filter(|pid| pid.bytes().all(|b| b.is_ascii_digit()))
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|env| env.windows(mark.len()).any(|w| w == mark.as_bytes()))
        })
        .collect()
}

fn entries(dir: &Path) -> BTreeSet<PathBuf> {
    fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").path()).collect()
}

#[test]
fn killing_it_leaves_nothing_behind() {
    let here = tempfile::tempdir().expect("a folder");
    let temporary = here.path().join("tmp");
    fs::create_dir(&temporary).expect("a folder");
    let scenario = folder().join("incident/python/naive.toml");
    let start = |mark: &str| {
        let mut command = Command::new(programs().noclobber());
        command.arg("run").arg(&scenario).current_dir(&here).env("PATH", programs().path());
        command.env("TMPDIR", &temporary).env("NOCLOBBER_TEST_MARK", mark);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("noclobber starts")
    };
    let whole = Instant::now();
    start("whole").wait().expect("it ends");
    let whole = whole.elapsed();
    for kill in 0..KILLS {
        let mark = format!("noclobber-killed-{}-{kill}", std::process::id());
        let mut process = start(&mark);
        // Spread over the whole run, at moments that no two test runs share.
        thread::sleep(whole * kill / KILLS);
        process.kill().expect("a kill");
        process.wait().expect("it is dead");
        let killed = Instant::now();
        loop {
            let left = marked(&mark);
            if left.is_empty() {
                break;
            }
            assert!(killed.elapsed() < Duration::from_secs(1), "kill {kill}: still there after 1 s: {left:?}");
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(entries(&temporary), BTreeSet::new(), "kill {kill}: left in TMPDIR");
    }
    assert!(!Path::new("/noclobber").exists(), "the world is private");
}
