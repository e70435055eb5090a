//! One process writes for all.
//!
//! Whoever holds the lock of [`flock`](super::flock) is the writer; everybody else sends it operations over a socket. It
//! takes what has arrived in the meantime, carries all of it out on one document, writes once, and answers then: never
//! before the commit. So the more clients there are, the more operations share one write and one fdatasync.
//!
//! - Only the lock's holder may remove or bind the socket, so there is one writer at most, and a stale socket of a dead
//!   one is replaced by the next.
//! - The writer serves until nobody has asked anything for a while, then removes the socket, answers what has arrived, and
//!   gives the lock up. A client that cannot connect starts one ([`Start::Program`]), or does its operation itself under
//!   the lock; both is safe at any time.
//! - Each request has a number. A client whose writer died asks the next one again, under the same number: a push is
//!   idempotent by the task's id (the client may be told that its own task was there already), a claim finds the task that
//!   the number has claimed, a completion finds the id in `done`.
//! - `flock` and `optimistic` may be used on the same file; they wait until the writer is idle.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Flock, Guard, IfMissing, Strategy, Verdict};
use crate::error::Error;
use crate::operation::{Operate, Operation, Reply};
use crate::storage::Storage;
use crate::transaction::{Access, Change, locked};
use protocol::{Ask, Request, Response, Said};

mod pace;
mod protocol;
mod server;

pub use server::{Served, serve};

/// How long a client waits for the lock before it tries to connect again.
const LOCK_SLICE: Duration = Duration::from_millis(20);

/// For how long the socket of an absolute path stays the same without another look: a directory on the way may become
/// another one.
const FRESH: Duration = Duration::from_millis(100);

/// How often a client looks whether the writer it started listens, and after how many looks it starts another.
const CONNECT_PAUSE: Duration = Duration::from_millis(2);
const CONNECT_LOOKS: u32 = 250;

/// How the process that writes for all comes into being.
#[derive(Debug, Clone, Default)]
pub enum Start {
    /// Somebody else starts it, if anybody. As long as there is none, each client writes for itself, under the lock.
    #[default]
    Never,
    /// By this program (`queue`), to which `serve --file FILE` and these arguments are given.
    Program(PathBuf, Vec<OsString>),
}

/// Operations sent to one process, which replaces the file by rename.
#[derive(Debug)]
pub struct Writer {
    lock: Flock,
    start: Start,
    /// The connection of the last operation, if its writer is there still.
    connection: RefCell<Option<Connection>>,
}

/// A connection to the writer of a file.
#[derive(Debug)]
struct Connection {
    file: PathBuf,
    socket: PathBuf,
    /// When the socket was found to be the file's.
    found: Duration,
    stream: BufReader<UnixStream>,
}

impl Writer {
    /// A client that takes `lock` if it has to write for itself.
    pub fn new(lock: Flock, start: Start) -> Self {
        Writer { lock, start, connection: RefCell::default() }
    }

