//! Steps about open files: their bytes, their size, their memory.

use nix::{libc, unistd::Pid};
use rustix::fs::OFlags;

use super::{After, Draft, display};
use crate::{
    tracer::{machine::Machine, opened::Opened, walk},
    world::{Inode, Mode, Object, Op},
};

/// The path that `/proc/P/fd/N` leads to, as people see it.
pub(super) fn of_descriptor(path: &str) -> String {
    let Some(gone) = path.strip_suffix(" (deleted)") else { return display(path) };
    // A file that never had a name is shown by its real number.
    let unnamed = |name: &str| name.strip_prefix('#').is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    match gone.rsplit_once('/') {
        Some((dir, name)) if unnamed(name) => display(&format!("{dir}/(unnamed)")),
        _ => display(gone),
    }
}

impl Machine {
    /// A step about an open file.
    pub(in crate::tracer) fn draft_fd(&mut self, pid: Pid, fd: i32, op: Op) -> Draft {
        let mut draft = Draft::new(op);
        draft.path = Some(self.path_of(pid, fd));
        draft.file = self.inspect(pid, fd).filter(|f| f.world).map(|f| f.inode);
        draft
    }

    /// The name under which a descriptor's file is known now.
    pub(in crate::tracer) fn path_of(&self, pid: Pid, fd: i32) -> String {
        let path = walk::read_link(&format!("/proc/{pid}/fd/{fd}"));
        self.shown(of_descriptor(&path))
    }

    pub(super) fn file_of(&mut self, pid: Pid, fd: i32) -> Option<(u64, Inode)> {
        let file = self.inspect(pid, fd).filter(|f| f.world)?;
        Some((file.inode, self.number(pid, file.inode)))
    }

    pub(super) fn draft_read(&mut self, pid: Pid, fd: i32, offset: Option<i64>, len: u64) -> Draft {
        let mut draft = self.draft_fd(pid, fd, Op::Read);
        if let Some(file) = self.inspect(pid, fd) {
            let from = offset.map_or_else(|| file.position(), |o| o.max(0) as u64);
            let number = self.number(pid, file.inode);
            draft.offset = Some(from);
            draft.add_range(Object::Content(number), Mode::Read, (from, from.saturating_add(len)));
        }
        draft.after = After::Data;
        draft
    }

    pub(super) fn draft_write(&mut self, pid: Pid, fd: i32, offset: Option<i64>, len: u64) -> Draft {
        let mut draft = self.draft_fd(pid, fd, Op::Write);
        if let Some(file) = self.inspect(pid, fd) {
            self.add_write(pid, &file, offset, len, &mut draft);
        }
        draft
    }

    fn add_write(&mut self, pid: Pid, file: &Opened, offset: Option<i64>, len: u64, draft: &mut Draft) {
        let number = self.number(pid, file.inode);
        let append = file.flags().contains(OFlags::APPEND);
        draft.flag(append, "append");
        if append {
            draft.offset = Some(file.size);
            draft.add(Object::Content(number), Mode::Write);
        } else {
            let from = offset.map_or_else(|| file.position(), |o| o.max(0) as u64);
            draft.offset = Some(from);
            // Beyond the end it also makes the hole readable.
            draft.add_range(Object::Content(number), Mode::Write, (from.min(file.size), from.saturating_add(len)));
        }
        draft.add(Object::Meta(number), Mode::Add);
        draft.after = After::Modified(file.inode);
    }

    pub(super) fn draft_copy(&mut self, pid: Pid, from: i32, to: i32) -> Draft {
        let source = self.inspect(pid, from).filter(|f| f.world);
        let goal = self.inspect(pid, to).filter(|f| f.world);
        let mut draft = match &goal {
            Some(_) => self.draft_fd(pid, to, Op::Write),
            None => self.draft_fd(pid, from, Op::Read),
        };
        if let Some(file) = source {
            if goal.is_some() {
                draft.path2 = Some(self.path_of(pid, from));
            }
            let number = self.number(pid, file.inode);
            draft.add(Object::Content(number), Mode::Read);
        }
        for (fd, receives) in [(from, true), (to, false)] {
            if let Some(ends) = self.channel_of(pid, fd) {
                let end = if receives {
                    self.draft_receive(pid, fd, &ends, false)
                } else {
                    self.draft_send(pid, fd, &ends, false)
                };
                draft.path.get_or_insert(ends.name);
                draft.accesses.extend(end.accesses);
                draft.until_ready |= end.until_ready;
            }
        }
        if let Some(file) = goal {
            let number = self.number(pid, file.inode);
            draft.add(Object::Content(number), Mode::Write);
            draft.add(Object::Meta(number), Mode::Add);
            draft.after = After::Modified(file.inode);
        }
        draft
    }

    pub(super) fn draft_truncate(&mut self, pid: Pid, fd: i32, len: u64) -> Draft {
        let mut draft = self.draft_fd(pid, fd, Op::Truncate);
        if let Some(file) = self.inspect(pid, fd) {
            let number = self.number(pid, file.inode);
            draft.offset = Some(len);
            draft.add_range(Object::Content(number), Mode::Write, (len.min(file.size), u64::MAX));
            draft.add(Object::Meta(number), Mode::Add);
            draft.after = After::Modified(file.inode);
        }
        draft
    }

    pub(super) fn draft_map(&mut self, pid: Pid, fd: i32, protection: i32, flags: i32) -> Draft {
        let mut draft = self.draft_fd(pid, fd, Op::Map);
        if let Some(file) = self.inspect(pid, fd) {
            let number = self.number(pid, file.inode);
            let shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
            let writable = shared && (protection & libc::PROT_WRITE != 0 || file.writable());
            draft.flag(shared, "shared");
            draft.flag(writable, "writable");
            draft.add(Object::Content(number), if writable { Mode::Write } else { Mode::Read });
        }
        draft
    }
}
