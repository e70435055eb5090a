//! The process that writes for all.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use serde_json::value::RawValue;

use super::super::flock::Held;
use super::super::{Flock, Guard, IfMissing, Verdict};
use super::pace::Pace;
use super::protocol::{Ask, MAX_LINE, Request, Response, Said, line_of};
use crate::document::Document;
use crate::error::Error;
use crate::lease::Moment;
use crate::operation::{Context, Operation, Push, Reply};
use crate::queue::Queue;
use crate::quick::Quick;
use crate::redo::Redo;
use crate::splice::{Edited, Proven};
use crate::storage::{Disk, Meta, Storage, is_same_user, socket};
use crate::task::Task;
use crate::transaction::{Access, Change, Changed, Settings, locked};

/// How long a client may take to read an answer that its socket has no room for.
const READING: Duration = Duration::from_secs(5);

/// How many clients are given up at once when there are no more descriptors: a write needs some itself.
const ROOM: usize = 8;

/// After what time without a write the queue file is flushed and the redo files are removed.
const QUIET: Duration = Duration::from_millis(100);

/// How many answers are remembered, for clients that lost their connection and ask again.
const REMEMBERED: usize = 4096;

/// What a writer has done in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Served {
    /// How many requests it has answered.
    pub requests: u64,
    /// In how many batches, that is, with how many writes at most.
    pub batches: u64,
}

/// Serves a queue file until nobody has asked anything for `idle`. `listening` is told the socket once there is one.
///
/// # Errors
/// [`Error::LockTimeout`] if somebody else has the lock (as long as [`Settings::timeout`] says); those of opening the
/// lock and the socket.
pub fn serve(
    queue: &Queue<Disk>,
    lock: Flock,
    idle: Duration,
    listening: &mut dyn FnMut(&Path),
) -> Result<Served, Error> {
    let (access, file) = (&queue.access(), &*queue.resolve(queue.path())?);
    let held = lock.hold(access, file, IfMissing::Create, "writer")?;
    let mut held = Serving { access, file, held, redo: Redo::default() };
    let path =
        access.storage.meeting_point(file).map_err(|error| Error::io("find the writer's socket", file, error))?;
    let failed = |error| Error::io("listen on the writer's socket", &path, error);
    socket::prepare(&path).map_err(failed)?;
    // We have the lock, so that whoever bound it is dead.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(&path).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let own = inode_of(&path);
    listening(&path);

    let mut server = Server {
        access,
        file,
        clients: Vec::new(),
        answers: Answers::default(),
        served: Served::default(),
        pace: Pace::default(),
        buffer: vec![0; 64 * 1024],
    };
    let now = || access.storage.monotonic();
    let (mut last, mut wrote) = (now(), now());
    loop {
        let left = idle.saturating_sub(now().saturating_sub(last));
        if left.is_zero() {
            break;
        }
        let limit = if held.redo.is_in_use() { left.min(QUIET) } else { left };
        let mut ready = server.wait(&listener, limit).map_err(failed)?;
        let before = server.clients.len();
        server.accept(&listener).map_err(failed)?;
        // Who has just connected has asked, as a rule.
        ready.extend(before..server.clients.len());
        let mark = held.redo.mark();
        if server.turn(&mut held, &ready) {
            last = now();
        }
        if held.redo.mark() != mark {
            wrote = now();
        } else if held.redo.is_in_use() && now().saturating_sub(wrote) >= QUIET {
            held.redo.end(access, file).unwrap_or_else(|error| access.warn(error));
        }
        if held.redo.is_broken() {
            // Whoever has asked is told so, and the next writer begins with what there is.
            break;
        }
    }
    // From here on nobody finds us. Who has found us before is answered; who has not asked yet will ask the next one. The
    // socket is another one's if the queue's directory was moved away and made anew.
    if own.is_some() && inode_of(&path) == own {
        let _ = std::fs::remove_file(&path);
    }
    server.accept(&listener).map_err(failed)?;
    let everybody: Vec<usize> = (0..server.clients.len()).collect();
    server.turn(&mut held, &everybody);
    held.redo.end(access, file)?;
    Ok(server.served)
}

