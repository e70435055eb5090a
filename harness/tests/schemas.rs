//! The published schemas: they are schemas, what is written fits them, and what is wrong does not.

mod common;
mod schema_support;

use std::{fs, path::Path, process::Command};

use common::{cannot_tell, clean, deadlock, hostile, incident, long};
use noclobber::{
    report::{Part, Report, Teeth, Tooth, teeth_to_json, to_json},
    scenario::{Expect, Kind, discover, parse, parse_draft},
    schema::Schema,
    world::{Protection, Weakening},
};
use schema_support::{assert_valid, complaints, toml_value};
use serde_json::{Value, json};

#[test]
fn they_are_schemas_with_their_version_and_the_program_prints_them() {
    let names = ["scenario", "report", "teeth", "audit", "incident", "doctor"];
    for (schema, name) in Schema::ALL.into_iter().zip(names) {
        let value: Value = serde_json::from_str(schema.text()).unwrap();
        jsonschema::meta::validate(&value).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(value["$id"], format!("urn:noclobber:schema:{name}:1"));
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("schema/{name}.schema.json"));
        assert_eq!(fs::read_to_string(file).unwrap(), schema.text());
        let output = Command::new(env!("CARGO_BIN_EXE_noclobber")).args(["schema", name]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), schema.text(), "{name}");
    }
    let files = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("schema")).unwrap();
    assert_eq!(files.count(), Schema::ALL.len(), "every file is one that the program knows");
}

#[test]
fn what_two_formats_share_is_said_in_the_same_words() {
    let definitions =
        |schema: Schema| -> Value { serde_json::from_str::<Value>(schema.text()).unwrap()["definitions"].take() };
    let (report, teeth) = (definitions(Schema::Report), definitions(Schema::Teeth));
    for name in ["kind", "step", "anomaly", "explored"] {
        assert!(report[name].is_object(), "{name}");
        assert_eq!(report[name], teeth[name], "{name}");
    }
}

fn part() -> Report {
    let part = Part { part: 2, of: 3, workers: vec!["A".into()], classes: vec!["0f".into()], ..Part::default() };
    Report { part: Some(part), ..clean() }
}

fn reports() -> Vec<Report> {
    let mut sampled = clean();
    sampled.explored.miss_bound = Some([("pct-3".to_owned(), 0.25)].into());
    (sampled.trace_hash, sampled.explored.classes_hash) = (None, Some("0a".repeat(32)));
    let several = incident(Some(Expect::Kinds(vec![Kind::LostUpdate, Kind::TornRead])));
    vec![incident(None), several, clean(), sampled, part(), cannot_tell(), deadlock(), hostile(), long(2), long(9)]
}

#[test]
fn every_report_is_as_its_schema_says() {
    for report in reports() {
        // Hostile reports have a verdict and a reason that never go together.
        let report = if report.reason.is_some() && report.verdict.name() != "cannot-tell" {
            Report { reason: None, ..report }
        } else {
            report
        };
        assert_valid(Schema::Report, &to_json(&report));
    }
}

fn teeth() -> Teeth {
    let tooth = |needed, report| Tooth {
        weakening: Weakening::new(Protection::Flock, "lock"),
        workers: vec!["A".into(), "B".into()],
        needed,
        covered_by: None,
        together: Vec::new(),
        report,
        advice: vec!["look".into()],
    };
    let covered =
        Tooth { covered_by: Some(Weakening::new(Protection::Rename, "q.json")), ..tooth(Some(false), clean()) };
    let either =
        Tooth { together: vec![Weakening::new(Protection::Flock, "other")], ..tooth(Some(true), incident(None)) };
    Teeth {
        scenario: "guard".into(),
        file: None,
        guard: clean(),
        teeth: vec![tooth(Some(true), incident(None)), either, covered, tooth(None, cannot_tell())],
        notes: vec!["a note".into()],
    }
}

#[test]
fn every_guard_is_as_its_schema_says() {
    for guard in [clean(), cannot_tell(), incident(None)] {
        assert_valid(Schema::Teeth, &teeth_to_json(&Teeth { guard, ..teeth() }));
    }
}

