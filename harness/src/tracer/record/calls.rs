//! What calls through descriptors mean: which version was read, and when one was written.

use std::{fs::File, path::PathBuf};

use nix::{libc, unistd::Pid};

use super::{
    document::{self, inode},
    moves::Moved,
    process::{DocumentId, Opened},
    watch::{Next, Watcher},
};
use crate::{
    evidence::recording::{Base, StoreError},
    tracer::{calls::Call, memory},
};

/// A call of which the end matters.
#[derive(Debug)]
pub(super) enum Begun {
    /// Opens a file: its path without links, and how.
    Open { path: PathBuf, flags: i32, truncates: Option<(u64, u64)> },
    /// Reads through a description.
    Read { opened: usize, fd: i32, from: Option<i64>, seen: Seen },
    /// Makes another descriptor of one.
    Duplicate { fd: i32, to: Option<i32> },
    /// Changes what names lead to.
    Move(Moved),
}

/// What a file was at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    version: u64,
    /// Somebody else is writing.
    torn: bool,
}

impl Watcher {
    /// A task is about to make a call.
    pub(super) fn begin(&mut self, pid: Pid, call: Call) -> Result<Next, StoreError> {
        let process = self.tasks[&pid].process;
        match call {
            Call::Open { at, flags, how } => self.begin_open(pid, at, flags, how)?,
            Call::Rename { .. } | Call::Link { .. } | Call::Unlink { .. } | Call::Truncate { .. } => {
                return self.begin_move(pid, call);
            }
            Call::Uncontrolled("uses io_uring") => {
                let text = format!("process {process} uses io_uring: what it does to files by it is not seen");
                self.documents.warn(text);
            }
            _ if self.processes.get(&process).is_some_and(|p| !p.descriptors.is_empty()) => {
                let begun = self.through_descriptor(process, call)?;
                if let Some(task) = self.tasks.get_mut(&pid) {
                    task.begun = begun;
                }
            }
            _ => {}
        }
        Ok(Next::GoOn)
    }

    fn through_descriptor(&mut self, process: Pid, call: Call) -> Result<Option<Begun>, StoreError> {
        match call {
            Call::Read { fd, offset, .. } => return Ok(self.begin_read(process, fd, offset)),
            Call::CopyRange { from, to, .. } => {
                self.dirty(process, to);
                return Ok(self.begin_read(process, from, None));
            }
            Call::Write { fd, .. } | Call::Ftruncate { fd, .. } | Call::Fallocate { fd, .. } => self.dirty(process, fd),
            Call::Map { fd, protection, flags } => {
                let shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE && protection & libc::PROT_WRITE != 0;
                if let Some(opened) = self.at(process, fd).filter(|o| o.writes && shared) {
                    let shown = self.documents.watched.shown(&self.documents.all[opened.document].path);
                    let text =
                        format!("process {process} maps {shown}: what it changes in memory is seen when it closes it");
                    self.documents.warn(text);
                    self.dirty(process, fd);
                }
                // Whoever maps a file reads it.
                if flags & libc::MAP_ANONYMOUS == 0 {
                    return Ok(self.begin_read(process, fd, Some(0)));
                }
            }
            Call::Close { fd } => self.close(process, fd)?,
            Call::CloseRange { first, last, flags } if flags & libc::CLOSE_RANGE_CLOEXEC == 0 => {
                let inside = |fd: &i32| (first..=last).contains(&(*fd as u32));
                let fds: Vec<i32> = self.processes[&process].descriptors.keys().copied().filter(inside).collect();
                for fd in fds {
                    self.close(process, fd)?;
                }
            }
            Call::Dup2 { from, to } if from != to => {
                self.close(process, to)?;
                return Ok(Some(Begun::Duplicate { fd: from, to: Some(to) }));
            }
            Call::Fcntl { fd, cmd: libc::F_DUPFD | libc::F_DUPFD_CLOEXEC, .. } => {
                return Ok(Some(Begun::Duplicate { fd, to: None }));
            }
            Call::Fcntl {
                cmd: libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW, arg, ..
            } => {
                let mut kind = [0; 2];
                // `struct flock` begins with the kind of lock.
                let read = memory::read(Pid::from_raw(process.as_raw()), arg, &mut kind);
                if read.is_ok() && i32::from(i16::from_ne_bytes(kind)) == libc::F_UNLCK {
                    self.unlocked(process)?;
                }
            }
            Call::Flock { op, .. } if op & libc::LOCK_UN != 0 => self.unlocked(process)?,
            _ => {}
        }
        Ok(None)
    }

