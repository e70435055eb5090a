//! Operations on a text that is proven ours, each looking at no more of it than it has to.
//!
//! They do what [`Operation::apply`] does, or nothing: whenever the answer would be a refusal, or depends on more than the
//! tasks that were looked at, the whole document is parsed instead. So there is one place that says what is refused, and
//! why.

use crate::document::Done;
use crate::lease::{Deadline, Moment};
use crate::operation::{Context, Hold, Met, Operation, Push, Reply, holds};
use crate::splice::{Edit, Proven};
use crate::strategy::Verdict;
use crate::task::{State, Task};
use crate::transaction::Settings;

/// What an operation does without a parse of everything.
pub(crate) struct Quick<'a> {
    pub(crate) reply: Reply,
    pub(crate) verdict: Verdict,
    pub(crate) edit: Edit<'a>,
}

impl Operation {
    /// [`apply`](Self::apply) on a proven text. None: it has to be parsed.
    pub(crate) fn quick<'a>(
        &'a self,
        text: &Proven<'_>,
        moment: &dyn Fn() -> Moment,
        settings: &Settings,
        again: bool,
    ) -> Option<Quick<'a>> {
        if let Operation::Push { tasks } = self {
            return push(text, tasks);
        }
        if again || !text.has_lines() {
            return None;
        }
        let moment = moment();
        let context = Context { moment: &moment, settings, again };
        match self {
            Operation::Push { .. } => None,
            Operation::Claim { .. } => self.quick_claim(text, context),
            Operation::Complete { id, account, hold, follow_up } => {
                let (place, task) = held(text, id, account.as_deref(), hold)?;
                let pushed = follow_up.as_ref().map_or(&[][..], std::slice::from_ref);
                if text.may_hold(pushed) || pushed.iter().any(|next| next.account() != task.account()) {
                    return None;
                }
                let mut edit = Edit { tasks: vec![(place, None)], pushed, ..Edit::default() };
                remember(text, &task, context, &mut edit)?;
                let ids = [id.clone()].into_iter().chain(pushed.iter().map(|next| next.id().to_owned())).collect();
                Some(Quick { reply: Reply::Task(task), verdict: Verdict::Write { op: "complete", ids }, edit })
            }
            Operation::Extend { id, account, hold, lease } => {
                let (place, mut task) = held(text, id, account.as_deref(), hold)?;
                (*task.state() == State::Claimed).then_some(())?;
                task.extend(lease.and_then(|lease| Deadline::after(context.moment, lease)));
                Some(replaced("extend", place, task))
            }
            Operation::Release { id, account, hold } => {
                let (place, mut task) = held(text, id, account.as_deref(), hold)?;
                (*task.state() == State::Claimed).then_some(())?;
                task.give_back(settings);
                Some(replaced("release", place, task))
            }
            Operation::Revive { id, account } => {
                let (place, mut task) = held(text, id, account.as_deref(), &Hold::Any)?;
                (*task.state() == State::Dead).then_some(())?;
                task.revive();
                Some(replaced("revive", place, task))
            }
        }
    }

    fn quick_claim<'a>(&self, text: &Proven<'_>, context: Context<'_>) -> Option<Quick<'a>> {
        if let Operation::Claim { request: Some(request), .. } = self
            && text.mentions(request)
        {
            return None;
        }
        let (mut claimed, mut strays, mut changed, mut edit) = (None, Vec::new(), Vec::new(), Edit::default());
        for found in text.tasks() {
            let (place, mut task) = found?;
            match self.meet(&mut task, context) {
                Met::Passed => continue,
                Met::Stray => {
                    strays.push(task.id().to_owned());
                    continue;
                }
                Met::Buried => {}
                Met::Claimed => claimed = Some(task.clone()),
            }
            changed.push(task.id().to_owned());
            edit.tasks.push((place, Some(task)));
            if claimed.is_some() {
                break;
            }
        }
        let verdict = Operation::claim_verdict(claimed.is_some(), changed);
        Some(Quick { reply: Reply::Claimed { task: claimed, strays }, verdict, edit })
    }
}

fn push<'a>(text: &Proven<'_>, tasks: &'a [Task]) -> Option<Quick<'a>> {
    if tasks.is_empty() || text.may_hold(tasks) {
        return None;
    }
    let ids = tasks.iter().map(|task| task.id().to_owned()).collect();
    let reply = Reply::Pushed(vec![Push::Added; tasks.len()]);
    let edit = Edit { pushed: tasks, ..Edit::default() };
    Some(Quick { reply, verdict: Verdict::Write { op: "push", ids }, edit })
}

