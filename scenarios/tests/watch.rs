//! `watch` on one file outside the world: a private copy under its own name, replaced by rename as programs do, and the
//! original is never written.

use std::{fs, path::Path};

use scenarios::{Answer, run};

fn guard(dir: &Path, watched: &Path) -> Answer {
    let worker = |name: &str| {
        format!(
            "[[worker]]\nname = \"{name}\"\nrun = \"read n < {0} && echo $((n + 1)) > {0}.{name} && mv {0}.{name} {0}\"\n",
            watched.display()
        )
    };
    let text = format!(
        "name = \"watch\"\nexpect = \"anomaly\"\nwatch = [\"{}\"]\n{}{}",
        watched.display(),
        worker("A"),
        worker("B")
    );
    let file = dir.join("scenario.toml");
    fs::write(&file, text).expect("the scenario");
    run(&[file])
}

#[test]
fn a_single_file_is_watched_and_never_written() {
    let (dir, outside) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let number = outside.path().join("number");
    fs::write(&number, "7\n").expect("the file");
    fs::write(outside.path().join("other"), "x").expect("a neighbour");
    let answer = guard(dir.path(), &number);
    assert_eq!(answer.exit, Some(0), "{:?}{}", answer.reports, answer.stderr);
    let path = &answer.report()["anomalies"][0]["steps"][0]["path"];
    assert!(answer.report().to_string().contains(&number.display().to_string()), "absolute paths: {path}");
    assert_eq!(fs::read_to_string(&number).expect("the file"), "7\n");
    assert_eq!(fs::read_dir(outside.path()).expect("the folder").count(), 2, "nothing was added");
}

#[test]
fn what_a_watched_file_held_at_the_start_is_known() {
    let (dir, outside) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let list = outside.path().join("list");
    fs::write(&list, "seed\n").expect("the file");
    let worker = |name: &str| {
        let (list, new) = (list.display(), format!("{}.{name}", list.display()));
        format!(
            "[[worker]]\nname = \"{name}\"\nrun = \"cat {list} > {new} && echo {name} >> {new} && mv {new} {list}\"\n"
        )
    };
    let head = format!("name = \"watch\"\nexpect = \"lost-update\"\nwatch = [\"{}\"]\n", list.display());
    let file = dir.path().join("scenario.toml");
    fs::write(&file, [head, worker("A"), worker("B")].concat()).expect("the scenario");
    let answer = run(&[file]);
    assert_eq!(answer.exit, Some(0), "{:?}{}", answer.reports, answer.stderr);
    assert_eq!(answer.report()["anomalies"][0]["kind"], "lost-update");
}

#[test]
fn setup_may_change_a_watched_file() {
    let (dir, outside) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let number = outside.path().join("number");
    fs::write(&number, "7\n").expect("the file");
    let name = number.display();
    let text = format!(
        "name = \"watch\"\nexpect = \"clean\"\nwatch = [\"{name}\"]\nsetup = \"echo 8 > {name}\"\n\
         check = \"grep -qx 8 {name}\"\n\
         [[worker]]\nname = \"A\"\nrun = \"grep -qx 8 {name}\"\n[[worker]]\nname = \"B\"\nrun = \"cat {name}\"\n"
    );
    let file = dir.path().join("scenario.toml");
    fs::write(&file, text).expect("the scenario");
    let answer = run(&[file]);
    assert_eq!(answer.exit, Some(0), "{:?}{}", answer.reports, answer.stderr);
    assert_eq!(fs::read_to_string(&number).expect("the file"), "7\n");
}

#[test]
fn a_check_sees_what_became_of_a_watched_file() {
    let (dir, outside) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let log = outside.path().join("log");
    fs::write(&log, "").expect("the file");
    let name = log.display();
    let check = |lines: usize| {
        let text = format!(
            "name = \"watch\"\nexpect = \"clean\"\nwatch = [\"{name}\"]\ncheck = \"test $(wc -l < {name}) = {lines}\"\n\
             [[worker]]\nname = \"A\"\nrun = \"echo a >> {name}\"\n[[worker]]\nname = \"B\"\nrun = \"echo b >> {name}\"\n"
        );
        let file = dir.path().join("scenario.toml");
        fs::write(&file, text).expect("the scenario");
        run(&[file])
    };
    let answer = check(2);
    assert_eq!(answer.exit, Some(0), "{:?}{}", answer.reports, answer.stderr);
    // What it held before the workers ran is not what is judged.
    assert_eq!(check(0).report()["verdict"], "check-failed");
}

#[test]
fn a_file_among_too_many_others_is_a_mistake() {
    let (dir, outside) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    for n in 0..10_010 {
        fs::write(outside.path().join(n.to_string()), "").expect("a file");
    }
    let answer = guard(dir.path(), &outside.path().join("7"));
    assert_eq!(answer.exit, Some(2), "{:?}{}", answer.reports, answer.stderr);
    assert!(answer.stderr.contains("10,000 files"), "{}", answer.stderr);
}

#[test]
fn a_path_that_is_not_there_is_a_mistake() {
    let dir = tempfile::tempdir().expect("a folder");
    let answer = guard(dir.path(), Path::new("/nowhere/at/all"));
    assert_eq!(answer.exit, Some(2), "{:?}{}", answer.reports, answer.stderr);
}
