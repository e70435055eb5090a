//! A visible step before it runs: what it is about, and what it will touch. The dependence relation between real
//! system calls is written down here.

use nix::{libc, unistd::Pid};
use rustix::fs::{FileType, OFlags};

use super::{
    arch::Registers,
    calls::{At, Call, Times},
    locks::{self, Owner, RecordRequest},
    machine::Machine,
    memory, sandbox,
    syscalls::Opened,
    task::Pending,
    walk::Walk,
};
use crate::world::{Access, ActorId, Inode, Mode, Object, Op, Sync};

/// What must be done once the call returned.
#[derive(Clone, Debug)]
pub(super) enum After {
    /// Nothing more.
    Nothing,
    /// An open: whether it makes the file, and whether it empties it.
    Open { created: bool, truncated: bool },
    /// Bytes were read into the tracee's buffer.
    Data,
    /// The content of this file (real inode) changed.
    Modified(u64),
    /// A new name (its place) came to be in a directory (real inode).
    Named { at: At, dir: u64 },
    /// A name went away from a directory; what it named.
    Unnamed { dir: u64, target: Option<u64> },
    /// A rename between two directories: what was moved and what was replaced.
    Renamed { dirs: [u64; 2], moved: Option<u64>, replaced: Option<u64> },
    /// Something else than the content changed.
    Changed(u64),
    /// The times of a file were set.
    Timed { file: u64, times: Times },
    /// A result of the stat family is to be rewritten: where, which form, and the file.
    Stat { buffer: u64, extended: bool, file: u64 },
    /// A directory listing is to be sorted and renumbered.
    List { buffer: u64, wide: bool },
    /// flock(2).
    Flock { file: u64, unlock: bool },
    /// A record lock.
    Record { owner: Owner, file: u64, request: RecordRequest },
    /// Descriptors that close and drop locks.
    Closes { fds: Vec<i32> },
    /// The program is replaced.
    Exec { found: bool },
}

/// A visible step before it runs.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    /// The operation.
    pub op: Op,
    /// First path, for people and patterns.
    pub path: Option<String>,
    /// Second path.
    pub path2: Option<String>,
    /// Flags in words.
    pub flags: Vec<&'static str>,
    /// What it touches if it succeeds.
    pub accesses: Vec<Access>,
    /// The file it is about (real inode).
    pub file: Option<u64>,
    /// Where in the file.
    pub offset: Option<u64>,
    /// What to do afterwards.
    pub after: After,
    /// A lock request that would wait: run it without waiting first.
    pub waits: bool,
}

impl Draft {
    fn new(op: Op) -> Self {
        Draft {
            op,
            path: None,
            path2: None,
            flags: Vec::new(),
            accesses: Vec::new(),
            file: None,
            offset: None,
            after: After::Nothing,
            waits: false,
        }
    }

    fn add(&mut self, object: Object, mode: Mode) {
        self.accesses.push(Access::new(object, mode));
    }

    fn add_range(&mut self, object: Object, mode: Mode, range: (u64, u64)) {
        self.accesses.push(Access { range: Some(range), ..Access::new(object, mode) });
    }

    fn flag(&mut self, set: bool, name: &'static str) {
        if set {
            self.flags.push(name);
        }
    }
}

impl Machine {
    /// The virtual number of a file of the world.
    pub(super) fn number(&mut self, pid: Pid, real: u64) -> Inode {
        let actor = self.task(pid).actor;
        self.inodes.number(real, actor, self.clock.wall())
    }

    /// What a pending step is about, in the state the world is in now.
    pub(super) fn draft(&mut self, pid: Pid, pending: &Pending) -> Draft {
        let mut draft = self.draft_call(pid, pending);
        draft.accesses.extend(self.memory_accesses(pid));
        draft
    }

    /// Between its steps a task may read and write the files that it has mapped: each of its steps touches them.
    pub(super) fn memory_accesses(&mut self, pid: Pid) -> Vec<Access> {
        let process = self.task(pid).process;
        let files: Vec<u64> = self.mapped.iter().filter(|m| m.0 == process).map(|m| m.1).collect();
        files.into_iter().map(|file| Access::new(Object::Content(self.number(pid, file)), Mode::Write)).collect()
    }