fn inode_of(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// The lock, and what makes a version durable while we have it.
struct Serving<'a> {
    access: &'a Access<'a, Disk>,
    file: &'a Path,
    held: Held<'a, Disk>,
    redo: Redo,
}

impl Guard for Serving<'_> {
    fn note(&mut self) -> Option<Vec<u8>> {
        self.held.note()
    }

    fn keep_note(&mut self, note: &[u8]) {
        self.held.keep_note(note);
    }

    fn make_durable(&mut self, live: Option<&Meta>, version: u64, bytes: &[u8]) -> Result<bool, Error> {
        self.redo.keep(self.access, self.file, live, version, bytes)
    }

    fn withdraw(&mut self) {
        self.redo.end(self.access, self.file).unwrap_or_else(|error| self.access.warn(error));
    }
}

struct Server<'a> {
    access: &'a Access<'a, Disk>,
    file: &'a Path,
    clients: Vec<Client>,
    answers: Answers,
    served: Served,
    pace: Pace,
    /// For what arrives.
    buffer: Vec<u8>,
}

impl Server<'_> {
    /// Waits until somebody connects, asks or hangs up. Those who ask or hang up.
    fn wait(&self, listener: &UnixListener, limit: Duration) -> io::Result<Vec<usize>> {
        let mut polled = vec![PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        polled.extend(self.clients.iter().map(Client::polled));
        poll(&mut polled, limit)?;
        Ok(ready(&polled[1..]).collect())
    }

    fn accept(&mut self, listener: &UnixListener) -> io::Result<()> {
        loop {
            match listener.accept() {
                Ok((stream, _)) if is_same_user(&stream) => {
                    stream.set_nonblocking(true)?;
                    stream.set_write_timeout(Some(READING))?;
                    self.clients.push(Client { stream, received: Vec::new(), gone: false, answered: 0 });
                }
                // Another user: not even an answer.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    if matches!(Errno::try_from(error), Ok(Errno::EMFILE | Errno::ENFILE)) {
                        // Those who have not asked for longest make room, and come back if they ask again.
                        let mut clients: Vec<_> = self.clients.iter_mut().collect();
                        clients.sort_by_key(|client| client.answered);
                        clients.into_iter().take(ROOM).for_each(|client| client.gone = true);
                    }
                    // Otherwise the client has hung up.
                    return Ok(());
                }
            }
        }
    }

    /// Takes what has arrived, carries it out, answers. Whether there was anything.
    fn turn(&mut self, held: &mut Serving<'_>, ready: &[usize]) -> bool {
        let (mut batch, mut holders) = (Vec::new(), Vec::new());
        self.receive(ready, &mut batch, &mut holders);
        if !batch.is_empty() && holders.is_empty() {
            self.gather(&mut batch, &mut holders);
        }
        let any = !batch.is_empty() || !holders.is_empty();
        if !batch.is_empty() {
            let begun = self.access.storage.monotonic();
            self.carry_out(batch, held);
            self.pace.wrote(self.access.storage.monotonic().saturating_sub(begun));
        }
        for (index, id) in holders {
            self.clients[index].answer(&Response { id, said: Said::Held });
            self.served.requests += 1;
            // Blocking, until it has said what to write or is gone: what a lock would do.
            let _ = self.clients[index].stream.set_nonblocking(false);
            while !self.clients[index].gone {
                let requests = self.clients[index].receive(&mut self.buffer);
                if !requests.is_empty() {
                    let requests: Vec<_> =
                        requests.into_iter().filter(|request| !matches!(request.ask, Ask::Hold)).collect();
                    self.carry_out(requests.into_iter().map(|request| (index, request)).collect(), held);
                    break;
                }
            }
            let _ = self.clients[index].stream.set_nonblocking(true);
        }
        self.clients.retain(|client| !client.gone);
        any
    }

    /// Takes what has arrived from these. Who wants to hold the file comes after the rest, one at a time.
    fn receive(&mut self, from: &[usize], batch: &mut Vec<(usize, Request)>, holders: &mut Vec<(usize, String)>) {
        for &index in from {
            for request in self.clients[index].receive(&mut self.buffer) {
                match request.ask {
                    Ask::Hold => holders.push((index, request.id)),
                    _ => batch.push((index, request)),
                }
            }
        }
    }

    /// Waits for a moment for those who were answered by the last two writes, see [`Pace`].
    fn gather(&mut self, batch: &mut Vec<(usize, Request)>, holders: &mut Vec<(usize, String)>) {
        let mut missing = self.missing(batch);
        if missing.is_empty() {
            return;
        }
        let Some(limit) = self.pace.patience() else { return };
        let begun = self.access.storage.monotonic();
        while !missing.is_empty() && holders.is_empty() {
            let left = limit.saturating_sub(self.access.storage.monotonic().saturating_sub(begun));
            // Only these: who has asked already would end every wait at once if it hung up.
            let mut polled: Vec<PollFd<'_>> = missing.iter().map(|&index| self.clients[index].polled()).collect();
            if left.is_zero() || poll(&mut polled, left).is_err() {
                break;
            }
            let ready: Vec<usize> = ready(&polled).map(|at| missing[at]).collect();
            self.receive(&ready, batch, holders);
            missing = self.missing(batch);
        }
        self.pace.waited(missing.is_empty());
    }

    /// The clients that were answered lately and have not asked again.
    fn missing(&self, batch: &[(usize, Request)]) -> Vec<usize> {
        let lately = self.served.batches.saturating_sub(1).max(1);
        let silent = |index: &usize| !batch.iter().any(|(asked, _)| asked == index);
        let known = |index: &usize| !self.clients[*index].gone && self.clients[*index].answered >= lately;
        (0..self.clients.len()).filter(known).filter(silent).collect()
    }

    fn carry_out(&mut self, batch: Vec<(usize, Request)>, held: &mut Serving<'_>) {
        if batch.is_empty() {
            return;
        }
        self.served.batches += 1;
        self.served.requests += batch.len() as u64;
        // Asked before, by a client that lost its connection, and answered.
        let (known, fresh): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|(_, request)| self.answers.get(&request.id).is_some());
        let (clients, requests): (Vec<usize>, Vec<Request>) = fresh.into_iter().unzip();
        let said = commit(self.access, self.file, held, &requests);
        for (index, request) in known {
            let said = self.answers.get(&request.id).unwrap_or_else(|| unreachable!("just looked up")).clone();
            self.answer(index, &Response { id: request.id, said });
        }
        for ((index, request), said) in clients.into_iter().zip(requests).zip(said) {
            self.answers.remember(&request.id, &said);
            self.answer(index, &Response { id: request.id, said });
        }
    }

    fn answer(&mut self, index: usize, response: &Response) {
        self.clients[index].answer(response);
        self.clients[index].answered = self.served.batches;
    }
}

