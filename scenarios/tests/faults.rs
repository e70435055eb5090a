//! What a kill, a full disk, a short write or a pause does to each mistake, and that its mended form survives it.

use std::fs;

use scenarios::{folder, run};

#[test]
fn every_fault_breaks_the_mistake_and_not_the_repair() {
    let mut wrong = Vec::new();
    let mut cases: Vec<_> = fs::read_dir(folder().join("faults"))
        .expect("the faults")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_dir())
        .collect();
    cases.sort();
    assert!(cases.len() >= 10, "{cases:?}");
    for case in cases {
        for form in ["buggy.toml", "fixed.toml"] {
            let answer = run(&[case.join(form)]);
            let report = answer.report();
            let name = case.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let line = format!("{name}/{form}: {} ({})", report["verdict"], report["explored"]["coverage"]);
            println!("{line}");
            let mended = form == "fixed.toml";
            if answer.exit != Some(0) || mended != (report["verdict"] == "clean") {
                wrong.push(format!("{line}\n{}", report["reason"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
