//! Each strategy of the queue does what its scenario says: the safe ones are clean, and what is said to be lost is lost.

use std::fs;

use scenarios::{folder, run};

#[test]
fn every_strategy_does_what_is_said_of_it() {
    let mut scenarios: Vec<_> = fs::read_dir(folder().join("queue"))
        .expect("the scenarios")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    scenarios.sort();
    let names: Vec<_> = scenarios.iter().filter_map(|path| path.file_stem()?.to_str()).collect();
    for strategy in ["flock", "lock-dir", "optimistic", "sharded"] {
        for kind in ["push-push", "three"] {
            assert!(names.contains(&&*format!("{strategy}-{kind}")), "{strategy}-{kind}: {names:?}");
        }
    }
    let mut wrong = Vec::new();
    for scenario in &scenarios {
        let answer = run(std::slice::from_ref(scenario));
        let report = answer.report();
        let line = answer.line(&scenario.file_stem().unwrap_or_default().to_string_lossy());
        println!("{line}");
        if answer.exit != Some(0) {
            wrong.push(format!("{line}\n{}\n{}", report["reason"], report["anomalies"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
