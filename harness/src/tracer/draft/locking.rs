//! Steps that take locks or give them back.

use nix::{libc, unistd::Pid};

use super::{After, Draft};
use crate::{
    tracer::{
        locks::{self, Owner, RecordRequest},
        machine::Machine,
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

    pub(super) fn draft_close(&mut self, pid: Pid, fds: Vec<i32>) -> Draft {
        let mut draft = Draft::new(Op::Close);
        for fd in &fds {
            let Some(file) = self.inspect(pid, *fd).filter(|f| f.world) else { continue };
            draft.path.get_or_insert(self.path_of(pid, *fd));
            draft.file.get_or_insert(file.inode);
            if file.writable() && draft.flags.is_empty() {
                draft.flags.push("w");
            }
            let accesses = self.lock_drops(pid, *fd, file.inode);
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
        locks::shown_in_fdinfo(pid, fd).into_iter().find(|(k, _)| k == kind).map(|(_, exclusive)| exclusive)
    }

    /// Whether closing this descriptor gives back a lock.
    pub(in crate::tracer) fn drops_locks(&mut self, pid: Pid, fd: i32, file: u64) -> bool {
        !self.lock_drops(pid, fd, file).is_empty()
    }

    /// What closing this descriptor gives back: any POSIX lock of the process on the file, and the description's own
    /// locks when it is the last descriptor of it.
    pub(in crate::tracer) fn lock_drops(&mut self, pid: Pid, fd: i32, file: u64) -> Vec<Access> {
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
