//! `queue doctor`: what this place is good for.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::args::Common;
use super::{Exit, report};
use crate::error::Error;
use crate::paths::{beside, directory_of};
use crate::storage::{Disk, LockKind, Storage};
use crate::strategy::record;

/// Tries what the strategies rely on, in the queue's directory, and prints one object. Exit 2 if the default strategy
/// would not be safe here.
pub(super) fn run(common: &Common) -> Result<Exit, Error> {
    let queue = common.open()?;
    let file = Disk.resolve(queue.path()).map_err(|error| Error::io("find the queue", queue.path(), error))?;
    let directory = directory_of(&file);
    let system =
        Disk.file_system(directory).map_err(|error| Error::io("look at the file system of", directory, error))?;
    let flock = lock(&file, LockKind::Flock);
    let ofd = lock(&file, LockKind::Ofd);
    let names = renames(&file);
    let advice = match (system.remote, &flock) {
        (true, _) => {
            "served by another machine or program: a lock taken here may not keep out a process elsewhere, a rename may be \
             seen late, and a lock may be lost when the server restarts; use one machine only, or `--strategy writer`, or a \
             local disk"
        }
        (false, Err(_)) => "flock does not work here: use `--strategy lock-dir`",
        (false, Ok(())) => "good for every strategy",
    };
    let said = |tried: &io::Result<()>| match tried {
        Ok(()) => json!(true),
        Err(error) => json!(error.to_string()),
    };
    let mut all = json!({
        "op": "doctor",
        "file": file.display().to_string(),
        "file_system": system.name,
        "remote": system.remote,
        "flock": said(&flock),
        "ofd_lock": said(&ofd),
        "strategy": record::in_use(&queue.access(), &file)?,
        "advice": advice,
    });
    if let (Value::Object(all), Value::Object(names)) = (&mut all, names) {
        all.extend(names);
    }
    report::object(&all)?;
    Ok(if system.remote || flock.is_err() { Exit::Usage } else { Exit::Done })
}

/// Whether a lock keeps a second one out.
fn lock(file: &Path, kind: LockKind) -> io::Result<()> {
    let path = beside(file, &format!(".{}.doctor", std::process::id()));
    let tried = (|| {
        let mut first = Disk.open_lock(&path, kind)?;
        Disk.lock(&mut first)?;
        let second = Disk.open_lock(&path, kind)?;
        match Disk.lock_within(second, Duration::ZERO)? {
            None => Ok(()),
            Some(_) => Err(io::Error::other("two at once have the lock")),
        }
    })();
    let _ = Disk.remove_file(&path);
    tried
}

/// Which kinds of rename and link the file system knows.
fn renames(file: &Path) -> Value {
    let at = |name: &str| beside(file, &format!(".{}-{name}.doctor", std::process::id()));
    let (one, two, three) = (at("1"), at("2"), at("3"));
    let works = |tried: io::Result<()>| tried.is_ok();
    let create = |path: &Path| Disk.create_new(path, None).map(drop);
    let made = create(&one).and_then(|()| create(&two));
    let exchange = works(made.and_then(|()| Disk.exchange(&one, &two)));
    let noreplace = Disk.rename_new(&one, &two).is_err() && works(Disk.rename_new(&one, &three));
    let link = works(Disk.hard_link(&two, &one));
    for path in [one, two, three] {
        let _ = Disk.remove_file(&path);
    }
    json!({"exchange": exchange, "rename_new": noreplace, "hard_link": link})
}