    fn draft_call(&mut self, pid: Pid, pending: &Pending) -> Draft {
        let (call, entry) = match pending {
            Pending::Call { call, entry } => (*call, entry),
            Pending::Exit => return self.draft_exit(pid),
            Pending::Again { .. } => return Draft::new(Op::Sleep),
        };
        match call {
            Call::Read { fd, buffer, offset } => {
                let len = memory::pieces(pid, buffer).iter().map(|p| p.1).sum();
                self.draft_read(pid, fd, offset, len)
            }
            Call::Write { fd, buffer, offset } => {
                let len = memory::pieces(pid, buffer).iter().map(|p| p.1).sum();
                self.draft_write(pid, fd, offset, len)
            }
            Call::CopyRange { from, to, .. } => self.draft_copy(pid, from, to),
            Call::Ftruncate { fd, len } => self.draft_truncate(pid, fd, len),
            Call::Fallocate { fd, .. } => {
                let mut draft = self.draft_fd(pid, fd, Op::Truncate);
                draft.flag(true, "fallocate");
                if let Some((file, number)) = self.file_of(pid, fd) {
                    draft.add(Object::Content(number), Mode::Write);
                    draft.add(Object::Meta(number), Mode::Add);
                    draft.after = After::Modified(file);
                }
                draft
            }
            Call::Seek { fd } => {
                let mut draft = self.draft_fd(pid, fd, Op::Stat);
                draft.flag(true, "seek");
                if let Some((_, number)) = self.file_of(pid, fd) {
                    draft.add(Object::Meta(number), Mode::Read);
                }
                draft
            }
            Call::List { fd, buffer, wide } => {
                let mut draft = self.draft_fd(pid, fd, Op::List);
                if let Some((_, number)) = self.file_of(pid, fd) {
                    draft.add(Object::Listing(number), Mode::Read);
                }
                draft.after = After::List { buffer, wide };
                draft
            }
            Call::Map { fd, protection, flags } => self.draft_map(pid, fd, protection, flags),
            Call::Flock { fd, op } => self.draft_flock(pid, fd, op),
            Call::Fcntl { fd, cmd, arg } => self.draft_fcntl(pid, fd, cmd, arg),
            Call::Close { fd } => self.draft_close(pid, vec![fd]),
            Call::Dup2 { to, .. } => self.draft_close(pid, vec![to]),
            Call::CloseRange { first, last, .. } => {
                let fds = super::syscalls::open_fds(pid);
                self.draft_close(pid, fds.into_iter().filter(|fd| (first..=last).contains(&(*fd as u32))).collect())
            }
            Call::Rename { from, to, flags } => self.draft_rename(pid, from, to, flags),
            Call::Link { from, to, flags } => self.draft_link(pid, from, to, flags),
            _ => self.draft_path(pid, call, entry),
        }
    }

