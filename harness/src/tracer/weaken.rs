//! Protections taken away, one at a time, by changing calls: the program is untouched and is told of success.
//!
//! A weakened call stays a visible step at the same place, so that templates and schedules fit both the weakened and
//! the ordinary program. A rename becomes several steps of the same call: the tracer copies and deletes in its place,
//! while the task stays at the stop before it.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
};

use nix::{libc, unistd::Pid};
use rustix::fs::FileType;

use super::{
    arch::{self, Registers},
    calls::{At, Call},
    draft::{After, Draft, display},
    machine::{Lost, Machine, must},
    memory,
    steps::Attempt,
};
use crate::world::{Access, ActorId, Mode, Object, Op, Protection, Step};

/// The flag of a weakened step, in traces and reports.
const FLAG: &str = "weakened";

/// How a step differs from what the program asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Weak {
    /// Not at all.
    #[default]
    No,
    /// The call is not made; it succeeds.
    Skipped,
    /// The call is made with these flags.
    Flags(u32),
    /// A name that exists is no error, nor one that is gone.
    Forgiven,
    /// The next step of copying and deleting instead of renaming.
    Copied,
}

/// A rename that is being made by copying.
#[derive(Debug)]
pub(super) struct Copying {
    /// The goal, open, and its real inode.
    goal: File,
    inode: u64,
    /// What is left to write.
    bytes: Option<Vec<u8>>,
}

impl Machine {
    /// What a call is to us under the weakening of this run.
    pub(super) fn weaken(&mut self, pid: Pid, call: Call) -> (Call, Weak) {
        let Some(weakening) = self.weakening.clone() else { return (call, Weak::No) };
        weakening
            .each()
            .map(|one| self.weaken_by(pid, call, one.kind, &one.path))
            .find(|(_, weak)| *weak != Weak::No)
            .unwrap_or((call, Weak::No))
    }

    fn weaken_by(&mut self, pid: Pid, call: Call, kind: Protection, path: &str) -> (Call, Weak) {
        let exclusive = libc::O_CREAT | libc::O_EXCL;
        let weak = match (kind, call) {
            (Protection::Flock, Call::Flock { fd, .. }) if self.path_of(pid, fd) == path => Weak::Skipped,
            (Protection::RecordLock, Call::Fcntl { fd, cmd, .. }) => {
                let asks = matches!(cmd, libc::F_GETLK | libc::F_OFD_GETLK);
                if !asks && self.path_of(pid, fd) == path { Weak::Skipped } else { Weak::No }
            }
            (Protection::ExclusiveCreate, Call::Open { at, flags, how })
                if flags & exclusive == exclusive
                    && flags & libc::O_TMPFILE != libc::O_TMPFILE
                    && self.names(pid, at, path) =>
            {
                let flags = flags & !libc::O_EXCL;
                return (Call::Open { at, flags, how }, Weak::Flags(flags as u32));
            }
            (Protection::NoReplace, Call::Rename { from, to, flags })
                if flags & libc::RENAME_NOREPLACE != 0 && self.names(pid, to, path) =>
            {
                let flags = flags & !libc::RENAME_NOREPLACE;
                return (Call::Rename { from, to, flags }, Weak::Flags(flags));
            }
            (Protection::Mkdir, Call::Mkdir { at }) | (Protection::Symlink, Call::Symlink { at, .. })
                if self.names(pid, at, path) =>
            {
                Weak::Forgiven
            }
            (Protection::Link, Call::Link { to, .. }) if self.names(pid, to, path) => Weak::Forgiven,
            // Of two that believe to have made a name, the second finds nothing to give back.
            (
                Protection::ExclusiveCreate | Protection::Mkdir | Protection::Link | Protection::Symlink,
                Call::Unlink { at } | Call::Rmdir { at },
            ) if self.names(pid, at, path) => Weak::Forgiven,
            // A folder is made whole under another name and put in its place: whose is there already keeps others out.
            (Protection::Rename, Call::Rename { from, to, .. })
                if self.is_folder(pid, from, to) && (self.names(pid, from, path) || self.names(pid, to, path)) =>
            {
                Weak::Forgiven
            }
            (Protection::Rename, Call::Rename { from, to, flags }) => {
                let under_way = self.copying.contains_key(&pid);
                let copied = under_way
                    || (self.names(pid, from, path) || self.names(pid, to, path))
                        && self.can_be_copied(pid, from, to, flags);
                if copied { Weak::Copied } else { Weak::No }
            }
            _ => Weak::No,
        };
        (call, weak)
    }

    /// Whether a sync is to be forgotten.
    pub(super) fn forgets_sync(&self, pid: Pid, fd: Option<i32>) -> bool {
        let Some(weakening) = &self.weakening else { return false };
        let synced = fd.map_or_else(|| ".".to_owned(), |fd| self.path_of(pid, fd));
        weakening.each().any(|one| one.kind == Protection::Sync && one.path == synced)
    }