/// Carries out requests in one write, and says what came of each. If the write fails, so has every request that needed
/// it.
fn commit<S: Storage>(access: &Access<'_, S>, file: &Path, guard: &mut dyn Guard, requests: &[Request]) -> Vec<Said> {
    let mut batch = Batch::new(requests, access.settings);
    let done = locked(access, file, IfMissing::Create, guard, access.settings.publishing(), &mut batch);
    let mut said = batch.said;
    if let Err(error) = done {
        said.resize(requests.len(), Said::Failed(String::new()));
        let failed = Said::from_error(&error);
        for said in &mut said {
            if !matches!(said, Said::UnknownId(..) | Said::LeaseLost(..)) {
                *said = failed.clone();
            }
        }
    }
    said
}

/// Several requests as one change.
struct Batch<'a> {
    requests: &'a [Request],
    settings: &'a Settings,
    said: Vec<Said>,
}

impl<'a> Batch<'a> {
    fn new(requests: &'a [Request], settings: &'a Settings) -> Self {
        Batch { requests, settings, said: Vec::new() }
    }

    /// The pushes from a request on, as one: only the last copy of the text is needed.
    fn pushes(&self, from: usize) -> Vec<Task> {
        let tasks = self.requests[from..].iter().map_while(|request| match &request.ask {
            Ask::Operate(Operation::Push { tasks }) => Some(tasks.as_slice()),
            _ => None,
        });
        tasks.collect::<Vec<_>>().concat()
    }
}