    /// Asks the writer; none: there is none, and we have the lock.
    fn ask<'a, S: Storage>(
        &self,
        access: &Access<'a, S>,
        file: &Path,
        if_missing: IfMissing,
        ask: Ask,
    ) -> Result<Asked<'a, S>, Error> {
        let storage = access.storage;
        if if_missing == IfMissing::Refuse
            && let Err(error) = storage.meta(file)
            && error.kind() == io::ErrorKind::NotFound
        {
            return Err(Error::Missing { path: file.to_owned() });
        }
        let start = storage.monotonic();
        let kept = self.connection.take().filter(|kept| kept.file == file);
        let fresh = kept.as_ref().filter(|kept| file.is_absolute() && start.saturating_sub(kept.found) < FRESH);
        let (socket, found) = match fresh {
            Some(kept) => (kept.socket.clone(), kept.found),
            None => match storage.meeting_point(file) {
                Ok(socket) => (socket, start),
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    return Ok(Asked::Alone(self.lock.hold(access, file, if_missing, "writer")?, false));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound && if_missing == IfMissing::Create => {
                    return Err(Error::NoDirectory { path: crate::paths::directory_of(file).to_owned() });
                }
                Err(error) => return Err(Error::io("find the writer's socket", file, error)),
            },
        };
        let mut kept = kept.filter(|kept| kept.socket == socket).map(|kept| kept.stream);
        let left =
            || access.settings.timeout.map(|timeout| timeout.saturating_sub(storage.monotonic().saturating_sub(start)));
        let mut request = Request { id: number(storage), again: false, ask };
        let mut looks = 0;
        loop {
            let connected = match kept.take() {
                Some(stream) => Ok(stream),
                None => storage.dial(&socket).map(BufReader::new),
            };
            if let Ok(mut stream) = connected {
                match converse(&mut stream, &request, left()) {
                    Ok(said) => {
                        let file = file.to_owned();
                        return Ok(Asked::Said(said, Connection { file, socket, found, stream }));
                    }
                    Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                        return Err(Error::NoAnswer { path: file.to_owned() });
                    }
                    // It is gone. Whether it had written what we asked for we cannot know.
                    Err(_) => {
                        if request.again {
                            // One who hangs up again and again.
                            storage.sleep(CONNECT_PAUSE);
                        }
                        request.again = true;
                        looks = 0;
                        continue;
                    }
                }
            }
            match &self.start {
                Start::Program(program, arguments) if looks < CONNECT_LOOKS * 4 => {
                    if looks % CONNECT_LOOKS == 0 {
                        start_writer(program, arguments, file)
                            .map_err(|error| Error::io("start the writer", program, error))?;
                    }
                    if left().is_some_and(|left| left.is_zero()) {
                        return Err(Error::LockTimeout {
                            path: super::flock::lock_file_of(file),
                            waited: storage.monotonic().saturating_sub(start),
                        });
                    }
                    looks += 1;
                    storage.sleep(CONNECT_PAUSE);
                }
                // Nobody serves. The lock may be held by a writer that is just beginning to, so wait for a moment only.
                _ => {
                    let slice = left().map_or(LOCK_SLICE, |left| left.min(LOCK_SLICE));
                    let settings = crate::transaction::Settings { timeout: Some(slice), ..access.settings.clone() };
                    let brief = access.with(&settings);
                    match self.lock.hold(&brief, file, if_missing, "writer") {
                        Ok(held) => return Ok(Asked::Alone(held.rebind(storage), request.again)),
                        Err(Error::LockTimeout { path, .. }) if left().is_some_and(|left| left.is_zero()) => {
                            return Err(Error::LockTimeout { path, waited: storage.monotonic().saturating_sub(start) });
                        }
                        Err(Error::LockTimeout { .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }

    fn keep(&self, connection: Connection) {
        self.connection.replace(Some(connection));
    }
}

/// What came of asking.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and not for long")]
enum Asked<'a, S: Storage> {
    /// The writer's answer, and the connection to it.
    Said(Said, Connection),
    /// Nobody serves, and we have the lock. Whether the request may have been carried out before.
    Alone(super::flock::Held<'a, S>, bool),
}

impl<S: Storage> Strategy<S> for Writer {
    fn name(&self) -> &'static str {
        "writer"
    }

    fn enter<'a>(
        &'a self,
        access: &Access<'a, S>,
        file: &Path,
        if_missing: IfMissing,
    ) -> Result<Box<dyn Guard + 'a>, Error> {
        Ok(Box::new(self.lock.hold(access, file, if_missing, "writer")?))
    }

    fn update_once(
        &self,
        access: &Access<'_, S>,
        file: &Path,
        if_missing: IfMissing,
        change: &mut dyn Change,
    ) -> Result<(), Error> {
        let (said, mut connection) = match self.ask(access, file, if_missing, Ask::Hold)? {
            Asked::Said(said, connection) => (said, connection),
            Asked::Alone(mut held, _) => {
                return locked(access, file, if_missing, &mut held, access.settings.publishing(), change);
            }
        };
        let Said::Held = said else {
            return Err(said.into_error());
        };
        // The writer serves nobody else until we say what it is to write, or hang up, which is what every error does.
        let loaded = access.load(file, if_missing)?;
        let mut document = match loaded.bytes() {
            Some(bytes) => access.parse(file, bytes)?,
            None => crate::document::Document::empty(),
        };
        let read = document.version();
        let Verdict::Write { op, ids } = change.apply(&mut document, &access.moment())? else {
            return Ok(());
        };
        let text = String::from_utf8(document.to_bytes()).unwrap_or_else(|_| unreachable!("a document is text"));
        let text = serde_json::value::RawValue::from_string(text.trim().to_owned())
            .unwrap_or_else(|error| unreachable!("a document is JSON: {error}"));
        let swap = Ask::Swap { read, text, op: op.to_owned(), ids };
        let request = Request { id: number(access.storage), again: false, ask: swap };
        match converse(&mut connection.stream, &request, access.settings.timeout) {
            Ok(Said::Swapped) => {
                self.keep(connection);
                Ok(())
            }
            Ok(other) => Err(other.into_error()),
            Err(_) => Err(Error::NoAnswer { path: file.to_owned() }),
        }
    }

    fn operate(
        &self,
        access: &Access<'_, S>,
        file: &Path,
        if_missing: IfMissing,
        operation: &Operation,
    ) -> Result<Reply, Error> {
        let mut operation = operation.clone();
        if let Operation::Claim { request, .. } = &mut operation {
            request.get_or_insert_with(|| number(access.storage));
        }
        match self.ask(access, file, if_missing, Ask::Operate(operation.clone()))? {
            Asked::Said(said, connection) => {
                self.keep(connection);
                said.into_reply()
            }
            Asked::Alone(mut held, again) => {
                let mut operate = Operate::new(&operation, access.settings).again(again);
                locked(access, file, if_missing, &mut held, access.settings.publishing(), &mut operate)?;
                Ok(operate.reply())
            }
        }
    }
}

/// A number that no other request ever has.
fn number<S: Storage>(storage: &S) -> String {
    format!("{}-{}-{}", storage.now().as_microsecond(), storage.process().pid, storage.serial())
}

/// Sends a request and waits for its answer.
fn converse(stream: &mut BufReader<UnixStream>, request: &Request, limit: Option<Duration>) -> io::Result<Said> {
    // No time at all would mean to wait for ever.
    stream.get_ref().set_read_timeout(limit.map(|limit| limit.max(Duration::from_millis(1))))?;
    protocol::send(stream.get_mut(), request)?;
    let response: Response = protocol::receive(stream)?;
    match response.id == request.id {
        true => Ok(response.said),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Starts a writer that outlives us. If there is one already the new one cannot have the lock, and ends.
fn start_writer(program: &Path, arguments: &[OsString], file: &Path) -> io::Result<()> {
    let mut child = Command::new(program)
        .arg("serve")
        .arg("--file")
        .arg(file)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // So that a signal to our terminal does not end it.
        .process_group(0)
        .spawn()?;
    // For those who live longer than it: a process that is not waited for stays a zombie.
    std::thread::Builder::new().name("writer-waiter".into()).spawn(move || child.wait())?;
    Ok(())
}
