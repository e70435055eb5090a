//! Where no namespaces are to be had (plain containers, hosts that forbid them to users) the answers are the same, or
//! cannot-tell; nobody else's process is touched, and nothing is left behind.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use scenarios::programs;
use serde_json::Value;

/// A shell script in a machine of its own in which `noclobber` gets no namespaces: it is the root of a user namespace that
/// may have none below it, and has no capabilities. The PID namespace around it is there for the day on which too many
/// processes are killed, the file system in memory for tests side by side.
fn without_namespaces(folder: &Path, script: &str) -> Output {
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", programs().folder.display());
    let drop = "mount -t tmpfs none /dev/shm && echo 0 > /proc/sys/user/max_user_namespaces && \
                exec setpriv --bounding-set=-all --inh-caps=-all --ambient-caps=-all sh -c \"$0\"";
    let inner = "unshare --user --mount true 2>/dev/null && { echo namespaces are to be had; exit 99; }\n";
    let own = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"];
    let any = Command::new("unshare").args(own).arg("true").output().is_ok_and(|output| output.status.success());
    let mut command = Command::new(if any { "unshare" } else { "setpriv" });
    match any {
        true => command.args(own).args(["--kill-child", "sh", "-c", drop]),
        // Where an ordinary user gets none anyway.
        false => command.args(["--bounding-set=-all", "--inh-caps=-all", "sh", "-c", "sh -c \"$0\""]),
    };
    command.arg(format!("{inner}{script}")).current_dir(folder).env("PATH", path).env("HOME", folder);
    command.output().expect("unshare")
}

/// What a scenario comes to there; and as usual, where namespaces are to be had.
fn both(worker: &[&str], keys: &str, tables: &str) -> [(Option<i32>, Value); 2] {
    let folder = tempfile::tempdir().expect("a folder");
    let mut text = format!("name = \"one\"\n{keys}\nsetup = \"echo 0 > count\"\n");
    for (name, run) in ["A", "B"].iter().zip(worker) {
        text += &format!("[[worker]]\nname = \"{name}\"\nrun = {run:?}\n");
    }
    text += tables;
    fs::write(folder.path().join("one.toml"), text).expect("a scenario");
    let mine = || {
        let mut noclobber = Command::new(programs().noclobber());
        noclobber.args(["run", "--format", "json", "one.toml"]).current_dir(folder.path());
        noclobber.env("HOME", folder.path()).output().expect("noclobber")
    };
    [without_namespaces(folder.path(), "noclobber run --format json one.toml"), mine()].map(|output| {
        let report = String::from_utf8_lossy(&output.stdout).lines().last().map(serde_json::from_str);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), report.and_then(Result::ok).unwrap_or(Value::String(said)))
    })
}

#[test]
fn the_answers_are_the_same() {
    let count = "read n < count; echo $((n + 1)) > count";
    let locked = "flock lock sh -c 'read n < count; echo $((n + 1)) > count'";
    // A name and a text with the process's number.
    let named = "echo $$ > tmp.$$ && ln tmp.$$ kept-$NOCLOBBER_WORKER && flock lock sh -c 'echo >> count' && rm tmp.$$";
    let table = [
        ([count; 2], "expect = [\"lost-update\", \"torn-read\"]"),
        ([locked; 2], "expect = \"clean\""),
        ([named; 2], "expect = \"clean\""),
    ];
    for (workers, keys) in table {
        let [(exit, without), (_, with)] = both(&workers, keys, "");
        assert_eq!(exit, Some(0), "{workers:?}: {without}");
        for key in ["verdict", "trace_hash", "reason"] {
            assert_eq!(without[key], with[key], "{workers:?}: {key}");
        }
        assert_eq!(without["explored"]["classes"], with["explored"]["classes"], "{workers:?}");
        let told = without["warnings"].as_array().expect("warnings").iter();
        assert!(told.map(Value::to_string).any(|warning| warning.contains("no namespaces")), "{without}");
        assert!(!with["warnings"].to_string().contains("no namespaces"), "{with}");
    }
}

#[test]
fn what_differs_is_no_answer() {
    // What a number is made into cannot be followed.
    let [(exit, without), (_, with)] = both(&["echo $$ | md5sum > a", "echo > b"], "expect = \"clean\"", "");
    assert_eq!((exit, &without["verdict"]), (Some(3), &"cannot-tell".into()), "{without}");
    assert_eq!(with["verdict"], "clean", "{with}");
    // Nobody resets what belongs to everybody.
    let [(exit, without), (_, with)] =
        both(&["echo 1 > /dev/shm/mine; rm /dev/shm/mine; echo >> b", "echo >> b"], "expect = \"clean\"", "");
    assert_eq!((exit, &without["verdict"]), (Some(3), &"cannot-tell".into()), "{without}");
    assert!(without["warnings"].to_string().contains("/dev/shm/mine, which is not private"), "{without}");
    assert_eq!(with["verdict"], "clean", "{with}");
    // What cannot be done is said.
    let shared = tempfile::tempdir().expect("a folder");
    let watch = format!("expect = \"clean\"\nwatch = [{:?}]", shared.path());
    let [(exit, said), _] = both(&["true"; 2], &watch, "");
    assert_eq!(exit, Some(2), "{said}");
    assert!(said.to_string().contains("mount namespace"), "{said}");
    let [(exit, said), _] = both(&["true"; 2], "expect = \"clean\"", "[[fault]]\nkind = \"power-cut\"\n");
    assert_eq!(exit, Some(3), "{said}");
    assert!(said.to_string().contains("PID namespace"), "{said}");
    // All processes of the user would be all of the machine.
    let [(exit, without), _] = both(&["kill -9 -1; echo $? > a", "echo > b"], "expect = \"clean\"", "");
    assert_eq!((exit, &without["verdict"]), (Some(3), &"cannot-tell".into()), "{without}");
    assert!(without["warnings"].to_string().contains("signals every process"), "{without}");
}

#[test]
fn others_live_on_and_nothing_is_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "sleep 1000 & other=$!
        before=$(ls -a /dev/shm)
        echo 0 > count
        noclobber explore --dir . -- 'sh -c \"read n < count; echo 1 > count; exec sleep 5 &\"' ::: 'echo 2 > count' \
            > out.txt 2>&1; code=$?
        kill -0 $other || { echo the other process is gone; exit 1; }
        [ \"$before\" = \"$(ls -a /dev/shm)\" ] || { echo something is left; ls -a /dev/shm; exit 1; }
        # Two at once have a folder each, and one that is killed leaves it to the next.
        noclobber explore --dir . -- 'sleep 3; echo 1 > count' ::: 'echo 2 > count' > /dev/null 2>&1 & first=$!
        noclobber doctor > doctor.txt || { cat doctor.txt; exit 1; }
        grep -q 'limited  namespaces' doctor.txt || { cat doctor.txt; exit 1; }
        kill -9 $first; wait $first
        noclobber doctor > /dev/null || exit 1
        kill -0 $other && echo well $code";
    let output = without_namespaces(folder.path(), script);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let out = fs::read_to_string(folder.path().join("out.txt")).unwrap_or_default();
    assert!(said.starts_with("well "), "{said} {} {out}", String::from_utf8_lossy(&output.stderr));
}