fn replaced<'a>(op: &'static str, place: std::ops::Range<usize>, task: Task) -> Quick<'a> {
    let verdict = Verdict::Write { op, ids: vec![task.id().to_owned()] };
    let edit = Edit { tasks: vec![(place, Some(task.clone()))], ..Edit::default() };
    Quick { reply: Reply::Task(task), verdict, edit }
}

/// The task, if it is held as the caller says.
fn held(text: &Proven<'_>, id: &str, account: Option<&str>, hold: &Hold) -> Option<(std::ops::Range<usize>, Task)> {
    let of_account = |task: &Task| account.is_none_or(|account| account == task.account());
    text.find(id).filter(|(_, task)| of_account(task) && holds(task, hold))
}

/// Remembers that a task is done, as [`Document::finish`](crate::Document::finish) does. None: the ring has to be parsed.
fn remember(text: &Proven<'_>, task: &Task, context: Context<'_>, edit: &mut Edit<'_>) -> Option<()> {
    let Settings { done_keep, done_age, .. } = *context.settings;
    if done_keep == 0 {
        return Some(());
    }
    let ring = text.done()?;
    if text.ring_mentions(task.id()) {
        return None;
    }
    let now = context.moment.now;
    edit.forgotten = (ring.count + 1).saturating_sub(done_keep);
    for done in text.ring().skip(edit.forgotten) {
        if !done?.is_older_than(done_age, now) {
            break;
        }
        edit.forgotten += 1;
    }
    edit.done = Some(Done::new(&task.token(), now));
    Some(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::document::Document;

    fn settings() -> Settings {
        Settings { max_attempts: 3, done_keep: 3, done_age: Duration::from_secs(3600), ..Settings::default() }
    }

    fn moment() -> Moment {
        Moment { now: Timestamp::from_second(10_000).unwrap(), boot: "b".into(), since_boot: 50_000 }
    }

    type Written = (Vec<u8>, crate::splice::Layout);

    /// What a parse of everything makes of it: the answer, and the next version if there is one.
    fn slow(document: &Document, operation: &Operation) -> Option<(Reply, Verdict, Option<Written>)> {
        let (mut document, now, settings) = (document.clone(), moment(), settings());
        let (reply, verdict) =
            operation.apply(&mut document, Context { moment: &now, settings: &settings, again: false }).ok()?;
        let written = matches!(verdict, Verdict::Write { .. }).then(|| {
            assert!(document.advance());
            document.write()
        });
        Some((reply, verdict, written))
    }

    /// Compares both ways; whether the quick one was possible.
    fn agree(text: &str, operation: &Operation) -> bool {
        let document = Document::parse(text.as_bytes()).unwrap();
        let (bytes, layout) = document.write();
        let Some(proven) = Proven::new(&bytes, layout) else { return false };
        let Some(quick) = operation.quick(&proven, &moment, &settings(), false) else { return false };
        let (reply, verdict, written) = slow(&document, operation).expect("what is refused is left to the parser");
        assert_eq!((&quick.reply, &quick.verdict), (&reply, &verdict), "{text} {operation:?}");
        if let Some((bytes, layout)) = written {
            let edited = proven.edit(&quick.edit, 1).unwrap();
            let text_of = |bytes| String::from_utf8(bytes).unwrap();
            assert_eq!(text_of(edited.bytes), text_of(bytes), "{text} {operation:?}");
            assert_eq!(edited.layout, layout, "{text} {operation:?}");
        }
        true
    }

    fn any_task() -> impl Strategy<Value = String> {
        let params = prop_oneof![
            5 => Just("1"), 1 => Just(r#""t3""#), 1 => Just(r#"{"id":"t2","x":"],\n"}"#), 1 => Just("123456789012345678901234567890e999"),
        ];
        let state = prop_oneof![
            3 => Just(r#""state":"queued","attempts":0"#.to_owned()),
            2 => (1..4_u64, 1..3).prop_map(|(n, w)| format!(r#""state":"claimed","attempts":{n},"worker":"w{w}""#)),
            1 => (1..4_u64).prop_map(|n| format!(r#""state":"claimed","attempts":{n},"lease_until":"1970-01-01T01:00:00Z""#)),
            1 => Just(r#""state":"claimed","attempts":1,"request":"r1""#.to_owned()),
            1 => Just(r#""state":"dead","attempts":3"#.to_owned()),
            1 => Just(r#""moved_from":"b""#.to_owned()),
            1 => Just(r#""state":"on hold", "later" : [1, 2]"#.to_owned()),
        ];
        let account = prop::sample::select(vec!["a", "b"]);
        (params, state, account)
            .prop_map(|(params, state, account)| format!(r#""account":"{account}","params":{params},{state}"#))
    }

    fn any_text() -> impl Strategy<Value = String> {
        let done =
            prop::option::of(prop::collection::vec((5..9_u8, prop::sample::select(vec!["00", "01", "02"])), 0..5));
        let line = prop_oneof![9 => Just(" "), 1 => Just("\n ")];
        (prop::collection::vec((any_task(), line), 0..6), done, 8..11_u64, any::<bool>()).prop_map(
            |(tasks, done, version, last)| {
                let tasks: Vec<_> = tasks
                    .iter()
                    .enumerate()
                    .map(|(n, (rest, space))| format!(r#"{{"id":{space}"t{n}",{rest}}}"#))
                    .collect();
                let ring = done.map_or(String::new(), |done| {
                    let done: Vec<_> = done
                        .iter()
                        .map(|(n, hour)| format!(r#"{{"id":"t{n}","at":"1970-01-01T{hour}:30:00Z","attempt":1}}"#))
                        .collect();
                    format!(r#", "done": [{}]"#, done.join(","))
                });
                let other = if last { r#", "x": {"tasks": []}"# } else { "" };
                format!(r#"{{"y": [1], "version": {version}, "tasks": [{}]{ring}{other}}}"#, tasks.join(","))
            },
        )
    }

    fn any_operation() -> impl Strategy<Value = Operation> {
        let id = || (0..8_u8).prop_map(|n| format!("t{n}"));
        let account = || prop::option::of(prop::sample::select(vec!["a".to_owned(), "b".to_owned()]));
        let hold = || {
            prop_oneof![
                (1..4_u64).prop_map(Hold::Attempt),
                prop::sample::select(vec!["w1", "w2"]).prop_map(|worker| Hold::Worker(worker.into())),
                Just(Hold::Any)
            ]
        };
        let task = || {
            (0..12_u8, prop::sample::select(vec!["a", "b"])).prop_map(|(n, account)| {
                Task::new(&format!("t{n}"), account, serde_json::value::RawValue::NULL).unwrap()
            })
        };
        let lease = || prop::option::of(Just(Duration::from_secs(60)));
        prop_oneof![
            prop::collection::vec(task(), 0..3).prop_map(|tasks| Operation::Push { tasks }),
            (
                account(),
                lease(),
                prop::option::of(Just("r1".to_owned())),
                prop::collection::vec(id(), 0..2),
                any::<bool>()
            )
                .prop_map(|(account, lease, request, except, shard)| Operation::Claim {
                    worker: "w\"".into(),
                    account,
                    lease,
                    except,
                    request,
                    shard: shard.then(|| "queue_a.json".to_owned()),
                }),
            (id(), account(), hold(), prop::option::of(task()))
                .prop_map(|(id, account, hold, follow_up)| Operation::Complete { id, account, hold, follow_up }),
            (id(), account(), hold(), lease()).prop_map(|(id, account, hold, lease)| Operation::Extend {
                id,
                account,
                hold,
                lease
            }),
            (id(), account(), hold()).prop_map(|(id, account, hold)| Operation::Release { id, account, hold }),
            (id(), account()).prop_map(|(id, account)| Operation::Revive { id, account }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

        #[test]
        fn it_is_what_a_parse_of_everything_would_do(text in any_text(), operation in any_operation()) {
            agree(&text, &operation);
        }
    }

    #[test]
    fn the_usual_operations_need_no_parse_of_everything() {
        let text = r#"{"version": 9, "tasks": [{"id":"t1","state":"claimed","attempts":1},{"id":"t2"},{"id":"t3","state":"dead"}],
            "done": [{"id":"t0","at":"1970-01-01T00:00:00Z"}]}"#;
        let (id, account, hold, lease) = ("t1".to_owned(), None, Hold::Attempt(1), None);
        let next = Task::new("t9", "default", serde_json::value::RawValue::NULL).unwrap();
        for operation in [
            Operation::Push { tasks: vec![next.clone()] },
            Operation::Claim { worker: "w".into(), account: None, lease, except: vec![], request: None, shard: None },
            Operation::Complete { id: id.clone(), account: None, hold: hold.clone(), follow_up: None },
            Operation::Complete { id: id.clone(), account: None, hold: hold.clone(), follow_up: Some(next) },
            Operation::Extend {
                id: id.clone(),
                account: None,
                hold: hold.clone(),
                lease: Some(Duration::from_secs(1)),
            },
            Operation::Release { id, account, hold },
            Operation::Revive { id: "t3".into(), account: None },
        ] {
            assert!(agree(text, &operation), "{operation:?}");
        }
    }
}
