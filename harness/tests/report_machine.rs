//! Reports for machines: exact keys, valid files, nothing that breaks out.

mod common;

use std::{collections::BTreeMap, path::Path, process::Command};

use common::{cannot_tell, clean, deadlock, hostile, incident};
use noclobber::{
    cli::{ExitCode, exit_code},
    report::{EndedBy, Github, Json, Junit, Report, Reporter, Verdict, to_json},
    scenario::{Expect, Kind},
};
use serde_json::{Value, json};

fn lines(reports: &[Report]) -> String {
    let mut json = Json::new(Vec::new());
    for report in reports {
        json.report(report).unwrap();
    }
    json.finish().unwrap();
    String::from_utf8(json.into_inner()).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Every key of the contract, with the type it has there.
#[test]
fn json_keys() {
    let mut report = incident(Some(Expect::Kinds(vec![Kind::LostUpdate])));
    report.explored.miss_bound = Some(BTreeMap::from([("pct-3".to_owned(), 0.25)]));
    let value: Value = serde_json::from_str(&lines(&[report])).unwrap();
    assert_eq!(
        keys(&value),
        [
            "schema",
            "scenario",
            "verdict",
            "expected",
            "as_expected",
            "reason",
            "explored",
            "anomalies",
            "trace_hash",
            "replay",
            "warnings",
            "decisions"
        ]
    );
    assert_eq!(value["schema"], 1);
    assert_eq!((&value["verdict"], &value["expected"]), (&json!("lost-update"), &json!("lost-update")));
    assert_eq!(value["as_expected"], true);
    assert_eq!(value["replay"], ".noclobber/incident-naive.replay.json");
    let explored = &value["explored"];
    for key in ["schedules", "classes", "redundant", "steps", "seed"] {
        assert!(explored[key].is_u64(), "{key}");
    }
    assert!(explored["exhausted"].is_boolean() && explored["search"].is_string() && explored["seconds"].is_number());
    assert_eq!(explored["ended_by"], "found");
    assert_eq!(explored["miss_bound"], json!({ "pct-3": 0.25 }));
    let anomaly = &value["anomalies"][0];
    for key in ["lost", "duplicated", "actors", "needs", "steps", "pivot"] {
        assert!(anomaly[key].is_array(), "{key}");
    }
    assert_eq!(
        (&anomaly["kind"], &anomaly["lost"], &anomaly["duplicated"]),
        (&json!("lost-update"), &json!(["t2"]), &json!(["t1"]))
    );
    assert_eq!(anomaly["pivot"], json!([4, 8]));
    assert!(anomaly["summary"].is_string());
    assert_eq!(
        anomaly["steps"][1],
        json!({"n": 2, "actor": "B", "op": "read", "path": "queue.json", "result": "58 bytes", "time_ms": 0,
               "note": "reads v1", "chosen": true})
    );
}

#[test]
fn json_null_where_the_contract_says_so() {
    let mut report = clean();
    (report.expected, report.trace_hash) = (None, None);
    let value = to_json(&report);
    for key in ["expected", "trace_hash", "replay"] {
        assert!(value[key].is_null() && value.get(key).is_some(), "{key}");
    }
    assert!(value["explored"]["miss_bound"].is_null());
    assert_eq!(value["warnings"], json!([]));
    assert_eq!(to_json(&cannot_tell())["warnings"].as_array().unwrap().len(), 3);
}

#[test]
fn json_words() {
    let ended = [
        (EndedBy::Exhausted, "exhausted"),
        (EndedBy::Found, "found"),
        (EndedBy::Schedules, "schedules"),
        (EndedBy::Time, "time"),
        (EndedBy::Interrupt, "interrupt"),
        (EndedBy::LostControl, "lost-control"),
    ];
    for (ended, word) in ended {
        let mut report = clean();
        report.explored.ended_by = ended;
        assert_eq!(to_json(&report)["explored"]["ended_by"], word);
    }
    let expected = [
        (Expect::Clean, json!("clean")),
        (Expect::Anomaly, json!("anomaly")),
        (Expect::Kinds(vec![Kind::Deadlock]), json!("deadlock")),
        (Expect::Kinds(vec![Kind::Deadlock, Kind::TornRead]), json!(["deadlock", "torn-read"])),
    ];
    for (expect, value) in expected {
        assert_eq!(to_json(&incident(Some(expect)))["expected"], value);
    }
    for kind in Kind::ALL {
        let report = common::report("x", Verdict::Anomaly(kind), None);
        assert_eq!(to_json(&report)["verdict"], kind.name());
    }
}

#[test]
fn json_is_one_object_a_line_and_harmless() {
    let reports = [incident(None), hostile(), clean()];
    let text = lines(&reports);
    assert_eq!(text.lines().count(), 3);
    assert!(!text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}' || c == '\u{200b}'));
    for (line, report) in text.lines().zip(&reports) {
        let value: Value = serde_json::from_str(line).unwrap();
        assert_eq!(value, to_json(report), "escaping changes no value");
        assert_eq!(value["scenario"], report.scenario.as_str());
    }
}

#[test]
fn junit_is_valid_and_complete() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("junit.xml");
    let mut junit = Junit::new(&file);
    let reports = [clean(), incident(Some(Expect::Clean)), cannot_tell(), hostile(), deadlock()];
    for (i, report) in reports.iter().enumerate() {
        junit.report(report).unwrap();
        let so_far = std::fs::read_to_string(&file).unwrap();
        assert_eq!(quick_junit::Report::deserialize_from_str(&so_far).unwrap().tests, i + 1, "written after each");
    }
    junit.finish().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let report = quick_junit::Report::deserialize_from_str(&text).unwrap();
    assert_eq!((report.tests, report.failures, report.errors), (5, 3, 1));
    let suite = &report.test_suites[0];
    let names: Vec<&str> = suite.test_cases.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names[..3], ["incident-flock", "incident-naive", "two-caches"]);
    assert_eq!(suite.test_cases[4].classname.as_ref().unwrap().as_str(), "explore");
    for part in [
        "type=\"lost-update\"",
        "message=\"lost-update: B overwrote A's update of queue.json: t2 is in no later version\"",
        "noclobber replay .noclobber/incident-naive.replay.json",
        "overwrites A's version 2",
        "type=\"cannot-tell\"",
    ] {
        let plain = text.replace("&apos;", "'");
        assert!(plain.contains(part), "{part} is not in\n{plain}");
    }
    assert!(!text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    assert!(text.contains("replay: noclobber replay .noclobber/incident-naive.replay.json\n"), "{text}");
}

