//! The model `strict`: what POSIX promises, and nothing else.
//!
//! - `fsync` and `fdatasync` make a file's bytes and size durable, `fsync` its permission bits too. Neither makes the
//!   file's *name* durable: fsync(2) says that this needs an fsync of the directory.
//! - Everything else reaches the disk in any order, or not at all: blocks of one file, its size, its permission bits,
//!   and the names in directories, each name on its own. A size that grew without its bytes reads as zeros.
//! - What is one thing stays one thing: a block is old or new; several changes of one block, one name or one size reach
//!   the disk in their order (the newest state of a block is what is written); blocks written after a cut took them
//!   away do not come back without the cut; two names changed by one rename within a directory change together. A rename to
//!   another directory may be seen half done, with *both* names (rename(2) warns of that window), never with none.
//! - A cut within a block is two things: the new size, and zeros in the rest of the block, which may reach the disk first.
//! - A name that a rename replaces names the old file or the new one, never nothing.
//!
//! Nothing is promised of file systems that break even this: stale bytes of deleted files in place of zeros, half
//! written blocks (set the block size to the sector size), or names that vanish in a rename (ext2). The abstract
//! persistence model of ALICE (Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014) is the same idea:
//! operations are taken apart, and each file system is described by which pieces are atomic and ordered.

use super::{
    effect::{Effect, Facts, Rules},
    event::NodeId,
};

/// No order and no guarantee beyond the bare ones.
#[derive(Debug, Default)]
pub(super) struct Strict;

impl Rules for Strict {
    fn splits_moves(&self) -> bool {
        true
    }

    fn added(&mut self, _: &mut [Effect], _: usize, _: &Facts) {}

    fn closed(&mut self, _: NodeId) {}

    fn synced(&self, _: NodeId, _: bool) -> Vec<usize> {
        Vec::new()
    }
}