    fn draft_path(&mut self, pid: Pid, call: Call, entry: &Registers) -> Draft {
        match call {
            Call::Open { at, flags, .. } => self.draft_open(pid, at, flags),
            Call::Truncate { at, len } => {
                let (mut draft, walk) = self.draft_at(pid, at, true, Op::Truncate);
                if let Some((file, _)) = walk.target {
                    let number = self.number(pid, file);
                    // The size is not at hand without opening it: the whole content.
                    let _ = len;
                    draft.add(Object::Content(number), Mode::Write);
                    draft.add(Object::Meta(number), Mode::Add);
                    draft.after = After::Modified(file);
                }
                draft
            }
            Call::Symlink { at, .. } => self.draft_new_name(pid, at, Op::Symlink),
            Call::Mkdir { at } => self.draft_new_name(pid, at, Op::Mkdir),
            Call::Mknod { at } => self.draft_new_name(pid, at, Op::Create),
            Call::Unlink { at } => self.draft_unname(pid, at, Op::Unlink),
            Call::Rmdir { at } => self.draft_unname(pid, at, Op::Rmdir),
            Call::Stat { at, buffer, follow, extended } => {
                let (mut draft, walk) = self.draft_at(pid, at, follow, Op::Stat);
                if let Some((file, mode)) = walk.target {
                    let number = self.number(pid, file);
                    draft.add(Object::Meta(number), Mode::Read);
                    draft.add(Object::Perm(number), Mode::Read);
                    if FileType::from_raw_mode(mode) == FileType::Directory {
                        draft.add(Object::Listing(number), Mode::Read);
                    }
                    draft.after = After::Stat { buffer, extended, file };
                }
                draft
            }
            Call::Chmod { at, follow } => {
                let (mut draft, walk) = self.draft_at(pid, at, follow, Op::Chmod);
                if let Some((file, _)) = walk.target {
                    let number = self.number(pid, file);
                    draft.add(Object::Meta(number), Mode::Write);
                    draft.add(Object::Perm(number), Mode::Write);
                    draft.after = After::Changed(file);
                }
                draft
            }
            Call::Utime { at, follow, times } => {
                let (mut draft, walk) = self.draft_at(pid, at, follow, Op::Utime);
                if let Some((file, _)) = walk.target {
                    let number = self.number(pid, file);
                    draft.add(Object::Meta(number), Mode::Write);
                    draft.after = After::Timed { file, times };
                }
                draft
            }
            Call::XattrGet { at, follow } => {
                let (mut draft, walk) = self.draft_at(pid, at, follow, Op::Xattr);
                if let Some((file, _)) = walk.target {
                    let number = self.number(pid, file);
                    draft.add(Object::Meta(number), Mode::Read);
                }
                draft
            }
            Call::XattrSet { at, follow } => {
                let (mut draft, walk) = self.draft_at(pid, at, follow, Op::Xattr);
                draft.flag(true, "set");
                if let Some((file, _)) = walk.target {
                    let number = self.number(pid, file);
                    draft.add(Object::Meta(number), Mode::Write);
                    draft.after = After::Changed(file);
                }
                draft
            }
            Call::Exec { at } => {
                let (mut draft, walk) = self.draft_at(pid, at, true, Op::Open);
                draft.flag(true, "exec");
                if let Some((file, _)) = walk.target {
                    let number = self.number(pid, file);
                    draft.add(Object::Content(number), Mode::Read);
                    draft.add(Object::Perm(number), Mode::Read);
                }
                draft.after = After::Exec { found: walk.target.is_some() };
                draft
            }
            Call::Readlink { at, .. } => {
                let (mut draft, _) = self.draft_at(pid, at, false, Op::Stat);
                draft.flag(true, "readlink");
                draft
            }
            Call::Chdir { at } => {
                let (mut draft, _) = self.draft_at(pid, at, true, Op::Access);
                draft.flag(true, "chdir");
                draft
            }
            Call::Access { at, follow } => {
                let (mut draft, walk) = self.draft_at(pid, at, follow, Op::Access);
                if let Some((file, _)) = walk.target {
                    let number = self.number(pid, file);
                    draft.add(Object::Perm(number), Mode::Read);
                }
                draft
            }
            Call::Kill { process, .. } => {
                let mut draft = Draft::new(Op::Access);
                draft.flag(true, "lives");
                if let Some(actor) = (0..self.actors.len()).find(|a| self.first_pid(*a) == process) {
                    draft.path = Some(format!("process {process}"));
                    draft.add(Object::Life(ActorId(actor as u16)), Mode::Read);
                }
                draft
            }
            _ => {
                let _ = entry;
                Draft::new(Op::Access)
            }
        }
    }

    /// A step about a path: every name looked up in the world is read.
    fn draft_at(&mut self, pid: Pid, at: At, follow: bool, op: Op) -> (Draft, Walk) {
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
        draft.path = Some(display(&walk.path));
        draft.file = walk.target.map(|t| t.0);
        self.read_names(pid, &walk, &mut draft);
        (draft, walk)
    }

    fn read_names(&mut self, pid: Pid, walk: &Walk, draft: &mut Draft) {
        for lookup in &walk.lookups {
            let dir = self.number(pid, lookup.dir);
            draft.add(Object::Entry(dir, lookup.name.clone()), Mode::Read);
            if !sandbox::is_root() {
                draft.add(Object::Perm(dir), Mode::Read);
            }
        }
    }

    /// The last name of a path changes what it names. `listed`: it appears or disappears.
    fn change_name(&mut self, pid: Pid, walk: &Walk, draft: &mut Draft) -> Option<u64> {
        let last = walk.last()?;
        let (dir, real) = (self.number(pid, last.dir), last.dir);
        draft.add(Object::Entry(dir, last.name.clone()), Mode::Write);
        draft.add(Object::Listing(dir), Mode::Add);
        Some(real)
    }

