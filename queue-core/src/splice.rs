//! Changing a file without reading all of what it says.
//!
//! What is known of the file is that we wrote it, and where its parts lie. So a task can be added without a look at the
//! others; and a task can be changed or taken out by looking at it alone, if each has a line of its own. A byte search for
//! an id may only say that it is not there: what it finds is parsed, since it may stand in somebody's parameters.

use std::ops::Range;

use memchr::{memchr, memmem, memrchr};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::document::Done;
use crate::json::{Source, quoted};
use crate::task::Task;

/// What stands before each entry of a list, beside the comma after the entry before.
const INDENT: &str = "\n  ";

/// Where a list's entries lie in a file's text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Span {
    /// After the opening bracket.
    pub(crate) begin: usize,
    /// After the last entry; after the opening bracket, if there is none.
    pub(crate) end: usize,
    /// How many there are.
    pub(crate) count: usize,
}

/// Where in a file's text the parts lie that operations change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layout {
    /// The version.
    pub(crate) version: u64,
    /// Where its digits begin.
    pub(crate) digits: usize,
    /// The tasks.
    pub(crate) tasks: Span,
    /// The ring of completed ids, if there is one that is ours.
    pub(crate) done: Option<Span>,
    /// Whether every id stands in the text as [`quoted`] writes it, so that a search for these bytes finds it.
    pub(crate) plain: bool,
    /// Whether every task and every completed id has exactly one line.
    pub(crate) lines: bool,
}

/// A file's text that is proven to be as we wrote it, with its layout.
#[derive(Debug, Clone, Copy)]
pub struct Proven<'a> {
    bytes: &'a [u8],
    layout: Layout,
}

/// What an operation does to a proven text. Whatever is not named stays as it is.
#[derive(Debug, Default)]
pub(crate) struct Edit<'a> {
    /// Tasks that are replaced or taken out, in the order of the text.
    pub(crate) tasks: Vec<(Range<usize>, Option<Task>)>,
    /// Tasks that are added at the end.
    pub(crate) pushed: &'a [Task],
    /// How many completed ids are forgotten: the oldest.
    pub(crate) forgotten: usize,
    /// The id that is completed now.
    pub(crate) done: Option<Done>,
}

/// A text that was made from a proven one.
#[derive(Debug)]
pub struct Edited {
    pub(crate) bytes: Vec<u8>,
    pub(crate) layout: Layout,
}

impl Edited {
    /// The same to be changed once more.
    pub(crate) fn proven(&self) -> Proven<'_> {
        Proven { bytes: &self.bytes, layout: self.layout }
    }
}

impl<'a> Proven<'a> {
    /// `layout` must be that of these very bytes. None: it is not, or the parts have another order than ours, or an id may
    /// be written in a way that no search finds.
    pub(crate) fn new(bytes: &'a [u8], layout: Layout) -> Option<Self> {
        let digits = layout.version.to_string();
        let closed = |list: &Span| {
            let rest = bytes.get(list.end..).unwrap_or_default();
            list.begin <= list.end
                && bytes.get(list.begin.wrapping_sub(1)) == Some(&b'[')
                && rest.starts_with(if list.count == 0 { b"]" } else { b"\n]" })
                && (list.count == 0) == (list.begin == list.end)
        };
        let sound = layout.plain
            && bytes.get(layout.digits..)?.starts_with(digits.as_bytes())
            && layout.digits + digits.len() < layout.tasks.begin
            && closed(&layout.tasks)
            && layout.done.is_none_or(|done| layout.tasks.end < done.begin && closed(&done));
        sound.then_some(Proven { bytes, layout })
    }

    /// The version.
    pub(crate) fn version(&self) -> u64 {
        self.layout.version
    }

    /// The completed ids; none: there is no such ring, or it is not ours.
    pub(crate) fn done(&self) -> Option<Span> {
        self.layout.done
    }

    /// Whether tasks and completed ids can be looked at one by one.
    pub(crate) fn has_lines(&self) -> bool {
        self.layout.lines
    }

