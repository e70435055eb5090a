//! How such a fault is usually fixed, and where more is said of it.

use crate::scenario::Kind;

/// Where the book tells of a kind: an address once the project has one, until then the page in its repository.
pub fn page_of(kind: Kind) -> String {
    let page = format!("docs/src/catalogue/{kind}.md");
    match env!("CARGO_PKG_REPOSITORY") {
        "" => page,
        repository => format!("{}/blob/main/{page}", repository.trim_end_matches('/')),
    }
}

/// One or two sentences for each kind.
pub fn advice(kind: Kind) -> &'static str {
    match kind {
        Kind::LostUpdate => {
            "Hold one lock from before the read until after the write, in every program that changes the file; or write \
             only if the version on disk is still the one that was read, and start over if not."
        }
        Kind::LostAfterCrash => {
            "Write a new file, sync it, rename it over the old one and sync the folder; acknowledge only after that."
        }
        Kind::DuplicateDelivery => {
            "Make the claim one indivisible step: rename the item away, create a claim with O_EXCL, or mark it under the \
             lock that also guards the read. Whoever loses the claim must not go on."
        }
        Kind::TornFile => {
            "Never change the file in place: write a temporary file in the same folder, check every write, sync it (for a \
             power cut), then rename it over the old one."
        }
        Kind::TornRead => {
            "Publish with a rename, so that a reader meets the old version or the new one; or let readers take the \
             writer's lock (shared)."
        }
        Kind::BrokenLock => {
            "Take the lock in one step (flock, O_EXCL or mkdir, no look before it), on a file that is never replaced or \
             removed; after taking it, check that the name still is this file."
        }
        Kind::Unserializable => {
            "Put everything that belongs together, reads included, under one lock; what is decided on an old read must be \
             checked again before it is written."
        }
        Kind::Deadlock => {
            "Take the locks in the same order in every program, or take one lock for both files; give a wait a time-out \
             that releases what is held."
        }
        Kind::StaleLock => {
            "Use a lock that the kernel releases with its owner (flock, fcntl). A lock file needs its owner's pid and start \
             time in it, and one indivisible step to break it."
        }
        Kind::Livelock => {
            "Make somebody's attempt succeed: wait for the lock instead of polling it, or wait a random time before the \
             next attempt."
        }
        Kind::CheckFailed => {
            "The check says what is wrong with the final files. Look at the last write of each and at what its writer had \
             read."
        }
        Kind::WorkerFailed => {
            "Nothing is lost, but a program gives up when another one is in its way: let it wait or try again, or allow it \
             with --allow worker-failed."
        }
    }
}
