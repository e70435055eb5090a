//! Root or not, the answer is the same: an ordinary user gets the same trace hash in a user namespace, or is told what
//! this machine forbids.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

use scenarios::{folder, programs, run};
use serde_json::Value;

/// A folder that everybody can read, with the programs, the incident and a place to work in.
fn copy() -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a folder");
    let at = |name: &str| copy.path().join(name);
    fs::create_dir(at("work")).expect("a folder");
    for (from, to) in [
        (programs().noclobber(), "noclobber"),
        (programs().folder.join("queue"), "queue"),
        (folder().join("incident/queue/naive.toml"), "naive.toml"),
    ] {
        fs::copy(from, at(to)).expect("a copy");
    }
    for (name, mode) in [(".", 0o755), ("work", 0o777)] {
        fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).expect("permissions");
    }
    copy
}

/// A command, as nobody.
fn as_nobody(copy: &Path, command: &[&str]) -> Output {
    let path = format!("{}:/usr/bin:/bin", copy.display());
    let mut nobody = Command::new("setpriv");
    nobody.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all", "--"]).args(command);
    nobody.current_dir(copy.join("work")).env("PATH", path).env("HOME", copy.join("work")).output().expect("setpriv")
}

fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|s| s.lines().any(|line| line.starts_with("Uid:\t0\t")))
}

#[test]
fn an_ordinary_user_gets_the_same_trace() {
    if !is_root() {
        return; // Then every other test here is run by an ordinary user already.
    }
    let copy = copy();
    let namespaces = as_nobody(copy.path(), &["unshare", "--user", "--mount", "--pid", "--fork", "true"]);
    let output = as_nobody(copy.path(), &["noclobber", "run", "--format", "json", "../naive.toml"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !namespaces.status.success() {
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("user namespaces") && said.contains("sysctl"), "it says what is missing: {said}");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert!(report["trace_hash"].is_string(), "{report}");
    assert_eq!(report["trace_hash"], run(&[copy.path().join("naive.toml")]).report()["trace_hash"]);
}
