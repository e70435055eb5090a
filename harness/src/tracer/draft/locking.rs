//! Steps that take locks or give them back.

use nix::{libc, unistd::Pid};

use super::{After, Draft};
use crate::{
    tracer::{
        kernel,
        locks::{self, Owner, RecordRequest},
        machine::Machine,
        opened,
    },
    world::{Access, Mode, Object, Op, Sync},
};

impl Machine {
    pub(super) fn draft_flock(&mut self, pid: Pid, fd: i32, op: i32) -> Draft {
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
            // Who holds a lock never waits with it: a conversion that is refused has given the old one back.
            let take = Sync::Take { waits: draft.waits && held.is_none() };
            draft.accesses.push(locks::access(Object::Flock(number), exclusive, None, Some(take)));
        }
        if !unlock && held == Some(exclusive) {
            // Nobody can notice that what is held is asked for once more.
            draft.accesses.clear();
        }
        draft.after = After::Flock { file, unlock };
        draft
    }

    pub(super) fn draft_fcntl(&mut self, pid: Pid, fd: i32, cmd: i32, arg: u64) -> Draft {
        let Some(file) = self.inspect(pid, fd) else { return Draft::new(Op::Lock) };
        let number = self.number(pid, file.inode);
        let Some(request) = RecordRequest::read(pid, arg, file.position(), file.size) else {
            return self.draft_fd(pid, fd, Op::Lock);
        };
        let description = matches!(cmd, libc::F_OFD_SETLK | libc::F_OFD_SETLKW | libc::F_OFD_GETLK);
        let process = self.task(pid).process;
        let owner = if description { Owner::Description } else { Owner::Process(process) };
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
        let held = match owner {
            Owner::Process(_) => self.record_locks.of(owner, file.inode, request.range),
            Owner::Description => self.description_records(pid, fd, file.inode, request.range),
        };
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

    pub(super) fn draft_close(&mut self, pid: Pid, fds: Vec<i32>) -> Draft {
        let mut draft = Draft::new(Op::Close);
        for fd in &fds {
            let ends = self.closes_channel(pid, *fd);
            if !ends.is_empty() {
                draft.path = self.channel_of(pid, *fd).map(|ends| ends.name);
                draft.accesses.extend(ends);
                continue;
            }
            let Some(file) = self.inspect(pid, *fd).filter(|f| f.world) else { continue };
            draft.path.get_or_insert(self.path_of(pid, *fd));
            draft.file.get_or_insert(file.inode);
            if file.writable() && draft.flags.is_empty() {
                draft.flags.push("w");
            }
            let accesses = self.lock_drops(pid, *fd, file.inode, false);
            draft.accesses.extend(accesses);
        }
        draft.after = After::Closes { fds };
        draft
    }

    pub(super) fn draft_exit(&mut self, pid: Pid) -> Draft {
        let mut draft = Draft::new(Op::Exit);
        draft.accesses = self.exit_accesses(pid);
        draft
    }

    /// Which lock the open file description behind a descriptor holds: whether it is exclusive.
    fn held_by_description(&self, pid: Pid, fd: i32, file: u64, kind: &str) -> Option<bool> {
        if !self.locked.contains(&file) {
            return None;
        }
        locks::shown_in_fdinfo(pid, fd).into_iter().find(|lock| lock.kind == kind).map(|lock| lock.exclusive)
    }

    /// The record locks that the open file description behind a descriptor holds within a range.
    fn description_records(&self, pid: Pid, fd: i32, file: u64, range: (u64, u64)) -> Vec<((u64, u64), bool)> {
        if !self.locked.contains(&file) {
            return Vec::new();
        }
        locks::shown_in_fdinfo(pid, fd)
            .into_iter()
            .filter(|l| l.kind == "OFDLCK" && l.range.0 < range.1 && range.0 < l.range.1)
            .map(|l| ((l.range.0.max(range.0), l.range.1.min(range.1)), l.exclusive))
            .collect()
    }

    /// Whether a descriptor is the last one of its open file description. `exiting`: the other descriptors of its
    /// process close, too.
    fn is_last_descriptor(&self, pid: Pid, fd: i32, exiting: bool) -> bool {
        let own = self.task(pid).process;
        let mut processes: Vec<Pid> = self.tasks.values().map(|t| t.process).collect();
        processes.dedup();
        processes.sort_unstable();
        processes.dedup();
        let others = processes.into_iter().filter(|p| !exiting || *p != own);
        let mut all = others.flat_map(|p| opened::open_fds(p).into_iter().map(move |other| (p, other)));
        // Where the kernel does not say, it is taken for the last: a waiter tries again in vain, no more.
        !all.any(|other| other != (own, fd) && kernel::same_description(other, (own, fd)) == Some(true))
    }

    /// What an exec gives back: the locks and channels behind descriptors that it closes.
    pub(in crate::tracer) fn exec_drops(&mut self, pid: Pid) -> Vec<Access> {
        let mut accesses = Vec::new();
        if self.locked.is_empty() && !self.channels.users.contains(&self.task(pid).actor) {
            return accesses;
        }
        for fd in opened::open_fds(pid).into_iter().filter(|fd| opened::closes_on_exec(pid, *fd)) {
            accesses.extend(self.closes_channel(pid, fd));
            if let Some(file) = self.inspect(pid, fd).filter(|f| f.world && self.locked.contains(&f.inode)) {
                accesses.extend(self.lock_drops(pid, fd, file.inode, false));
            }
        }
        accesses
    }

    /// Whether closing this descriptor gives back a lock.
    pub(in crate::tracer) fn drops_locks(&mut self, pid: Pid, fd: i32, file: u64) -> bool {
        !self.lock_drops(pid, fd, file, false).is_empty()
    }

    /// What closing this descriptor gives back: any POSIX lock of the process on the file, and the description's own
    /// locks when it is the last descriptor of it.
    pub(in crate::tracer) fn lock_drops(&mut self, pid: Pid, fd: i32, file: u64, exiting: bool) -> Vec<Access> {
        let number = self.number(pid, file);
        let process = self.task(pid).process;
        let whole = (0, u64::MAX);
        let mut accesses = locks::release_records(number, &self.record_locks.of(Owner::Process(process), file, whole));
        let records = self.description_records(pid, fd, file, whole);
        let whole_file = self.held_by_description(pid, fd, file, "FLOCK");
        if (records.is_empty() && whole_file.is_none()) || !self.is_last_descriptor(pid, fd, exiting) {
            return accesses;
        }
        accesses.extend(locks::release_records(number, &records));
        if let Some(exclusive) = whole_file {
            accesses.push(locks::access(Object::Flock(number), exclusive, None, Some(Sync::Free)));
        }
        accesses
    }
}