    /// Whether a text stands in the file as a JSON string, in whatever place.
    pub(crate) fn mentions(&self, text: &str) -> bool {
        memmem::find(self.bytes, quoted(text).as_bytes()).is_some()
    }

    /// Whether an id may be among the completed ones.
    pub(crate) fn ring_mentions(&self, id: &str) -> bool {
        let ring = self.layout.done.unwrap_or_default();
        self.bytes.get(ring.begin..ring.end).is_none_or(|ring| memmem::find(ring, quoted(id).as_bytes()).is_some())
    }

    /// Whether one of the ids may be in the file, or two of them may be one.
    pub(crate) fn may_hold(&self, tasks: &[Task]) -> bool {
        tasks.iter().enumerate().any(|(index, task)| {
            !task.is_plain() || tasks[..index].iter().any(|other| other.id() == task.id()) || self.mentions(task.id())
        })
    }

    /// The tasks one by one, each with its place. None in place of one: it is not what it should be.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = Option<(Range<usize>, Task)>> + '_ {
        self.entries(self.layout.tasks).map(|place| self.task_at(place?))
    }

    /// The completed ids one by one, the oldest first. None in place of one: it is not what it should be.
    pub(crate) fn ring(&self) -> impl Iterator<Item = Option<Done>> + '_ {
        let ring = self.layout.done.unwrap_or_default();
        self.entries(ring).map(|place| Done::parse(raw(&self.bytes[place?])?))
    }

    /// The task of this id. None: there is none, or it cannot be said where.
    pub(crate) fn find(&self, id: &str) -> Option<(Range<usize>, Task)> {
        let Span { begin, end, .. } = self.layout.tasks;
        let wanted = quoted(id);
        let mut from = begin;
        while let Some(hit) = memmem::find(self.bytes.get(from..end)?, wanted.as_bytes()) {
            let hit = from + hit;
            let start = memrchr(b'\n', self.bytes.get(..hit)?)?;
            let place = self.entry_at(start, end)?;
            from = place.end;
            let (place, task) = self.task_at(place)?;
            if task.id() == id {
                return Some((place, task));
            }
        }
        None
    }

    /// The text after the edit, with its version counted on by `advance`. None: something is not where it should be.
    pub(crate) fn edit(&self, edit: &Edit<'_>, advance: u64) -> Option<Edited> {
        let Layout { digits, tasks, done, .. } = self.layout;
        let version = self.layout.version.checked_add(advance)?;
        let fresh = version.to_string();
        let after_digits = digits + self.layout.version.to_string().len();
        let replaced = edit.tasks.iter().filter_map(|(_, task)| task.as_ref());
        let added: usize = replaced.chain(edit.pushed).map(|task| task.text().len() + 4).sum();
        let added = added + edit.done.as_ref().map_or(0, |done| done.text().len() + 4);
        let mut out = Vec::with_capacity(self.bytes.len() + added + fresh.len() + 2);
        out.extend_from_slice(&self.bytes[..digits]);
        out.extend_from_slice(fresh.as_bytes());
        out.extend_from_slice(self.bytes.get(after_digits..tasks.begin)?);

        let texts = edit.tasks.iter().map(|(place, task)| (place.clone(), task.as_ref().map(Task::text)));
        let pushed = edit.pushed.iter().map(Task::text);
        let tasks_after = self.list(&mut out, tasks, texts, pushed)?;
        let mut rest = tasks.end + usize::from(tasks.count > 0);
        let mut done_after = done;
        if let Some(done) = done {
            out.extend_from_slice(self.bytes.get(rest..done.begin)?);
            let old: Vec<_> = self.entries(done).take(edit.forgotten).collect::<Option<_>>()?;
            let gone = old.into_iter().map(|place| (place, None));
            done_after = Some(self.list(&mut out, done, gone, edit.done.iter().map(Done::text))?);
            rest = done.end + usize::from(done.count > 0);
        } else if edit.done.is_some() || edit.forgotten > 0 {
            return None;
        }
        out.extend_from_slice(self.bytes.get(rest..)?);
        let one_line = |text: &str| memchr(b'\n', text.as_bytes()).is_none();
        let lines = self.layout.lines && edit.pushed.iter().all(|task| one_line(task.text()));
        let layout = Layout { version, digits, tasks: tasks_after, done: done_after, lines, ..self.layout };
        Some(Edited { bytes: out, layout })
    }

    /// Writes a list with some entries replaced or taken out, and others added at the end.
    fn list<'t>(
        &self,
        out: &mut Vec<u8>,
        list: Span,
        changes: impl Iterator<Item = (Range<usize>, Option<&'t str>)>,
        added: impl Iterator<Item = &'t str>,
    ) -> Option<Span> {
        let begin = out.len();
        let mut count = list.count;
        let comma = |out: &mut Vec<u8>| {
            if out.len() > begin {
                out.push(b',');
            }
        };
        // Entries that stay, without the commas at either end.
        let stay = |out: &mut Vec<u8>, entries: &[u8]| {
            let entries = entries.strip_prefix(b",").unwrap_or(entries);
            let entries = entries.strip_suffix(b",").unwrap_or(entries);
            if !entries.is_empty() {
                comma(out);
                out.extend_from_slice(entries);
            }
        };
        let entry = |out: &mut Vec<u8>, text: &str| {
            comma(out);
            out.extend_from_slice(INDENT.as_bytes());
            out.extend_from_slice(text.as_bytes());
        };
        let mut from = list.begin;
        for (place, text) in changes {
            stay(out, self.bytes.get(from..place.start)?);
            from = place.end;
            match text {
                Some(text) => entry(out, text),
                None => count = count.checked_sub(1)?,
            }
        }
        stay(out, self.bytes.get(from..list.end)?);
        for text in added {
            entry(out, text);
            count += 1;
        }
        let end = out.len();
        if count > 0 {
            out.push(b'\n');
        }
        Some(Span { begin, end, count })
    }

    /// The places of a list's entries, each from the newline before it on. None in place of one: not as we write it.
    fn entries(&self, list: Span) -> impl Iterator<Item = Option<Range<usize>>> + '_ {
        let mut from = list.begin;
        std::iter::from_fn(move || {
            if from >= list.end {
                return None;
            }
            let place = self.entry_at(from, list.end);
            // The comma after it; nothing more after what is not understood.
            from = place.as_ref().map_or(list.end, |place| place.end + 1);
            Some(place)
        })
    }

    /// The place of the entry whose line begins at `start` with its newline.
    fn entry_at(&self, start: usize, end: usize) -> Option<Range<usize>> {
        let text = start.checked_add(INDENT.len()).filter(|&text| text < end)?;
        if &self.bytes[start..text] != INDENT.as_bytes() {
            return None;
        }
        let stop = match memchr(b'\n', &self.bytes[text..end]) {
            None => end,
            Some(length) if length > 0 && self.bytes[text + length - 1] == b',' => text + length - 1,
            Some(_) => return None,
        };
        Some(start..stop)
    }

    fn task_at(&self, place: Range<usize>) -> Option<(Range<usize>, Task)> {
        let text = raw(&self.bytes[place.clone()])?;
        Some((place, Task::parse(Source(text.get()), text).ok()?))
    }
}

