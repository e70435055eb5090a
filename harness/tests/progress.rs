//! How far a search has come: shown on a terminal, and nowhere else.

use std::{fs, path::Path, process::Command};

use assert_cmd::cargo::cargo_bin;

/// A folder with a number that two shells count up under a lock.
fn project() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("n"), "0\n").unwrap();
    fs::write(dir.path().join("add"), "read x < n; echo $((x + 1)) > n\n").unwrap();
    dir
}

const EXPLORE: &str = "explore --max-schedules 6 -- 'flock l sh add' ::: 'flock l sh add' ::: 'flock l sh add'";

/// What standard error shows on a terminal (`script` of util-linux makes one), and standard output in a file.
fn on_a_terminal(dir: &Path, variables: &[(&str, &str)], options: &str) -> (String, String) {
    let line = format!("{} {options} {EXPLORE} > out", cargo_bin!("noclobber").display());
    let mut script = Command::new("script");
    script
        .args(["-qec", &line, "shown"])
        .current_dir(dir)
        .env_remove("CI")
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh");
    let ended = script.envs(variables.iter().copied()).output().expect("script (util-linux)");
    let read = |name: &str| String::from_utf8_lossy(&fs::read(dir.join(name)).unwrap()).into_owned();
    let (shown, out) = (read("shown"), read("out"));
    assert_eq!(ended.status.code(), Some(0), "{shown}{out}");
    // `script` writes a line before and one after.
    let shown = shown.split_once('\n').map_or("", |(_, rest)| rest).to_owned();
    (shown.rsplit_once("\nScript done").map_or(shown.clone(), |(shown, _)| shown.to_owned()), out)
}

#[test]
fn it_is_shown_on_a_terminal_and_never_in_the_answer() {
    let dir = project();
    let (shown, out) = on_a_terminal(dir.path(), &[], "");
    assert!(shown.contains("explore: checking that everything is under control"), "{shown:?}");
    assert!(shown.contains(" of at most 6 schedules, ") && shown.contains(" class"), "{shown:?}");
    // The line is taken away: nothing readable follows the last time that it is cleared.
    let rest = shown.rsplit("\u{1b}[2K").next().unwrap_or_default();
    assert!(shown.contains("\u{1b}[2K") && rest.trim().is_empty(), "{rest:?} is left of {shown:?}");
    assert!(out.starts_with("clean  explore\n") && out.contains("\ncoverage: "), "{out}");
    assert!(!out.contains('\u{1b}') && !out.contains("at most 6"), "{out:?}");
}

#[test]
fn machines_and_the_quiet_do_not_see_it() {
    let dir = project();
    for (variables, options) in
        [(&[("CI", "true")][..], ""), (&[("TERM", "dumb")], ""), (&[], "-q"), (&[], "--format json")]
    {
        let (shown, _) = on_a_terminal(dir.path(), variables, options);
        assert_eq!(shown.trim(), "", "{variables:?} {options}");
    }
    let piped = Command::new("sh")
        .args(["-c", &format!("exec {} {EXPLORE}", cargo_bin!("noclobber").display())])
        .current_dir(dir.path())
        .env_remove("CI")
        .output()
        .unwrap();
    assert_eq!((piped.status.code(), String::from_utf8_lossy(&piped.stderr).as_ref()), (Some(0), ""));
    assert!(!String::from_utf8_lossy(&piped.stdout).contains('\u{1b}'));
}
