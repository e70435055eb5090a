//! The page of a benchmark in a real browser: nothing is complained of, nothing is wider than a phone, loss is red, and
//! hostile names do no harm.

#![cfg(target_os = "linux")]

mod browser;

use browser::{Browsed, browse};
use noclobber::bench::{Results, report::page};
use serde_json::{Value, json};

fn run(strategy: &str, processes: usize, kept: usize, lost: u64) -> Value {
    let times = json!({"p50": 10.0, "p90": 20.0, "p99": 100.0, "p999": 500.0, "max": 900.0});
    json!({
        "strategy": strategy, "peer": strategy.starts_with("sqlite"), "durability": "none", "dir": "/x", "filesystem": "ext4",
        "processes": processes, "kept": kept, "task_bytes": 150, "think_us": 0, "ops": 100, "ops_per_s": 1000.0,
        "repetitions": [900.0, 1000.0, 1100.0], "by_floor": [1.0, 1.1, 0.9], "failed": 0, "wait_us": times, "latency_us": times,
        "push_us": times, "take_us": times, "hand_over_us": times,
        "latency_curve": [[0.0, 5.0], [0.5, 10.0], [0.99, 100.0], [1.0, 900.0]], "fairness": 0.5, "fairness_100ms": 0.25,
        "cpu_us_per_op": 30.0, "bytes_per_op": 15000.0, "disk_bytes_per_op": 0.0, "lost": lost, "duplicated": 0, "foreign": 0,
        "damaged": 0, "examples": [], "known_to_lose": strategy == "naive", "portable": false, "floor_id": "f",
        "ratio_to_floor": 2.0, "error": null
    })
}

fn results(names: &[&str]) -> Results {
    let mut runs = Vec::new();
    for name in names {
        for (processes, kept) in [(1, 100), (8, 100), (8, 1000)] {
            runs.push(run(name, processes, kept, if *name == "naive" && processes > 1 { 7 } else { 0 }));
        }
    }
    serde_json::from_value(json!({
        "schema": 1,
        "machine": {"kernel": "Linux", "arch": "x", "cpu": "y", "cpus": 2, "memory_mib": 9, "load": 0.5, "filesystem": "ext4",
            "dirs": [{"dir": "/x", "filesystem": "ext4", "mount": "/", "source": "/dev/x", "options": "rw"}], "programs": []},
        "settings": {"repetitions": 3, "planned": 3, "measured_ms": 100, "warm_up_ms": 10, "seconds": 1.0},
        "floor": [{"id": "f", "what": "a floor", "us": 10.0}],
        "noise": {"pairs": 3, "median": 0.1, "p95": 0.2, "a_a": 0.05},
        "runs": runs,
        "missing": [{"strategy": "python-filelock", "why": "no package"}],
        "advice": ["<script>alert(1)</script> is what it says"],
        "ended_by": "done"
    }))
    .unwrap()
}

/// Adds a script of the test's own; the policy is taken out for it.
fn ask(page: &str, script: &str, arguments: &[&str]) -> String {
    let (before, rest) = page.split_once("<meta http-equiv").expect("a policy");
    let (_, after) = rest.split_once("form-action 'none'\">").expect("the policy's end");
    let asking = format!("<script>{{ let found; {script}; document.title = 'found:' + found; }}</script></body>");
    let Browsed { document, complaints } = browse(&format!("{before}{after}").replace("</body>", &asking), arguments);
    assert_eq!(complaints, [""; 0]);
    let found = document.split_once("found:").expect("the script came to its end").1;
    found.split_once("</title>").expect("a title").0.to_owned()
}

#[test]
fn nothing_is_complained_of_and_everything_is_there() {
    let page = page(&results(&["naive", "flock", "sqlite-wal-full"]), None);
    let Browsed { document, complaints } = browse(&page, &[]);
    assert_eq!(complaints, [""; 0]);
    for shown in [
        "Throughput against processes, durability none",
        "Latency, durability none, 8 processes",
        "Cost against queue size",
        "naive × lost tasks",
        "7 lost",
        "no package",
    ] {
        assert!(document.contains(shown), "{shown}");
    }
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("<script>"), "no network, no script");
}

#[test]
fn hostile_names_are_text() {
    let page = page(&results(&["</title><img src=x onerror=alert(1)>", "a\u{1b}[31m\u{202e}b"]), None);
    let Browsed { document, complaints } = browse(&page, &[]);
    assert_eq!(complaints, [""; 0]);
    assert!(!document.contains("<img") && document.contains("&lt;img src=x"));
    assert!(!document.contains('\u{202e}') && !document.contains('\u{1b}'));
}

#[test]
fn loss_is_red_and_a_phone_need_not_scroll() {
    let page = page(&results(&["naive", "flock", "sqlite-wal-full"]), None);
    let colour = "found = getComputedStyle(document.querySelector('tr.wrong td.verdict')).color";
    assert_eq!(ask(&page, colour, &["--blink-settings=preferredColorScheme=1"]), "rgb(179, 38, 30)");
    assert_eq!(ask(&page, colour, &["--blink-settings=preferredColorScheme=0"]), "rgb(255, 138, 128)");
    let wide = "found = document.documentElement.scrollWidth <= window.innerWidth";
    for width in [400, 1400] {
        let found = ask(&page, wide, &[&format!("--window-size={width},900")]);
        assert_eq!(found, "true", "{width}");
    }
}
