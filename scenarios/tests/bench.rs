//! `noclobber bench` as a user calls it: what it prints, what it finds lost, who takes part, and what it does when
//! something is not there. Real processes; the figures themselves are not looked at, they depend on the machine.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use scenarios::{command, folder, programs};
use serde_json::Value;

/// A short benchmark in a folder of its own.
const SHORT: [&str; 5] = ["bench", "--format", "json", "--warm-up", "20ms"];

struct Bench {
    output: Output,
    results: Value,
}

impl Bench {
    fn run(dir: &Path, arguments: &[&str]) -> Bench {
        let mut command = command(dir);
        command.args(SHORT);
        for (option, usual) in [("--repetitions", "2"), ("--measure", "200ms")] {
            if !arguments.contains(&option) {
                command.args([option, usual]);
            }
        }
        let output = command.args(arguments).output().expect("noclobber starts");
        let results = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| {
            panic!("{e}: {} {}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
        });
        Bench { output, results }
    }

    fn exit(&self) -> Option<i32> {
        self.output.status.code()
    }

    fn runs(&self) -> &[Value] {
        self.results["runs"].as_array().expect("runs")
    }

    fn of(&self, strategy: &str) -> &Value {
        self.runs()
            .iter()
            .find(|run| run["strategy"] == strategy)
            .unwrap_or_else(|| panic!("{strategy}: {}", self.results))
    }
}

fn script(dir: &Path, name: &str, text: &str) -> String {
    let file = dir.join(name);
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}={}", name.trim_end_matches(".py"), file.display())
}

/// A queue in memory of one process (so: with one worker), by the simple line protocol, with a fault for each N tasks.
/// What it holds it writes into a file at the end of each operation, for the process that lists it.
///
/// Pushes have odd numbers, claims even ones.
const MEMORY: &str = r#"#!/usr/bin/env python3
import os, sys
path, n = os.environ["NOCLOBBER_BENCH_DIR"] + "/queue", 0
queue = open(path).read().split() if os.path.exists(path) else []
sys.stdin.readline()
print("ready lines", flush=True)
for line in sys.stdin:
    op, *words = line.split()
    said = "ok"
    if op == "push":
        n += 1
        if not (FAULT == "loses" and n % 5 == 0):
            queue.append(words[0])
    elif op == "claim":
        n += 1
        said = "ok " + queue[0] if queue else "none"
        if queue and not (FAULT == "repeats" and n % 4 == 0):
            queue.pop(0)
    elif op == "list":
        said = "\n".join(queue + ["end"])
    with open(path, "w") as file:
        file.write("\n".join(queue))
    print(said, flush=True)
"#;

#[test]
fn what_it_prints_has_the_keys_of_the_contract_and_naive_is_seen_losing() {
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("out.csv");
    let bench = Bench::run(
        dir.path(),
        &[
            "--strategy",
            "naive,flock,sharded,writer",
            "--measure",
            "1s",
            "--processes",
            "4,1",
            "--kept",
            "20",
            "--durability",
            "none",
            "--csv",
            csv.to_str().unwrap(),
        ],
    );
    assert_eq!(bench.exit(), Some(0), "{}", bench.results);
    let results = &bench.results;
    assert_eq!(results["schema"], 1);
    assert!(results["machine"]["filesystem"].is_string());
    assert_eq!(bench.runs().len(), 8);
    let floors: Vec<&Value> = results["floor"].as_array().unwrap().iter().map(|floor| &floor["id"]).collect();
    for run in bench.runs() {
        for key in ["ops", "ops_per_s", "fairness", "fairness_100ms", "lost", "duplicated", "processes", "kept"] {
            assert!(run[key].is_number(), "{key}: {run}");
        }
        assert!(floors.contains(&&run["floor_id"]), "{run}");
        // Several that keep no order may break the queue before an operation ends: then there is nothing to time.
        if run["ops"] == 0 {
            assert_eq!((&run["strategy"], &run["processes"]), (&"naive".into(), &4.into()), "{run}");
            continue;
        }
        for key in ["p50", "p99", "max"] {
            assert!(run["latency_us"][key].as_f64().unwrap() > 0.0, "{key}: {run}");
            assert!(run["wait_us"][key].is_number(), "{key}: {run}");
        }
        assert!(run["ratio_to_floor"].as_f64().unwrap() > 0.0);
        if run["strategy"] != "naive" {
            assert_eq!((&run["lost"], &run["duplicated"], &run["failed"]), (&0.into(), &0.into(), &0.into()), "{run}");
        }
    }
    let naive = bench.of("naive");
    let wrong = naive["lost"].as_u64().unwrap() + naive["duplicated"].as_u64().unwrap();
    assert!(naive["processes"] == 4 && wrong > 0, "four at once and nothing lost: {naive}");
    assert_eq!(fs::read_to_string(csv).unwrap().lines().count(), 9);
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["out.csv"], "nothing is left behind");
}

