//! What the disk holds after a power cut: each mistake is found, each repair is clean, under the model it names.

use std::{fs, path::PathBuf};

use scenarios::{folder, run};

#[test]
fn every_power_cut_scenario_is_as_it_says() {
    let mut files: Vec<PathBuf> = fs::read_dir(folder().join("power-cut"))
        .expect("the scenarios")
        .flat_map(|case| fs::read_dir(case.expect("a case").path()).expect("a folder"))
        .map(|file| file.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    assert!(files.len() >= 10, "{files:?}");
    let mut wrong = Vec::new();
    for file in files {
        let answer = run(std::slice::from_ref(&file));
        let report = answer.report();
        let line = format!(
            "{}: {} in {} schedules, exhausted {}: {}",
            file.display(),
            report["verdict"],
            report["explored"]["schedules"],
            report["explored"]["exhausted"],
            report["explored"]["coverage"]
        );
        println!("{line}");
        let clean = report["verdict"] == "clean";
        // Some say what a kill does, to compare with.
        let kill = fs::read_to_string(&file).expect("a scenario").contains("kind = \"kill\"");
        let fault = if kill { "killed before" } else { "the power goes" };
        let hit = |step: &serde_json::Value| step["op"] == "exit" && step["result"].to_string().contains(fault);
        let shown = || report["anomalies"][0]["steps"].as_array().is_some_and(|steps| steps.iter().any(hit));
        // All that it could lead to was tried, or it says that there is more.
        let bounded = "not all that a power cut can lead to";
        let tried = || {
            let told = report["explored"]["coverage"].as_str().is_some_and(|coverage| coverage.contains(bounded));
            report["explored"]["ended_by"] == "exhausted" && (report["explored"]["exhausted"] == true) != told
        };
        if answer.exit != Some(0) || (clean && !tried()) || (!clean && !shown()) {
            wrong.push(format!("{line}\n{}", report["reason"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
