//! Adding tasks to a file without reading what it says.

use crate::document::Layout;
use crate::json::quoted;
use crate::task::Task;

/// The file's next version with `tasks` at its end.
///
/// `layout` must be that of these very bytes. None: it cannot be done this way, because one of the ids may be there
/// already (only a parse can tell), or because something is not where it should be.
pub(crate) fn append(bytes: &[u8], layout: &Layout, tasks: &[Task]) -> Option<(Vec<u8>, Layout)> {
    let digits = layout.version.to_string();
    let version = layout.version.checked_add(1)?;
    let sound = layout.plain
        && bytes.get(layout.digits..)?.starts_with(digits.as_bytes())
        && layout.digits + digits.len() <= layout.end
        && bytes.get(layout.end..)?.starts_with(if layout.tasks == 0 { b"]" } else { b"\n]" });
    if !sound
        || tasks.is_empty()
        || tasks.iter().enumerate().any(|(index, task)| may_hold(bytes, &tasks[..index], task))
    {
        return None;
    }
    let fresh = version.to_string();
    let added: usize = tasks.iter().map(|task| task.text().len() + 4).sum();
    let mut out = Vec::with_capacity(bytes.len() + fresh.len() + added + 1);
    out.extend_from_slice(&bytes[..layout.digits]);
    out.extend_from_slice(fresh.as_bytes());
    out.extend_from_slice(&bytes[layout.digits + digits.len()..layout.end]);
    for (index, task) in tasks.iter().enumerate() {
        out.extend_from_slice(if layout.tasks + index == 0 { b"\n  " } else { b",\n  " });
        out.extend_from_slice(task.text().as_bytes());
    }
    let end = out.len();
    if layout.tasks == 0 {
        out.push(b'\n');
    }
    out.extend_from_slice(&bytes[layout.end..]);
    let tasks = layout.tasks + tasks.len();
    Some((out, Layout { version, digits: layout.digits, end, tasks, plain: true }))
}

/// Whether the id may be in the file or among the tasks before it. A search can only say that it is not: what it finds
/// may stand in somebody's parameters.
fn may_hold(bytes: &[u8], before: &[Task], task: &Task) -> bool {
    !task.is_plain()
        || before.iter().any(|other| other.id() == task.id())
        || memchr::memmem::find(bytes, quoted(task.id()).as_bytes()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use serde_json::value::RawValue;

    fn task(id: &str) -> Task {
        Task::new(id, "a", RawValue::NULL).unwrap()
    }

    #[test]
    fn it_is_what_parsing_and_writing_would_give() {
        for text in [
            r#"{"version": 0, "tasks": []}"#,
            r#"{"version": 9, "x": 1, "tasks": [{"id":"t1"}], "done": [{"id":"t0"}]}"#,
            r#"{"tasks": [{"id":"t1"},{"id":"t2","params":{"tasks": []}}], "note": "]", "version": 99}"#,
        ] {
            let document = Document::parse(text.as_bytes()).unwrap();
            let (bytes, layout) = document.write();
            let tasks = [task("n1"), task("n\"2")];
            let mut slow = document.clone();
            tasks.iter().for_each(|task| slow.push(task.clone()));
            assert!(slow.advance());
            let spliced = append(&bytes, &layout, &tasks);
            // The version after the tasks: not in this way.
            assert_eq!(spliced.is_none(), text.starts_with(r#"{"tasks""#));
            if let Some((fast, layout)) = spliced {
                assert_eq!((String::from_utf8(fast).unwrap(), layout), {
                    let (bytes, layout) = slow.write();
                    (String::from_utf8(bytes).unwrap(), layout)
                });
            }
        }
    }

    #[test]
    fn what_may_be_there_is_left_to_the_parser() {
        let text = r#"{"version": 1, "tasks": [{"id":"t1","params":"t2"}], "done": [{"id":"t3"}]}"#;
        let (bytes, layout) = Document::parse(text.as_bytes()).unwrap().write();
        for id in ["t1", "t2", "t3"] {
            assert!(append(&bytes, &layout, &[task(id)]).is_none(), "{id}");
        }
        assert!(append(&bytes, &layout, &[task("t4"), task("t4")]).is_none());
        assert!(append(&bytes, &layout, &[]).is_none());
        assert!(append(&bytes, &layout, &[task("t4")]).is_some());
        for wrong in [
            Layout { version: 2, ..layout },
            Layout { end: layout.end + 1, ..layout },
            Layout { end: usize::MAX, ..layout },
            Layout { plain: false, ..layout },
        ] {
            assert!(append(&bytes, &wrong, &[task("t4")]).is_none());
        }
        // An id that is written with escapes would not be found.
        let escaped = r#"{"version": 1, "tasks": [{"id":"\u0074"}]}"#;
        assert!(!Document::parse(escaped.as_bytes()).unwrap().write().1.plain);
    }
}
