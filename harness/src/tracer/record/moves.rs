//! What calls on names mean: opening, renaming, linking, removing.

use std::fs::File;

use nix::{libc, unistd::Pid};

use super::{
    calls::Begun,
    document::{self, inode},
    files::{ours, real, real_entry, text},
    process::DocumentId,
    watch::{Next, Watcher},
};
use crate::{
    evidence::recording::{Base, StoreError},
    tracer::{
        calls::{At, Call},
        memory,
    },
};

/// RENAME_EXCHANGE.
const EXCHANGE: u32 = 2;

/// A call on names, as it was begun.
#[derive(Debug)]
pub(super) enum Moved {
    /// A file takes the name `to`, and loses the name `from` if it is no link.
    Named { file: File, from: Option<DocumentId>, to: Option<DocumentId> },
    /// Two files change places: what each name led to.
    Exchanged { first: (Option<DocumentId>, File), second: (Option<DocumentId>, File) },
    /// A name is removed.
    Removed(DocumentId),
    /// A file is cut by its name.
    Cut(DocumentId, File),
}

impl Watcher {
    /// A task is about to open a file.
    pub(super) fn begin_open(&mut self, pid: Pid, at: At, mut flags: i32, how: u64) -> Result<(), StoreError> {
        // `struct open_how` begins with the flags.
        if how != 0 {
            flags = memory::read_u64(pid, how).map_or(0, |flags| flags as i32);
        }
        if flags & (libc::O_DIRECTORY | libc::O_PATH) != 0 {
            return Ok(());
        }
        let text = text(pid, at);
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & (libc::O_TRUNC | libc::O_CREAT) != 0;
        // Who writes gets a second look: it may be by a link.
        if text.is_empty() || !writes && !self.documents.watched.may_have(&text) {
            return Ok(());
        }
        let path = real(&ours(pid, at.dir, &text));
        let Some(id) = self.documents.at(&path) else { return Ok(()) };
        let process = self.tasks[&pid].process;
        if self.processes.get(&process).is_some_and(|p| p.let_go) {
            self.refresh(process)?;
        }
        if !self.is_changing(id) {
            self.documents.look(id)?;
        }
        if flags & libc::O_ACCMODE != libc::O_RDONLY {
            self.documents.begin(id)?;
        }
        let truncates = self.documents.all[id].inode.filter(|_| flags & libc::O_TRUNC != 0);
        if let Some(task) = self.tasks.get_mut(&pid) {
            task.begun = Some(Begun::Open { path, flags, truncates });
        }
        Ok(())
    }

    /// Whether somebody who is watched is writing a file, or about to put another in its place.
    fn is_changing(&self, id: DocumentId) -> bool {
        let document = &self.documents.all[id];
        let begun = |begun: &Begun| match begun {
            // It may be there, or empty, already.
            Begun::Open { path, flags, .. } => *flags & (libc::O_CREAT | libc::O_TRUNC) != 0 && *path == document.path,
            Begun::Move(_) => true,
            _ => false,
        };
        self.opened.values().any(|o| o.document == id && o.dirty)
            || self.tasks.values().filter_map(|task| task.begun.as_ref()).any(begun)
    }

    /// The version that an inode of a file is: the next one if it is just being put there.
    pub(super) fn version_of(&self, id: DocumentId, wanted: (u64, u64)) -> u64 {
        let document = &self.documents.all[id];
        let is = |file: &File| file.metadata().is_ok_and(|meta| inode(&meta) == wanted);
        let comes = |begun: &Begun| match begun {
            Begun::Move(Moved::Named { file, to, .. }) => *to == Some(id) && is(file),
            Begun::Move(Moved::Exchanged { first, second }) => {
                first.0 == Some(id) && is(&second.1) || second.0 == Some(id) && is(&first.1)
            }
            _ => false,
        };
        // First: the number of an inode that is gone may be used again.
        if self.tasks.values().filter_map(|task| task.begun.as_ref()).any(comes) {
            return document.current + 1;
        }
        document.version_of(wanted).unwrap_or(document.current)
    }