    /// What is renamed is a folder, or (when it is gone) what it would replace is one.
    fn is_folder(&mut self, pid: Pid, from: At, to: At) -> bool {
        let target = self.lookup(pid, from, false).target.or_else(|| self.lookup(pid, to, false).target);
        target.is_some_and(|(_, mode)| FileType::from_raw_mode(mode) == FileType::Directory)
    }

    fn names(&mut self, pid: Pid, at: At, path: &str) -> bool {
        let walk = self.lookup(pid, at, false);
        walk.touches_world() && self.shown(display(&walk.path)) == path
    }

    /// A rename of a regular file that would succeed: any other does what it does.
    fn can_be_copied(&mut self, pid: Pid, from: At, to: At, flags: u32) -> bool {
        let (source, goal) = (self.lookup(pid, from, false), self.lookup(pid, to, false));
        let regular = |mode: u32| FileType::from_raw_mode(mode) == FileType::RegularFile;
        let Some((file, mode)) = source.target else { return false };
        let goal_fits = match goal.target {
            Some((other, mode)) => regular(mode) && other != file && flags & libc::RENAME_NOREPLACE == 0,
            None => goal.last().is_some(),
        };
        flags & libc::RENAME_EXCHANGE == 0 && regular(mode) && source.last().is_some() && goal_fits
    }

    /// The draft of a lock call that does nothing.
    pub(super) fn draft_skipped(&mut self, pid: Pid, call: Call, entry: &Registers) -> Draft {
        let pending = super::task::Pending::Call { call, entry: *entry };
        let full = self.draft_strong(pid, &pending);
        let mut draft =
            Draft { accesses: Vec::new(), after: After::Nothing, waits: false, weak: Weak::Skipped, ..full };
        draft.flag(true, FLAG);
        draft
    }

    /// The draft of the next step of a rename that is a copy.
    pub(super) fn draft_copied(&mut self, pid: Pid, from: At, to: At) -> Draft {
        let mut draft = match self.copying.get(&pid).map(|c| (c.bytes.is_some(), c.inode)) {
            None => {
                let (mut draft, goal) = self.draft_at(pid, to, false, Op::Open);
                let source = self.lookup(pid, from, false);
                self.read_names(pid, &source, &mut draft);
                if let Some((file, _)) = source.target {
                    let number = self.number(pid, file);
                    draft.add(Object::Content(number), Mode::Read);
                }
                draft.flag(true, "w");
                match goal.target {
                    Some((file, mode)) => {
                        let number = self.number(pid, file);
                        if source.target.is_some_and(|(_, other)| other != mode) {
                            draft.add(Object::Perm(number), Mode::Write);
                        }
                        draft.flag(true, "trunc");
                        draft.add(Object::Content(number), Mode::Write);
                        draft.add(Object::Meta(number), Mode::Add);
                    }
                    None => {
                        draft.op = Op::Create;
                        self.change_name(pid, &goal, &mut draft);
                    }
                }
                draft
            }
            Some((true, file)) => {
                let mut draft = Draft::new(Op::Write);
                let goal = self.lookup(pid, to, false).path;
                draft.path = Some(self.shown(display(&goal)));
                draft.file = Some(file);
                let number = self.number(pid, file);
                draft.add(Object::Content(number), Mode::Write);
                draft.add(Object::Meta(number), Mode::Add);
                draft
            }
            Some((false, _)) => self.draft_unname(pid, from, Op::Unlink),
        };
        draft.after = After::Nothing;
        draft.weak = Weak::Copied;
        draft.flag(true, FLAG);
        draft
    }

