//! Every mistake of the catalogue is found by search, without a hint, and its mended form is clean.

use std::fs;

use scenarios::{folder, run};

#[test]
fn every_mistake_is_found_and_every_repair_is_clean() {
    let mut wrong = Vec::new();
    let mut cases: Vec<_> = fs::read_dir(folder().join("catalogue"))
        .expect("the catalogue")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_dir())
        .collect();
    cases.sort();
    assert!(cases.len() >= 15, "{cases:?}");
    for case in cases {
        for form in ["buggy.toml", "fixed.toml"] {
            let answer = run(&[case.join(form)]);
            let report = answer.report();
            let explored = &report["explored"];
            let line = answer.line(&format!("{}/{form}", case.file_name().unwrap_or_default().to_string_lossy()));
            println!("{line}");
            let mended = form == "fixed.toml";
            // Each mended form is small enough to be told for all orders.
            let told = report["verdict"] == "clean" && explored["exhausted"] == true;
            if answer.exit != Some(0) || mended != told {
                wrong.push(format!("{line}\n{}", report["reason"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
