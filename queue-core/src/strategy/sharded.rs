//! One file per account, each with a lock of its own: the route that was chosen after the incident.
//!
//! Processes that work for different accounts never wait for each other, files stay small, and a snapshot holds one
//! account's tasks. The queue is a *directory*; the tasks of account `a` are in `queue_a.json` there, written by the
//! strategy below (any other one; [`Flock`] by default) as if it were a queue of its own.
//!
//! A task is identified by its account and its id: two accounts may use the same id. A task that lies in another file than
//! its account's is passed over and reported.
//!
//! Reading over several accounts is no snapshot of the whole queue: each file is read at its own moment.

use std::io;
use std::path::{Path, PathBuf};

use super::{Flock, Guard, IfMissing, Strategy};
use crate::document::Document;
use crate::error::Error;
use crate::operation::{Operation, Reply};
use crate::storage::Storage;
use crate::transaction::{Access, Change};

/// The longest encoded account, in bytes: file systems take names of 255, and companions of the file have longer names
/// than itself.
const MAX_ENCODED: usize = 180;

/// A file per account, over another strategy.
pub struct Sharded<S: Storage> {
    inner: Box<dyn Strategy<S>>,
}

impl<S: Storage> std::fmt::Debug for Sharded<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Sharded").field(&self.inner).finish()
    }
}

impl<S: Storage> Sharded<S> {
    /// A file per account, each as `inner` says.
    pub fn over(inner: Box<dyn Strategy<S>>) -> Self {
        Sharded { inner }
    }

    /// Tries again when the directory is missing: the first push of all. The directory that is to hold it must be there.
    fn creating<T>(&self, access: &Access<'_, S>, act: &mut dyn FnMut() -> Result<T, Error>) -> Result<T, Error> {
        match act() {
            Err(Error::NoDirectory { path }) => {
                access.create_dir(&path)?;
                act()
            }
            done => done,
        }
    }
}

impl<S: Storage> Default for Sharded<S> {
    /// Over [`Flock`].
    fn default() -> Self {
        Sharded::over(Box::new(Flock::default()))
    }
}

impl<S: Storage> Strategy<S> for Sharded<S> {
    fn name(&self) -> &'static str {
        "sharded"
    }

    fn file_for(&self, queue: &Path, account: &str) -> Result<PathBuf, Error> {
        Ok(queue.join(file_name(account)?))
    }

    fn files(&self, storage: &S, queue: &Path) -> Result<Vec<PathBuf>, Error> {
        let names = storage.list_dir(queue).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::Missing { path: queue.to_owned() },
            _ => Error::io("list the shards", queue, error),
        })?;
        let shards = names.iter().filter(|name| is_shard(name));
        Ok(shards.map(|name| queue.join(name)).collect())
    }

    fn is_sharded(&self) -> bool {
        true
    }

    fn enter<'a>(
        &'a self,
        access: &Access<'a, S>,
        file: &Path,
        if_missing: IfMissing,
    ) -> Result<Box<dyn Guard + 'a>, Error> {
        self.creating(access, &mut || self.inner.enter(access, file, if_missing))
    }

    fn update_once(
        &self,
        access: &Access<'_, S>,
        file: &Path,
        if_missing: IfMissing,
        change: &mut dyn Change,
    ) -> Result<(), Error> {
        self.creating(access, &mut || self.inner.update_once(access, file, if_missing, change))
    }

    fn update(
        &self,
        access: &Access<'_, S>,
        file: &Path,
        if_missing: IfMissing,
        change: &mut dyn Change,
    ) -> Result<(), Error> {
        self.creating(access, &mut || self.inner.update(access, file, if_missing, change))
    }

    fn operate(
        &self,
        access: &Access<'_, S>,
        file: &Path,
        if_missing: IfMissing,
        operation: &Operation,
    ) -> Result<Reply, Error> {
        self.creating(access, &mut || self.inner.operate(access, file, if_missing, operation))
    }

    fn read(&self, access: &Access<'_, S>, file: &Path) -> Result<Document, Error> {
        self.inner.read(access, file)
    }
}

/// The file name of an account's shard.
///
/// Lower-case letters, digits, `-`, `_` and `.` stand for themselves, every other byte is `%` and two hexadecimal digits.
/// So two accounts never share a name, not even where file names ignore case or Unicode forms; and no name has a
/// separator in it, so none leaves the directory.
///
/// # Errors
/// [`Error::BadTask`] for an account that is empty or too long for a file name.
pub fn file_name(account: &str) -> Result<String, Error> {
    let refuse = |reason: &str| {
        Err(Error::BadTask { what: "account", value: account.chars().take(80).collect(), reason: reason.to_owned() })
    };
    if account.is_empty() {
        return refuse("it is empty: leave it out or name one");
    }
    let mut encoded = String::with_capacity(account.len());
    for byte in account.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02x}")),
        }
    }
    if encoded.len() > MAX_ENCODED {
        return refuse("too long for a file name: shorten it (letters other than a-z take three bytes each)");
    }
    Ok(format!("queue_{encoded}.json"))
}

/// Whether the tasks of an account belong into the shard of this name.
pub(crate) fn is_home(shard: &str, account: &str) -> bool {
    file_name(account).is_ok_and(|name| name == shard)
}

fn is_shard(name: &str) -> bool {
    name.starts_with("queue_") && name.ends_with(".json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_and_distinct() {
        for (account, name) in [
            ("a", "queue_a.json"),
            ("A", "queue_%41.json"),
            ("../x", "queue_..%2fx.json"),
            ("a\0", "queue_a%00.json"),
            ("a%00", "queue_a%2500.json"),
            ("bob@example.org", "queue_bob%40example.org.json"),
            ("ä", "queue_%c3%a4.json"),
            ("a\u{308}", "queue_a%cc%88.json"),
        ] {
            assert_eq!(file_name(account).unwrap(), name);
        }
    }

    #[test]
    fn unusable_accounts_are_refused() {
        for account in ["", &"a".repeat(MAX_ENCODED + 1), &"Ä".repeat(MAX_ENCODED)] {
            assert!(matches!(file_name(account), Err(Error::BadTask { .. })));
        }
        let longest = file_name(&"a".repeat(MAX_ENCODED)).unwrap();
        let temporary = format!(".{longest}.{}-{}.tmp", u32::MAX, u64::MAX);
        assert!(temporary.len() <= 255, "{}", temporary.len());
    }
}
