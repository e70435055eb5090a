//! The power goes: what may the disk hold then?
//!
//! [`Event`]s tell what happened to a file system. Each is taken apart into effects that reach the disk as a whole or
//! not at all (`effect`): a block of a file, its size, its permission bits, names. A sync makes effects durable; a
//! [`DiskModel`] ([`strict`], [`ext4`]) says which effects come before which. [`states`] builds the distinct trees that
//! are left when any allowed set of effects is missing.
//!
//! The approach is that of ALICE (Pillai et al., OSDI 2014: operations taken apart, and legal subsets of them built),
//! applied before each sync as CrashMonkey does (Mohan et al., OSDI 2018: crash points at persistence operations are
//! enough, since between two of them nothing becomes certain). LazyFS (Ramos et al., VLDB 2024) drops unsynced pages
//! of real programs through FUSE; here no file system is mounted, and the states follow from the recorded steps.

mod bits;
mod effect;
mod event;
pub mod ext4;
mod image;
mod part;
mod search;
mod states;
pub mod strict;
mod words;

pub use crate::world::DiskModel;
pub use event::{Disk, Entry, Event, Made, NodeId, ignore_syncs};
pub use image::tree_hash;
pub use search::PowerCuts;
pub use states::{BLOCK, Limits, Lost, LostWhat, State, States, states};
pub use words::describe;
