//! Was anything lost or done twice? Judged in every slice, from what the workers say they did against what is in the
//! queue afterwards.
//!
//! Each task that was put in has to be somewhere exactly once: handed out to one worker, or still in the queue. A task
//! that is nowhere is *lost*. One that was handed out twice, that lies in the queue twice, or that was handed out,
//! completed, and lies there again is *duplicated*. What failed may have happened or not, so its task is neither.

use std::{collections::HashMap, path::Path};

use super::protocol::{Done, Op, Record};

/// How large a queue file may be.
const MAX_FILE: u64 = 1 << 30;

/// What is in the queue at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// The ids, with repetitions.
    pub ids: Vec<String>,
    /// Why it could not be read whole: then what it held is gone.
    pub damaged: Option<String>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conservation {
    /// Tasks that were acknowledged and are nowhere.
    pub lost: u64,
    /// Tasks that are, or were handed out, more than once.
    pub duplicated: u64,
    /// Tasks that nobody put in.
    pub foreign: u64,
    /// Some of each, for the report.
    pub examples: Vec<String>,
    /// Why the queue could not be read.
    pub damaged: Option<String>,
}

#[derive(Default)]
struct Fate {
    put_in: u32,
    handed_out: u32,
    left: u32,
    unsure: bool,
}

/// Counts tasks. `kept` were there from the beginning, as `k-0`, `k-1`, ...
pub fn conserve<'a>(kept: usize, records: impl IntoIterator<Item = &'a Record>, left: &Left) -> Conservation {
    let mut fates: HashMap<String, Fate> = HashMap::new();
    for number in 0..kept {
        fates.entry(format!("k-{number}")).or_default().put_in = 1;
    }
    for record in records {
        let Some(id) = &record.id else { continue };
        let fate = fates.entry(id.to_string()).or_default();
        match (record.op, record.done) {
            (Op::Push, Done::Ok) => fate.put_in += 1,
            (Op::Claim, Done::Ok) => fate.handed_out += 1,
            // Completed or not, it was handed out, which the claim says. A failed completion may leave it in the queue.
            (Op::Complete, Done::Ok) | (_, Done::Nothing) => {}
            (Op::Push | Op::Claim | Op::Complete, Done::Failed) => fate.unsure = true,
        }
    }
    for id in &left.ids {
        fates.entry(id.clone()).or_default().left += 1;
    }
    let mut found = Conservation { damaged: left.damaged.clone(), ..Conservation::default() };
    let mut fates: Vec<(String, Fate)> = fates.into_iter().collect();
    fates.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut examples = [const { Vec::new() }; 3];
    for (id, fate) in fates {
        let seen = fate.handed_out + fate.left;
        let kind = if fate.put_in == 0 && !fate.unsure {
            found.foreign += 1;
            2
        } else if fate.handed_out > 1 || (seen > 1 && !fate.unsure) || fate.left > 1 {
            found.duplicated += 1;
            1
        } else if seen == 0 && fate.put_in > 0 && !fate.unsure {
            found.lost += 1;
            0
        } else {
            continue;
        };
        if examples[kind].len() < 3 {
            let word = ["lost", "duplicated", "put in by nobody"][kind];
            examples[kind].push(format!("{id} {word}: handed out {} times, {} left", fate.handed_out, fate.left));
        }
    }
    found.examples = examples.concat();
    found
}

/// What the queue files under `dir` hold: `queue.json`, or all of the folder `queues`. It is read here and not by the
/// program that is measured.
pub(super) fn read_json_queue(dir: &Path) -> Left {
    let mut left = Left::default();
    let single = dir.join("queue.json");
    let mut files = vec![single.clone()];
    if !single.exists()
        && let Ok(entries) = std::fs::read_dir(dir.join("queues"))
    {
        files = entries.flatten().map(|entry| entry.path()).filter(|path| is_shard(path)).collect();
        files.sort();
    }
    for file in files {
        if let Err(why) = read_one(&file, &mut left.ids) {
            let name = file.strip_prefix(dir).unwrap_or(&file).display();
            left.damaged.get_or_insert(format!("{name}: {why}"));
        }
    }
    left
}

fn is_shard(path: &Path) -> bool {
    path.file_name().is_some_and(|name| {
        let name = name.to_string_lossy();
        name.ends_with(".json") && !name.starts_with('.')
    })
}

