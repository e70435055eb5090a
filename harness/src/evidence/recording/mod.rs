//! Evidence in the making: a folder per file with a copy of each version and an audit line per write, as `incident`
//! and `audit` read them.
//!
//! [`Store`] writes it and bounds it; [`Manifest`] says beside the copies what they are. Who watches the programs is
//! not said here.

mod line;
mod manifest;
mod store;
mod summary;

pub use line::{Base, Written};
pub use manifest::{MANIFEST, Manifest};
pub use store::{Limits, Source, Store, StoreError};
pub use summary::{RecordedFile, Recording};
