//! What an operation of the queue survives is what its strategy and durability promise, and no less: killed at each
//! step, and without power at each moment, under both models of the disk. The scenarios are written from a table.
//!
//! | durability | after a kill | after a power cut |
//! |---|---|---|
//! | `none` | all that was finished; the rest is whole or not there | nothing is promised |
//! | `data` | the same | the queue is whole, perhaps as it was before |
//! | `full` | the same | as after a kill |
//!
//! CI takes a push, and a part of the models for each: the disk as long as the push runs, and when it was acknowledged.
//! Every operation, without power at any moment, and killed with another worker beside it (400 orders of each), takes an
//! hour:
//! `cargo test -p scenarios --test durability -- --ignored --nocapture` (`DURABILITY=lock-dir` in front of it: those only).

use std::{collections::BTreeMap, fmt::Write as _, fs};

use scenarios::run;
use serde_json::Value;

/// One claimed task and one queued one, so that each operation has something to do.
const TASKS: &str = r#"{"version":1,"tasks":[{"id":"t1","account":"a","params":null,"state":"claimed","attempts":1,"worker":"w"},{"id":"t2","account":"a","params":null,"state":"queued","attempts":0}]}"#;

const STRATEGIES: [&str; 6] = ["flock", "flock --spare", "lock-dir", "optimistic", "sharded", "writer"];

