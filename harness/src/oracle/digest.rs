//! A digest of everything in an outcome that a judge looks at, so that each distinct outcome is judged once.

use crate::world::{Node, Outcome};

/// BLAKE3 over files, endings, outputs, state and check; not over standard error.
pub fn outcome_digest(outcome: &Outcome) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    let mut part = |tag: u8, bytes: &[u8]| {
        hasher.update(&[tag]);
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    let optional = |code: Option<i32>| {
        code.map_or([0xff; 5], |code| {
            let [a, b, c, d] = code.to_le_bytes();
            [0, a, b, c, d]
        })
    };
    for (path, node) in &outcome.files {
        part(1, path.as_bytes());
        match node {
            Node::File { mode, bytes } => {
                part(2, &mode.to_le_bytes());
                part(3, bytes);
            }
            Node::Dir { mode } => part(4, &mode.to_le_bytes()),
            Node::Symlink { target } => part(5, target.as_bytes()),
            Node::Other { mode } => part(6, &mode.to_le_bytes()),
        }
    }
    for end in &outcome.actors {
        part(7, &optional(end.exit));
        part(8, &optional(end.signal));
        part(9, end.ended_by.as_deref().unwrap_or("").as_bytes());
        part(10, &end.stdout);
    }
    if let Some((exit, output)) = &outcome.state {
        part(11, &optional(*exit));
        part(12, output);
    }
    if let Some(check) = &outcome.check {
        part(13, &[u8::from(check.passed)]);
        part(14, &optional(check.exit));
        part(15, &check.output);
    }
    *hasher.finalize().as_bytes()
}
