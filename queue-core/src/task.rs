//! One task of the queue.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::error::{Error, Malformed};
use crate::json::{RawObject, Source, deeper_than, quoted, unquoted};
use crate::lease::{Deadline, Moment, Token};
use crate::transaction::Settings;

/// The account of a task that names none.
pub const DEFAULT_ACCOUNT: &str = "default";

/// The longest task id that a push accepts, in bytes. Ids stand in file names, log lines and environment variables.
pub const MAX_ID: usize = 512;

/// How deep a task's own text may be nested: the document and its `tasks` array take two levels.
const MAX_TASK_DEPTH: usize = crate::json::MAX_DEPTH - 2;

/// What is to happen with a task next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// `"queued"`: waits for a worker. A task without `state` is queued.
    Queued,
    /// `"claimed"`: a worker has it.
    Claimed,
    /// `"dead"`: it was claimed too often without being completed, and waits for a person.
    Dead,
    /// A state of somebody else: kept, and never claimed.
    Other(String),
}

impl State {
    /// The word in the file.
    pub fn as_str(&self) -> &str {
        match self {
            State::Queued => "queued",
            State::Claimed => "claimed",
            State::Dead => "dead",
            State::Other(word) => word,
        }
    }
}

/// One task: an object with `id` (text), `account` (text), `params` (any JSON), `state`, `attempts` (how often it was
/// claimed), and while it is claimed `worker` and perhaps `lease_until` (RFC 3339) with `lease_boot` and `lease_clock`
/// (the same deadline as boot id and milliseconds since that boot) and `request` (the claim's own number, so that asking
/// twice claims once). `moved_from` names the account that a task came from while the move is under way.
///
/// Only `id` is required. A task keeps the exact text it was read from, whatever else stands in it, until one of its
/// own fields changes; even then the other fields keep theirs.
#[derive(Debug, Clone)]
pub struct Task {
    text: Box<RawValue>,
    id: String,
    account: Option<String>,
    state: State,
    attempts: u64,
    worker: Option<String>,
    deadline: Option<Deadline>,
    request: Option<String>,
    moved_from: Option<String>,
}

impl Task {
    /// A queued task.
    ///
    /// # Errors
    /// [`Error::BadTask`] for an id that is empty, longer than [`MAX_ID`] or holds control characters, for an empty
    /// account, and for `params` nested deeper than other programs can read.
    pub fn new(id: &str, account: &str, params: &RawValue) -> Result<Self, Error> {
        check_names(id, account)?;
        if deeper_than(params.get(), MAX_TASK_DEPTH - 1) {
            let reason = format!("nested deeper than {} levels", MAX_TASK_DEPTH - 1);
            return Err(refused("params", params.get(), reason));
        }
        let text = format!(
            r#"{{"id":{},"account":{},"params":{},"state":"queued","attempts":0}}"#,
            quoted(id),
            quoted(account),
            params.get()
        );
        Ok(Task {
            text: raw(text),
            id: id.to_owned(),
            account: Some(account.to_owned()),
            state: State::Queued,
            attempts: 0,
            worker: None,
            deadline: None,
            request: None,
            moved_from: None,
        })
    }