fn read_one(file: &Path, ids: &mut Vec<String>) -> Result<(), String> {
    let size = std::fs::metadata(file).map_err(|e| e.to_string())?.len();
    if size > MAX_FILE {
        return Err("too large to be read".into());
    }
    let text = std::fs::read(file).map_err(|e| e.to_string())?;
    let document: serde_json::Value = serde_json::from_slice(&text).map_err(|e| format!("no JSON: {e}"))?;
    let tasks = document.get("tasks").and_then(|tasks| tasks.as_array()).ok_or("no list `tasks`")?;
    for task in tasks {
        let id = task.get("id").and_then(|id| id.as_str()).ok_or("a task without an id")?;
        ids.push(id.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(kept: usize, records: &[&str], left: &[&str]) -> (u64, u64, u64) {
        let records: Vec<Record> = records
            .iter()
            .map(|words| {
                let (what, id) = words.rsplit_once(' ').unwrap();
                Record::parse(&format!("{what} 1 0 2 {id}")).unwrap()
            })
            .collect();
        let left = Left { ids: left.iter().map(|id| (*id).to_owned()).collect(), damaged: None };
        let found = conserve(kept, &records, &left);
        (found.lost, found.duplicated, found.foreign)
    }

    #[test]
    fn each_task_is_somewhere_once() {
        /// Kept, reported, left, what is found, in words.
        type Case = (usize, &'static [&'static str], &'static [&'static str], (u64, u64, u64), &'static str);
        let cases: &[Case] = &[
            (2, &[], &["k-0", "k-1"], (0, 0, 0), "nothing happened"),
            (2, &[], &["k-0"], (1, 0, 0), "one of the first is gone"),
            (1, &["push ok a"], &["k-0", "a"], (0, 0, 0), "pushed"),
            (1, &["push ok a"], &["k-0"], (1, 0, 0), "pushed and gone"),
            (1, &["claim ok k-0", "complete ok k-0"], &[], (0, 0, 0), "taken"),
            (1, &["claim ok k-0", "claim ok k-0"], &[], (0, 1, 0), "handed out twice"),
            (1, &["claim ok k-0", "complete ok k-0"], &["k-0"], (0, 1, 0), "completed and there again"),
            (1, &["claim ok k-0", "complete fail k-0"], &["k-0"], (0, 0, 0), "not completed"),
            (1, &["claim ok k-0", "complete fail k-0"], &[], (0, 0, 0), "completed perhaps"),
            (1, &["claim ok k-0", "claim ok k-0", "complete fail k-0"], &[], (0, 1, 0), "handed out twice, one failed"),
            (0, &["push fail a"], &[], (0, 0, 0), "a failed push may not have happened"),
            (0, &["push fail a"], &["a"], (0, 0, 0), "or may have"),
            (0, &["push ok a"], &["a", "a"], (0, 1, 0), "there twice"),
            (0, &[], &["z"], (0, 0, 1), "from nobody"),
            (0, &["claim ok z"], &[], (0, 0, 1), "made up by a worker"),
        ];
        for (kept, records, left, expected, what) in cases {
            assert_eq!(judged(*kept, records, left), *expected, "{what}");
        }
    }

    #[test]
    fn a_queue_is_read_whole_or_called_damaged() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read_json_queue(dir.path()).damaged.is_some(), "there is none");
        std::fs::create_dir(dir.path().join("queues")).unwrap();
        for (name, text) in [
            ("queue_a.json", r#"{"version":1,"tasks":[{"id":"1"}]}"#),
            ("queue_b.json", r#"{"version":1,"tasks":[{"id":"2"},{"id":"1"}]}"#),
            (".queue_b.json.lock", "no JSON"),
        ] {
            std::fs::write(dir.path().join("queues").join(name), text).unwrap();
        }
        assert_eq!(read_json_queue(dir.path()), Left { ids: vec!["1".into(), "2".into(), "1".into()], damaged: None });
        std::fs::write(dir.path().join("queue.json"), r#"{"version":1,"tasks":[{"id":"1"}]}]}"#).unwrap();
        assert!(read_json_queue(dir.path()).damaged.unwrap().starts_with("queue.json: no JSON"));
    }
}
