//! Lost effects in words.

use std::collections::BTreeMap;

use super::{
    event::{Entry, Event, NodeId},
    states::{Lost, LostWhat},
};

/// More than so many are not listed.
const MOST: usize = 6;

/// What was lost, one piece each: `bytes 0..18 of tmp`, `the name queue.json`. `paths` are those of the start.
pub fn describe(events: &[Event], paths: &BTreeMap<NodeId, String>, lost: &[Lost]) -> Vec<String> {
    let mut names = paths.clone();
    let path = |names: &BTreeMap<NodeId, String>, (dir, name): &Entry| match names.get(dir).map(String::as_str) {
        None | Some("") => name.clone(),
        Some(dir) => format!("{dir}/{name}"),
    };
    for event in events {
        match event {
            Event::Create { at: Some(at), node, .. } => drop(names.insert(*node, path(&names, at))),
            Event::Create { at: None, node, .. } => drop(names.insert(*node, "a file without a name".into())),
            _ => {}
        }
    }
    let node = |node: &NodeId| names.get(node).cloned().unwrap_or_else(|| "a file".into());
    let mut out: Vec<String> = Vec::new();
    for lost in lost {
        let text = match (&lost.what, &events[lost.event]) {
            (LostWhat::Names(_), Event::Create { at: Some(at), .. }) => format!("the name of {}", path(&names, at)),
            (LostWhat::Names(_), Event::Link { at, .. }) => format!("the name {}", path(&names, at)),
            (LostWhat::Names(_), Event::Unlink { at }) => format!("the removal of {}", path(&names, at)),
            (LostWhat::Names(entries), Event::Rename { from, to }) => match entries.as_slice() {
                [one] if one == from => format!("the removal of {} by rename", path(&names, from)),
                _ => format!("rename {} -> {}", path(&names, from), path(&names, to)),
            },
            (LostWhat::Names(_), _) => "a change of names".into(),
            (LostWhat::Data(of, from, to), Event::Truncate { .. }) => format!("zeros at {from}..{to} of {}", node(of)),
            (LostWhat::Data(of, from, to), _) => format!("bytes {from}..{to} of {}", node(of)),
            (LostWhat::Size(of, size), Event::Truncate { .. }) => format!("truncation of {} to {size}", node(of)),
            (LostWhat::Size(of, size), _) => format!("size {size} of {}", node(of)),
            (LostWhat::Mode(of), _) => format!("permission bits of {}", node(of)),
        };
        if out.last() != Some(&text) {
            out.push(text);
        }
    }
    if out.len() > MOST {
        let more = out.len() - MOST;
        out.truncate(MOST);
        out.push(format!("{more} more"));
    }
    out
}
