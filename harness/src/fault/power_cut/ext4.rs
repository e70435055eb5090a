//! The model `ext4-ordered`: Linux ext4 as it is mounted by default (data=ordered, delayed allocation,
//! auto_da_alloc). It has every order of [`strict`](super::strict) and these:
//!
//! - Changes of metadata (names, permission bits, cuts, sizes set by truncate and fallocate) go through the journal:
//!   on the disk is always a beginning of their sequence. A rename is whole, also between two directories.
//! - fsync of a file or directory commits the journal at least up to the last change that touched it, and with it
//!   everything before, of any file; fdatasync of a file up to its creation or last cut.
//! - The bytes of a block that is new to the file are on the disk before the size that makes them visible. The bytes
//!   of a block that already had its place are written in no order with anything: a size that grows *within* such a
//!   block may come before its bytes, which then read as zeros. The zeros with which a cut fills the rest of its last
//!   block may come before the cut: the old size with zeros at its end.
//! - Delayed allocation: that size belongs to no moment of the sequence; a later rename may be on the disk without it
//!   (the empty file after a crash). auto_da_alloc mends one case: a rename that *replaces* a file comes after the
//!   bytes of the file's new blocks. Its other case, the close of a file that was cut to nothing, is not relied on: the
//!   first close of anybody uses it up, and files were seen empty after it.
//!
//! Sources: Documentation/admin-guide/ext4.rst (`data=ordered`, `auto_da_alloc`, `delalloc`) and fs/ext4 of Linux
//! (`ext4_rename`, `ext4_release_file`, `ext4_sync_file`, `ext4_da_write_end`). The model allows more than one kernel
//! does, never less: what a real ext4 left on the disk is checked to be among its states.

use std::collections::BTreeMap;

use super::{
    effect::{Change, Effect, Facts, Rules},
    event::NodeId,
};

/// The journal, and the bytes that auto_da_alloc would write.
#[derive(Debug, Default)]
pub(super) struct Ext4 {
    /// The last effect in the journal's sequence.
    journal: Option<usize>,
    /// The last journalled effect that touched a node.
    touched: BTreeMap<NodeId, usize>,
    /// The last one that fdatasync waits for.
    essential: BTreeMap<NodeId, usize>,
    /// Bytes in new blocks of a file, and the sizes that show them.
    delayed: BTreeMap<NodeId, Vec<usize>>,
}

impl Rules for Ext4 {
    fn splits_moves(&self) -> bool {
        false
    }

    fn added(&mut self, effects: &mut [Effect], index: usize, facts: &Facts) {
        let effect = &mut effects[index];
        let delayed = match effect.change {
            Change::Data { node, .. } => {
                if facts.fresh {
                    self.delayed.entry(node).or_default().push(index);
                }
                return;
            }
            // A block that has its place: written back at any time, in no order with the journal.
            Change::Zero { .. } => return,
            Change::Grow { node, .. } if !facts.essential => Some(node),
            Change::Grow { .. } | Change::Names(_) | Change::Cut { .. } | Change::Mode { .. } => None,
        };
        if let Some(node) = delayed {
            if facts.fresh {
                effect.after.extend(facts.data);
            }
            if !facts.reserved {
                self.delayed.entry(node).or_default().push(index);
            }
            return;
        }
        effect.after.extend(self.journal.replace(index));
        if let Some(delayed) = facts.replaces.and_then(|node| self.delayed.get(&node)) {
            effect.after.extend(delayed);
        }
        for node in &facts.touches {
            self.touched.insert(*node, index);
            if facts.essential {
                self.essential.insert(*node, index);
            }
        }
    }

    /// The flush of auto_da_alloc is used up by the first close of the file after the cut, through whatever descriptor,
    /// also one that only reads: nothing can be built on it.
    fn closed(&mut self, _: NodeId) {}

    fn synced(&self, node: NodeId, data_only: bool) -> Vec<usize> {
        let last = if data_only { &self.essential } else { &self.touched };
        last.get(&node).copied().into_iter().collect()
    }
}
