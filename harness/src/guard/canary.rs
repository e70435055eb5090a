//! The canary: a race that every working installation must find. A tool that no longer controls anything would say
//! "clean" of everything; it must fall silent instead.

use std::{collections::BTreeMap, path::PathBuf};

use crate::{
    explore::Explorer,
    scenario::{Command, Ends, Limits, OracleConfig, Scenario, Search, SearchKind, Worker},
    tracer::Engine,
    world::{ActorId, Node, Op, Plan, Policy, Run, Step},
};

/// Schedules within which the race must be found.
const BUDGET: u64 = 40;
const COUNT: &str = "read n < n; echo $((n + 1)) > n";

/// Two shells count to two in one file. Some order must leave 1 there, and the serial one must leave 2. Returns whether
/// that was done in namespaces of its own.
///
/// # Errors
/// Why nothing that this process would say can be believed.
pub fn sing() -> Result<bool, String> {
    let scenario = scenario();
    let mut engine = Engine::start(&scenario, 0).map_err(|e| e.to_string())?;
    let plan = Plan::from_policy(Policy::Serial(vec![ActorId(0), ActorId(1)]));
    let serial = engine.run(&plan).map_err(|e| e.to_string())?;
    if counted(&serial).as_deref() != Some("2\n") {
        return Err(format!("control is not working: two shells one after the other count to {:?}", counted(&serial)));
    }
    // The race could also be found by a tool that sees only some of the steps.
    for actor in 0..2 {
        for op in [Op::Open, Op::Read, Op::Write] {
            let seen = |s: &Step| s.actor.0 == actor && s.op == op && s.path.as_deref() == Some("n");
            if !serial.steps.iter().any(seen) {
                return Err(format!("control is not working: a shell counted without a {op} that was seen"));
            }
        }
    }
    lock_seen()?;
    engine.templates(true).map_err(|e| e.to_string())?;
    let mut explorer = Explorer::new(&scenario.search, 2, false);
    while let Some(plan) = explorer.next_plan() {
        let run = engine.run(&plan).map_err(|e| e.to_string())?;
        if counted(&run).as_deref() == Some("1\n") {
            return Ok(engine.is_private());
        }
        explorer.observe(&run).map_err(|e| e.to_string())?;
    }
    Err(format!("control is not working: the built-in race was not found in {BUDGET} schedules"))
}

/// A lock must be seen as well, where there is a program that takes one.
fn lock_seen() -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|dir| dir.is_absolute() && dir.join("flock").is_file()) {
        return Ok(());
    }
    let mut scenario = scenario();
    scenario.workers.truncate(1);
    scenario.workers[0].run = Command::Shell("flock n true".into());
    let mut engine = Engine::start(&scenario, 0).map_err(|e| e.to_string())?;
    let run = engine.run(&Plan::from_policy(Policy::Stay)).map_err(|e| e.to_string())?;
    let seen = |s: &Step| s.op == Op::Lock && s.path.as_deref() == Some("n");
    match run.steps.iter().any(seen) {
        true => Ok(()),
        false => Err("control is not working: a lock was taken that was not seen".into()),
    }
}

fn counted(run: &Run) -> Option<String> {
    match run.outcome.as_ref()?.files.get("n")? {
        Node::File { bytes, .. } => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

fn scenario() -> Scenario {
    let worker = |name: &str| Worker {
        name: name.into(),
        group: name.into(),
        run: Command::Shell(COUNT.into()),
        after: Vec::new(),
        env: BTreeMap::new(),
        ends: Ends::Exit,
        exit: vec![0],
        acknowledges: None,
    };
    Scenario {
        name: "canary".into(),
        about: String::new(),
        expect: None,
        file: None,
        scenario_dir: PathBuf::from("/"),
        dir: None,
        dir_filtered: false,
        files: [("n".to_owned(), "0\n".to_owned())].into(),
        setup: None,
        check: None,
        watch: Vec::new(),
        env: BTreeMap::new(),
        home_in_world: false,
        workers: vec![worker("A"), worker("B")],
        delays: Vec::new(),
        faults: Vec::new(),
        search: Search { search: SearchKind::Exhaustive, max_schedules: BUDGET, ..Search::default() },
        oracle: OracleConfig::default(),
        limits: Limits::default(),
    }
}