/// What `xmllint` says of a file against the schema; nothing when it fits.
fn refused(file: &Path) -> Option<String> {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/junit.xsd");
    let output = Command::new("xmllint").args(["--noout", "--nonet", "--schema"]).arg(schema).arg(file).output();
    let output = output.expect("xmllint (scenarios/setup installs it)");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // 3 and 4: the file does not fit; anything else is trouble of another kind.
    assert!(matches!(output.status.code(), Some(0 | 1 | 3 | 4)), "{said}");
    (!output.status.success()).then_some(said)
}

#[test]
fn junit_is_what_readers_with_a_schema_take() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("junit.xml");
    let write = |reports: &[Report]| {
        let mut junit = Junit::new(&file);
        reports.iter().for_each(|report| junit.report(report).unwrap());
        junit.finish().unwrap();
        std::fs::read_to_string(&file).unwrap()
    };
    write(&[]);
    assert_eq!(refused(&file), None, "no scenario at all");
    let mut odd = hostile();
    // Characters that XML cannot have, and the ends of its blocks.
    odd.scenario = "\u{fffe}\u{ffff}\u{0}\u{1b}]]><!-- &amp; \u{85}\u{2028}".into();
    odd.explored.seconds = f64::NAN;
    let mut slow = clean();
    slow.explored.seconds = 12_345.678_9;
    let text = write(&[clean(), incident(Some(Expect::Clean)), cannot_tell(), hostile(), deadlock(), odd, slow]);
    assert_eq!(refused(&file), None, "{text}");
    for (was, is) in [
        ("<testcase name=\"incident-flock\"", "<testcase"),
        ("skipped=\"0\"", "skipped=\"0\" disabled=\"0\""),
        (" skipped=\"0\"", ""),
        ("<system-out>", "<properties><property name=\"a\" value=\"b\"/></properties><system-out>"),
        ("type=\"lost-update\" ", ""),
        ("time=\"12345.679\"", "time=\"12345.6789\""),
        ("</testsuites>", ""),
    ] {
        assert!(text.contains(was), "{was}");
        std::fs::write(&file, text.replacen(was, is, 1)).unwrap();
        assert!(refused(&file).is_some(), "{was} -> {is}");
    }
}

#[test]
fn github_annotations() {
    let mut github = Github::new(Vec::new());
    for report in [clean(), incident(Some(Expect::Anomaly)), incident(Some(Expect::Clean)), cannot_tell(), deadlock()] {
        github.report(&report).unwrap();
    }
    github.finish().unwrap();
    insta::assert_snapshot!(String::from_utf8(github.into_inner()).unwrap());
}

#[test]
fn github_commands_cannot_be_forged() {
    let mut report = hostile();
    report.replay = Some("100%,a:b\n::warning::x".into());
    let mut github = Github::new(Vec::new());
    github.report(&report).unwrap();
    let text = String::from_utf8(github.into_inner()).unwrap();
    assert_eq!(text.lines().count(), 2, "one error, one warning: {text}");
    let (head, _) = text.lines().next().unwrap().strip_prefix("::error ").unwrap().split_once("::").unwrap();
    assert!(head.starts_with("file=a%2Cb%3Ac"), "{head}");
    assert_eq!(head.matches(',').count(), 1, "only file and title: {head}");
    assert_eq!(head.matches('=').count(), 2, "{head}");
    assert!(text.contains("100%25,a:b\\n::warning::x"), "{text}");
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
}

#[test]
fn exit_codes_of_reports() {
    let expected = |kind| Some(Expect::Kinds(vec![kind]));
    let found_but_unsure = Report { anomalies: incident(None).anomalies, ..cannot_tell() };
    let cases = [
        (clean(), ExitCode::AsExpected),
        (incident(expected(Kind::LostUpdate)), ExitCode::AsExpected),
        (incident(expected(Kind::TornRead)), ExitCode::Anomaly),
        (incident(None), ExitCode::Anomaly),
        (common::report("x", Verdict::Clean, Some(Expect::Anomaly)), ExitCode::Anomaly),
        (cannot_tell(), ExitCode::CannotTell),
        (found_but_unsure, ExitCode::Anomaly),
    ];
    for (report, code) in cases {
        assert_eq!(ExitCode::of(&report), code, "{} {:?}", report.verdict, report.expected);
    }
    assert_eq!(exit_code(&[clean(), cannot_tell()]), ExitCode::CannotTell);
    assert_eq!(exit_code(&[cannot_tell(), incident(None), clean()]), ExitCode::Anomaly);
}