impl Change for Batch<'_> {
    fn apply(&mut self, document: &mut Document, moment: &Moment) -> Result<Verdict, Error> {
        self.said.clear();
        let mut written: Option<(&'static str, Vec<String>)> = None;
        for request in self.requests {
            let context = Context { moment, settings: self.settings, again: request.again };
            let done = match &request.ask {
                Ask::Operate(operation) => {
                    operation.apply(document, context).map(|(reply, verdict)| (Said::Done(reply), verdict))
                }
                Ask::Swap { read, text, op, ids } => swap(document, *read, text, op, ids),
                Ask::Hold => unreachable!("taken out of the batch"),
            };
            match done {
                Ok((said, verdict)) => {
                    self.said.push(said);
                    if let Verdict::Write { op, ids } = verdict {
                        match &mut written {
                            None => written = Some((op, ids)),
                            Some((all, before)) => {
                                if *all != op {
                                    *all = "batch";
                                }
                                before.extend(ids);
                            }
                        }
                    }
                }
                Err(error) => self.said.push(Said::from_error(&error)),
            }
        }
        Ok(written.map_or(Verdict::Keep, |(op, ids)| Verdict::Write { op, ids }))
    }

    fn quick(&mut self, text: &Proven<'_>, moment: &dyn Fn() -> Moment) -> Option<Changed> {
        self.said.clear();
        let now = moment();
        let moment = || now.clone();
        let mut written: Option<(Edited, &'static str, Vec<String>)> = None;
        let mut at = 0;
        while at < self.requests.len() {
            let pushes = Operation::Push { tasks: self.pushes(at) };
            let (operation, again, together) = match &self.requests[at].ask {
                Ask::Operate(Operation::Push { .. }) => (&pushes, false, true),
                Ask::Operate(operation) => (operation, self.requests[at].again, false),
                Ask::Swap { .. } | Ask::Hold => return None,
            };
            let before = written.as_ref().map_or(*text, |(edited, ..)| edited.proven());
            let Quick { reply, verdict, edit } = operation.quick(&before, &moment, self.settings, again)?;
            if let Verdict::Write { op, ids } = verdict {
                // All together are one version.
                let edited = before.edit(&edit, u64::from(written.is_none()))?;
                written = Some(match written {
                    None => (edited, op, ids),
                    Some((_, all, mut before)) => {
                        before.extend(ids);
                        (edited, if all == op { all } else { "batch" }, before)
                    }
                });
            }
            if together {
                let answers = self.requests[at..].iter().map_while(|request| match &request.ask {
                    Ask::Operate(Operation::Push { tasks }) => {
                        Some(Said::Done(Reply::Pushed(vec![Push::Added; tasks.len()])))
                    }
                    _ => None,
                });
                self.said.extend(answers);
            } else {
                self.said.push(Said::Done(reply));
            }
            at = self.said.len();
        }
        Some(written.map_or(Changed::Nothing, |(text, op, ids)| Changed::Text { text, op, ids }))
    }
}

/// Puts a client's document in the place of the one that it has read.
fn swap(
    document: &mut Document,
    read: u64,
    text: &RawValue,
    op: &str,
    ids: &[String],
) -> Result<(Said, Verdict), Error> {
    if document.version() != read {
        let now = document.version();
        return Err(Error::Remote(format!(
            "the queue was written by somebody else meanwhile: version {read} is {now} now"
        )));
    }
    let mut new = Document::parse(text.get().as_bytes()).map_err(|malformed| Error::Remote(malformed.to_string()))?;
    new.set_version(read);
    *document = new;
    // Names of our own only: they are written into the audit line without more ado.
    let op = ["process", "edit", "update", "move"].into_iter().find(|name| *name == op).unwrap_or("update");
    Ok((Said::Swapped, Verdict::Write { op, ids: ids.to_vec() }))
}

/// One who has connected.
struct Client {
    stream: UnixStream,
    /// What has arrived of a request that is not complete.
    received: Vec<u8>,
    gone: bool,
    /// Which batch its last answer was in, from 1.
    answered: u64,
}

impl Client {
    /// The requests that have arrived completely.
    fn receive(&mut self, buffer: &mut [u8]) -> Vec<Request> {
        let mut requests = Vec::new();
        loop {
            match self.stream.read(buffer) {
                Ok(0) => self.gone = true,
                Ok(count) => {
                    let before = self.received.len();
                    self.received.extend_from_slice(&buffer[..count]);
                    if self.received.len() as u64 > MAX_LINE {
                        self.gone = true;
                    }
                    if let Some(end) = self.received[before..].iter().rposition(|&byte| byte == b'\n') {
                        let rest = self.received.split_off(before + end + 1);
                        let whole = std::mem::replace(&mut self.received, rest);
                        for line in whole.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
                            match serde_json::from_slice::<Request>(line) {
                                Ok(request) if request.is_one_of_ours() => requests.push(request),
                                _ => self.gone = true,
                            }
                        }
                        if !requests.is_empty() {
                            return requests;
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return requests,
                Err(_) => self.gone = true,
            }
            if self.gone {
                return requests;
            }
        }
    }

    /// Answers. A client that does not read its answers is given up rather than waited for.
    fn answer(&mut self, response: &Response) {
        // Nobody waits for it a second time.
        if self.gone {
            return;
        }
        let Ok(line) = line_of(response) else {
            self.gone = true;
            return;
        };
        // As a rule the socket takes it at once.
        let sent = match self.stream.write(&line) {
            Ok(count) if count == line.len() => return,
            Ok(count) => count,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => 0,
            Err(_) => {
                self.gone = true;
                return;
            }
        };
        let rest = self
            .stream
            .set_nonblocking(false)
            .and_then(|()| self.stream.write_all(&line[sent..]))
            .and_then(|()| self.stream.set_nonblocking(true));
        if rest.is_err() {
            self.gone = true;
        }
    }

    /// For waiting until it says something or hangs up.
    fn polled(&self) -> PollFd<'_> {
        PollFd::new(self.stream.as_fd(), PollFlags::POLLIN)
    }
}

/// Waits until one of them is ready, or so long. A signal ends it, too.
fn poll(these: &mut [PollFd<'_>], limit: Duration) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    let done = nix::poll::ppoll(these, Some(nix::sys::time::TimeSpec::from_duration(limit)), None);
    // In whole milliseconds; less than one is none.
    #[cfg(not(target_os = "linux"))]
    let done = {
        let millis = u16::try_from(limit.as_millis()).unwrap_or(u16::MAX);
        nix::poll::poll(these, nix::poll::PollTimeout::from(millis))
    };
    match done {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Which of them have something to be read, or an end.
fn ready(polled: &[PollFd<'_>]) -> impl Iterator<Item = usize> {
    polled.iter().enumerate().filter(|(_, polled)| polled.any().unwrap_or(true)).map(|(index, _)| index)
}

/// The last answers by request.
#[derive(Default)]
struct Answers {
    by_id: HashMap<String, Said>,
    order: VecDeque<String>,
}

impl Answers {
    fn get(&self, id: &str) -> Option<&Said> {
        self.by_id.get(id)
    }

    fn remember(&mut self, id: &str, said: &Said) {
        if self.by_id.insert(id.to_owned(), said.clone()).is_none() {
            self.order.push_back(id.to_owned());
        }
        if self.order.len() > REMEMBERED
            && let Some(old) = self.order.pop_front()
        {
            self.by_id.remove(&old);
        }
    }
}