const OPERATIONS: [(&str, &str); 5] = [
    ("push", "push --id pA --account a"),
    ("claim", "claim --worker A"),
    ("complete", "complete t1 --account a --attempt 1"),
    ("extend", "extend t1 --account a --attempt 1"),
    ("release", "release t1 --account a --attempt 1"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durability {
    None,
    Data,
    Full,
}

impl Durability {
    fn name(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::Data => "data",
            Durability::Full => "full",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The worker is killed before each of its steps; somebody comes later.
    Kill,
    /// The same, and somebody else is at work at the same time.
    KillBeside,
    /// The power goes while the operation runs, or when it was just acknowledged.
    PowerCut(&'static str),
    /// The power goes at any moment.
    AnyPowerCut(&'static str),
}

/// The most orders of one case with another worker beside it.
const BESIDE: u64 = 400;

const MODELS: [&str; 2] = ["strict", "ext4-ordered"];

/// An operation with what it promises (`promise`), whatever it was told to promise (`durability`).
#[derive(Clone, Copy, Debug)]
struct Case {
    strategy: &'static str,
    durability: Durability,
    promise: Durability,
    fault: Fault,
    operation: (&'static str, &'static str),
}

impl Case {
    fn name(&self) -> String {
        let Case { strategy, durability, promise, fault, operation } = self;
        format!("{} {strategy} {} as {}, {fault:?}", operation.0, durability.name(), promise.name())
    }

    fn scenario(&self) -> String {
        let Case { strategy, durability, promise, fault, operation } = self;
        let how = format!("--strategy {strategy} --durability {} --no-snapshots", durability.name());
        let file = if *strategy == "sharded" { "queues/queue_a.json" } else { "queue.json" };
        let mut text = format!("name = '{}'\nexpect = \"clean\"\nfiles = {{ '{file}' = '{TASKS}' }}\n", self.name());
        let mut put = |part: String| writeln!(text, "{part}").expect("a text");
        put(format!("[[worker]]\nname = \"A\"\nrun = \"queue {} {how}\"", operation.1));
        let later = if *fault == Fault::KillBeside { "" } else { "after = \"A\"\n" };
        put(format!("[[worker]]\nname = \"R\"\n{later}run = \"queue push --id pR --account a {how}\""));
        let cut = "[[fault]]\nkind = \"power-cut\"";
        match fault {
            Fault::Kill | Fault::KillBeside => put("[[fault]]\nworker = \"A\"\nkind = \"kill\"".into()),
            Fault::PowerCut(_) => put(format!("{cut}\nworker = \"A\"\n{cut}\nworker = \"R\"\nnth = 1")),
            Fault::AnyPowerCut(_) => put(cut.into()),
        }
        let most = if *fault == Fault::KillBeside { BESIDE } else { 20_000 };
        put(format!("[search]\nsearch = \"exhaustive\"\nmax_schedules = {most}"));
        if let Fault::PowerCut(model) | Fault::AnyPowerCut(model) = fault {
            put(format!("disk = \"{model}\""));
        }
        // An older queue is one in which the operation did not take place; anything else is no queue that ever was.
        let allow = if *promise == Durability::Data { "\nallow = \"lost-after-crash\"" } else { "" };
        // Whose writer died after the write asks the next one again, and is told that its task is there already.
        let told = if *fault == Fault::KillBeside && *strategy == "writer" { "\nstdout = false" } else { "" };
        put(format!("[oracle]\nstate = \"queue list --strategy {strategy}\"{allow}{told}"));
        text
    }
}

/// What `noclobber run` says of each case, in their order.
fn judged(cases: &[Case]) -> Vec<Value> {
    let dir = tempfile::tempdir().expect("a folder");
    for (number, case) in cases.iter().enumerate() {
        fs::write(dir.path().join(format!("{number:03}.toml")), case.scenario()).expect("a scenario");
    }
    let answer = run(&[dir.path().to_owned()]);
    let mut told: BTreeMap<String, Value> = BTreeMap::new();
    for report in answer.reports {
        told.insert(report["scenario"].as_str().expect("a name").to_owned(), report);
    }
    let told: Vec<Value> = cases.iter().filter_map(|case| told.remove(&case.name())).collect();
    assert_eq!(told.len(), cases.len(), "a report for each: {}", answer.stderr);
    for report in &told {
        let explored = &report["explored"];
        println!(
            "{}: {}, exhausted {}, {:.1} s, {}",
            report["scenario"].as_str().unwrap_or_default(),
            report["verdict"].as_str().unwrap_or_default(),
            explored["exhausted"],
            explored["seconds"].as_f64().unwrap_or_default(),
            explored["coverage"].as_str().unwrap_or_default(),
        );
    }
    told
}

/// Every strategy at every durability under a fault that it promises something of.
fn promises(faults: &[Fault], operations: &[(&'static str, &'static str)]) -> Vec<Case> {
    let mut cases = Vec::new();
    for operation in operations {
        for fault in faults {
            for strategy in STRATEGIES {
                for durability in [Durability::None, Durability::Data, Durability::Full] {
                    let killed = matches!(fault, Fault::Kill | Fault::KillBeside);
                    // The queue refuses to promise this.
                    let refused = strategy == "flock --spare" && durability == Durability::Data;
                    if refused || (!killed && durability == Durability::None) {
                        continue;
                    }
                    let promise = if killed { Durability::Full } else { durability };
                    cases.push(Case { strategy, durability, promise, fault: *fault, operation: *operation });
                }
            }
        }
    }
    cases
}

/// What was not kept, in words.
fn broken(cases: &[Case]) -> Vec<String> {
    let told = judged(cases);
    // Nothing is left to try, but for states of the disk beyond those of each moment that are tried, and for orders with
    // somebody beside the one who is killed: of a lock directory there are too many.
    let over =
        |case: &Case, ended: &Value| ended == "exhausted" || case.fault == Fault::KillBeside && ended == "schedules";
    let kept =
        |case: &Case, report: &Value| report["verdict"] == "clean" && over(case, &report["explored"]["ended_by"]);
    // A fault that happens nowhere is survived by everything.
    let tried = |report: &Value| report["explored"]["schedules"].as_u64() > Some(5);
    told.iter()
        .zip(cases)
        .filter(|(report, case)| !kept(case, report) || !tried(report))
        .map(|(r, _)| {
            format!("{}: {} {} {}\n{}", r["scenario"], r["verdict"], r["reason"], r["explored"], r["anomalies"])
        })
        .collect()
}

fn none(broken: &[String]) {
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn a_push_survives_what_it_promises() {
    let mut cases = promises(&[Fault::Kill, Fault::PowerCut(MODELS[0]), Fault::PowerCut(MODELS[1])], &OPERATIONS[..1]);
    // The model that allows more for what promises most, the other one for what promises less; a lock directory is many
    // names, and where no order of them is promised there are many disks. The long run has all of them.
    cases.retain(|case| match (case.fault, case.promise) {
        (Fault::PowerCut("strict"), promise) => promise == Durability::Full && case.strategy != "lock-dir",
        (Fault::PowerCut(_), promise) => promise == Durability::Data || case.strategy == "lock-dir",
        _ => true,
    });
    assert_eq!(cases.len(), 17 + 5 + 6);
    none(&broken(&cases));
}

/// Somebody serves with durability `full`: the second push is in the one redo file, the third in the other, and the queue
/// file needs them. `later` is what the one does who comes last.
fn served(name: &str, fault: &str, most: u64, later: &str) -> String {
    let how = "--strategy writer --durability full --no-snapshots";
    let worker = |name: &str, after: &str, run: &str| format!("[[worker]]\nname = '{name}'\n{after}run = \"{run}\"\n");
    format!(
        "name = '{name}'\nexpect = \"clean\"\nfiles = {{ 'queue.json' = '{TASKS}' }}\n{}{}{}{}{}[[fault]]\n{fault}\n\
         [search]\nmax_schedules = {most}\n[oracle]\nstate = \"queue list --strategy writer\"\nstdout = false\n",
        worker("S", "", "queue serve --idle 2s --durability full --no-snapshots > /dev/null"),
        worker("A", "", &format!("queue push --id pA --account a {how}")),
        worker("B", "after = 'A'\n", &format!("queue push --id pB --account a {how}")),
        worker("C", "after = 'B'\n", &format!("queue push --id pC --account a {how}")),
        worker("R", "after = ['A', 'B', 'C']\n", &format!("{later}queue push --id pR --account a {how}")),
    )
}

fn verdicts_of(scenarios: &[String]) -> Vec<Value> {
    let dir = tempfile::tempdir().expect("a folder");
    for (number, text) in scenarios.iter().enumerate() {
        fs::write(dir.path().join(format!("{number:03}.toml")), text).expect("a scenario");
    }
    let answer = run(&[dir.path().to_owned()]);
    assert_eq!(answer.reports.len(), scenarios.len(), "{}", answer.stderr);
    answer.reports
}

#[test]
fn what_a_writer_has_acknowledged_outlives_it_and_the_power() {
    let cut = |worker| format!("kind = \"power-cut\"\nworker = \"{worker}\"");
    let scenarios = [
        served("a writer, the power goes at the third push", &cut("C"), 120, ""),
        served("a writer, the power goes when all is acknowledged", &format!("{}\nnth = 1", cut("R")), 120, ""),
        served("a writer that is killed", "kind = \"kill\"\nworker = \"S\"", 120, ""),
        // Nobody puts back what the redo files hold.
        served("a writer, without its redo files", &cut("C"), 250, "rm -f .queue.json.redo-*; "),
    ];
    let reports = verdicts_of(&scenarios);
    for report in &reports {
        let explored = &report["explored"];
        println!("{}: {}, {}", report["scenario"], report["verdict"], explored["coverage"]);
        let schedules = explored["schedules"].as_u64().expect("a number");
        if report["scenario"] == "a writer, without its redo files" {
            let kinds = ["torn-file", "lost-after-crash", "lost-update", "unserializable"];
            assert!(kinds.iter().any(|kind| report["verdict"] == *kind), "{report}");
        } else {
            assert!(report["verdict"] == "clean" && schedules == 120, "{report}");
        }
    }
}

/// The same judge, told that more was promised than was: each of these has to be found out.
#[test]
fn a_promise_that_is_not_kept_is_found_out() {
    let push =
        |strategy, durability, promise, fault| Case { strategy, durability, promise, fault, operation: OPERATIONS[0] };
    let mut cases = Vec::new();
    for strategy in STRATEGIES {
        let cut = Fault::PowerCut(MODELS[0]);
        cases.push((push(strategy, Durability::None, Durability::Data, cut), "torn-file"));
        if strategy != "flock --spare" {
            // As above: there are many disks.
            let models = if strategy == "lock-dir" { &MODELS[1..] } else { &MODELS[..] };
            for model in models {
                let cut = Fault::PowerCut(model);
                cases.push((push(strategy, Durability::Data, Durability::Full, cut), "lost-after-crash"));
            }
        }
    }
    // On ext4 a rename over a file brings its bytes along; what changes places, or has its first name, does not.
    for strategy in ["flock --spare", "lock-dir"] {
        let cut = Fault::PowerCut(MODELS[1]);
        cases.push((push(strategy, Durability::None, Durability::Data, cut), "torn-file"));
    }
    cases.push((push("naive", Durability::Full, Durability::Full, Fault::Kill), "torn-file"));
    let told = judged(&cases.iter().map(|(case, _)| *case).collect::<Vec<_>>());
    let missed: Vec<String> = told
        .iter()
        .zip(&cases)
        .filter(|(report, (_, kind))| report["verdict"] != *kind)
        .map(|(report, (_, kind))| format!("{}: {} instead of {kind}", report["scenario"], report["verdict"]))
        .collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
#[ignore = "takes the better part of an hour"]
fn every_operation_survives_what_it_promises() {
    let faults = [Fault::Kill, Fault::KillBeside, Fault::AnyPowerCut(MODELS[0]), Fault::AnyPowerCut(MODELS[1])];
    // In parts, so that it is seen how far it is.
    let parts: Vec<Vec<Case>> = faults.iter().map(|fault| promises(&[*fault], &OPERATIONS)).collect();
    assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), 5 * (17 + 17 + 11 + 11));
    // A part of it: those with this in their names.
    let wanted = std::env::var("DURABILITY").unwrap_or_default();
    let cases: Vec<&Case> = parts.iter().flatten().filter(|case| case.name().contains(&wanted)).collect();
    assert!(!cases.is_empty(), "no case is named {wanted}");
    let found: Vec<String> = cases.into_iter().flat_map(|case| broken(std::slice::from_ref(case))).collect();
    none(&found);
}
