//! inotify: a step that is told to a worker's watch is a message to it.

use std::{os::unix::fs::MetadataExt, path::Path};

use nix::{libc, unistd::Pid};

use super::{
    calls::{At, Buffer},
    channels::{Ends, free, object},
    draft::{After, Draft},
    machine::Machine,
    memory,
    opened::Opened,
    steps::real_path,
};
use crate::world::{Access, Op};

/// What a descriptor of events is called in `/proc`.
const INOTIFY: &str = "anon_inode:inotify";

/// A file or directory that an actor watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watched {
    actor: usize,
    /// Real inode.
    file: u64,
    mask: u32,
}

fn queue(actor: usize) -> u64 {
    object(format!("inotify {actor}").as_bytes())
}

/// The events that a step of this kind may cause.
fn events(op: Op) -> u32 {
    let moved = libc::IN_MOVED_FROM | libc::IN_MOVED_TO | libc::IN_MOVE_SELF;
    match op {
        Op::Open => libc::IN_OPEN | libc::IN_MODIFY,
        Op::Create => libc::IN_CREATE | libc::IN_OPEN,
        Op::Truncate | Op::Write => libc::IN_MODIFY,
        Op::Read | Op::List => libc::IN_ACCESS,
        Op::Rename | Op::Exchange => moved | libc::IN_DELETE_SELF | libc::IN_ATTRIB,
        Op::Link | Op::Symlink | Op::Mkdir => libc::IN_CREATE | libc::IN_ATTRIB,
        Op::Unlink | Op::Rmdir => libc::IN_DELETE | libc::IN_DELETE_SELF | libc::IN_ATTRIB,
        Op::Chmod | Op::Utime | Op::Xattr => libc::IN_ATTRIB,
        Op::Close => libc::IN_CLOSE_WRITE | libc::IN_CLOSE_NOWRITE | libc::IN_DELETE_SELF,
        _ => 0,
    }
}

impl Machine {
    /// The queue behind a descriptor, if it is one of inotify.
    pub(super) fn event_queue(&mut self, pid: Pid, fd: i32) -> Option<Ends> {
        let actor = self.task(pid).actor;
        let watches = self.watched.iter().any(|w| w.actor == actor);
        if !watches || super::walk::read_link(&format!("/proc/{pid}/fd/{fd}")) != INOTIFY {
            return None;
        }
        Some(Ends { incoming: Some(queue(actor)), outgoing: None, name: "inotify".into() })
    }

    /// Beginning to watch.
    pub(super) fn draft_watch(&mut self, pid: Pid, at: At, mask: u32) -> Draft {
        let (mut draft, walk) = self.draft_at(pid, at, mask & libc::IN_DONT_FOLLOW == 0, Op::Access);
        draft.flag(true, "watch");
        draft.accesses.push(free(queue(self.task(pid).actor)));
        if let Some((file, _)) = walk.target {
            draft.after = After::Watches { file, mask };
        }
        draft
    }

    /// A watch was added.
    pub(super) fn watches(&mut self, pid: Pid, file: u64, mask: u32) {
        let watched = Watched { actor: self.task(pid).actor, file, mask };
        self.uses_channels(pid);
        if !self.watched.contains(&watched) {
            self.watched.push(watched);
        }
    }

    /// The number that joins the two halves of a rename counts the renames of the whole machine: shown as those of
    /// this run.
    pub(super) fn hide_cookies(&mut self, pid: Pid, fd: i32, buffer: Buffer, len: u64) {
        /// `struct inotify_event` without the name.
        const HEADER: usize = 16;
        if self.watched.is_empty() || self.event_queue(pid, fd).is_none() {
            return;
        }
        let Buffer::Flat(address, _) = buffer else { return };
        let mut bytes = memory::read_buffer(pid, buffer, len);
        let mut at = 0;
        while at + HEADER <= bytes.len() {
            let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            let (cookie, name) = (word(at + 8), word(at + 12) as usize);
            if cookie != 0 {
                let next = self.cookies.len() as u32 + 1;
                let shown = *self.cookies.entry(cookie).or_insert(next);
                bytes[at + 8..at + 12].copy_from_slice(&shown.to_ne_bytes());
            }
            at += HEADER + name;
        }
        let _ = memory::write(pid, address, &bytes);
    }

    /// Whom a step is told.
    pub(super) fn notices(&mut self, draft: &Draft) -> Vec<Access> {
        if self.watched.is_empty() {
            return Vec::new();
        }
        let happens = events(draft.op);
        let mut files: Vec<u64> = draft.file.into_iter().collect();
        for path in [&draft.path, &draft.path2].into_iter().flatten() {
            let path = real_path(&self.real_name(path));
            let parent = Path::new(&path).parent().and_then(|p| std::fs::metadata(p).ok());
            let itself = std::fs::symlink_metadata(&path).ok();
            files.extend(parent.into_iter().chain(itself).map(|m| m.ino()));
        }
        let told = |w: &&Watched| files.contains(&w.file) && w.mask & happens != 0;
        let mut actors: Vec<usize> = self.watched.iter().filter(told).map(|w| w.actor).collect();
        actors.sort_unstable();
        actors.dedup();
        actors.into_iter().map(|a| free(queue(a))).collect()
    }

    /// Whether the close of a file is told to anybody.
    pub(super) fn close_is_noticed(&mut self, pid: Pid, fd: i32, file: &Opened) -> bool {
        let asked = if file.writable() { libc::IN_CLOSE_WRITE } else { libc::IN_CLOSE_NOWRITE };
        if !self.watched.iter().any(|w| w.mask & asked != 0) {
            return false;
        }
        let draft = self.draft_fd(pid, fd, Op::Close);
        !self.notices(&draft).is_empty()
    }

    /// Whom the end of a process that wrote is told: it closes its files.
    pub(super) fn exit_notices(&self) -> Vec<Access> {
        let mut actors: Vec<usize> = self.watched.iter().map(|w| w.actor).collect();
        actors.dedup();
        actors.into_iter().map(|a| free(queue(a))).collect()
    }
}