    /// A task is about to change what names lead to, if it is its turn.
    pub(super) fn begin_move(&mut self, pid: Pid, call: Call) -> Result<Next, StoreError> {
        let at = |at: At| {
            let text = text(pid, at);
            (!text.is_empty()).then(|| real_entry(&ours(pid, at.dir, &text)))
        };
        let (from, to) = match call {
            Call::Rename { from, to, .. } => (at(from), at(to)),
            // A link to a descriptor of a file without a name comes by /proc.
            Call::Link { from, to, .. } => (at(from), at(to)),
            Call::Unlink { at: name } => (at(name), None),
            Call::Truncate { at: name, .. } => (at(name).map(|path| real(&path)), None),
            _ => return Ok(Next::GoOn),
        };
        let mut document = |path: &Option<std::path::PathBuf>| path.as_deref().and_then(|path| self.documents.at(path));
        let (from_id, to_id) = (document(&from), document(&to));
        if from_id.is_none() && to_id.is_none() {
            return Ok(Next::GoOn);
        }
        if self.turn.is_some_and(|turn| turn != pid) {
            return Ok(Next::Wait);
        }
        for id in from_id.filter(|id| self.documents.is_of_interest(*id)).into_iter().chain(to_id) {
            self.documents.look(id)?;
            self.documents.begin(id)?;
        }
        let open = |path: &Option<std::path::PathBuf>| path.as_deref().and_then(document::open);
        let moved = match call {
            Call::Rename { flags, .. } if flags & EXCHANGE != 0 => {
                open(&from).zip(open(&to)).map(|(a, b)| Moved::Exchanged { first: (from_id, a), second: (to_id, b) })
            }
            Call::Rename { .. } => open(&from).map(|file| Moved::Named { file, from: from_id, to: to_id }),
            Call::Link { .. } => open(&from).map(|file| Moved::Named { file, from: None, to: to_id }),
            Call::Unlink { .. } => from_id.map(Moved::Removed),
            _ => from_id.zip(open(&from)).map(|(id, file)| Moved::Cut(id, file)),
        };
        if let (Some(moved), Some(task)) = (moved, self.tasks.get_mut(&pid)) {
            task.begun = Some(Begun::Move(moved));
            self.turn = Some(pid);
        }
        Ok(Next::GoOn)
    }

    /// Names lead elsewhere now.
    pub(super) fn finish_move(&mut self, process: Pid, moved: Moved) -> Result<(), StoreError> {
        match moved {
            Moved::Named { file, from, to } => {
                if let Some(to) = to {
                    self.take_over(process, to, &file)?;
                }
                // A rename between two names of one file does nothing.
                if let Some(from) = from.filter(|from| !self.documents.all[*from].path.exists()) {
                    self.remove(process, from)?;
                }
            }
            Moved::Exchanged { first: (a, was_a), second: (b, was_b) } => {
                if let Some(a) = a {
                    self.take_over(process, a, &was_b)?;
                }
                if let Some(b) = b {
                    self.take_over(process, b, &was_a)?;
                }
            }
            Moved::Removed(id) => self.remove(process, id)?,
            Moved::Cut(id, file) => self.take_over(process, id, &file)?,
        }
        Ok(())
    }

    /// A file is the newest version of a document.
    fn take_over(&mut self, process: Pid, id: DocumentId, file: &File) -> Result<(), StoreError> {
        let base = self.base_of(process, id);
        let writer = self.writer(process);
        self.documents.touch(id, writer)?;
        self.documents.publish(id, writer, "update", base, file)?;
        // Who still has it open has this document open.
        if let Ok(meta) = file.metadata() {
            let renamed = inode(&meta);
            for opened in self.opened.values_mut().filter(|opened| opened.inode == renamed) {
                opened.document = id;
            }
        }
        self.knows(process, id, Base::exactly(self.documents.all[id].current));
        Ok(())
    }

    fn remove(&mut self, process: Pid, id: DocumentId) -> Result<(), StoreError> {
        let base = self.base_of(process, id);
        let writer = self.writer(process);
        self.documents.removed(id, writer, base)?;
        self.knows(process, id, Base::exactly(self.documents.all[id].current));
        Ok(())
    }
}
