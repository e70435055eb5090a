//! Anything at all in the file, the account, the parameters: nothing panics, and nothing that is not understood is
//! changed or lost.

mod support;

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::test_runner::Config;
use queue_core::audit::Entry;
use queue_core::strategy::sharded::file_name;
use queue_core::{Claim, Document, Error, Hold, Queue, Settings, Task};
use serde_json::value::RawValue;
use support::ops::{Kind, task};
use support::storage::{Alone, Model};
use support::world::World;

/// Any JSON, with a liking for the words that matter here.
fn any_json() -> impl Strategy<Value = String> {
    let word = || {
        prop_oneof![
            prop::sample::select(vec![
                "version",
                "tasks",
                "id",
                "account",
                "state",
                "attempts",
                "worker",
                "lease_until",
                "params",
                "$serde_json::private::Number",
                "$serde_json::private::RawValue",
            ])
            .prop_map(str::to_owned),
            ".{0,6}",
        ]
        .prop_map(|text| serde_json::to_string(&text).unwrap())
    };
    let leaf = prop_oneof![
        prop::sample::select(vec!["null", "true", "0", "1", "-1", "1.50", "1e400", "18446744073709551616", "[]", "{}"])
            .prop_map(str::to_owned),
        word(),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        let pair = (word(), inner.clone()).prop_map(|(key, value)| format!("{key}: {value}"));
        prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(|items| format!("[{}]", items.join(" ,"))),
            prop::collection::vec(pair, 0..6).prop_map(|pairs| format!("{{{}}}", pairs.join(","))),
        ]
    })
}

/// A file: any bytes, any JSON, or a queue with anything in it.
fn any_file() -> impl Strategy<Value = Vec<u8>> {
    let tasks = prop::collection::vec(any_json(), 0..4);
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        any_json().prop_map(String::into_bytes),
        (any_json(), tasks).prop_map(|(version, tasks)| {
            format!(r#"{{"version": {version}, "tasks": [{}]}}"#, tasks.join(",")).into_bytes()
        }),
    ]
}

