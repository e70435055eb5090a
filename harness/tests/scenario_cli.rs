//! The command line: what it accepts, and what it makes of a scenario.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{CommandFactory, Parser};
use noclobber::{
    cli::{
        Args, Command, ExitCode, Explore, Format, Options, Partition, Run, Taken, apply_overrides, explore_scenario,
        faults_of, split_commands, take_from_caller, wants_colour, worker_name,
    },
    report::{Verdict, as_expected},
    scenario::{self, Ends, Expect, Kind, Scenario, SearchKind, load, parse, save},
    world::TimeModel,
};

fn args(line: &str) -> Result<Args, clap::Error> {
    Args::try_parse_from(shell_words::split(&format!("noclobber {line}")).unwrap())
}

fn explore(line: &str) -> Explore {
    match args(&format!("explore {line}")).unwrap_or_else(|e| panic!("{e}")).command {
        Command::Explore(explore) => explore,
        other => panic!("{other:?}"),
    }
}

fn run(line: &str) -> Run {
    match args(&format!("run {line}")).unwrap_or_else(|e| panic!("{e}")).command {
        Command::Run(run) => run,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_definition_is_sound() {
    Args::command().debug_assert();
}

#[test]
fn every_option_of_the_contract() {
    let e = explore(
        "--dir d --watch /w --env K=V=2 --home-in-world --setup s --check c --state st --copies 2 --until-idle \
         --expect lost-update,deadlock --search pct:3 --seed 7 --max-schedules 9 --time-limit 60s --time adversarial \
         --faults kill,errno,short-write,power-cut,pause --ignore '*.tmp' --ignore-pointer 'q.json#/at' --multiset log \
         --conserve file=q.json,pointer=/tasks,id=id,done=done.log,at_least_once=true --allow worker-failed --all --grow \
         --inside --jobs 2 --partition 1/4 --save x.toml --format json --junit j.xml --github -v -- a 1 ::: b --all",
    );
    let o = &e.options;
    assert_eq!(e.commands, ["a", "1", ":::", "b", "--all"]);
    assert_eq!(o.env, [("K".to_owned(), "V=2".to_owned())]);
    assert_eq!(o.expect, Some(Expect::Kinds(vec![Kind::LostUpdate, Kind::Deadlock])));
    assert_eq!((o.search.clone(), o.seed, o.max_schedules), (Some(SearchKind::Pct(3)), Some(7), Some(9)));
    assert_eq!((o.time_limit, o.time), (Some(Duration::from_secs(60)), Some(TimeModel::Adversarial)));
    assert_eq!(o.partition, Some(Partition { part: 1, of: 4 }));
    assert_eq!(o.conserve.as_ref().map(|c| (c.done.as_str(), c.at_least_once)), Some(("done.log", true)));
    assert_eq!(o.allow, [Kind::WorkerFailed]);
    assert!(o.all && o.grow && o.inside && o.home_in_world && o.until_idle);
    let parsed = args("run x.toml dir --format json -q --seed 3").unwrap();
    assert_eq!((parsed.output.format, parsed.output.quiet), (Format::Json, true));
    let Command::Replay(replay) = args("replay f.json --step -- a ::: b").unwrap().command else { panic!() };
    assert_eq!((replay.file, replay.step, replay.commands.len()), (PathBuf::from("f.json"), true, 3));
}

#[test]
fn mistakes_are_explained() {
    let cases = [
        ("", "Usage: noclobber [OPTIONS] <COMMAND>"),
        ("run", "<FILE|DIR>"),
        ("runn x", "similar subcommand exists: 'run'"),
        ("run x --expect lost-updat", "unknown expectation `lost-updat`; the nearest known is `lost-update`"),
        ("run x --allow deadlok", "nearest known is `deadlock`"),
        ("run x --search dfs", "unknown search `dfs`"),
        ("run x --time-limit 60", "`60` has no unit: write `60s`"),
        ("run x --time slow", "unknown model of time"),
        ("run x --faults kil", "unknown kind of fault `kil`; the nearest known is `kill`"),
        ("run x --faults errno:ENOSPACE", "nearest known is `ENOSPC`"),
        ("run x --env K", "write NAME=VALUE"),
        ("run x --ignore '[a'", "is no glob"),
        ("run x --ignore-pointer at", "does not begin with `/`"),
        ("run x --conserve q.json", "write file=queue.json,done=done.log"),
        ("run x --conserve file=q.json", "`done` is missing"),
        ("run x --conserve file=q.json,doen=x", "nearest known is `done`"),
        ("run x --partition 5/4", "write K/N"),
        ("run x --max-schedules 0", "0 is not in 1.."),
        ("run x --copies 0", "0 is not in 1..=1000"),
        ("run x --max-schedule 9", "similar argument exists: '--max-schedules'"),
        ("run x -q -v", "cannot be used with"),
        ("run x --format xml", "possible values: human, json"),
        ("explore python w.py", "unexpected argument 'python'"),
    ];
    for (line, message) in cases {
        let error = args(line).expect_err(line);
        assert!(error.to_string().contains(message), "{line}: wanted `{message}` in\n{error}");
        assert_eq!(error.exit_code(), 2, "{line}");
    }
}

#[test]
fn commands_are_split() {
    let split = |line: &str| split_commands(&shell_words::split(line).unwrap());
    assert_eq!(split("a 1 ::: b").unwrap(), [vec!["a", "1"], vec!["b"]]);
    assert_eq!(split("a ':::x'").unwrap(), [vec!["a", ":::x"]]);
    let wrong = [
        ("", "write them after `--`"),
        ("::: b", "command 1 is empty"),
        ("a :::", "command 2 is empty"),
        ("a ::: ::: b", "command 2 is empty"),
        ("a ::: ''", "command 2 is empty"),
    ];
    for (line, message) in wrong {
        let error = split(line).unwrap_err().to_string();
        assert!(error.contains(message), "{line}: {error}");
    }
    let names: Vec<_> = [0, 1, 25, 26, 27, 51, 52, 701, 702].map(worker_name).into();
    assert_eq!(names, ["A", "B", "Z", "AA", "AB", "AZ", "BA", "ZZ", "AAA"]);
}

fn caller() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in ["w.py", "both.py", "bin/tool", "tool", "data.json", "world/both.py", "world/only.py", "my script"] {
        let path = dir.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    dir
}

#[test]
fn what_the_world_lacks_is_taken_from_the_caller() {
    let dir = caller();
    let world = dir.path().join("world");
    // Words; those taken.
    let cases: &[(&str, &[&str])] = &[
        ("python3 w.py a", &["w.py"]),
        ("python3 -u w.py", &["w.py"]),
        ("python3 both.py", &[]),
        ("python3 only.py data.json", &[]),
        ("python3 both.py data.json", &[]),
        ("python3 -c w.py", &[]),
        ("python3 -m w.py", &[]),
        ("./bin/tool x", &["./bin/tool"]),
        ("bin/tool w.py", &["bin/tool", "w.py"]),
        ("tool", &["tool"]),
        ("python3", &[]),
        ("/bin/sh w.py", &["w.py"]),
        ("python3 bin/../w.py", &["bin/../w.py"]),
        ("python3 ./both.py", &[]),
        ("python3 none.py", &[]),
        ("python3 bin", &[]),
        ("flock x.lock w.py", &["w.py"]),
    ];
    for (line, expected) in cases {
        let mut words = shell_words::split(line).unwrap();
        let before = words.clone();
        let taken =
            take_from_caller(&mut words, dir.path(), &|p| world.join(p).exists(), &|word| word.starts_with("python"));
        let taken_words: Vec<&str> = taken.iter().map(|t| t.word.as_str()).collect();
        assert_eq!(&taken_words, expected, "{line}");
        for (old, new) in before.iter().zip(&words) {
            match taken.iter().find(|t| &t.word == old) {
                Some(Taken { path, .. }) => assert_eq!(Path::new(new), path, "{line}"),
                None => assert_eq!(old, new, "{line}"),
            }
        }
    }
}

#[test]
fn commands_become_a_scenario() {
    let dir = caller();
    let at = |line: &str| explore_scenario(&explore(line), dir.path(), None);
    let explored = at("--dir world --check true -- python3 w.py 'a b' ::: 'cat x | wc' ::: 'python3 w.py c'").unwrap();
    let s = &explored.scenario;
    let script = dir.path().join("w.py").to_str().unwrap().to_owned();
    assert_eq!(s.workers.iter().map(|w| w.name.as_str()).collect::<Vec<_>>(), ["A", "B", "C"]);
    let words = |words: &[&str]| scenario::Command::Args(words.iter().map(|w| (*w).to_owned()).collect());
    assert_eq!(s.workers[0].run, words(&["python3", &script, "a b"]));
    assert_eq!(s.workers[1].run, scenario::Command::Shell("cat x | wc".into()));
    assert_eq!(s.workers[2].run, words(&["python3", &script, "c"]));
    assert_eq!(s.dir, Some(dir.path().join("world")));
    assert!(!s.dir_filtered && s.expect.is_none() && s.file.is_none());
    assert_eq!(explored.taken, [Taken { word: "w.py".into(), path: dir.path().join("w.py") }]);

    let text = save(&Scenario { expect: Some(Expect::Clean), ..s.clone() }).unwrap();
    assert!(text.contains("run = [\"python3\", \"$SCENARIO_DIR/w.py\", \"a b\"]"), "{text}");
    assert!(text.contains("dir = \"world\""), "{text}");

    let plain = at("-- ./w.py ::: 'my script' ::: exit").unwrap();
    assert!(plain.taken.is_empty(), "the default world is the caller's directory");
    assert_eq!(plain.scenario.workers[1].run, words(&["my script"]), "a file's name with a blank is no shell command");
    assert_eq!((plain.scenario.dir.as_deref(), plain.scenario.dir_filtered), (Some(dir.path()), true));
    let saved = save(&Scenario { expect: Some(Expect::Anomaly), ..plain.scenario }).unwrap();
    assert!(saved.contains("dir = \".\"\ndir_filtered = true\n"), "{saved}");
    fs::write(dir.path().join("saved.toml"), saved).unwrap();
    assert!(load(&dir.path().join("saved.toml")).unwrap().dir_filtered);

    for (line, message) in [("--dir none -- a", "is no folder"), ("", "no command to run"), ("-- a :::", "command 2")] {
        let error = at(line).unwrap_err().to_string();
        assert!(error.contains(message), "{line}: {error}");
    }
    fs::File::create(dir.path().join("huge")).unwrap().set_len(65 << 20).unwrap();
    assert!(at("-- a").unwrap_err().to_string().contains("--dir"));
    assert!(at("--dir world -- a").is_ok());
}

const FILE: &str = r#"
expect = "clean"
check = "old"
env = { K = "old", L = "kept" }
[[worker]]
name = "W"
run = "true"
count = 2
[[worker]]
name = "R"
run = "true"
after = "W"
[[worker]]
name = "L"
run = "true"
after = ["W.2", "R"]
[[delay]]
worker = "W.1"
after = "read"
for = "3s"
[[fault]]
kind = "kill"
[oracle]
ignore = "a"
[search]
seed = 5
"#;

fn overridden(options: &str) -> Result<Scenario, noclobber::cli::ArgError> {
    let mut scenario = parse(FILE, Path::new("/repo/x.toml")).unwrap();
    apply_overrides(&run(&format!("x.toml {options}")).options, Path::new("/caller"), &mut scenario)?;
    Ok(scenario)
}

#[test]
fn options_override_files() {
    let unchanged = overridden("").unwrap();
    assert_eq!(unchanged, parse(FILE, Path::new("/repo/x.toml")).unwrap());

    let s = overridden(
        "--expect anomaly --check new --env K=new --ignore b --seed 6 --watch p --until-idle --faults errno,kill --time real",
    )
    .unwrap();
    assert_eq!((s.expect, s.check.as_deref()), (Some(Expect::Anomaly), Some("new")));
    assert_eq!((s.env["K"].as_str(), s.env["L"].as_str()), ("new", "kept"));
    assert_eq!(s.oracle.ignore, ["a", "b"]);
    assert_eq!((s.search.seed, s.search.time), (6, TimeModel::Real));
    assert_eq!(s.watch, [Path::new("/caller/p")]);
    assert!(s.workers.iter().all(|w| w.ends == Ends::Idle));
    let faults: Vec<_> = s.faults.iter().map(|f| f.kind.as_str()).collect();
    assert_eq!(faults, ["kill", "errno:ENOSPC", "errno:EIO", "kill"]);
    assert_eq!(faults_of("pause").unwrap()[0].to_string(), "pause:30s");
}

#[test]
fn copies_are_renamed_everywhere() {
    let s = overridden("--copies 3").unwrap();
    let names: Vec<_> = s.workers.iter().map(|w| w.name.as_str()).collect();
    assert_eq!(names, ["W.1", "W.2", "W.3", "R.1", "R.2", "R.3", "L.1", "L.2", "L.3"]);
    assert_eq!(s.workers[3].after, [0, 1, 2], "W means each of its copies");
    assert_eq!(s.workers[6].after, [1, 3, 4, 5], "W.2 means that one");
    assert_eq!(s.delays[0].workers, [0]);
    assert_eq!(s.faults[0].workers, (0..9).collect::<Vec<_>>());
    assert_eq!(parse(&save(&s).unwrap(), Path::new("/repo/x.toml")).unwrap(), s);

    let error = overridden("--copies 1").unwrap_err().to_string();
    assert!(error.contains("leaves no worker `W.2`"), "{error}");
    let error = overridden("--copies 400").unwrap_err().to_string();
    assert!(error.contains("1200 workers are more than 1000"), "{error}");

    let mut one = parse("expect = \"clean\"\n[[worker]]\nname = \"A\"\nrun = \"true\"", Path::new("/x.toml")).unwrap();
    apply_overrides(&Options { copies: Some(1), ..Options::default() }, Path::new("/"), &mut one).unwrap();
    assert_eq!(one.workers[0].name, "A", "one copy of a plain worker is itself");
}

#[test]
fn expectations_and_verdicts() {
    let lost = Verdict::Anomaly(Kind::LostUpdate);
    let dead = Verdict::Anomaly(Kind::Deadlock);
    let kinds = |kinds: &[Kind]| Some(Expect::Kinds(kinds.to_vec()));
    // Expectation; whether clean, lost-update, deadlock are as expected. Cannot-tell never is.
    let cases = [
        (None, [true, false, false]),
        (Some(Expect::Clean), [true, false, false]),
        (Some(Expect::Anomaly), [false, true, true]),
        (kinds(&[Kind::LostUpdate]), [false, true, false]),
        (kinds(&[Kind::LostUpdate, Kind::Deadlock]), [false, true, true]),
        (kinds(&[Kind::TornRead]), [false, false, false]),
    ];
    for (expect, expected) in cases {
        for (verdict, expected) in [Verdict::Clean, lost, dead].into_iter().zip(expected) {
            assert_eq!(as_expected(expect.as_ref(), verdict), expected, "{expect:?} {verdict}");
        }
        assert!(!as_expected(expect.as_ref(), Verdict::CannotTell), "{expect:?}");
    }
}

#[test]
fn exit_codes_have_an_order() {
    use ExitCode::{Anomaly, AsExpected, CannotTell, Internal, Usage};
    let cases: &[(&[ExitCode], ExitCode)] = &[
        (&[], CannotTell),
        (&[AsExpected], AsExpected),
        (&[AsExpected, CannotTell], CannotTell),
        (&[CannotTell, Anomaly, AsExpected], Anomaly),
        (&[Anomaly, Usage], Usage),
        (&[Usage, Anomaly, Internal, CannotTell], Internal),
    ];
    for (codes, expected) in cases {
        assert_eq!(ExitCode::first_of(codes.iter().copied()), *expected, "{codes:?}");
    }
    let numbers = [AsExpected, Anomaly, Usage, CannotTell, Internal].map(|code| code as u8);
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
}

#[test]
fn colour_is_for_terminals() {
    use std::ffi::OsStr;
    let cases = [
        (true, None, None, true),
        (true, Some(""), Some("xterm"), true),
        (true, Some("1"), Some("xterm"), false),
        (true, None, Some("dumb"), false),
        (false, None, Some("xterm"), false),
    ];
    for (terminal, no_color, term, expected) in cases {
        assert_eq!(wants_colour(terminal, no_color.map(OsStr::new), term.map(OsStr::new)), expected);
    }
}