/// Every value in a document is changed in turn into something that it cannot be.
fn planted(value: &Value) -> Vec<(String, Value)> {
    fn places(value: &Value, at: String, all: &mut Vec<String>) {
        match value {
            Value::Object(entries) => {
                entries.iter().for_each(|(k, v)| places(v, format!("{at}/{}", k.replace('/', "~1")), all));
            }
            Value::Array(items) => items.iter().enumerate().for_each(|(i, v)| places(v, format!("{at}/{i}"), all)),
            _ => {}
        }
        all.push(at);
    }
    let mut all = Vec::new();
    places(value, String::new(), &mut all);
    let mut wrong = Vec::new();
    for at in all {
        let mut changed = value.clone();
        // No key of any format may be a negative number with a fraction.
        *changed.pointer_mut(&at).unwrap() = json!(-1.5);
        wrong.push((format!("{at} is -1.5"), changed));
        if let Some(Value::Object(entries)) = value.pointer(&at) {
            let mut more = value.clone();
            more.pointer_mut(&at).unwrap()["surprise"] = json!(true);
            wrong.push((format!("{at} has a surprise"), more));
            for key in entries.keys().filter(|key| *key != "partition") {
                let mut less = value.clone();
                less.pointer_mut(&at).unwrap().as_object_mut().unwrap().remove(key);
                wrong.push((format!("{at} without {key}"), less));
            }
        }
    }
    wrong
}

#[test]
fn a_wrong_report_is_refused_whatever_is_wrong() {
    let mut report = part();
    report.explored.miss_bound = Some([("pct-3".to_owned(), 0.25)].into());
    for (schema, value) in [
        (Schema::Report, to_json(&incident(Some(Expect::Clean)))),
        (Schema::Report, to_json(&report)),
        (Schema::Teeth, teeth_to_json(&teeth())),
    ] {
        let checked = schema_support::validator(schema);
        let wrong = planted(&value);
        assert!(wrong.len() > 50, "{}", wrong.len());
        for (what, wrong) in wrong {
            // Bounds of samplers may be any.
            if !what.contains("miss_bound without") {
                assert!(!checked.is_valid(&wrong), "{schema:?}: {what}");
            }
        }
    }
    let good = to_json(&incident(None));
    for (what, at, value) in [
        ("an unknown kind", "/anomalies/0/kind", json!("lost-updates")),
        ("an unknown operation", "/anomalies/0/steps/0/op", json!("flock")),
        ("a hash that is none", "/trace_hash", json!("5f")),
        ("another version", "/schema", json!(2)),
        ("a pivot of three", "/anomalies/0/pivot", json!([1, 2, 3])),
        ("clean with an anomaly", "/verdict", json!("clean")),
        ("an anomaly of which nothing is told", "/anomalies", json!([])),
        ("cannot-tell without a reason", "/verdict", json!("cannot-tell")),
        ("an end that is none", "/explored/ended_by", json!("done")),
    ] {
        let mut wrong = good.clone();
        *wrong.pointer_mut(at).unwrap() = value;
        assert!(!complaints(Schema::Report, &wrong).is_empty(), "{what}");
    }
}

#[test]
fn every_scenario_of_this_repository_is_as_the_schema_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let checked = schema_support::validator(Schema::Scenario);
    let files = discover(&[root.join("../scenarios"), root.join("tests/data")]).unwrap();
    assert!(files.len() > 150, "{}", files.len());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        parse_draft(&text, &file).unwrap_or_else(|e| panic!("{e}"));
        let errors: Vec<String> =
            checked.iter_errors(&toml_value(&text)).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{}:\n{}", file.display(), errors.join("\n"));
    }
}