/// An entry as the JSON value that it is.
fn raw(entry: &[u8]) -> Option<&RawValue> {
    serde_json::from_slice(entry).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    fn task(id: &str) -> Task {
        Task::new(id, "a", RawValue::NULL).unwrap()
    }

    fn append(bytes: &[u8], layout: Layout, tasks: &[Task]) -> Option<(String, Layout)> {
        let proven = Proven::new(bytes, layout).filter(|proven| !proven.may_hold(tasks))?;
        let edited = proven.edit(&Edit { pushed: tasks, ..Edit::default() }, 1)?;
        Some((String::from_utf8(edited.bytes).unwrap(), edited.layout))
    }

    #[test]
    fn adding_is_what_parsing_and_writing_would_give() {
        for text in [
            r#"{"version": 0, "tasks": []}"#,
            r#"{"version": 9, "x": 1, "tasks": [{"id":"t1"}], "done": [{"id":"t0"}]}"#,
            r#"{"version": 9, "tasks": [{"id":"t1",
                "params":[1,2]}], "done": []}"#,
            r#"{"tasks": [{"id":"t1"},{"id":"t2","params":{"tasks": []}}], "note": "]", "version": 99}"#,
        ] {
            let document = Document::parse(text.as_bytes()).unwrap();
            let (bytes, layout) = document.write();
            let tasks = [task("n1"), task("n\"2")];
            let mut slow = document.clone();
            tasks.iter().for_each(|task| slow.push(task.clone()));
            assert!(slow.advance());
            let spliced = append(&bytes, layout, &tasks);
            // The version after the tasks: not in this way.
            assert_eq!(spliced.is_none(), text.starts_with(r#"{"tasks""#));
            if let Some(fast) = spliced {
                let (bytes, layout) = slow.write();
                assert_eq!(fast, (String::from_utf8(bytes).unwrap(), layout));
            }
        }
    }

    #[test]
    fn what_may_be_there_is_left_to_the_parser() {
        let text = r#"{"version": 1, "tasks": [{"id":"t1","params":"t2"}], "done": [{"id":"t3"}]}"#;
        let (bytes, layout) = Document::parse(text.as_bytes()).unwrap().write();
        for id in ["t1", "t2", "t3"] {
            assert!(append(&bytes, layout, &[task(id)]).is_none(), "{id}");
        }
        assert!(append(&bytes, layout, &[task("t4"), task("t4")]).is_none());
        assert!(append(&bytes, layout, &[task("t4")]).is_some());
        let tasks = layout.tasks;
        for wrong in [
            Layout { version: 2, ..layout },
            Layout { tasks: Span { end: tasks.end + 1, ..tasks }, ..layout },
            Layout { tasks: Span { end: usize::MAX, ..tasks }, ..layout },
            Layout { tasks: Span { begin: 0, ..tasks }, ..layout },
            Layout { tasks: Span { count: 0, ..tasks }, ..layout },
            Layout { done: Some(Span { begin: tasks.begin, ..layout.done.unwrap() }), ..layout },
            Layout { done: Some(Span { end: bytes.len(), ..layout.done.unwrap() }), ..layout },
            Layout { plain: false, ..layout },
        ] {
            assert!(append(&bytes, wrong, &[task("t4")]).is_none(), "{wrong:?}");
        }
        // An id that is written with escapes would not be found.
        let escaped = r#"{"version": 1, "tasks": [{"id":"\u0074"}]}"#;
        assert!(!Document::parse(escaped.as_bytes()).unwrap().write().1.plain);
    }

    #[test]
    fn a_task_is_found_by_its_id_and_by_nothing_else() {
        let text =
            r#"{"version": 1, "tasks": [{"id":"t1","params":"t2"},{"params":{"id":"t3"},"id":"t2"},{"id":"t3"}]}"#;
        let (bytes, layout) = Document::parse(text.as_bytes()).unwrap().write();
        let proven = Proven::new(&bytes, layout).unwrap();
        for id in ["t1", "t2", "t3"] {
            let (place, task) = proven.find(id).unwrap();
            assert_eq!(task.id(), id);
            assert_eq!(std::str::from_utf8(&bytes[place]).unwrap().trim_start(), task.text());
        }
        assert!(proven.find("params").is_none() && proven.find("t4").is_none());
        assert_eq!(
            proven.tasks().map(|found| found.unwrap().1.id().to_owned()).collect::<Vec<_>>(),
            ["t1", "t2", "t3"]
        );
    }
}
