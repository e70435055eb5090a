//! What is saved is read back as it was, and is as the schema of scenario files says.

mod schema_support;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::LazyLock,
    time::Duration,
};

use noclobber::{
    scenario::{
        Command, Conserve, Delay, Ends, Expect, Fault, IgnorePointer, Kind, Limits, Nth, OracleConfig, Pattern,
        Scenario, Search, SearchKind, Serial, Worker, load, parse, save, save_to,
    },
    schema::Schema,
    world::{DiskModel, TimeModel},
};
use proptest::{collection, option, prelude::*, sample};

const FILE: &str = "/repo/scenarios/x.toml";

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z ]{0,8}", "[ -~]{0,12}", "[^\u{0}]{0,8}", Just("'''\n\"\"\"\\\r\n\t".to_owned())]
}

fn word() -> impl Strategy<Value = String> {
    "[a-zA-Z_][a-zA-Z0-9_.-]{0,6}"
}

fn path() -> impl Strategy<Value = PathBuf> {
    prop_oneof![
        "[a-z]{1,5}(/[a-z]{1,5}){0,2}".prop_map(|p| Path::new("/repo/scenarios").join(p)),
        "(/[a-z]{1,5}){1,3}".prop_map(PathBuf::from),
        Just(PathBuf::from("/repo/scenarios")),
    ]
}

fn table() -> impl Strategy<Value = BTreeMap<String, String>> {
    collection::btree_map("[^=\u{0}/]{1,6}", text(), 0..3)
}

fn files() -> impl Strategy<Value = BTreeMap<String, String>> {
    // Folders and files have different letters, so that no file lies below another.
    let content = prop_oneof![text(), Just("a\u{0}b".to_owned())];
    collection::btree_map("([a-m]{1,3}/){0,2}[n-z .]{0,3}[n-z]", content, 0..3)
}

fn command() -> impl Strategy<Value = Command> {
    let argument = prop_oneof![text(), Just("/repo/scenarios/w.py".to_owned()), Just("/repo/scenarios".to_owned())];
    prop_oneof![
        "[^\u{0}]{0,9}x".prop_map(Command::Shell),
        (word(), collection::vec(argument, 0..3)).prop_map(|(w, mut args)| {
            args.insert(0, w);
            Command::Args(args)
        }),
    ]
}

fn pattern() -> impl Strategy<Value = Pattern> {
    let glob = option::of("[a-z*?.]{1,5}(/[a-z{},]{0}[a-z]{1,3}){0,2}");
    (sample::select(vec!["*", "read", "flock", "rename"]), glob).prop_map(|(op, glob)| {
        let text = format!("{op} {}", glob.unwrap_or_default());
        Pattern::parse(text.trim()).unwrap()
    })
}

/// Groups of copies: (copies, or none for a plain worker; the rest of the worker).
fn workers() -> impl Strategy<Value = Vec<Worker>> {
    let exit = prop_oneof![Just(vec![0]), collection::vec(0..256_i32, 0..3)];
    let says = option::of("[a-z*?. ]{1,9}");
    let ends = prop_oneof![Just(Ends::Exit), Just(Ends::Idle)];
    let group = (option::of(1..4_usize), command(), table(), ends, exit, says, any::<u8>());
    collection::vec(group, 1..5).prop_map(|groups| {
        let mut workers: Vec<Worker> = Vec::new();
        for (i, (copies, run, env, ends, exit, acknowledges, after)) in groups.into_iter().enumerate() {
            let name = format!("w{i}");
            // Only earlier workers, so that nobody waits in a circle; any subset of them.
            let after: Vec<usize> = (0..workers.len()).filter(|w| after >> (w % 8) & 1 == 1).collect();
            let worker = Worker { name: name.clone(), group: name.clone(), run, after, env, ends, exit, acknowledges };
            match copies {
                None => workers.push(worker),
                Some(n) => workers.extend((1..=n).map(|c| Worker { name: format!("{name}.{c}"), ..worker.clone() })),
            }
        }
        workers
    })
}

fn some_of(workers: usize, bits: u16) -> Vec<usize> {
    let chosen: Vec<usize> = (0..workers).filter(|w| bits >> (w % 16) & 1 == 1).collect();
    if chosen.is_empty() { vec![0] } else { chosen }
}

fn fault_kind() -> impl Strategy<Value = String> {
    sample::select(vec![
        "kill",
        "kill-one",
        "errno:EIO",
        "short-write:3",
        "short-read:9",
        "split",
        "pause:1m30s",
        "power-cut",
    ])
    .prop_map(str::to_owned)
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![0..10_u64, 0..10_000_000_u64, any::<u64>()].prop_map(Duration::from_micros)
}

fn kinds() -> impl Strategy<Value = Vec<Kind>> {
    collection::vec(sample::select(Kind::ALL.to_vec()), 1..4)
}

fn expect() -> impl Strategy<Value = Expect> {
    prop_oneof![Just(Expect::Clean), Just(Expect::Anomaly), kinds().prop_map(Expect::Kinds)]
}

fn search() -> impl Strategy<Value = Search> {
    let kind = prop_oneof![
        sample::select(vec![SearchKind::Auto, SearchKind::Exhaustive, SearchKind::Portfolio, SearchKind::Timeline]),
        (1..100_u32).prop_map(SearchKind::Pct),
    ];
    let time = sample::select(vec![TimeModel::Fair, TimeModel::Adversarial, TimeModel::Real]);
    let disk = sample::select(DiskModel::ALL.to_vec());
    (kind, any::<u64>(), 1..u64::MAX, option::of(duration()), any::<bool>(), time, disk, 1..9_u64).prop_map(
        |(search, seed, max_schedules, time_limit, exhaustive, time, disk, max_faults)| Search {
            search,
            seed,
            max_schedules,
            time_limit,
            exhaustive,
            time,
            disk,
            max_faults,
        },
    )
}

fn pointer() -> impl Strategy<Value = IgnorePointer> {
    (option::of("[a-z]{1,4}\\.json"), prop_oneof![Just("/a#/b"), Just("/a~1b/0"), Just("/at"), Just("/x#")])
        .prop_map(|(file, pointer)| IgnorePointer { file, pointer: pointer.to_owned() })
}

fn oracle() -> impl Strategy<Value = OracleConfig> {
    let conserve = ("[a-z*]{1,5}", "(/[a-z]{1,4}){0,2}", text(), text(), any::<bool>())
        .prop_map(|(file, pointer, id, done, at_least_once)| Conserve { file, pointer, id, done, at_least_once });
    let globs = || collection::vec("[a-z*?/]{1,6}", 0..3);
    let serial = sample::select(vec![Serial::Operations, Serial::Workers, Serial::Off]);
    let allow = prop_oneof![Just(vec![]), kinds()];
    (
        serial,
        option::of(text()),
        option::of(any::<bool>()),
        globs(),
        globs(),
        collection::vec(pointer(), 0..3),
        option::of(conserve),
        allow,
        any::<bool>(),
    )
        .prop_map(|(serial, state, stdout, multiset, ignore, ignore_pointer, conserve, allow, shares_nothing)| {
            OracleConfig { serial, state, stdout, multiset, ignore, ignore_pointer, conserve, allow, shares_nothing }
        })
}

prop_compose! {
    fn scenario()(
        name in text(), about in text(), expect in expect(), dir in option::of(path()), files in files(),
        commands in (option::of(text()), text()), watch in collection::vec(path(), 0..3), env in table(),
        flags in any::<[bool; 2]>(), workers in workers(),
        delays in collection::vec((any::<u16>(), any::<bool>(), pattern(), 1..9_u64, duration()), 0..3),
        faults in collection::vec((any::<u16>(), fault_kind(), option::of(pattern()), 0..4_u64), 0..3),
        search in search(), oracle in oracle(), limits in any::<[u32; 3]>(),
    ) -> Scenario {
        let count = workers.len();
        Scenario {
            name, about, expect: Some(expect),
            file: Some(PathBuf::from(FILE)),
            scenario_dir: PathBuf::from("/repo/scenarios"),
            dir, dir_filtered: flags[0], files,
            setup: commands.0,
            // A check always, so that the serial judge may be off.
            check: Some(commands.1),
            watch, env, home_in_world: flags[1], workers,
            delays: delays.into_iter().map(|(w, after, at, nth, duration)| {
                Delay { workers: some_of(count, w), after, at, nth, duration }
            }).collect(),
            faults: faults.into_iter().map(|(w, kind, at, nth)| Fault {
                workers: some_of(count, w), kind, at,
                nth: match nth { 0 => Nth::Each, 1 => Nth::All, n => Nth::Number(n) },
            }).collect(),
            search, oracle,
            limits: Limits {
                steps: u64::from(limits[0]) + 1,
                cpu_seconds: u64::from(limits[1]) + 1,
                output_bytes: u64::from(limits[2]) + 1,
            },
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn what_is_saved_is_read_back(scenario in scenario()) {
        static SCHEMA: LazyLock<jsonschema::Validator> = LazyLock::new(|| schema_support::validator(Schema::Scenario));
        let text = save(&scenario).unwrap();
        let errors: Vec<String> =
            SCHEMA.iter_errors(&schema_support::toml_value(&text)).map(|e| e.to_string()).collect();
        prop_assert!(errors.is_empty(), "{:?}\n{}", errors, text);
        let read = parse(&text, Path::new(FILE)).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(&read, &scenario, "{}", text);
        prop_assert_eq!(save(&read).unwrap(), text, "saving again changes nothing");
    }
}

#[test]
fn every_key_is_saved() {
    let text = include_str!("data/every-key.toml");
    let scenario = parse(text, Path::new(FILE)).unwrap();
    let saved = save(&scenario).unwrap();
    assert_eq!(parse(&saved, Path::new(FILE)).unwrap(), scenario, "{saved}");
    for line in ["dir = \"world\"", "count = 2", "\"$SCENARIO_DIR/w.py\"", "after = \"W\"", "worker = \"W.2\""] {
        assert!(saved.contains(line), "{line} is not in\n{saved}");
    }
}

#[test]
fn a_saved_scenario_is_short() {
    let text = "name = \"x\"\nexpect = \"clean\"\n\n[[worker]]\nname = \"A\"\nrun = \"true\"\n";
    assert_eq!(save(&parse(text, Path::new(FILE)).unwrap()).unwrap(), text);
}

#[test]
fn a_moved_folder_keeps_its_programs() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (dir.path().join("old"), dir.path().join("new"));
    std::fs::create_dir(&old).unwrap();
    let file = old.join("s.toml");
    let text = "expect = \"clean\"\n[[worker]]\nname = \"A\"\nrun = [\"sh\", \"$SCENARIO_DIR/w.sh\"]\n";
    let scenario = parse(text, &file).unwrap();
    save_to(&scenario, &file).unwrap();
    std::fs::rename(&old, &new).unwrap();
    let moved = load(&new.join("s.toml")).unwrap();
    let script = new.join("w.sh").to_str().unwrap().to_owned();
    assert_eq!(moved.workers[0].run, Command::Args(vec!["sh".into(), script]));
}