    /// All that is still known of a task that was completed.
    pub(crate) fn remembered(id: &str, attempt: u64) -> Self {
        Task {
            text: raw(format!(r#"{{"id":{},"attempts":{attempt}}}"#, quoted(id))),
            id: id.to_owned(),
            account: None,
            state: State::Claimed,
            attempts: attempt,
            worker: None,
            deadline: None,
            request: None,
            moved_from: None,
        }
    }

    /// Reads a task from the text of its object, a part of `source`.
    pub(crate) fn parse(source: Source<'_>, text: &RawValue) -> Result<Self, Malformed> {
        let object = text.get();
        if deeper_than(object, MAX_TASK_DEPTH) {
            return Err(source.complain(object, format!("a task nested deeper than {MAX_TASK_DEPTH} levels")));
        }
        let RawObject(fields) = serde_json::from_str(object).map_err(|error| match object.as_bytes().first() {
            Some(b'{') => source.translate(object, &error),
            _ => source.complain(object, "a task must be an object"),
        })?;
        let mut known = Known::default();
        for (key, value) in &fields {
            known.take(source, key, value)?;
        }
        let Some(id) = known.id else {
            return Err(source.complain(object, "a task without `id`"));
        };
        Ok(Task {
            text: text.to_owned(),
            id,
            account: known.account,
            state: match known.state.as_deref() {
                None | Some("queued") => State::Queued,
                Some("claimed") => State::Claimed,
                Some("dead") => State::Dead,
                Some(other) => State::Other(other.to_owned()),
            },
            attempts: known.attempts.unwrap_or(0),
            worker: known.worker,
            deadline: known.lease_until.map(|until| Deadline { until, boot: known.lease_boot.zip(known.lease_clock) }),
            request: known.request,
            moved_from: known.moved_from,
        })
    }

    /// Whether somebody who pushes it may call it that; what is in the file already may be called anything.
    pub(crate) fn check_names(&self) -> Result<(), Error> {
        check_names(self.id(), self.account())
    }

    /// The id, unique in its document.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The account, [`DEFAULT_ACCOUNT`] if the task names none.
    pub fn account(&self) -> &str {
        self.account.as_deref().unwrap_or(DEFAULT_ACCOUNT)
    }

    /// What is to happen with it next.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// How often it was claimed. The number of the present claim, while it is claimed.
    pub fn attempts(&self) -> u64 {
        self.attempts
    }

    /// Who has claimed it.
    pub fn worker(&self) -> Option<&str> {
        self.worker.as_deref()
    }

    /// Until when the present claim holds; none: until it is completed or released.
    pub fn deadline(&self) -> Option<&Deadline> {
        self.deadline.as_ref()
    }

    /// The account that the task is being moved from.
    pub fn moved_from(&self) -> Option<&str> {
        self.moved_from.as_deref()
    }

    /// The present claim.
    pub fn token(&self) -> Token {
        Token { id: self.id.clone(), attempt: self.attempts }
    }

    /// The task as its JSON object, exactly as it stands in the file.
    pub fn text(&self) -> &str {
        self.text.get()
    }

    /// Whether a worker may have it now: it is queued, or its claim has run out.
    pub fn is_claimable(&self, moment: &Moment) -> bool {
        match self.state {
            State::Queued => self.moved_from.is_none(),
            State::Claimed => self.deadline.as_ref().is_some_and(|deadline| deadline.is_over(moment)),
            State::Dead | State::Other(_) => false,
        }
    }

    /// Whether it is claimed by the request of this number.
    pub(crate) fn is_claimed_by(&self, request: &str) -> bool {
        self.state == State::Claimed && self.request.as_deref() == Some(request)
    }

    /// Gives the task to `worker`.
    pub(crate) fn claim(&mut self, worker: &str, deadline: Option<Deadline>, request: Option<&str>) {
        self.state = State::Claimed;
        self.attempts = self.attempts.saturating_add(1);
        self.worker = Some(worker.to_owned());
        self.deadline = deadline;
        self.request = request.map(str::to_owned);
        self.rewrite();
    }

    /// Lets the present claim end at another time.
    pub(crate) fn extend(&mut self, deadline: Option<Deadline>) {
        self.deadline = deadline;
        self.rewrite();
    }

    /// Puts the task back into the queue. Its attempts stay counted.
    pub(crate) fn release(&mut self) {
        self.lay_down(State::Queued);
    }

    /// Puts the task back, or aside if it has had its chances.
    pub(crate) fn give_back(&mut self, settings: &Settings) {
        match settings.is_worn_out(self.attempts) {
            true => self.bury(),
            false => self.release(),
        }
    }

    /// Puts the task aside, for a person to look at.
    pub(crate) fn bury(&mut self) {
        self.lay_down(State::Dead);
    }

    /// Puts the task back into the queue as if it had never been claimed.
    pub(crate) fn revive(&mut self) {
        self.attempts = 0;
        self.lay_down(State::Queued);
    }

    fn lay_down(&mut self, state: State) {
        self.state = state;
        self.worker = None;
        self.deadline = None;
        self.request = None;
        self.rewrite();
    }

    /// The same task for another account, not to be claimed before the move is done.
    pub(crate) fn moved(&self, to: &str) -> Self {
        let mut moved = self.clone();
        moved.moved_from = Some(self.account().to_owned());
        moved.account = Some(to.to_owned());
        moved.rewrite();
        moved
    }

    /// The move is done.
    pub(crate) fn arrive(&mut self) {
        self.moved_from = None;
        self.rewrite();
    }

    /// Whether a byte search for its id, or for the request that has claimed it, would find it: they may also be written
    /// with escapes that nobody needs.
    pub(crate) fn is_plain(&self) -> bool {
        let found = |text: &String| memchr::memmem::find(self.text.get().as_bytes(), quoted(text).as_bytes()).is_some();
        found(&self.id) && self.request.as_ref().is_none_or(found)
    }

    /// Brings the text in line with the fields that a claim changes; every other field keeps its text and its place.
    fn rewrite(&mut self) {
        let boot = self.deadline.as_ref().and_then(|deadline| deadline.boot.as_ref());
        let account = self.account.as_deref().filter(|_| self.moved_from.is_some());
        let fresh = [
            ("state", Some(quoted(self.state.as_str()))),
            ("attempts", Some(self.attempts.to_string())),
            ("worker", self.worker.as_deref().map(quoted)),
            ("lease_until", self.deadline.as_ref().map(|deadline| quoted(&deadline.until.to_string()))),
            ("lease_boot", boot.map(|(boot, _)| quoted(boot))),
            ("lease_clock", boot.map(|(_, clock)| clock.to_string())),
            ("request", self.request.as_deref().map(quoted)),
            ("moved_from", self.moved_from.as_deref().map(quoted)),
            // Changed by a move alone, and then it is there.
            ("account", account.map(quoted)),
        ];
        let ours = if account.is_some() { fresh.len() } else { fresh.len() - 1 };
        let fresh = &fresh[..ours];
        let mut written = [false; 9];
        let mut out = String::with_capacity(self.text.get().len() + 96);
        let mut field = |key: &str, value: &str| {
            out.push(if out.is_empty() { '{' } else { ',' });
            out.push_str(&quoted(key));
            out.push(':');
            out.push_str(value);
        };
        // The text has been read as an object when the task was made, so there is nothing left that could fail.
        if let Ok(RawObject(fields)) = serde_json::from_str(self.text.get()) {
            for (key, value) in &fields {
                match fresh.iter().position(|(name, _)| name == key) {
                    None => field(key, value.get()),
                    Some(index) => {
                        written[index] = true;
                        if let Some(new) = &fresh[index].1 {
                            field(key, new);
                        }
                    }
                }
            }
        }
        for ((key, value), written) in fresh.iter().zip(written) {
            if let (Some(value), false) = (value, written) {
                field(key, value);
            }
        }
        out.push('}');
        self.text = raw(out);
    }
}

impl Serialize for Task {
    /// As its JSON object.
    fn serialize<T: Serializer>(&self, serializer: T) -> Result<T::Ok, T::Error> {
        self.text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Task {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Task::parse(Source(text.get()), &text).map_err(serde::de::Error::custom)
    }
}

impl PartialEq for Task {
    /// Two tasks are equal when their texts are: everything else is read from the text.
    fn eq(&self, other: &Self) -> bool {
        self.text.get() == other.text.get()
    }
}

/// The fields of a task that the queue itself acts upon.
#[derive(Default)]
struct Known {
    id: Option<String>,
    account: Option<String>,
    state: Option<String>,
    attempts: Option<u64>,
    worker: Option<String>,
    lease_until: Option<Timestamp>,
    lease_boot: Option<String>,
    lease_clock: Option<u64>,
    request: Option<String>,
    moved_from: Option<String>,
}

impl Known {
    /// Takes the field if it is one of ours.
    fn take(&mut self, source: Source<'_>, key: &str, value: &RawValue) -> Result<(), Malformed> {
        match key {
            "id" => text_field(source, key, value, &mut self.id),
            "account" => text_field(source, key, value, &mut self.account),
            "state" => text_field(source, key, value, &mut self.state),
            "worker" => text_field(source, key, value, &mut self.worker),
            "lease_boot" => text_field(source, key, value, &mut self.lease_boot),
            "request" => text_field(source, key, value, &mut self.request),
            "moved_from" => text_field(source, key, value, &mut self.moved_from),
            "attempts" => number_field(source, key, value, &mut self.attempts),
            "lease_clock" => number_field(source, key, value, &mut self.lease_clock),
            "lease_until" => {
                let mut written = None;
                text_field(source, key, value, &mut written)?;
                let until = written.and_then(|text| text.parse().ok()).ok_or_else(|| {
                    source.complain(value.get(), "`lease_until` must be a time such as 2026-01-31T12:00:00Z")
                })?;
                once(source, key, value, &mut self.lease_until, until)
            }
            _ => Ok(()),
        }
    }
}

fn text_field(source: Source<'_>, key: &str, value: &RawValue, place: &mut Option<String>) -> Result<(), Malformed> {
    let text =
        unquoted(value).ok_or_else(|| source.complain(value.get(), format!("`{key}` must be a text in quotes")))?;
    once(source, key, value, place, text)
}

fn number_field(source: Source<'_>, key: &str, value: &RawValue, place: &mut Option<u64>) -> Result<(), Malformed> {
    let number = serde_json::from_str(value.get())
        .map_err(|_| source.complain(value.get(), format!("`{key}` must be a whole number from 0")))?;
    once(source, key, value, place, number)
}

/// Stores `found`; a second one would leave open which of the two holds.
fn once<T>(source: Source<'_>, key: &str, value: &RawValue, place: &mut Option<T>, found: T) -> Result<(), Malformed> {
    match place.replace(found) {
        None => Ok(()),
        Some(_) => Err(source.complain(value.get(), format!("`{key}` twice in one task"))),
    }
}

/// A text that the caller has put together from valid JSON.
fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap_or_else(|error| unreachable!("composed from valid JSON: {error}"))
}

fn check_names(id: &str, account: &str) -> Result<(), Error> {
    if id.is_empty() || id.len() > MAX_ID || id.chars().any(char::is_control) {
        return Err(refused("task id", id, format!("give 1 to {MAX_ID} bytes without control characters")));
    }
    if account.is_empty() {
        return Err(refused("account", account, "it is empty: leave it out or name one".into()));
    }
    Ok(())
}

fn refused(what: &'static str, value: &str, reason: String) -> Error {
    Error::BadTask { what, value: value.chars().take(80).collect(), reason }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn parse(text: &str) -> Result<Task, Malformed> {
        let raw: &RawValue = serde_json::from_str(text).unwrap();
        Task::parse(Source(text), raw)
    }

    #[test]
    fn a_claim_changes_its_own_fields_and_no_other_byte() {
        let text =
            r#"{"z": 1e999, "id":"t","state":"queued", "n":{"b":12345678901234567890123,"a":[1.10]},"attempts":2}"#;
        let mut task = parse(text).unwrap();
        assert_eq!(task.text(), text);
        task.claim("w", None, None);
        assert_eq!(
            task.text(),
            r#"{"z":1e999,"id":"t","state":"claimed","n":{"b":12345678901234567890123,"a":[1.10]},"attempts":3,"worker":"w"}"#
        );
        task.release();
        assert_eq!(
            task.text(),
            r#"{"z":1e999,"id":"t","state":"queued","n":{"b":12345678901234567890123,"a":[1.10]},"attempts":3}"#
        );
    }

    #[test]
    fn only_the_id_is_required() {
        let task = parse(r#"{"id":"t"}"#).unwrap();
        assert_eq!((task.account(), task.attempts(), task.state()), (DEFAULT_ACCOUNT, 0, &State::Queued));
    }

    #[test]
    fn wrong_fields_are_named() {
        for (text, reason) in [
            (r#"{"account":"a"}"#, "without `id`"),
            (r#"{"id":7}"#, "`id` must be"),
            (r#"{"id":"a","id":"b"}"#, "`id` twice"),
            (r#"{"id":"a","attempts":-1}"#, "`attempts`"),
            (r#"{"id":"a","attempts":1.5}"#, "`attempts`"),
            (r#"{"id":"a","lease_until":"soon"}"#, "`lease_until`"),
            (r#"["id"]"#, "must be an object"),
        ] {
            let malformed = parse(text).unwrap_err();
            assert!(malformed.reason.contains(reason), "{text}: {malformed}");
        }
    }

    #[test]
    fn an_unknown_state_is_kept_and_never_claimed() {
        let task = parse(r#"{"id":"t","state":"on hold"}"#).unwrap();
        assert_eq!(task.state().as_str(), "on hold");
        let ever = Moment { now: Timestamp::MAX, boot: "b".into(), since_boot: u64::MAX };
        assert!(!task.is_claimable(&ever));
    }

    #[test]
    fn within_one_boot_the_time_of_day_does_not_count() {
        let at = |seconds: i64, boot: &str, clock: u64| Moment {
            now: Timestamp::from_second(seconds).unwrap(),
            boot: boot.into(),
            since_boot: clock,
        };
        let deadline = Deadline::after(&at(1000, "b", 50_000), Duration::from_secs(10)).unwrap();
        for (moment, over) in [
            (at(1010, "b", 59_999), false),
            (at(9999, "b", 59_999), false),
            (at(0, "b", 60_000), true),
            (at(1009, "c", 99_999), false),
            (at(1010, "c", 0), true),
            (at(1010, "", 0), true),
        ] {
            assert_eq!(deadline.is_over(&moment), over, "{moment:?}");
        }
        assert_eq!(Deadline::after(&at(0, "b", 0), Duration::MAX), None);
        // It survives being written.
        let mut task = parse(r#"{"id":"t"}"#).unwrap();
        task.claim("w", Some(deadline.clone()), Some("r"));
        let read = parse(task.text()).unwrap();
        assert_eq!(read.deadline(), Some(&deadline));
        assert!(read.is_claimed_by("r") && !read.is_claimed_by("s"));
        task.release();
        assert_eq!(task.text(), r#"{"id":"t","state":"queued","attempts":1}"#);
    }

    #[test]
    fn a_move_changes_the_account_and_can_be_finished() {
        let task = parse(r#"{"id":"t","account":"a","params":1}"#).unwrap();
        let mut moved = task.moved("b");
        assert_eq!(parse(moved.text()).unwrap().moved_from(), Some("a"));
        let ever = Moment { now: Timestamp::MAX, boot: String::new(), since_boot: 0 };
        assert!(!moved.is_claimable(&ever));
        moved.arrive();
        assert!(moved.is_claimable(&ever));
        assert_eq!(moved.text(), r#"{"id":"t","account":"b","params":1,"state":"queued","attempts":0}"#);
    }

    #[test]
    fn unusable_tasks_are_refused() {
        let null: &RawValue = serde_json::from_str("null").unwrap();
        let long = "x".repeat(MAX_ID + 1);
        for (id, account) in [("", "a"), ("a\0b", "a"), (&*long, "a"), ("t", "")] {
            assert!(matches!(Task::new(id, account, null), Err(Error::BadTask { .. })), "{id:?} {account:?}");
        }
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let deep: Box<RawValue> = RawValue::from_string(deep).unwrap();
        assert!(matches!(Task::new("t", "a", &deep), Err(Error::BadTask { .. })));
    }
}