#[test]
fn a_command_that_loses_or_repeats_is_found_out() {
    let dir = tempfile::tempdir().unwrap();
    let with = |fault: &str| {
        let text = MEMORY.replace("FAULT", &format!("{fault:?}"));
        script(dir.path(), &format!("{}.py", if fault.is_empty() { "keeps" } else { fault }), &text)
    };
    let commands = [with("loses"), with("repeats"), with("")];
    let mut arguments = vec!["--processes", "1", "--kept", "5", "--measure", "1s"];
    commands.iter().for_each(|command| arguments.extend(["--with", command.as_str()]));
    let bench = Bench::run(dir.path(), &arguments);
    assert_eq!(bench.exit(), Some(1), "{}", bench.results);
    let counts = |name: &str| {
        let run = bench.of(name);
        (run["lost"].as_u64().unwrap(), run["duplicated"].as_u64().unwrap(), run["ops"].as_u64().unwrap())
    };
    let (lost, duplicated, ops) = counts("loses");
    assert!(lost > 0 && duplicated == 0 && lost <= ops, "{lost} {duplicated} {ops}");
    let (lost, duplicated, _) = counts("repeats");
    assert!(lost == 0 && duplicated > 0);
    let (lost, duplicated, ops) = counts("keeps");
    assert!((lost, duplicated) == (0, 0) && ops > 0);
}

#[test]
fn the_peers_take_part_and_one_that_cannot_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let common = ["--strategy", "peers", "--processes", "2", "--kept", "10", "--repetitions", "1", "--measure", "2s"];
    let here = ["--python", "/usr/bin/python3", "--node-modules", "/usr/share/nodejs"];
    let bench = Bench::run(dir.path(), &[&common[..], &here].concat());
    assert_eq!(bench.results["missing"], serde_json::json!([]), "run scenarios/setup");
    let mut seen: Vec<&str> = bench.runs().iter().map(|run| run["strategy"].as_str().unwrap()).collect();
    seen.dedup();
    for name in [
        "python-flock",
        "python-filelock",
        "python-portalocker",
        "proper-lockfile",
        "sqlite-wal-normal",
        "sqlite-wal-full",
    ] {
        assert!(seen.contains(&name), "{name}: {seen:?}");
    }
    for run in bench.runs() {
        assert_eq!((&run["lost"], &run["duplicated"]), (&0.into(), &0.into()), "{run}");
        assert!(run["error"].is_null(), "{run}");
    }
    assert_eq!(bench.exit(), Some(0), "{}", bench.results);

    let without = ["--python", "/nonexistent/python3", "--node-modules", "/usr/share/nodejs"];
    let bench = Bench::run(dir.path(), &[&common[..], &without].concat());
    let missing: Vec<&str> =
        bench.results["missing"].as_array().unwrap().iter().map(|one| one["strategy"].as_str().unwrap()).collect();
    assert!(missing.contains(&"python-flock") && missing.contains(&"sqlite-wal-full"), "{missing:?}");
    assert!(bench.runs().iter().all(|run| run["strategy"] == "proper-lockfile"));
}

#[test]
fn real_servers_and_a_shell_script_take_part() {
    let dir = tempfile::tempdir().unwrap();
    // The server's user has to be able to walk through.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let bindings = folder().parent().unwrap().join("harness/bindings/bench");
    let python = |name: &str, file: &str| format!("{name}=/usr/bin/python3 {}", bindings.join(file).display());
    let with = [
        python("postgresql@full", "postgresql.py"),
        python("redis@full", "redis_lists.py"),
        format!("script@full={}", bindings.join("flock.sh").display()),
    ];
    let mut arguments =
        vec!["--processes", "3", "--kept", "10", "--durability", "full", "--repetitions", "1", "--measure", "2s"];
    with.iter().for_each(|command| arguments.extend(["--with", command.as_str()]));
    let bench = Bench::run(dir.path(), &arguments);
    for name in ["postgresql", "redis", "script"] {
        let run = bench.of(name);
        assert!(run["error"].is_null(), "{name}, run scenarios/setup: {run}");
        assert!(run["ops"].as_u64().unwrap() > 0, "{run}");
        assert_eq!((&run["lost"], &run["duplicated"], &run["failed"]), (&0.into(), &0.into(), &0.into()), "{run}");
    }
    assert_eq!(bench.exit(), Some(0), "{}", bench.results);
}

