//! What happened, in order.

use super::{
    bases::Bases,
    history::History,
    lines::Audit,
    logs::Log,
    model::{Moment, MomentKind},
};

/// At most this many ids are named in one place.
const NAMED: usize = 50;

/// The states, the copies that cannot be read, and the writes that only audit lines show, in the copies' order; and
/// the executions of the ids in question where their times put them.
pub(super) fn timeline(
    history: &History,
    bases: &Bases,
    audit: &Audit,
    log: Option<&Log>,
    writer: &dyn Fn(usize) -> Option<u64>,
    asked: &dyn Fn(&str) -> bool,
    show: &dyn Fn(&str) -> String,
) -> Vec<Moment> {
    let mut moments: Vec<(usize, Moment)> = Vec::new();
    for node in 0..history.nodes.len() {
        let at = history.nodes[node].copies[0];
        moments.push((at, state(history, bases, node, writer)));
    }
    for torn in &history.torn {
        let info = &history.copies[torn.copy];
        let mut moment = blank(MomentKind::Torn);
        moment.at = info.time.map(|t| t.to_string());
        moment.snapshot = Some(info.name.clone());
        moment.version = torn.version;
        moment.note = Some(torn.reason.clone());
        moments.push((torn.copy, moment));
    }
    moments.sort_by_key(|(at, _)| *at);
    let mut moments: Vec<Moment> = moments.into_iter().map(|(_, moment)| moment).collect();
    let mut others: Vec<Moment> = Vec::new();
    for line in audit.lines.iter().filter(|line| line.node.is_none() && line.base.is_some()) {
        let mut moment = blank(MomentKind::Write);
        moment.at = line.at.map(|t| t.to_string());
        moment.version = Some(line.wrote);
        moment.pid = Some(line.pid);
        moment.based_on = line.base.map(|base| history.info(base).name.clone()).into_iter().collect();
        moment.note = Some(format!("{} (audit line; no copy)", line.op));
        others.push(moment);
    }
    for (id, (entries, _)) in log.into_iter().flat_map(|log| &log.of).filter(|(id, _)| asked(id)) {
        for entry in entries {
            let mut moment = blank(MomentKind::Execution);
            moment.at = entry.at.map(|t| t.to_string());
            moment.pid = entry.pid;
            moment.removed = vec![show(id)];
            others.push(moment);
        }
    }
    others.sort_by(|a, b| (&a.at, &a.removed).cmp(&(&b.at, &b.removed)));
    for other in others {
        // Copies keep their order, which is not always that of their times; what has no time comes last.
        let before = |m: &Moment| m.at.is_none() || m.at <= other.at;
        let place = match other.at.is_some() {
            true => moments.iter().rposition(|m| m.at.is_some() && before(m)).map_or(0, |i| i + 1),
            false => moments.len(),
        };
        moments.insert(place, other);
    }
    moments
}

fn blank(kind: MomentKind) -> Moment {
    Moment {
        at: None,
        kind,
        snapshot: None,
        version: None,
        pid: None,
        based_on: Vec::new(),
        added: Vec::new(),
        removed: Vec::new(),
        changed: Vec::new(),
        overwritten: Vec::new(),
        stale: false,
        note: None,
    }
}

fn state(history: &History, bases: &Bases, node: usize, writer: &dyn Fn(usize) -> Option<u64>) -> Moment {
    let info = history.info(node);
    let live = history.live == Some(node);
    let mut moment = blank(if live && info.live { MomentKind::Live } else { MomentKind::Copy });
    moment.at = info.time.map(|t| t.to_string());
    moment.snapshot = Some(info.name.clone());
    moment.version = history.nodes[node].version;
    moment.pid = writer(node);
    let candidates = &bases.of[node];
    moment.based_on = candidates.iter().take(8).map(|&base| history.info(base).name.clone()).collect();
    let base = candidates.iter().copied().min_by_key(|base| base.abs_diff(node));
    let from = base.or(node.checked_sub(1));
    let (mut added, mut removed, mut changed, mut overwritten) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    if let Some(base) = from {
        for id in history.diff(base, node) {
            let (was, is) = (history.at(id, base).is_present(), history.at(id, node).is_present());
            let list = match (was, is) {
                (false, _) => &mut added,
                (true, false) => &mut removed,
                (true, true) => &mut changed,
            };
            list.push(id);
        }
    }
    // Whatever it was made from, it was not the state before.
    if let (Some(base), Some(before)) = (base, node.checked_sub(1)) {
        moment.stale = !candidates.contains(&before) && !bases.from_torn[node] && base < before;
        if moment.stale {
            overwritten = history
                .diff(before, node)
                .into_iter()
                .filter(|&id| {
                    history.at(id, before).is_present()
                        && !history.at(id, node).is_present()
                        && !history.at(id, base).is_present()
                })
                .collect();
        }
    }
    let names = |ids: Vec<u32>| -> Vec<String> {
        let mut names: Vec<String> = ids.iter().take(NAMED).map(|&id| history.ids[id as usize].clone()).collect();
        names.sort();
        names
    };
    let more = [&added, &removed, &changed].iter().any(|ids| ids.len() > NAMED);
    let mut notes = Vec::new();
    if history.nodes[node].copies.len() > 1 {
        notes.push(format!("{} equal copies", history.nodes[node].copies.len()));
    }
    if live && !info.live {
        notes.push("the live file is equal".to_owned());
    }
    if more {
        notes.push(format!("only the first {NAMED} ids are named"));
    }
    Moment {
        added: names(added),
        removed: names(removed),
        changed: names(changed),
        overwritten: names(overwritten),
        note: (!notes.is_empty()).then(|| notes.join("; ")),
        ..moment
    }
}
