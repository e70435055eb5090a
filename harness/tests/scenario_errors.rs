//! Mistakes in scenario files: each is named with its place and the way out.

use std::path::Path;

use noclobber::scenario::{MAX_FILE_BYTES, load, load_draft, parse, parse_draft};

const A: &str = "[[worker]]\nname = \"A\"\nrun = \"true\"\n";

/// Line, column, and a part of the message for each mistake.
#[test]
fn mistakes() {
    let expect = "expect = \"clean\"\n";
    let cases: Vec<(String, (usize, usize), &str)> = vec![
        // Keys.
        (format!("{expect}chekc = \"true\"\n{A}"), (2, 1), "unknown key `chekc`; the nearest known is `check`"),
        (format!("{expect}seed = 1\n{A}"), (2, 1), "this key belongs to [search]"),
        (
            format!("{expect}{A}  conut = 2\n"),
            (5, 3),
            "(key `worker[1].conut`): unknown key `conut`; the nearest known is `count`",
        ),
        (format!("{expect}{A}[search]\nmax_schedule = 2\n"), (6, 1), "nearest known is `max_schedules`"),
        (format!("{expect}{A}[oracle]\nconserve = {{ fiel = \"q\" }}\n"), (6, 14), "nearest known is `file`"),
        (format!("{expect}{A}[[workers]]\nname = \"B\"\n"), (5, 3), "nearest known is `worker`"),
        // Syntax and types.
        (format!("{expect}{A}about = no quotes\n"), (5, 9), "not TOML"),
        (format!("{expect}{expect}{A}"), (2, 1), "not TOML: duplicate key"),
        (format!("{expect}setup = 3\n{A}"), (2, 9), "a whole number where a shell command in quotes is wanted"),
        (format!("{expect}[worker]\nname = \"A\"\nrun = \"true\""), (2, 1), "write a `[[worker]]` (two brackets)"),
        (format!("{expect}{A}[search]\nseed = -1\n"), (6, 8), "-1 is not between 0 and"),
        (format!("{expect}{A}[search]\nmax_schedules = 0\n"), (6, 17), "0 is not between 1"),
        (format!("{expect}{A}[search]\nexhaustive = \"yes\"\n"), (6, 14), "write `true` or `false`"),
        (format!("{expect}{A}exit = 256\n"), (5, 8), "256 is not between 0 and 255"),
        (format!("{expect}{A}count = 0\n"), (5, 9), "0 is not between 1"),
        (format!("{expect}{A}count = 1001\n"), (5, 9), "1001 is not between 1 and 1000"),
        (format!("{expect}[env]\nN = 1\n{A}"), (3, 5), "variables are strings"),
        (format!("{expect}[files]\nqueue.json = \"x\"\n{A}"), (3, 1), "keys with dots need quotes"),
        // Words.
        (
            format!("expect = \"lost-updates\"\n{A}"),
            (1, 10),
            "unknown expectation `lost-updates`; the nearest known is `lost-update`",
        ),
        (format!("expect = [\"clean\"]\n{A}"), (1, 11), "unknown anomaly kind `clean`"),
        (format!("expect = []\n{A}"), (1, 10), "an empty list expects nothing"),
        (format!("{expect}{A}[search]\nsearch = \"dfs\"\n"), (6, 10), "unknown search `dfs`"),
        (format!("{expect}{A}[search]\ntime = \"reel\"\n"), (6, 8), "nearest known is `real`"),
        (format!("{expect}{A}ends = \"never\"\n"), (5, 8), "unknown end of a worker"),
        (format!("{expect}{A}[oracle]\nserial = \"worker\"\n"), (6, 10), "nearest known is `workers`"),
        (format!("{expect}{A}[oracle]\nallow = \"torn\"\n"), (6, 9), "unknown anomaly kind `torn`"),
        (
            format!("{expect}{A}[[fault]]\nkind = \"kil\"\n"),
            (6, 8),
            "unknown kind of fault `kil`; the nearest known is `kill`",
        ),
        (format!("{expect}{A}[[fault]]\nkind = \"errno:ENOSPACE\"\n"), (6, 8), "nearest known is `ENOSPC`"),
        (format!("{expect}{A}[[fault]]\nkind = \"kill\"\nnth = \"every\"\n"), (7, 7), "nearest known is `each`"),
        // Patterns, globs, durations, pointers.
        (
            format!("{expect}{A}[[delay]]\nworker = \"A\"\nafter = \"reed x\"\nfor = \"3s\"\n"),
            (7, 9),
            "nearest known is `read`",
        ),
        (format!("{expect}{A}[[delay]]\nworker = \"A\"\nafter = \"read [x\"\nfor = \"3s\"\n"), (7, 9), "is no glob"),
        (
            format!("{expect}{A}[[delay]]\nworker = \"A\"\nafter = \"read\"\nfor = \"3\"\n"),
            (8, 7),
            "`3` has no unit: write `3s`",
        ),
        (format!("{expect}{A}[[delay]]\nworker = \"A\"\nafter = \"read\"\nfor = 3\n"), (8, 7), "a duration in quotes"),
        (
            format!("{expect}{A}[[delay]]\nworker = \"A\"\nafter = \"read\"\nbefore = \"read\"\nfor = \"3s\"\n"),
            (8, 10),
            "not both",
        ),
        (format!("{expect}{A}[[delay]]\nworker = \"A\"\nfor = \"3s\"\n"), (5, 1), "`after` is missing in [[delay]]"),
        (format!("{expect}{A}[[delay]]\nworker = \"A\"\nafter = \"read\"\n"), (5, 1), "`for` is missing"),
        (format!("{expect}{A}[oracle]\nignore = \"{{a\"\n"), (6, 10), "is no glob"),
        (format!("{expect}{A}[oracle]\nignore_pointer = \"at\"\n"), (6, 18), "it does not begin with `/`"),
        (format!("{expect}{A}[oracle]\nconserve = {{ file = \"q\" }}\n"), (6, 12), "`done` is missing"),
        // Workers.
        (expect.to_owned(), (1, 1), "no worker: there is nothing to run"),
        (format!("{expect}worker = []\n"), (2, 10), "no worker"),
        (format!("{expect}[[worker]]\nrun = \"true\"\n"), (2, 1), "`name` is missing"),
        (format!("{expect}[[worker]]\nname = \"A\"\n"), (2, 1), "`run` is missing"),
        (format!("{expect}[[worker]]\nname = \"A\"\nrun = \"  \"\n"), (4, 7), "an empty command"),
        (format!("{expect}[[worker]]\nname = \"A\"\nrun = []\n"), (4, 7), "an empty command"),
        (format!("{expect}[[worker]]\nname = \"a/b\"\nrun = \"true\"\n"), (3, 8), "it has a slash"),
        (format!("{expect}[[worker]]\nname = \"a\\u001b[31m\"\nrun = \"true\"\n"), (3, 8), "cannot be shown"),
        (format!("{expect}[[worker]]\nname = \"\"\nrun = \"true\"\n"), (3, 8), "it is empty"),
        (format!("{expect}{A}{A}"), (6, 8), "two workers are named `A`"),
        (
            format!("{expect}{A}count = 2\n[[worker]]\nname = \"A.2\"\nrun = \"true\"\n"),
            (7, 8),
            "two workers are named `A.2`",
        ),
        (
            format!("{expect}[[worker]]\nname = \"A.1\"\nrun = \"true\"\n{A}count = 2\n"),
            (6, 8),
            "two workers are named `A.1`",
        ),
        (
            format!("{expect}{A}after = [\"wroter\"]\n[[worker]]\nname = \"writer\"\nrun = \"true\"\n"),
            (5, 10),
            "no worker is named `wroter`; the nearest is `writer`",
        ),
        (format!("{expect}{A}after = \"A\"\n"), (5, 9), "workers wait for each other: A after A"),
        (
            format!("{expect}{A}after = \"B\"\n[[worker]]\nname = \"B\"\nrun = \"true\"\nafter = \"A\"\n"),
            (5, 9),
            "A after B after A",
        ),
        (format!("{expect}{A}count = 2\nafter = \"A.1\"\n"), (6, 9), "A.1 after A.1"),
        (format!("{expect}{A}[[fault]]\nworker = \"B\"\nkind = \"kill\"\n"), (6, 10), "no worker is named `B`"),
        // The world.
        (
            format!("{expect}files = {{ \"../x\" = \"\" }}\n{A}"),
            (2, 20),
            "`../x` does not stay in the world: it has `..`",
        ),
        (format!("{expect}files = {{ \"a/../../x\" = \"\" }}\n{A}"), (2, 25), "it has `..`"),
        (format!("{expect}files = {{ \"/etc/passwd\" = \"\" }}\n{A}"), (2, 27), "it is absolute"),
        (format!("{expect}files = {{ \"a/\" = \"\" }}\n{A}"), (2, 18), "it names a folder"),
        (format!("{expect}files = {{ \"\" = \"\" }}\n{A}"), (2, 16), "it names no file"),
        (format!("{expect}files = {{ \"a\\u0000\" = \"\" }}\n{A}"), (2, 23), "a NUL character"),
        (format!("{expect}files = {{ a = \"\", \"./a\" = \"\" }}\n{A}"), (2, 15), "two keys name the same file"),
        (format!("{expect}files = {{ a = \"\", \"a/b\" = \"\" }}\n{A}"), (2, 9), "one file lies below another file"),
        (format!("{expect}setup = \"echo \\u0000\"\n{A}"), (2, 9), "a NUL character"),
        (format!("{expect}[env]\n\"A=B\" = \"x\"\n{A}"), (3, 9), "cannot be the name of a variable"),
        // The whole.
        (A.to_owned(), (1, 1), "the scenario does not say what it expects"),
        (format!("{expect}{A}[oracle]\nserial = false\n"), (6, 10), "nothing else judges the runs"),
    ];
    let mut wrong = Vec::new();
    for (text, (line, column), message) in cases {
        let Err(error) = parse(&text, Path::new("dir/x.toml")) else { panic!("no error in\n{text}") };
        let shown = error.to_string();
        if !shown.contains(message) || (error.place.line, error.place.column) != (line, column) {
            wrong.push(format!("wanted {line}:{column} `{message}`, got\n{shown}\nfor\n{text}"));
            continue;
        }
        assert!(shown.starts_with(&format!("dir/x.toml:{line}:{column}")), "{shown}");
        assert!(shown.lines().count() >= 2, "no way out in: {shown}");
        assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_a_command_line_may_add_is_demanded_last() {
    let text = format!("{A}[oracle]\nserial = false\n");
    let mut draft = parse_draft(&text, Path::new("x.toml")).unwrap();
    assert!(draft.clone().finish().unwrap_err().to_string().contains("--expect"));
    draft.scenario.expect = Some(noclobber::scenario::Expect::Clean);
    assert!(draft.clone().finish().unwrap_err().to_string().contains("add `check`"));
    draft.scenario.check = Some("true".into());
    assert!(draft.finish().is_ok());
}

#[test]
fn any_of_three_judges_is_enough() {
    let conserve = "conserve = { file = \"q.json\", done = \"stdout\" }";
    for (top, oracle) in [("check = \"true\"", ""), ("", "state = \"ls\""), ("", conserve)] {
        let text = format!("expect = \"clean\"\n{top}\n{A}[oracle]\nserial = false\n{oracle}\n");
        assert!(parse(&text, Path::new("x.toml")).is_ok(), "{text}");
    }
}

#[test]
fn files_that_cannot_be_used() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str, content: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let large = vec![b'#'; MAX_FILE_BYTES as usize + 1];
    let cases = [
        (dir.path().join("none.toml"), "cannot be read: No such file"),
        (dir.path().to_owned(), "cannot be read: Is a directory"),
        (at("latin1.toml", b"name = \"\xe9\""), "not UTF-8 text (byte 8)"),
        (at("large.toml", &large), "1048577 bytes are more than"),
        (at("nul.toml", b"name = \"a\0b\""), "not TOML"),
    ];
    for (file, message) in cases {
        let shown = load(&file).unwrap_err().to_string();
        assert!(shown.contains(message), "{shown}");
        assert!(shown.starts_with(file.to_str().unwrap()), "{shown}");
    }
    let no_dir = at("dir.toml", format!("expect = \"clean\"\ndir = \"world\"\n{A}").as_bytes());
    let error = load_draft(&no_dir).unwrap_err();
    assert!(error.to_string().contains("world` is no folder"), "{error}");
    assert_eq!((error.place.line, error.place.column), (2, 7));
    std::fs::create_dir(dir.path().join("world")).unwrap();
    assert!(load(&no_dir).is_ok());
}

#[test]
fn a_hostile_file_name_is_shown_as_text() {
    let error = parse(A, Path::new("a\u{1b}[2J\u{202e}.toml")).unwrap_err().to_string();
    assert!(error.starts_with("a\\u{1b}[2J\\u{202e}.toml:1:1"), "{error:?}");
}

#[test]
fn columns_count_characters() {
    let error = parse(&format!("expect = \"clean\"\nfiles = {{ \"账户\" = 1 }}\n{A}"), Path::new("x")).unwrap_err();
    assert_eq!((error.place.line, error.place.column), (2, 18));
}

proptest::proptest! {
    /// Whatever the text, the answer is a scenario or an error with a place: never a panic.
    #[test]
    fn no_text_panics(text in "[\\[\\]a-z=\"{}\n\\\\#., 0-9'\u{0}\u{e9}]{0,200}") {
        if let Err(error) = parse(&text, Path::new("x.toml")) {
            proptest::prop_assert!(error.to_string().starts_with("x.toml"));
        }
    }

    /// A known file with one byte range cut out never panics either.
    #[test]
    fn no_damaged_file_panics(from in 0_usize..1700, len in 0_usize..60) {
        let text = include_str!("data/every-key.toml");
        let cut: String = text.char_indices().filter(|(i, _)| !(from..from + len).contains(i)).map(|(_, c)| c).collect();
        if let Err(error) = parse(&cut, Path::new("x.toml")) {
            proptest::prop_assert!(error.to_string().starts_with("x.toml"));
        }
    }
}
