//! Steps about paths: every name looked up in the world is read, and names come and go.

use nix::{libc, unistd::Pid};
use rustix::fs::FileType;

use super::{After, Draft, display};
use crate::{
    tracer::{calls::At, channels, machine::Machine, memory, sandbox, walk::Walk},
    world::{Mode, Object, Op},
};

impl Machine {
    /// A step about a path: every name looked up in the world is read.
    pub(in crate::tracer) fn draft_at(&mut self, pid: Pid, at: At, follow: bool, op: Op) -> (Draft, Walk) {
        let mut draft = Draft::new(op);
        if at.path == 0 || memory::read_path(pid, at.path).is_empty() {
            let mut walk = Walk::default();
            if let Some(file) = self.inspect(pid, at.dir).filter(|f| f.world) {
                walk.target = Some((file.inode, file.mode));
                draft = self.draft_fd(pid, at.dir, op);
            }
            return (draft, walk);
        }
        let walk = self.lookup(pid, at, follow);
        // A magic link of /proc leads to the file itself, whatever became of its name.
        draft.path = Some(self.shown(super::files::of_descriptor(&walk.path)));
        draft.file = walk.target.map(|t| t.0);
        self.read_names(pid, &walk, &mut draft);
        (draft, walk)
    }

    pub(in crate::tracer) fn read_names(&mut self, pid: Pid, walk: &Walk, draft: &mut Draft) {
        for lookup in &walk.lookups {
            let dir = self.number(pid, lookup.dir);
            draft.add(Object::Entry(dir, self.shown(lookup.name.clone())), Mode::Read);
            if !sandbox::is_root() {
                draft.add(Object::Perm(dir), Mode::Read);
            }
        }
    }

    /// The last name of a path changes what it names. `listed`: it appears or disappears.
    pub(in crate::tracer) fn change_name(&mut self, pid: Pid, walk: &Walk, draft: &mut Draft) -> Option<u64> {
        let last = walk.last()?;
        let (dir, real) = (self.number(pid, last.dir), last.dir);
        draft.add(Object::Entry(dir, self.shown(last.name.clone())), Mode::Write);
        draft.add(Object::Listing(dir), Mode::Add);
        Some(real)
    }

    pub(super) fn draft_open(&mut self, pid: Pid, at: At, flags: i32) -> Draft {
        let (create, exclusive) = (flags & libc::O_CREAT != 0, flags & libc::O_EXCL != 0);
        let temporary = flags & libc::O_TMPFILE == libc::O_TMPFILE;
        let follow = flags & libc::O_NOFOLLOW == 0 && !(create && exclusive);
        let (mut draft, walk) = self.draft_at(pid, at, follow, Op::Open);
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        draft.flag(writes, if flags & libc::O_ACCMODE == libc::O_RDWR { "rw" } else { "w" });
        draft.flag(create && exclusive, "excl");
        draft.flag(flags & libc::O_TRUNC != 0, "trunc");
        draft.flag(flags & libc::O_APPEND != 0, "append");
        draft.flag(flags & libc::O_DIRECTORY != 0 && !temporary, "dir");
        if temporary {
            draft.op = Op::Create;
            draft.flag(true, "unnamed");
            draft.file = None;
            draft.after = After::Open { created: true, truncated: false };
            return draft;
        }
        match walk.target {
            Some((file, mode)) => {
                let number = self.number(pid, file);
                draft.add(Object::Perm(number), Mode::Read);
                let regular = FileType::from_raw_mode(mode) == FileType::RegularFile;
                let truncated = flags & libc::O_TRUNC != 0 && regular && !(create && exclusive);
                if truncated {
                    draft.add(Object::Content(number), Mode::Write);
                    draft.add(Object::Meta(number), Mode::Add);
                }
                if FileType::from_raw_mode(mode) == FileType::Fifo {
                    let ends = self.fifo(number, String::new());
                    // Whoever opens the other side waits for this.
                    draft.accesses.extend(ends.outgoing.map(channels::free));
                }
                draft.after = After::Open { created: false, truncated };
            }
            None if create => {
                draft.op = Op::Create;
                self.change_name(pid, &walk, &mut draft);
                draft.after = After::Open { created: true, truncated: false };
            }
            None => {}
        }
        draft
    }

    pub(in crate::tracer) fn draft_new_name(&mut self, pid: Pid, at: At, op: Op) -> Draft {
        let (mut draft, walk) = self.draft_at(pid, at, false, op);
        if let Some(dir) = self.change_name(pid, &walk, &mut draft) {
            draft.after = After::Named { at, dir };
        }
        draft.file = None;
        draft
    }

    pub(in crate::tracer) fn draft_unname(&mut self, pid: Pid, at: At, op: Op) -> Draft {
        let (mut draft, walk) = self.draft_at(pid, at, false, op);
        let dir = self.change_name(pid, &walk, &mut draft);
        if let Some((file, _)) = walk.target {
            let number = self.number(pid, file);
            draft.add(Object::Meta(number), Mode::Write);
            if op == Op::Rmdir {
                draft.add(Object::Listing(number), Mode::Write);
            }
        }
        if let Some(dir) = dir {
            draft.after = After::Unnamed { dir, target: walk.target.map(|t| t.0) };
        }
        draft
    }

    pub(super) fn draft_rename(&mut self, pid: Pid, from: At, to: At, flags: u32) -> Draft {
        let exchange = flags & libc::RENAME_EXCHANGE != 0;
        let (mut draft, source) = self.draft_at(pid, from, false, if exchange { Op::Exchange } else { Op::Rename });
        draft.flag(flags & libc::RENAME_NOREPLACE != 0, "noreplace");
        let goal = self.lookup(pid, to, false);
        draft.path2 = Some(self.shown(display(&goal.path)));
        self.read_names(pid, &goal, &mut draft);
        let dirs = [self.change_name(pid, &source, &mut draft), self.change_name(pid, &goal, &mut draft)];
        let files = [source.target, goal.target];
        for (file, mode) in files.into_iter().flatten() {
            let number = self.number(pid, file);
            draft.add(Object::Meta(number), Mode::Write);
            if FileType::from_raw_mode(mode) == FileType::Directory {
                draft.add(Object::Listing(number), Mode::Write);
            }
        }
        let [moved, replaced] = files.map(|f| f.map(|f| f.0));
        if let [Some(a), Some(b)] = dirs {
            draft.after = After::Renamed { dirs: [a, b], moved, replaced };
        }
        draft
    }

    pub(super) fn draft_link(&mut self, pid: Pid, from: At, to: At, flags: i32) -> Draft {
        let (mut draft, source) = self.draft_at(pid, from, flags & libc::AT_SYMLINK_FOLLOW != 0, Op::Link);
        let goal = self.lookup(pid, to, false);
        draft.path2 = Some(self.shown(display(&goal.path)));
        self.read_names(pid, &goal, &mut draft);
        let dir = self.change_name(pid, &goal, &mut draft);
        if let Some((file, _)) = source.target {
            let number = self.number(pid, file);
            draft.add(Object::Meta(number), Mode::Add);
        }
        if let Some(dir) = dir {
            draft.after = After::Named { at: to, dir };
        }
        draft
    }
}
