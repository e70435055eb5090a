//! What a first user meets: `init`, `doctor`, completions and man pages, and the message of each common mistake.

mod schema_support;

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use assert_cmd::cargo::cargo_bin;
use noclobber::{scenario, schema::Schema};

/// A folder with a program that adds 1 to a number in a file without a lock.
fn project() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("n"), "0\n").unwrap();
    for (name, mode) in [("add", 0o755), ("not-executable", 0o644)] {
        let file = dir.path().join(name);
        fs::write(&file, "#!/bin/sh\nread x < n; echo $((x + 1)) > n\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    }
    dir
}

/// Exit code, standard output and standard error of `noclobber` in a folder.
fn noclobber(dir: &Path, line: &str) -> (i32, String, String) {
    let words = shell_words::split(line).unwrap();
    let output = Command::new(cargo_bin!("noclobber")).args(words).current_dir(dir).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&dir.display().to_string(), "DIR");
    let program = cargo_bin!("noclobber").display().to_string();
    let text = |bytes: &[u8]| text(bytes).replace(&program, "noclobber");
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

#[test]
fn init_writes_a_scenario_that_runs() {
    let dir = project();
    let (code, out, err) = noclobber(dir.path(), "init -- ./add ::: ./add");
    assert_eq!((code, out.as_str(), err.as_str()), (0, "guard.toml written; run it: noclobber run guard.toml\n", ""));
    let text = fs::read_to_string(dir.path().join("guard.toml")).unwrap();
    insta::assert_snapshot!(text);
    schema_support::assert_valid(Schema::Scenario, &schema_support::toml_value(&text));
    let loaded = scenario::load(&dir.path().join("guard.toml")).unwrap();
    assert_eq!(loaded.workers.iter().map(|w| w.name.as_str()).collect::<Vec<_>>(), ["A", "B"]);
    // The program loses one of two: the guard says so, and as soon as it has a lock it no longer does.
    let (code, out, _) = noclobber(dir.path(), "run guard.toml --format json");
    assert_eq!(code, 1, "{out}");
    fs::write(dir.path().join("add"), "#!/bin/sh\nexec flock lock -c 'read x < n; echo $((x + 1)) > n'\n").unwrap();
    let (code, out, err) = noclobber(dir.path(), "run guard.toml");
    assert_eq!(code, 0, "{out}{err}");
}

#[test]
fn everything_init_offers_as_a_comment_is_a_key() {
    let dir = project();
    noclobber(dir.path(), "init -- ./add ::: ./add");
    let text = fs::read_to_string(dir.path().join("guard.toml")).unwrap();
    let (head, more) = text.split_once("take the `#` away.\n#\n").unwrap();
    let more: String = more
        .lines()
        .map(|line| line.trim_start_matches("# ").trim_start_matches('#'))
        .fold(String::new(), |all, line| all + line + "\n");
    // Keys of the top come before the tables.
    let (top, tables) = more.split_once("\n\n").unwrap();
    scenario::parse(&format!("{top}\n{head}\n{tables}"), Path::new("guard.toml")).unwrap();
}

#[test]
fn init_never_writes_over_a_file() {
    let dir = project();
    fs::write(dir.path().join("guard.toml"), "mine").unwrap();
    let (code, _, err) = noclobber(dir.path(), "init -- ./add ::: ./add");
    assert_eq!((code, err.as_str()), (2, "noclobber: guard.toml is there already: name another with --file\n"));
    assert_eq!(fs::read_to_string(dir.path().join("guard.toml")).unwrap(), "mine");
}

#[test]
fn doctor_tries_real_control() {
    let dir = project();
    let (code, out, err) = noclobber(dir.path(), "doctor --format json");
    assert_eq!(code, 0, "{out}{err}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    schema_support::assert_valid(Schema::Doctor, &report);
    assert_eq!(report["ok"], true);
    let last = report["checks"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["id"], &last["health"]), (&"control".into(), &"ok".into()), "{out}");
    let (_, out, _) = noclobber(dir.path(), "doctor");
    assert!(out.ends_with("noclobber works here\n"), "{out}");
}

#[test]
fn completions_load_in_their_shells() {
    let dir = project();
    for (shell, load) in [
        ("bash", "source ./completion && complete -p noclobber"),
        ("zsh", "autoload -U compinit && compinit -D && source ./completion && [ -n \"$_comps[noclobber]\" ]"),
        ("fish", "source ./completion; and complete -c noclobber | grep -q explore"),
    ] {
        let (code, script, err) = noclobber(dir.path(), &format!("completions {shell}"));
        assert_eq!((code, err.as_str()), (0, ""));
        fs::write(dir.path().join("completion"), script).unwrap();
        let output = Command::new(shell).args(["-c", load]).current_dir(dir.path()).env("HOME", dir.path()).output();
        let output = output.unwrap_or_else(|e| panic!("{shell} (scenarios/setup installs it): {e}"));
        assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn man_pages_name_every_command() {
    let dir = project();
    assert_eq!(noclobber(dir.path(), "man .").0, 0);
    let page = fs::read_to_string(dir.path().join("noclobber.1")).unwrap();
    for command in ["run", "explore", "replay", "doctor", "init"] {
        assert!(page.contains(&format!("noclobber\\-{command}")), "{command}");
        assert!(dir.path().join(format!("noclobber-{command}.1")).exists(), "{command}");
    }
    let (code, _, err) = noclobber(dir.path(), "man nowhere");
    assert_eq!(code, 2, "{err}");
}

/// The commonest mistakes: the message names what is wrong and what mends it, and the code is never 0.
#[test]
fn first_mistakes() {
    let dir = project();
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    let elsewhere = outside.path().join("log").display().to_string();
    let scenario = |text: &str| fs::write(dir.path().join("s.toml"), text).unwrap();
    let workers = "[[worker]]\nname = \"A\"\nrun = \"./add\"\n[[worker]]\nname = \"B\"\nrun = \"./add\"\n";
    let mut all = String::new();
    let mut say = |about: &str, line: &str, code: i32| {
        let (found, out, err) = noclobber(dir.path(), line);
        assert_eq!(found, code, "{about}: {out}{err}");
        let known = |text: &str| text.replace(&elsewhere, "/OUTSIDE/log");
        let (line, out, err) = (known(line), known(&out), known(&err));
        // The coverage line has the time it took.
        let out: Vec<&str> = out.lines().filter(|l| !l.starts_with("coverage:")).collect();
        all += &format!("## {about}\n$ noclobber {line}\n{}{}\n\n", out.join("\n").trim(), err.trim_end());
    };
    say("no separator", "explore -- ./add :: ./add", 2);
    say("a shell's separator", "explore -- ./add '&&' ./add", 2);
    say("no --", "explore ./add ::: ./add", 2);
    say("nothing to run", "explore", 2);
    say("nothing behind the separator", "explore -- ./add :::", 2);
    say("a command that does not exist", "explore -- ./ad ::: ./add", 3);
    say("a script that is not executable", "explore -- ./not-executable ::: ./add", 3);
    say("a folder that does not exist", "explore --dir nowhere -- ./add ::: ./add", 2);
    say("an unknown search", "explore --search dpor -- ./add ::: ./add", 2);
    say("an unknown expectation", "explore --expect lostupdate -- ./add ::: ./add", 2);
    say("a program that always fails", "explore -- 'cat n' ::: 'cat m'", 3);
    say("files outside the world", &format!("explore -- 'echo a >> {elsewhere}' ::: 'echo b >> {elsewhere}'"), 3);
    say("one command alone", "explore -- ./add", 3);
    say("a worker that waits for an answer", "explore -- 'read -r answer && echo $answer > n' ::: ./add", 3);
    say("a file that does not exist", "run nothing.toml", 2);
    scenario(&format!("dir = \".\"\nexpect = \"lost-updat\"\n{workers}"));
    say("an expectation misspelt", "run s.toml", 2);
    scenario(&format!("dir = \".\"\nexpects = \"clean\"\n{workers}"));
    say("a key misspelt", "run s.toml", 2);
    scenario(&format!("dir = \".\"\n{workers}"));
    say("no expectation", "run s.toml", 2);
    scenario("expect = \"clean\"\n[[worker]\nname = \"A\"\n");
    say("no TOML", "run s.toml", 2);
    scenario("expect = \"clean\"\n");
    say("no worker", "run s.toml", 2);
    scenario(&format!(
        "dir = \".\"\nexpect = \"clean\"\n{workers}[[delay]]\nworker = \"A\"\nafter = \"read m\"\nfor = \"3s\"\n"
    ));
    say("a pattern that matches nothing", "run s.toml", 2);
    say("no replay file", "replay s.toml", 2);
    insta::assert_snapshot!(all);
}