/// A sound queue of which much is not ours.
fn any_queue() -> impl Strategy<Value = String> {
    let ours = ["version", "tasks"].map(|key| format!("\"{key}\":"));
    let of_task = ["id", "account", "state", "attempts", "worker", "lease_until"];
    let extra = || ("[a-z]{1,8}", any_json());
    (prop::collection::vec(extra(), 0..4), prop::collection::vec(extra(), 0..5), 0..1000_u64).prop_map(
        move |(fields, tasks, version)| {
            let tasks: Vec<_> = tasks
                .iter()
                .enumerate()
                .filter(|(_, (key, _))| !of_task.contains(&&**key))
                .map(|(index, (key, value))| format!(r#"{{"{key}" : {value}, "id":"t{index}"}}"#))
                .collect();
            let fields: String = fields
                .iter()
                .filter(|(key, _)| !ours.contains(&format!("\"{key}\":")))
                .map(|(key, value)| format!(r#""{key}": {value}, "#))
                .collect();
            let tasks = match tasks.is_empty() {
                true => "[]".to_owned(),
                false => format!("[\n  {}\n]", tasks.join(",\n  ")),
            };
            format!("{{{fields}\"version\": {version}, \"tasks\": {tasks}}}\n")
        },
    )
}

proptest! {
    #![proptest_config(Config { cases: 500, failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_file_that_is_refused_is_left_alone(kind in prop::sample::select(vec![Kind::Naive, Kind::Flock]), file in any_file()) {
        let gate = Alone::new(kind.world(&[("queue.json", &file)]));
        let queue = Queue::open(Model::new(gate.clone(), 7), kind.path(), kind.strategy(), Settings::default());
        let results = [
            queue.list(None).map(drop),
            queue.claim(&Claim::by("w")).map(drop),
            queue.push(&task("new", "a")).map(drop),
        ];
        match Document::parse(&file) {
            Ok(_) => {
                let now = gate.world().file("queue.json").unwrap().to_vec();
                prop_assert!(Document::parse(&now).is_ok());
                let refused_for_good_reason = |result: &Result<(), Error>| {
                    matches!(result, Ok(()) | Err(Error::VersionExhausted { .. }))
                };
                prop_assert!(results.iter().all(refused_for_good_reason));
            }
            Err(malformed) => {
                prop_assert!(malformed.position.offset <= file.len());
                for result in results {
                    prop_assert!(matches!(result, Err(Error::BadFile { .. })), "{result:?}");
                }
                let world = gate.world();
                prop_assert_eq!(world.file("queue.json").unwrap(), &file[..]);
                let others: Vec<_> = world.files().map(|(path, _)| path.to_owned()).filter(|path| !path.ends_with("queue.json") && !path.ends_with(".queue.json.lock") && !path.ends_with("queue.json.strategy")).collect();
                prop_assert!(others.is_empty(), "{others:?}");
            }
        }
    }

    #[test]
    fn a_document_comes_back_as_it_was(text in any_queue()) {
        let document = Document::parse(text.as_bytes());
        prop_assume!(document.is_ok());
        prop_assert_eq!(String::from_utf8(document.unwrap().to_bytes()).unwrap(), text);
    }

    #[test]
    fn operations_leave_what_is_not_ours(text in any_queue()) {
        prop_assume!(Document::parse(text.as_bytes()).is_ok_and(|document| document.version() > 0));
        let gate = Alone::new(World::with(&[("queue.json", text.as_bytes())]));
        let settings = Settings { done_keep: 0, ..Settings::default() };
        let queue = Queue::open(Model::new(gate.clone(), 7), "queue.json", Kind::Flock.strategy(), settings);
        queue.push(&task("new", "a")).unwrap();
        queue.complete("new", None, &Hold::Any).unwrap();
        let version = Document::parse(text.as_bytes()).unwrap().version();
        let expected = text.replace(&format!("\"version\": {version}, \"tasks\""), &format!("\"version\": {}, \"tasks\"", version + 2));
        let world = gate.world();
        prop_assert_eq!(std::str::from_utf8(world.file("queue.json").unwrap()).unwrap(), expected);
    }

    #[test]
    fn parameters_are_kept_as_written(json in any_json(), id in "[^\\p{Cc}]{1,20}", account in ".{1,20}") {
        let params = RawValue::from_string(json.clone()).unwrap();
        let task = Task::new(&id, &account, &params).unwrap();
        prop_assert!(task.text().contains(&json));
        let text = format!(r#"{{"version":1,"tasks":[{}]}}"#, task.text());
        let document = Document::parse(text.as_bytes()).unwrap();
        prop_assert_eq!(document.tasks()[0].id(), id);
        prop_assert_eq!(document.tasks()[0].account(), account);
        prop_assert_eq!(document.tasks()[0].text(), task.text());
    }

    #[test]
    fn account_file_names_are_safe_and_distinct(accounts in prop::collection::vec("[aA./%\\x00\\\\ äÄ]{1,4}|.{1,30}", 1..40)) {
        let mut seen = HashMap::new();
        for account in accounts {
            let Ok(name) = file_name(&account) else { continue };
            prop_assert!(name.starts_with("queue_") && name.ends_with(".json"));
            prop_assert!(name.is_ascii() && name.len() < 200);
            prop_assert!(!name.contains(['/', '\\', '\0', ':']));
            // What a file system that ignores case would make of it.
            let other = seen.insert(name.to_lowercase(), account.clone());
            prop_assert!(other.is_none_or(|other| other == account));
        }
    }

    #[test]
    fn audit_lines_come_back(
        (at, host, file, op) in (".*", ".*", ".*", ".*"),
        (pid, start, read, wrote) in any::<(u32, u64, u64, u64)>(),
        ids in prop::collection::vec(".*", 0..4),
    ) {
        let entry = Entry {
            schema: 1, at, host, pid, start, file, op, read, wrote,
            read_hash: "00000000".into(), wrote_hash: "ffffffff".into(), ids,
        };
        let line = entry.to_line();
        prop_assert_eq!(line.find('\n'), Some(line.len() - 1));
        prop_assert_eq!(Entry::parse(&line), Some(entry));
    }
}