    fn draft_open(&mut self, pid: Pid, at: At, flags: i32) -> Draft {
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

    fn draft_new_name(&mut self, pid: Pid, at: At, op: Op) -> Draft {
        let (mut draft, walk) = self.draft_at(pid, at, false, op);
        if let Some(dir) = self.change_name(pid, &walk, &mut draft) {
            draft.after = After::Named { at, dir };
        }
        draft.file = None;
        draft
    }

    fn draft_unname(&mut self, pid: Pid, at: At, op: Op) -> Draft {
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

    fn draft_rename(&mut self, pid: Pid, from: At, to: At, flags: u32) -> Draft {
        let exchange = flags & libc::RENAME_EXCHANGE != 0;
        let (mut draft, source) = self.draft_at(pid, from, false, if exchange { Op::Exchange } else { Op::Rename });
        draft.flag(flags & libc::RENAME_NOREPLACE != 0, "noreplace");
        let goal = self.lookup(pid, to, false);
        draft.path2 = Some(display(&goal.path));
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

    fn draft_link(&mut self, pid: Pid, from: At, to: At, flags: i32) -> Draft {
        let (mut draft, source) = self.draft_at(pid, from, flags & libc::AT_SYMLINK_FOLLOW != 0, Op::Link);
        let goal = self.lookup(pid, to, false);
        draft.path2 = Some(display(&goal.path));
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

    /// A step about an open file.
    pub(super) fn draft_fd(&mut self, pid: Pid, fd: i32, op: Op) -> Draft {
        let mut draft = Draft::new(op);
        draft.path = Some(self.path_of(pid, fd));
        draft.file = self.inspect(pid, fd).filter(|f| f.world).map(|f| f.inode);
        draft
    }

    /// The name under which a descriptor's file is known now.
    pub(super) fn path_of(&self, pid: Pid, fd: i32) -> String {
        let path = super::walk::read_link(&format!("/proc/{pid}/fd/{fd}"));
        let Some(gone) = path.strip_suffix(" (deleted)") else { return display(&path) };
        // A file that never had a name is shown by its real number.
        let unnamed = |name: &str| name.strip_prefix('#').is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
        match gone.rsplit_once('/') {
            Some((dir, name)) if unnamed(name) => display(&format!("{dir}/(unnamed)")),
            _ => display(gone),
        }
    }

    fn file_of(&mut self, pid: Pid, fd: i32) -> Option<(u64, Inode)> {
        let file = self.inspect(pid, fd).filter(|f| f.world)?;
        Some((file.inode, self.number(pid, file.inode)))
    }

    fn draft_read(&mut self, pid: Pid, fd: i32, offset: Option<i64>, len: u64) -> Draft {
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

    fn draft_write(&mut self, pid: Pid, fd: i32, offset: Option<i64>, len: u64) -> Draft {
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

    fn draft_copy(&mut self, pid: Pid, from: i32, to: i32) -> Draft {
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
        if let Some(file) = goal {
            let number = self.number(pid, file.inode);
            draft.add(Object::Content(number), Mode::Write);
            draft.add(Object::Meta(number), Mode::Add);
            draft.after = After::Modified(file.inode);
        }
        draft
    }

    fn draft_truncate(&mut self, pid: Pid, fd: i32, len: u64) -> Draft {
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

    fn draft_map(&mut self, pid: Pid, fd: i32, protection: i32, flags: i32) -> Draft {
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

    fn draft_flock(&mut self, pid: Pid, fd: i32, op: i32) -> Draft {
        let unlock = op & libc::LOCK_UN != 0;
        let exclusive = op & libc::LOCK_EX != 0;
        let mut draft = self.draft_fd(pid, fd, if unlock { Op::Unlock } else { Op::Lock });
        draft.flag(!unlock, if exclusive { "exclusive" } else { "shared" });
        draft.flag(op & libc::LOCK_NB != 0, "nonblock");
        let Some((file, number)) = self.file_of(pid, fd) else { return draft };
        draft.waits = !unlock && op & libc::LOCK_NB == 0;
        let held = self.held_by_description(pid, fd, file, "FLOCK");
        if unlock {
            if let Some(exclusive) = held {
                draft.accesses.push(locks::access(Object::Flock(number), exclusive, None, Some(Sync::Free)));
            }
        } else {
            // A conversion gives the old lock back first.
            if let Some(was) = held {
                draft.accesses.push(locks::access(Object::Flock(number), was, None, Some(Sync::Free)));
            }
            let take = Sync::Take { waits: draft.waits };
            draft.accesses.push(locks::access(Object::Flock(number), exclusive, None, Some(take)));
        }
        if !unlock && held == Some(exclusive) {
            // Nobody can notice that what is held is asked for once more.
            draft.accesses.clear();
        }
        draft.after = After::Flock { file, unlock };
        draft
    }

    fn draft_fcntl(&mut self, pid: Pid, fd: i32, cmd: i32, arg: u64) -> Draft {
        let Some(file) = self.inspect(pid, fd) else { return Draft::new(Op::Lock) };
        let number = self.number(pid, file.inode);
        let Some(request) = RecordRequest::read(pid, arg, file.position(), file.size) else {
            return self.draft_fd(pid, fd, Op::Lock);
        };
        let description = matches!(cmd, libc::F_OFD_SETLK | libc::F_OFD_SETLKW | libc::F_OFD_GETLK);
        let process = self.task(pid).process;
        let owner = if description { Owner::Description(process, fd) } else { Owner::Process(process) };
        let unlock = request.kind == libc::F_UNLCK;
        let mut draft = self.draft_fd(pid, fd, if unlock { Op::Unlock } else { Op::Lock });
        draft.offset = Some(request.range.0);
        draft.flag(description, "ofd");
        draft.flag(!description, "record");
        if matches!(cmd, libc::F_GETLK | libc::F_OFD_GETLK) {
            draft.flag(true, "test");
            draft.add_range(Object::Record(number), Mode::Read, request.range);
            return draft;
        }
        draft.flag(!unlock, if request.kind == libc::F_WRLCK { "exclusive" } else { "shared" });
        draft.waits = !unlock && matches!(cmd, libc::F_SETLKW | libc::F_OFD_SETLKW);
        draft.flag(!unlock && !draft.waits, "nonblock");
        let held = self.record_locks.of(owner, file.inode, request.range);
        draft.accesses = locks::release_records(number, &held);
        if !unlock {
            let take = Some(Sync::Take { waits: draft.waits });
            let exclusive = request.kind == libc::F_WRLCK;
            if held == [(request.range, exclusive)] {
                // Nobody can notice that what is held is asked for once more.
                draft.accesses.clear();
            } else {
                draft.accesses.push(locks::access(Object::Record(number), exclusive, Some(request.range), take));
            }
        }
        draft.after = After::Record { owner, file: file.inode, request };
        draft
    }

    fn draft_close(&mut self, pid: Pid, fds: Vec<i32>) -> Draft {
        let mut draft = Draft::new(Op::Close);
        for fd in &fds {
            let Some(file) = self.inspect(pid, *fd).filter(|f| f.world) else { continue };
            draft.path.get_or_insert(self.path_of(pid, *fd));
            draft.file.get_or_insert(file.inode);
            let accesses = self.lock_drops(pid, *fd, file.inode);
            draft.accesses.extend(accesses);
        }
        draft.after = After::Closes { fds };
        draft
    }

    fn draft_exit(&mut self, pid: Pid) -> Draft {
        let mut draft = Draft::new(Op::Exit);
        draft.accesses = self.exit_accesses(pid);
        draft
    }

    /// Which lock the open file description behind a descriptor holds: whether it is exclusive.
    fn held_by_description(&self, pid: Pid, fd: i32, file: u64, kind: &str) -> Option<bool> {
        if !self.locked.contains(&file) {
            return None;
        }
        locks::shown_in_fdinfo(pid, fd).into_iter().find(|(k, _)| k == kind).map(|(_, exclusive)| exclusive)
    }

    /// Whether closing this descriptor gives back a lock.
    pub(super) fn drops_locks(&mut self, pid: Pid, fd: i32, file: u64) -> bool {
        !self.lock_drops(pid, fd, file).is_empty()
    }

    /// What closing this descriptor gives back: any POSIX lock of the process on the file, and the description's own
    /// locks when it is the last descriptor of it.
    pub(super) fn lock_drops(&mut self, pid: Pid, fd: i32, file: u64) -> Vec<Access> {
        let number = self.number(pid, file);
        let process = self.task(pid).process;
        let whole = (0, u64::MAX);
        let mut accesses = locks::release_records(number, &self.record_locks.of(Owner::Process(process), file, whole));
        let description = Owner::Description(process, fd);
        accesses.extend(locks::release_records(number, &self.record_locks.of(description, file, whole)));
        if let Some(exclusive) = self.held_by_description(pid, fd, file, "FLOCK") {
            accesses.push(locks::access(Object::Flock(number), exclusive, None, Some(Sync::Free)));
        }
        accesses
    }
}

/// A path as people see it: relative to the world where it lies there.
pub(super) fn display(path: &str) -> String {
    for (root, name) in [(sandbox::WORLD, ""), (sandbox::TMP, "$TMPDIR/"), (sandbox::SHM, "/dev/shm/")] {
        if path == root {
            return if name.is_empty() { ".".to_owned() } else { name.trim_end_matches('/').to_owned() };
        }
        if let Some(rest) = path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/')) {
            return format!("{name}{rest}");
        }
    }
    path.to_owned()
}
