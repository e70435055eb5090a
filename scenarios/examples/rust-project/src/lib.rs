//! A guest book: a file of names that several processes share.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use fs2::FileExt;

/// The page of the book that tells how to write such tests; its examples are run as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/src/how-to/cargo-test.md")]
pub struct Book;

/// Adds a name. When two processes do this at once, one of the names may be lost.
///
/// # Errors
/// A file that cannot be read or written.
pub fn sign(book: &Path, name: &str) -> io::Result<()> {
    let mut text = fs::read_to_string(book)?;
    text.push_str(name);
    text.push('\n');
    // Written beside and renamed: nobody ever sees half a file. That does not keep anybody's name.
    let beside = book.with_extension(std::process::id().to_string());
    fs::write(&beside, text)?;
    fs::rename(&beside, book)
}

/// Adds a name, under a lock that lies beside the file.
///
/// # Errors
/// As [`sign`].
pub fn sign_locked(book: &Path, name: &str) -> io::Result<()> {
    let lock = File::create(book.with_extension("lock"))?;
    lock.lock_exclusive()?;
    sign(book, name)
}