/// What is wrong to the reader is wrong to the editor, where it can know.
#[test]
fn wrong_scenarios_are_refused_by_both() {
    let a = "[[worker]]\nname = \"A\"\nrun = \"true\"\n";
    let top = format!("expect = \"clean\"\n{a}");
    let cases = [
        a.to_owned(),
        "expect = \"clean\"\n".to_owned(),
        format!("expect = \"lost-updat\"\n{a}"),
        format!("expect = []\n{a}"),
        format!("expect = [\"clean\"]\n{a}"),
        format!("expects = \"clean\"\n{top}"),
        format!("setup = 3\n{top}"),
        format!("seed = 1\n{top}"),
        format!("env = {{ N = 1 }}\n{top}"),
        format!("files = {{ n = 1 }}\n{top}"),
        format!("{top}conut = 2\n"),
        format!("{top}count = 0\n"),
        format!("{top}count = 1001\n"),
        format!("{top}exit = 256\n"),
        format!("{top}ends = \"never\"\n"),
        format!("{top}after = 3\n"),
        "expect = \"clean\"\n[[worker]]\nname = \"a/b\"\nrun = \"true\"\n".to_owned(),
        "expect = \"clean\"\n[[worker]]\nrun = \"true\"\n".to_owned(),
        "expect = \"clean\"\n[[worker]]\nname = \"A\"\n".to_owned(),
        "expect = \"clean\"\n[[worker]]\nname = \"A\"\nrun = []\n".to_owned(),
        "expect = \"clean\"\n[worker]\nname = \"A\"\nrun = \"true\"\n".to_owned(),
        format!("{top}[search]\nmax_schedule = 2\n"),
        format!("{top}[search]\nmax_schedules = 0\n"),
        format!("{top}[search]\nseed = -1\n"),
        format!("{top}[search]\nsearch = \"dpor\"\n"),
        format!("{top}[search]\nsearch = \"pct:0\"\n"),
        format!("{top}[search]\nsearch = \"pct:100\"\n"),
        format!("{top}[search]\ntime = \"reel\"\n"),
        format!("{top}[search]\ntime_limit = \"3\"\n"),
        format!("{top}[search]\ntime_limit = 3\n"),
        format!("{top}[search]\nexhaustive = \"yes\"\n"),
        format!("{top}[oracle]\nserial = \"worker\"\n"),
        format!("{top}[oracle]\nallow = \"torn\"\n"),
        format!("{top}[oracle]\nignore = 3\n"),
        format!("{top}[oracle]\nconserve = {{ fiel = \"q\", file = \"q\", done = \"d\" }}\n"),
        format!("{top}[oracle]\nconserve = {{ file = \"q\" }}\n"),
        format!("{top}[limits]\nsteps = 0\n"),
        format!("{top}[[delay]]\nworker = \"A\"\nfor = \"3s\"\n"),
        format!("{top}[[delay]]\nworker = \"A\"\nafter = \"read\"\nbefore = \"read\"\nfor = \"3s\"\n"),
        format!("{top}[[delay]]\nworker = \"A\"\nafter = \"reed x\"\nfor = \"3s\"\n"),
        format!("{top}[[delay]]\nworker = \"A\"\nafter = \"read x\"\n"),
        format!("{top}[[delay]]\nafter = \"read x\"\nfor = \"3s\"\n"),
        format!("{top}[[delay]]\nworker = \"A\"\nafter = \"read x\"\nfor = \"3 parsecs\"\n"),
        format!("{top}[[delay]]\nworker = \"A\"\nafter = \"read x\"\nnth = 0\nfor = \"3s\"\n"),
        format!("{top}[[fault]]\nworker = \"A\"\n"),
        format!("{top}[[fault]]\nkind = \"kil\"\n"),
        format!("{top}[[fault]]\nkind = \"kill:9\"\n"),
        format!("{top}[[fault]]\nkind = \"errno:ENOSPACE\"\n"),
        format!("{top}[[fault]]\nkind = \"short-write:0\"\n"),
        format!("{top}[[fault]]\nkind = \"pause:30\"\n"),
        format!("{top}[[fault]]\nkind = \"kill\"\nnth = \"every\"\n"),
        format!("{top}[[fault]]\nkind = \"kill\"\nat = \"rite x\"\n"),
    ];
    assert!(complaints(Schema::Scenario, &toml_value(&top)).is_empty());
    for text in cases {
        assert!(parse(&text, Path::new("x.toml")).is_err(), "the reader takes\n{text}");
        assert!(!complaints(Schema::Scenario, &toml_value(&text)).is_empty(), "the schema takes\n{text}");
    }
}

/// What is right to the reader is right to the editor: the forms that are seldom written.
#[test]
fn seldom_forms_are_taken_by_both() {
    let top =
        "expect = \"clean\"\nwatch = [\"/a\", \"b\"]\n[[worker]]\nname = \"A b\"\nrun = [\"\u{e9}\", \"\"]\nexit = 3\n";
    for more in [
        "[search]\nsearch = \"pct:99\"\ntime_limit = \"1h 2min 3.5s 4ms 5\u{b5}s\"\n",
        "[search]\ntime_limit = \"0\"\nseed = 0xffff_ffff_ffff_ffff\n",
        "[[delay]]\nworker = [\"A b\"]\nbefore = \" flock  a b*.json \"\nfor = \"1us\"\n",
        "[[fault]]\nkind = \"errno:EDQUOT\"\nat = \"*\"\nnth = 4294967295\n",
        "[[fault]]\nkind = \"pause:1m30s\"\n",
        "[[fault]]\nkind = \"short-read:65536\"\n",
        "[oracle]\nserial = false\nstate = \"x\"\nmultiset = \"a\"\nallow = [\"worker-failed\"]\n",
    ] {
        let text = format!("{top}{more}");
        parse_draft(&text, Path::new("x.toml")).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(complaints(Schema::Scenario, &toml_value(&text)), [""; 0], "{text}");
    }
}
