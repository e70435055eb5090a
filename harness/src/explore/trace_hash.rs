//! One number for everything that a search saw.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use crate::world::Run;

/// SHA-256 over all traces in the search's order: of each step its actor, task number, op, world-relative paths, flags,
/// result, and the hash of the bytes moved. No addresses, times, pids or inode numbers: the same programs and settings
/// give the same hash.
///
/// Every field is preceded by its length or has a fixed one, so that no two sequences share an encoding.
#[derive(Clone, Debug, Default)]
pub struct TraceHash(Sha256);

impl TraceHash {
    /// Appends a run.
    pub fn add(&mut self, run: &Run) {
        self.0.update(encode(run));
    }

    /// Appends what [`encode`] gave.
    pub(crate) fn add_encoded(&mut self, encoded: &[u8]) {
        self.0.update(encoded);
    }

    /// The hash of what was appended so far, in hex.
    pub fn hex(&self) -> String {
        self.0.clone().finalize().iter().fold(String::new(), |mut hex, byte| {
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

/// The bytes of a run that are hashed.
pub(crate) fn encode(run: &Run) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((run.steps.len() as u64).to_le_bytes());
    for step in &run.steps {
        bytes.extend(step.actor.0.to_le_bytes());
        bytes.extend(step.task.to_le_bytes());
        text(&mut bytes, step.op.name());
        for path in [&step.path, &step.path2] {
            bytes.push(u8::from(path.is_some()));
            text(&mut bytes, path.as_deref().unwrap_or_default());
        }
        bytes.extend((step.flags.len() as u64).to_le_bytes());
        step.flags.iter().for_each(|flag| text(&mut bytes, flag));
        bytes.extend(step.ret.to_le_bytes());
        bytes.push(u8::from(step.bytes.is_some()));
        bytes.extend(step.bytes.unwrap_or_default());
    }
    bytes
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}