#[test]
fn against_an_earlier_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("saved.json");
    let saved = file.to_str().unwrap();
    let load =
        ["--strategy", "flock", "--processes", "2", "--kept", "10", "--durability", "none", "--repetitions", "3"];
    Bench::run(dir.path(), &[&load[..], &["--save", saved]].concat());
    let mut results: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();

    // As if everything had cost a hundredth then, and a hundred times as much.
    let scaled = |results: &Value, by: f64| {
        let mut results = results.clone();
        for cost in results["runs"][0]["by_floor"].as_array_mut().unwrap() {
            *cost = (cost.as_f64().unwrap() * by).into();
        }
        fs::write(&file, results.to_string()).unwrap();
        Bench::run(dir.path(), &[&load[..], &["--against", saved]].concat())
    };
    let slower = scaled(&results, 0.01);
    assert_eq!(slower.exit(), Some(1), "{}", slower.results);
    assert_eq!(slower.results["against"]["rows"][0]["judgement"], "slower");
    let faster = scaled(&results, 100.0);
    assert_eq!(faster.exit(), Some(0), "{}", faster.results["against"]);
    assert_eq!(faster.results["against"]["rows"][0]["judgement"], "faster");

    // One repetition says nothing: that is no pass.
    results["runs"][0]["by_floor"] = serde_json::json!([1.0]);
    let unsure = scaled(&results, 1.0);
    assert_eq!(unsure.exit(), Some(3), "{}", unsure.results["against"]);

    results["runs"][0]["kept"] = 11.into();
    fs::write(&file, results.to_string()).unwrap();
    let output = command(dir.path()).args(SHORT).args(load).args(["--against", saved]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "nothing in common");
    fs::write(&file, "{}").unwrap();
    let output = command(dir.path()).args(SHORT).args(load).args(["--against", saved]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--save"), "it says what the file should be");
}

#[test]
fn mistakes_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["--strategy", "flokc"], "`flock`?"),
        (&["--strategy", "sqlite-wal-full", "--durability", "none"], "durability none"),
        (&["--with", "x"], "NAME=CMD"),
        (&["--with", "flock=true"], "is taken"),
        (&["--dir", "/nonexistent"], "--dir"),
        (&["--queue", "/nonexistent/queue"], "--queue"),
        (&["--against", "/nonexistent"], "--against"),
        (&["--slowdown", "0"], "--slowdown"),
        (&["--measure", "1ms"], "--measure"),
        (&["--junit", "x.xml"], "--junit"),
        (&["--csv", "/nonexistent/out.csv"], "--csv"),
        (&["--save", "."], "--save"),
    ];
    for (arguments, wanted) in cases {
        let output = command(dir.path()).arg("bench").args(*arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(wanted), "{arguments:?}: {stderr}");
    }
}

#[test]
fn without_the_queue_program_it_says_how_to_get_it() {
    let noclobber = programs().noclobber();
    let alone = tempfile::tempdir_in(noclobber.parent().unwrap()).unwrap();
    let copy = alone.path().join("noclobber");
    fs::hard_link(&noclobber, &copy).unwrap();
    let output =
        Command::new(&copy).args(["bench", "--strategy", "flock"]).env("PATH", "/usr/bin:/bin").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("--queue") && stderr.contains("cargo build"), "{stderr}");
}

#[test]
fn a_worker_that_hangs_or_talks_nonsense_is_named_and_nothing_is_claimed_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let cases = [
        ("speaks=echo hello", "said `hello`"),
        ("ends=exit 7", "ended before"),
        ("dies=echo out of luck >&2; exit 1", "out of luck"),
        (
            "lies=read x; case $x in *'\"role\":\"worker\"'*) echo ready; read y; echo push ok 5 0 3 a;; *'\"role\":\"serve\"'*) echo none;; *) echo done;; esac",
            "ends before it begins",
        ),
    ];
    let mut arguments = vec!["--processes", "1"];
    cases.iter().for_each(|(with, _)| arguments.extend(["--with", with]));
    let bench = Bench::run(dir.path(), &arguments);
    assert_eq!(bench.exit(), Some(3), "{}", bench.results);
    for (with, wanted) in cases {
        let run = bench.of(with.split_once('=').unwrap().0);
        assert!(run["error"].as_str().unwrap().contains(wanted), "{run}");
        assert_eq!(run["ops"], 0);
    }
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("out.csv");
    let child = command(dir.path())
        .args(["bench", "--format", "json", "--strategy", "flock", "--processes", "2", "--durability", "none"])
        .args(["--repetitions", "1000", "--measure", "100ms", "--csv"])
        .arg(&csv)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    // It is written after each repetition.
    while !csv.exists() {
        assert!(begun.elapsed() < Duration::from_secs(120), "no repetition ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(results["ended_by"], "interrupt");
    assert!(results["runs"][0]["ops"].as_u64().unwrap() > 0, "{results}");
}
