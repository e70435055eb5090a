//! Which files `run DIR` finds, and what the default world holds.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use noclobber::scenario::{ContentsError, MAX_DIR_FILES, contents, discover};

const WORKER: &str = "[[worker]]\nname = \"A\"\nrun = \"true\"\n";

fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    dir
}

fn names(found: &[PathBuf], dir: &Path) -> Vec<String> {
    found.iter().map(|p| p.strip_prefix(dir).unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn a_folder_is_walked() {
    let dir = tree(&[
        ("b.toml", WORKER),
        ("a/deep/er/z.toml", WORKER),
        ("a/inline.toml", "expect = \"clean\"\nworker = [{ name = \"A\", run = \"true\" }]"),
        ("a/spaced.toml", "  [[ worker ]]\nbroken ="),
        ("Cargo.toml", "[package]\nname = \"worker\"\n"),
        ("note.txt", WORKER),
        (".hidden/x.toml", WORKER),
        ("node_modules/x.toml", WORKER),
        ("sub/target/x.toml", WORKER),
        ("env/pyvenv.cfg", ""),
        ("env/x.toml", WORKER),
        ("fake.toml/inner.toml", WORKER),
    ]);
    symlink(dir.path(), dir.path().join("loop")).unwrap();
    let found = discover(&[dir.path().to_owned()]).unwrap();
    let expected = ["a/deep/er/z.toml", "a/inline.toml", "a/spaced.toml", "b.toml", "fake.toml/inner.toml"];
    assert_eq!(names(&found, dir.path()), expected);
}

#[test]
fn files_keep_their_order_and_come_once() {
    let dir = tree(&[("b.toml", WORKER), ("a.toml", WORKER), ("sub/c.toml", WORKER)]);
    let at = |name: &str| dir.path().join(name);
    let arguments = [at("b.toml"), dir.path().to_owned(), at("a.toml"), at("sub/../b.toml"), at("none.toml")];
    let found = discover(&arguments).unwrap();
    // A file that does not exist is found too: reading it gives the error.
    assert_eq!(names(&found, dir.path()), ["b.toml", "a.toml", "sub/c.toml", "none.toml"]);
}

#[test]
fn a_folder_without_scenarios_is_a_mistake() {
    let dir = tree(&[("Cargo.toml", "[package]\n"), (".ci/x.toml", WORKER)]);
    let error = discover(&[dir.path().to_owned()]).unwrap_err().to_string();
    assert!(error.contains("no scenario in this folder"), "{error}");
    assert!(error.contains("hidden folders, node_modules, target"), "{error}");
}

#[test]
fn the_default_world() {
    let dir = tree(&[
        ("queue.json", "[]"),
        ("src/w.py", "print()"),
        (".env", "X=1"),
        (".git/HEAD", "x"),
        ("target/debug/big", "x"),
        ("web/node_modules/a/index.js", "x"),
        ("venv/pyvenv.cfg", ""),
        ("venv/bin/python", ""),
        (".noclobber/x.replay.json", ""),
        ("sub/.git", "gitdir: elsewhere"),
    ]);
    symlink("queue.json", dir.path().join("link")).unwrap();
    symlink(dir.path(), dir.path().join("loop")).unwrap();
    let found = contents(dir.path()).unwrap();
    assert_eq!(names_of(&found.files), [".env", "link", "loop", "queue.json", "src/w.py"]);
    assert_eq!(names_of(&found.dirs), ["src", "sub", "web"]);
    for (path, inside) in [("queue.json", true), ("src", true), ("venv/bin/python", false), ("target/debug/big", false)]
    {
        assert_eq!(found.contains(Path::new(path)), inside, "{path}");
    }
}

fn names_of(paths: &[PathBuf]) -> Vec<&str> {
    paths.iter().map(|p| p.to_str().unwrap()).collect()
}

#[test]
fn too_much_for_a_default_world_names_the_option() {
    let large = tree(&[("a", ""), ("b", "")]);
    // Sparse: the size counts, not the disk.
    fs::File::create(large.path().join("a")).unwrap().set_len(64 << 20).unwrap();
    assert_eq!(contents(large.path()).unwrap().bytes, 64 << 20, "64 MiB are allowed");
    fs::write(large.path().join("b"), "1").unwrap();
    let error = contents(large.path()).unwrap_err();
    assert!(matches!(error, ContentsError::TooMuch { what: "64 MiB", .. }));
    assert!(error.to_string().contains("--dir"), "{error}");

    let many = tempfile::tempdir().unwrap();
    for i in 0..=MAX_DIR_FILES {
        fs::File::create(many.path().join(i.to_string())).unwrap();
    }
    let error = contents(many.path()).unwrap_err().to_string();
    assert!(error.contains("10,000 files") && error.contains("--dir"), "{error}");
    fs::remove_file(many.path().join("0")).unwrap();
    assert_eq!(contents(many.path()).unwrap().files.len(), MAX_DIR_FILES);

    let error = contents(&many.path().join("none")).unwrap_err().to_string();
    assert!(error.contains("cannot be read"), "{error}");
}