    /// Makes a step that the program did not ask for, or none where it asked for one.
    pub(super) fn step_weakened(
        &mut self,
        pid: Pid,
        draft: &Draft,
        call: Call,
        entry: Registers,
        enabled: &[ActorId],
    ) -> Result<Attempt, Lost> {
        let chosen = |step: Step| Step { chosen: true, enabled: enabled.to_vec(), ..step };
        if draft.weak == Weak::Skipped {
            let done = if draft.op == Op::Unlock { "nothing was locked" } else { "locks nothing" };
            let step = self.step(pid, draft, 0, done.into());
            self.push(chosen(step));
            return self.succeed(pid, entry);
        }
        let Call::Rename { from, to, .. } = call else {
            return Err(Lost::Other("a weakened call is not the one that was meant".into()));
        };
        let before = self.contents_before(draft);
        match self.copying.remove(&pid) {
            None => {
                let copying = must("copying instead of renaming", self.open_copy(pid, from, to))?;
                let inode = copying.inode;
                self.copying.insert(pid, copying);
                self.copied(pid, draft, before, inode, "ok".into(), chosen);
                Ok(Attempt::Made)
            }
            Some(Copying { bytes: Some(bytes), mut goal, inode, .. }) => {
                must("copying instead of renaming", goal.write_all(&bytes))?;
                self.copied(pid, draft, before, inode, format!("{} bytes", bytes.len()), chosen);
                let mut closed = Draft::new(Op::Close);
                (closed.path, closed.file) = (draft.path.clone(), draft.file);
                let step = self.step(pid, &closed, 0, "ok".into());
                self.push(Step { publishes: true, flags: vec!["w".into()], ..step });
                self.copying.insert(pid, Copying { goal, inode, bytes: None });
                Ok(Attempt::Made)
            }
            Some(Copying { bytes: None, .. }) => {
                let source = self.lookup(pid, from, false);
                // Somebody else may have deleted it meanwhile: the copy is there, and nothing is left to do.
                let _ = fs::remove_file(&source.path);
                let (actor, now) = (self.task(pid).actor, self.clock.wall());
                for file in source.last().map(|l| l.dir).into_iter().chain(source.target.map(|t| t.0)) {
                    self.inodes.modified(file, actor, now);
                }
                let mut step = self.step(pid, draft, 0, "ok".into());
                self.record_effects(&mut step, draft, &call, before, None);
                self.push(chosen(step));
                self.succeed(pid, entry)
            }
        }
    }

    fn open_copy(&mut self, pid: Pid, from: At, to: At) -> std::io::Result<Copying> {
        let (source, goal) = (self.lookup(pid, from, false), self.lookup(pid, to, false));
        let bytes = fs::read(&source.path)?;
        let mode = fs::metadata(&source.path)?.mode() & 0o7777;
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(&goal.path)?;
        // What is there afterwards is what a rename would have put there, but for the moment at which.
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))?;
        if goal.target.is_none() {
            let (actor, now) = (self.task(pid).actor, self.clock.wall());
            if let Some(last) = goal.last() {
                self.inodes.modified(last.dir, actor, now);
            }
        }
        let inode = file.metadata()?.ino();
        Ok(Copying { goal: file, inode, bytes: Some(bytes) })
    }

    /// Notes a step that changed the goal of a copy.
    fn copied(
        &mut self,
        pid: Pid,
        draft: &Draft,
        before: Option<Vec<(String, Option<u64>)>>,
        inode: u64,
        result: String,
        chosen: impl FnOnce(Step) -> Step,
    ) {
        let (actor, now) = (self.task(pid).actor, self.clock.wall());
        self.inodes.modified(inode, actor, now);
        let number = self.inodes.number(inode, actor, now);
        let mut step = self.step(pid, draft, 0, result);
        step.inode = Some(number);
        step.accesses.extend(draft.created(number));
        let written = Call::Truncate { at: At::cwd(0), len: 0 };
        self.record_effects(&mut step, draft, &written, before, Some(inode));
        self.push(chosen(step));
    }

    /// The call is over: it did what was asked, as far as the program knows.
    fn succeed(&mut self, pid: Pid, entry: Registers) -> Result<Attempt, Lost> {
        let mut regs = entry;
        regs.skip_call(0);
        must("answering a weakened call", regs.set(pid))?;
        self.go_on(pid, 0)?;
        Ok(Attempt::Made)
    }
}

impl Draft {
    /// A file that a copy makes is touched as soon as it has a number.
    fn created(&self, number: crate::world::Inode) -> Option<Access> {
        (self.op == Op::Create).then(|| Access::new(Object::Content(number), Mode::Write))
    }

    /// Notes that the call is weakened.
    pub(super) fn weakened(mut self, weak: Weak) -> Draft {
        if weak != Weak::No {
            self.weak = weak;
            self.flag(true, FLAG);
        }
        self
    }
}

/// Puts the flags of a weakened call in the place of those that were asked for. Returns what the program's memory held
/// there, if they lie in memory.
pub(super) fn set_flags(pid: Pid, call: &Call, flags: u32, regs: &mut Registers) -> Option<(u64, u64)> {
    if let Call::Open { how, .. } = *call
        && how != 0
    {
        let old = memory::read_u64(pid, how).ok()?;
        memory::write(pid, how, &u64::from(flags).to_ne_bytes()).ok()?;
        return Some((how, old));
    }
    if let Some(arg) = arch::flags_arg(regs.number()) {
        regs.set_arg(arg, u64::from(flags));
    }
    None
}

/// A name that exists is no error when it is made, and one that does not when it is removed: what is told of a result
/// that is forgiven.
pub(super) fn forgiven(weak: Weak, ret: i64) -> Option<&'static str> {
    match -ret {
        _ if weak != Weak::Forgiven => None,
        e if e == i64::from(libc::EEXIST) || e == i64::from(libc::ENOTEMPTY) => Some("ok, though it exists"),
        e if e == i64::from(libc::ENOENT) => Some("ok, though it is gone"),
        _ => None,
    }
}
