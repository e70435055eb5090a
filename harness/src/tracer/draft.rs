//! A visible step before it runs: what it is about, and what it will touch. The dependence relation between real
//! system calls is written down here.

mod files;
mod locking;
mod names;

use nix::unistd::Pid;
use rustix::fs::FileType;

use super::{
    arch::Registers,
    calls::{At, Call, Times},
    locks::{Owner, RecordRequest},
    machine::Machine,
    memory, sandbox,
    task::Pending,
    weaken::Weak,
};
use crate::world::{Access, Inode, Mode, Object, Op};

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
    /// Bytes were sent; perhaps descriptors, too.
    Sent,
    /// A socket was connected to an address.
    Connected { address: Option<super::channels::Address> },
    /// A connection to a socket (real inode) was accepted.
    Accepted { listening: u64 },
    /// A socket got a name: where in which directory, if it is one of the world.
    Bound { named: Option<(At, u64)> },
    /// A file (real inode) is watched from now on.
    Watches { file: u64, mask: u32 },
    /// A signal was sent to this actor.
    Signalled { actor: usize },
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
    /// It is made only when the kernel says that it would not wait.
    pub until_ready: bool,
    /// How it differs from what the program asked for.
    pub weak: Weak,
}

impl Draft {
    pub(super) fn new(op: Op) -> Self {
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
            until_ready: false,
            weak: Weak::No,
        }
    }

    pub(super) fn add(&mut self, object: Object, mode: Mode) {
        self.accesses.push(Access::new(object, mode));
    }

    fn add_range(&mut self, object: Object, mode: Mode, range: (u64, u64)) {
        self.accesses.push(Access { range: Some(range), ..Access::new(object, mode) });
    }

    pub(super) fn flag(&mut self, set: bool, name: &'static str) {
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
        draft.accesses.extend(self.notices(&draft));
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
        let Pending::Call { call, entry } = pending else { return self.draft_strong(pid, pending) };
        match (self.weaken(pid, *call), *call) {
            ((_, Weak::Skipped), _) => self.draft_skipped(pid, *call, entry),
            ((_, Weak::Copied), Call::Rename { from, to, .. }) => self.draft_copied(pid, from, to),
            ((call, weak), _) => self.draft_strong(pid, &Pending::Call { call, entry: *entry }).weakened(weak),
        }
    }

    /// The draft of a call that is not weakened.
    pub(super) fn draft_strong(&mut self, pid: Pid, pending: &Pending) -> Draft {
        let (call, entry) = match pending {
            Pending::Call { call, entry } => (*call, entry),
            Pending::Exit => return self.draft_exit(pid),
            Pending::Again { .. } => return Draft::new(Op::Sleep),
        };
        match call {
            Call::Read { fd, buffer, offset } => match self.channel_of(pid, fd) {
                Some(ends) => self.draft_receive(pid, fd, &ends, false),
                None => {
                    let len = memory::pieces(pid, buffer).iter().map(|p| p.1).sum();
                    self.draft_read(pid, fd, offset, len)
                }
            },
            Call::Write { fd, buffer, offset } => match self.channel_of(pid, fd) {
                Some(ends) => self.draft_send(pid, fd, &ends, false),
                None => {
                    let len = memory::pieces(pid, buffer).iter().map(|p| p.1).sum();
                    self.draft_write(pid, fd, offset, len)
                }
            },
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
            Call::Sync { fd, .. } => self.draft_sync(pid, fd),
            Call::Close { fd } => self.draft_close(pid, vec![fd]),
            Call::Dup2 { to, .. } => self.draft_close(pid, vec![to]),
            Call::CloseRange { first, last, .. } => {
                let fds = super::opened::open_fds(pid);
                self.draft_close(pid, fds.into_iter().filter(|fd| (first..=last).contains(&(*fd as u32))).collect())
            }
            Call::Rename { from, to, flags } => self.draft_rename(pid, from, to, flags),
            Call::Link { from, to, flags } => self.draft_link(pid, from, to, flags),
            Call::Wait { timeout, watch, .. } => {
                let waits = self.wait_length(pid, timeout, entry) != Some(0);
                self.draft_poll(pid, watch, waits)
            }
            Call::Bind { .. }
            | Call::Listen { .. }
            | Call::Shutdown { .. }
            | Call::Connect { .. }
            | Call::Accept { .. }
            | Call::Receive { .. }
            | Call::Send { .. } => self.draft_socket(pid, call),
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
                let found = match walk.touches_world() {
                    true => walk.target.is_some(),
                    false => super::outside::outside_path(pid, at).exists(),
                };
                if found {
                    let drops = self.exec_drops(pid);
                    draft.accesses.extend(drops);
                }
                draft.after = After::Exec { found };
                draft
            }
            Call::Notify { at, mask } => self.draft_watch(pid, at, mask),
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
            Call::Kill { process, signal } => self.draft_kill(pid, process, signal),
            _ => {
                let _ = entry;
                Draft::new(Op::Access)
            }
        }
    }
}

/// A path as people see it: relative to the world where it lies there.
pub(super) fn display(path: &str) -> String {
    for (root, name) in [(sandbox::world(), ""), (sandbox::tmp(), "$TMPDIR/"), (sandbox::shm(), "/dev/shm/")] {
        if path == root {
            return if name.is_empty() { ".".to_owned() } else { name.trim_end_matches('/').to_owned() };
        }
        if let Some(rest) = path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/')) {
            return format!("{name}{rest}");
        }
    }
    path.to_owned()
}