    /// A call returned.
    pub(super) fn finish(&mut self, pid: Pid, begun: Begun, result: i64) -> Result<(), StoreError> {
        let process = self.tasks[&pid].process;
        match begun {
            Begun::Move(moved) if result == 0 => self.finish_move(process, moved)?,
            Begun::Open { path, flags, .. } if result >= 0 => {
                self.finish_open(pid, process, path, flags, result as i32)?;
            }
            Begun::Read { opened, fd, from, seen } if result >= 0 => {
                self.finish_read(process, opened, fd, from, seen, result);
            }
            Begun::Duplicate { fd, to } if result >= 0 => {
                let Some(known) = self.processes.get_mut(&process) else { return Ok(()) };
                if let Some(&opened) = known.descriptors.get(&fd) {
                    known.descriptors.insert(to.unwrap_or(result as i32), opened);
                    if let Some(opened) = self.opened.get_mut(&opened) {
                        opened.references += 1;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn finish_open(&mut self, pid: Pid, process: Pid, path: PathBuf, flags: i32, fd: i32) -> Result<(), StoreError> {
        // It may have been another file that was opened: what counts is what the descriptor leads to.
        let Ok(meta) = std::fs::metadata(format!("/proc/{pid}/fd/{fd}")) else { return Ok(()) };
        if !meta.is_file() {
            return Ok(());
        }
        let Some(id) = self.documents.at(&path) else { return Ok(()) };
        // The number was used before: whatever it was is closed.
        self.close(process, fd)?;
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let writer = self.writer(process);
        self.documents.touch(id, writer)?;
        let document = &mut self.documents.all[id];
        let created = document.current == 0;
        if created || document.inode.is_none() {
            document.inode = Some(inode(&meta));
        }
        let opened = self.add_opened(Opened {
            document: id,
            inode: inode(&meta),
            writes,
            appends: flags & libc::O_APPEND != 0,
            dirty: writes && (created || flags & libc::O_TRUNC != 0),
            read: None,
            references: 1,
            by: process,
        });
        let Some(known) = self.processes.get_mut(&process) else { return Ok(()) };
        let began = !known.is_followed();
        known.descriptors.insert(fd, opened);
        if began {
            self.follow(process, pid);
        }
        Ok(())
    }

    fn at(&self, process: Pid, fd: i32) -> Option<&Opened> {
        let opened = self.processes.get(&process)?.descriptors.get(&fd)?;
        self.opened.get(opened)
    }

    /// Something is changed through a descriptor.
    fn dirty(&mut self, process: Pid, fd: i32) {
        let Some(opened) = self.processes.get(&process).and_then(|p| p.descriptors.get(&fd)) else { return };
        if let Some(opened) = self.opened.get_mut(opened).filter(|opened| opened.writes) {
            opened.dirty = true;
        }
    }

    fn seen(&self, process: Pid, opened: &Opened) -> Seen {
        let mut others = self.opened.values().filter(|o| o.inode == opened.inode && o.by != process);
        let mut truncating = self.tasks.values().filter(|task| task.process != process);
        let truncates =
            |begun: &Begun| matches!(begun, Begun::Open { truncates, .. } if *truncates == Some(opened.inode));
        Seen {
            version: self.version_of(opened.document, opened.inode),
            torn: others.any(|other| other.dirty) || truncating.any(|task| task.begun.as_ref().is_some_and(truncates)),
        }
    }

    fn begin_read(&self, process: Pid, fd: i32, from: Option<i64>) -> Option<Begun> {
        let &opened = self.processes.get(&process)?.descriptors.get(&fd)?;
        let seen = self.seen(process, self.opened.get(&opened)?);
        Some(Begun::Read { opened, fd, from, seen })
    }

    fn finish_read(&mut self, process: Pid, opened: usize, fd: i32, from: Option<i64>, before: Seen, count: i64) {
        let Some(description) = self.opened.get(&opened) else { return };
        let id = description.document;
        // What it has changed itself and not yet published is no news to it.
        if description.dirty || self.opened.values().any(|o| o.document == id && o.by == process && o.dirty) {
            return;
        }
        // The end of a file says nothing of what was read before.
        if count == 0 && description.read.is_some() {
            return;
        }
        let now = self.seen(process, description);
        let new = Base { read: before.version, read_to: now.version, unsure: before.torn || now.torn };
        let begins = || match from {
            Some(offset) => offset == 0,
            None => position(process, fd) == Some(count as u64),
        };
        let base = match description.read {
            Some(old) if (old.read, old.read_to) == (new.read, new.read_to) => {
                Base { unsure: old.unsure || new.unsure, ..new }
            }
            Some(old) if !begins() => {
                Base { read: old.read.min(new.read), read_to: old.read_to.max(new.read_to), unsure: true }
            }
            _ => new,
        };
        if let Some(description) = self.opened.get_mut(&opened) {
            description.read = Some(base);
        }
        self.knows(process, id, base);
    }

    /// A process closes a descriptor; the last of a description publishes what was written through it.
    pub(super) fn close(&mut self, process: Pid, fd: i32) -> Result<(), StoreError> {
        let Some(known) = self.processes.get_mut(&process) else { return Ok(()) };
        let Some(opened) = known.descriptors.remove(&fd) else { return Ok(()) };
        let blind = known.let_go;
        known.closed_one();
        let Some(description) = self.opened.get_mut(&opened) else { return Ok(()) };
        description.references -= 1;
        if description.references > 0 {
            return Ok(());
        }
        self.publish(process, opened, blind)?;
        self.opened.remove(&opened);
        Ok(())
    }

    /// A process releases a lock: whoever waits for it may read what it has written.
    fn unlocked(&mut self, process: Pid) -> Result<(), StoreError> {
        let blind = self.processes[&process].let_go;
        if blind {
            self.refresh(process)?;
        }
        let opened: Vec<usize> = self.processes[&process].descriptors.values().copied().collect();
        for opened in opened {
            self.publish(process, opened, blind)?;
        }
        Ok(())
    }

    /// What was written through a description is there for everybody, if anything was. `blind`: nobody looked.
    fn publish(&mut self, process: Pid, opened: usize, blind: bool) -> Result<(), StoreError> {
        let Some(description) = self.opened.get(&opened) else { return Ok(()) };
        let (id, inode, by) = (description.document, description.inode, description.by);
        let changed = description.dirty || blind && description.writes && self.documents.is_changed(id, inode);
        let appends = description.appends;
        if !changed {
            return Ok(());
        }
        if let Some(description) = self.opened.get_mut(&opened) {
            description.dirty = false;
        }
        let Some(file) = self.current(id, inode) else {
            let document = &mut self.documents.all[id];
            if !document.warned {
                document.warned = true;
                let shown = self.documents.watched.shown(&self.documents.all[id].path);
                let text =
                    format!("process {process} wrote to {shown} after it had been replaced: that is in no version");
                self.documents.warn(text);
            }
            return Ok(());
        };
        let base = self.base_of(process, id).or_else(|| self.base_of(by, id));
        let writer = self.writer(process);
        let (op, base) = match appends {
            true => ("append", None),
            false => ("update", base),
        };
        let base = base.map(|base| match blind {
            true => Base { read_to: self.documents.all[id].current, unsure: true, ..base },
            false => base,
        });
        self.documents.publish(id, writer, op, base, &file)?;
        let now = Base::exactly(self.documents.all[id].current);
        if let Some(description) = self.opened.get_mut(&opened) {
            description.read = Some(now);
        }
        if !appends {
            self.knows(process, id, now);
        }
        Ok(())
    }

    /// The file at a document's path, if it still is this inode.
    fn current(&self, id: DocumentId, wanted: (u64, u64)) -> Option<File> {
        let file = document::open(&self.documents.all[id].path)?;
        file.metadata().is_ok_and(|meta| inode(&meta) == wanted).then_some(file)
    }

    /// Closes what is closed: some descriptors vanish without a call that is seen.
    pub(super) fn refresh(&mut self, process: Pid) -> Result<(), StoreError> {
        let Some(known) = self.processes.get(&process) else { return Ok(()) };
        let is_open = |fd: i32, opened: usize| {
            let meta = std::fs::metadata(format!("/proc/{process}/fd/{fd}"));
            meta.is_ok_and(|meta| self.opened.get(&opened).is_some_and(|o| o.inode == inode(&meta)))
        };
        let closed: Vec<i32> =
            known.descriptors.iter().filter(|(fd, opened)| !is_open(**fd, **opened)).map(|(fd, _)| *fd).collect();
        for fd in closed {
            self.close(process, fd)?;
        }
        Ok(())
    }
}

/// Where a descriptor stands in its file.
fn position(process: Pid, fd: i32) -> Option<u64> {
    let info = std::fs::read_to_string(format!("/proc/{process}/fdinfo/{fd}")).ok()?;
    info.lines().find_map(|line| line.strip_prefix("pos:"))?.trim().parse().ok()
}
