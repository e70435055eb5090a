//! What happens at a seccomp stop: answered at once, let through, let through and watched, or held as a visible step.

mod time;

use std::hash::{DefaultHasher, Hash, Hasher};

use nix::{libc, unistd::Pid};
use rustix::fs::FileType;

use super::{
    arch::{self, Registers},
    calls::{At, Call, OnTimeout, Timeout},
    machine::{Lost, Machine, must},
    memory,
    opened::{self, open_fds, waits},
    proc_files::ProcFile,
    task::{InCall, Pending, State},
    walk::PrivateFile,
};
use crate::world::{Op, WarningKind};
pub(super) use time::micros;

/// The devices whose content is random.
const RANDOM_DEVICES: [(u32, u32); 2] = [(1, 8), (1, 9)];

impl Machine {
    /// Looks a path of a task up.
    pub(super) fn lookup(&mut self, pid: Pid, at: At, follow: bool) -> super::walk::Walk {
        let process = self.task(pid).process;
        let path = memory::read_path(pid, at.path);
        let walk = self.walker.walk(process, pid, at.dir, &path, follow);
        self.warn_shared_path(pid, &walk.path);
        walk
    }

    /// A seccomp stop.
    pub(super) fn on_call(&mut self, pid: Pid) -> Result<(), Lost> {
        let entry = must("reading registers", Registers::get(pid))?;
        let Some(mut call) = arch::decode(&entry) else { return self.go_on(pid, 0) };
        if let Call::Open { flags, how, .. } = &mut call
            && *how != 0
        {
            *flags = memory::read_u64(pid, *how).unwrap_or(0) as i32;
        }
        if self.delay_before_close(pid, &call) {
            self.task_mut(pid).state = State::AtStep(Pending::Again { entry });
            return Ok(());
        }
        self.dispatch(pid, call, entry)
    }

    /// Decides what becomes of a call.
    pub(super) fn dispatch(&mut self, pid: Pid, call: Call, entry: Registers) -> Result<(), Lost> {
        match call {
            Call::Clock(read) => self.answer_clock(pid, read, entry),
            Call::Random { buffer, len } => {
                let mut bytes = vec![0; len.min(1 << 20) as usize];
                self.task_mut(pid).random.fill(&mut bytes);
                let result = memory::write(pid, buffer, &bytes).map(|()| bytes.len() as i64);
                answer(pid, entry, result.unwrap_or(-i64::from(libc::EFAULT)))?;
                self.go_on(pid, 0)
            }
            Call::Affinity { size, mask } => {
                // Every explorer has a CPU of its own; all are shown as the first.
                let len = size.min(8) as usize;
                let mut bytes = [0; 8];
                bytes[0] = 1;
                let result = memory::write(pid, mask, &bytes[..len]).map(|()| len as i64);
                answer(pid, entry, result.unwrap_or(-i64::from(libc::EFAULT)))?;
                self.go_on(pid, 0)
            }
            Call::Cpu { cpu, node } => {
                for address in [cpu, node].into_iter().filter(|a| *a != 0) {
                    let _ = memory::write(pid, address, &[0; 4]);
                }
                answer(pid, entry, 0)?;
                self.go_on(pid, 0)
            }
            Call::Fork => {
                let actor = self.task(pid).actor;
                self.reserve_pid(actor)?;
                self.go_on(pid, 0)
            }
            Call::Yield => {
                answer(pid, entry, 0)?;
                self.task_mut(pid).state = State::Ready(0);
                Ok(())
            }
            Call::Wait { watch, .. } if self.watches_channel(pid, watch) => {
                self.hold(pid, Pending::Call { call, entry })
            }
            Call::Wait { timeout, on_timeout, .. } => self.start_wait(pid, timeout, on_timeout, entry),
            Call::Timer(call) => self.answer_timer(pid, call, entry),
            Call::SleepFor { request, remaining } => {
                let length = memory::read_pair(pid, request).map_or(0, |t| micros(t, 1000));
                self.start_sleep(pid, length, remaining, entry)
            }
            Call::SleepOn { clock, flags, request, remaining } => {
                let time = memory::read_pair(pid, request).map_or(0, |t| micros(t, 1000));
                let (length, remaining) = if flags & libc::TIMER_ABSTIME != 0 {
                    let deadline = self.clock.deadline(clock, time);
                    (deadline.saturating_sub(self.clock.since_start()), 0)
                } else {
                    (time, remaining)
                };
                self.start_sleep(pid, length, remaining, entry)
            }
            Call::FileSystem { buffer } => self.call(pid, State::Calling(InCall::FileSystem { buffer })),
            Call::Uncontrolled(what) => self.uncontrolled(pid, what),
            Call::Identity => {
                // A template has a number of its own, and answers with that of its forks.
                if self.building && self.task(pid).number == 0 {
                    let actor = self.task(pid).actor;
                    answer(pid, entry, i64::from(self.first_pid(actor)))?;
                }
                self.go_on(pid, 0)
            }
            Call::TidAddress { address } => {
                self.task_mut(pid).tid_address = address;
                self.go_on(pid, 0)
            }
            Call::Kill { process, signal } => self.dispatch_kill(pid, (process, signal), Pending::Call { call, entry }),
            Call::KillByDescriptor { fd, signal } => {
                // The same as by number, once the descriptor's process is known.
                let process = process_of_descriptor(pid, fd);
                let call = Call::Kill { process, signal };
                self.dispatch_kill(pid, (process, signal), Pending::Call { call, entry })
            }
            Call::Bind { .. }
            | Call::Listen { .. }
            | Call::Shutdown { .. }
            | Call::Connect { .. }
            | Call::Accept { .. }
            | Call::Receive { .. }
            | Call::Send { .. } => self.dispatch_socket(pid, call, entry),
            _ => self.dispatch_file(pid, call, entry),
        }
    }

    /// Lets a call through that is known not to be controlled, and says so.
    fn uncontrolled(&mut self, pid: Pid, what: &str) -> Result<(), Lost> {
        let name = self.actor_name(pid);
        self.warn(WarningKind::NotControlled, format!("{name} {what}"));
        self.go_on(pid, 0)
    }

    fn dispatch_file(&mut self, pid: Pid, call: Call, entry: Registers) -> Result<(), Lost> {
        let held = Pending::Call { call, entry };
        match call {
            Call::Read { fd, buffer, offset } => match self.inspect(pid, fd) {
                Some(file) if file.world || waits(&file) && self.channel_of(pid, fd).is_some() => self.hold(pid, held),
                Some(file) if file.kind() == FileType::CharacterDevice && RANDOM_DEVICES.contains(&file.device) => {
                    let mut total = 0;
                    for (address, len) in memory::pieces(pid, buffer) {
                        let mut bytes = vec![0; len.min(1 << 20) as usize];
                        self.task_mut(pid).random.fill(&mut bytes);
                        if memory::write(pid, address, &bytes).is_ok() {
                            total += bytes.len() as i64;
                        }
                    }
                    answer(pid, entry, total)?;
                    self.go_on(pid, 0)
                }
                Some(file) if waits(&file) => self.start_wait(pid, Timeout::None, OnTimeout::Zero, entry),
                Some(file) if file.proc => {
                    let path = opened::path_of(pid, fd);
                    let shown = ProcFile::of(&path)
                        .and_then(|which| self.read_shown(pid, (which, &path), &file, buffer, offset));
                    if let Some(total) = shown {
                        answer(pid, entry, total)?;
                    }
                    self.go_on(pid, 0)
                }
                _ => self.go_on(pid, 0),
            },
            Call::Write { fd, .. } => match self.inspect(pid, fd) {
                Some(file) if file.world || waits(&file) && self.channel_of(pid, fd).is_some() => self.hold(pid, held),
                Some(file) if file.kind() == FileType::Fifo && self.is_captured(file.inode) => {
                    self.drain();
                    self.go_on(pid, 0)
                }
                Some(file) if waits(&file) => self.start_wait(pid, Timeout::None, OnTimeout::Zero, entry),
                Some(file) => {
                    if file.kind() == FileType::RegularFile && !file.world {
                        self.note_outside_fd(pid, fd);
                    }
                    self.go_on(pid, 0)
                }
                None => self.go_on(pid, 0),
            },
            Call::CopyRange { from, to, .. } => {
                let files = [self.inspect(pid, from), self.inspect(pid, to)];
                let channel = self.channel_of(pid, from).is_some() || self.channel_of(pid, to).is_some();
                if channel || files.iter().flatten().any(|f| f.world) {
                    return self.hold(pid, held);
                }
                if files.iter().flatten().any(waits) {
                    return self.start_wait(pid, Timeout::None, OnTimeout::Zero, entry);
                }
                self.go_on(pid, 0)
            }
            Call::Close { fd } => self.close(pid, &[fd], entry, call),
            Call::Dup2 { to, .. } => self.close(pid, &[to], entry, call),
            Call::CloseRange { first, last, flags } => {
                const CLOEXEC_ONLY: u32 = 1 << 2;
                if flags & CLOEXEC_ONLY != 0 {
                    return self.go_on(pid, 0);
                }
                let fds: Vec<i32> =
                    open_fds(pid).into_iter().filter(|fd| (first..=last).contains(&(*fd as u32))).collect();
                self.close(pid, &fds, entry, call)
            }
            Call::Sync { fd, .. } if self.forgets_sync(pid, fd) => {
                answer(pid, entry, 0)?;
                self.go_on(pid, 0)
            }
            Call::Sync { fd, kind } => {
                if fd.is_none_or(|fd| self.inspect(pid, fd).is_some_and(|f| f.world)) {
                    if self.faults.wants(self.task(pid).actor, Op::Sync) {
                        return self.hold(pid, held);
                    }
                    self.record_sync(pid, fd, kind)?;
                }
                self.go_on(pid, 0)
            }
            Call::Fcntl { cmd: libc::F_SETLEASE, .. } => self.uncontrolled(pid, "takes a lease on a file"),
            Call::Fcntl { cmd: libc::F_NOTIFY, .. } => self.uncontrolled(pid, "is told of changes by a signal"),
            Call::Flock { fd, .. } | Call::Fcntl { fd, .. } => match self.inspect(pid, fd) {
                Some(file) if file.world => self.hold(pid, held),
                Some(_) => {
                    self.warn_outside_lock(pid, fd);
                    self.start_wait(pid, Timeout::None, OnTimeout::Zero, entry)
                }
                None => self.go_on(pid, 0),
            },
            Call::Ftruncate { fd, .. }
            | Call::Fallocate { fd, .. }
            | Call::Seek { fd }
            | Call::List { fd, .. }
            | Call::Map { fd, .. } => match self.inspect(pid, fd) {
                Some(file) if file.world && file.kind() != FileType::Fifo => self.hold(pid, held),
                _ => self.go_on(pid, 0),
            },
            _ => self.dispatch_path(pid, call, entry),
        }
    }

    fn dispatch_path(&mut self, pid: Pid, call: Call, entry: Registers) -> Result<(), Lost> {
        let places = places(&call);
        for (at, follow) in places.into_iter().flatten() {
            // Without a path the descriptor itself is meant; AT_EMPTY_PATH is the same with an empty one.
            let inside = if at.path == 0 || memory::read_path(pid, at.path).is_empty() {
                let file = self.inspect(pid, at.dir).filter(|_| at.dir >= 0);
                if let (Call::Stat { buffer, extended, .. }, Some(opened)) = (call, &file)
                    && !opened.world
                    && let Some(file) =
                        self.private_file(pid, opened.on, Some(opened.inode), &opened::path_of(pid, at.dir))
                {
                    return self.call(pid, State::Calling(InCall::PrivateStat { buffer, extended, file }));
                }
                file.is_some_and(|f| f.world)
            } else {
                let walk = self.lookup(pid, at, follow);
                let fifo = walk.target.is_some_and(|(_, mode)| FileType::from_raw_mode(mode) == FileType::Fifo);
                if fifo && matches!(call, Call::Open { .. }) {
                    self.uses_channels(pid);
                }
                if let Call::Stat { buffer, extended, .. } = call
                    && self.is_first_look(pid, &walk)
                {
                    return self.call(pid, State::Calling(InCall::FirstLook { buffer, extended }));
                }
                if !walk.touches_world() {
                    self.note_private(pid, &walk.path);
                    match call {
                        Call::Stat { buffer, extended, .. } => {
                            if let Some(file) =
                                walk.device.and_then(|on| self.private_file(pid, on, walk.inode, &walk.path))
                            {
                                return self.call(pid, State::Calling(InCall::PrivateStat { buffer, extended, file }));
                            }
                        }
                        Call::Readlink { buffer, len, .. }
                            if walk.path.starts_with("/proc/")
                                && ["/ns/", "/fd/"].iter().any(|folder| walk.path.contains(folder)) =>
                        {
                            return self.call(pid, State::Calling(InCall::MagicLink { buffer, len }));
                        }
                        _ => {}
                    }
                }
                walk.touches_world()
            };
            if inside {
                return self.hold(pid, Pending::Call { call, entry });
            }
        }
        if let Call::Exec { at } = call {
            self.note_privileges(pid, at);
            if !self.exec_drops(pid).is_empty() {
                return self.hold(pid, Pending::Call { call, entry });
            }
        }
        self.note_outside(pid, &call);
        self.go_on(pid, 0)
    }

    /// How a file is shown whose numbers differ from run to run: one of the sandbox's own, or one without a name.
    fn private_file(&mut self, pid: Pid, device: u64, inode: Option<u64>, path: &str) -> Option<PrivateFile> {
        self.walker.private_file(device, path).or_else(|| self.anonymous(pid, path, inode))
    }

    /// A path outside the world that is looked at.
    fn note_private(&mut self, pid: Pid, path: &str) {
        let mut hasher = DefaultHasher::new();
        let actor = self.task(pid).actor;
        let private = &mut self.actors[actor].private;
        (*private, path).hash(&mut hasher);
        *private = hasher.finish();
    }

    /// Whether a worker that has not touched the world yet only looks at the world's directory itself. Shells do when
    /// they start, to learn whether `PWD` is right. They get what it was at the beginning of the run, as if they had
    /// looked before anybody did anything: no order needs to be explored for that.
    fn is_first_look(&self, pid: Pid, walk: &super::walk::Walk) -> bool {
        let actor = &self.actors[self.task(pid).actor];
        let roots = self.roots;
        !actor.looked
            && walk.target.is_some_and(|(inode, _)| roots.contains(&inode))
            && walk.lookups.iter().all(|l| l.dir == roots[0])
    }

    /// Holds a task before a visible step. A delay that waited for the end of reads is due now.
    pub(super) fn hold(&mut self, pid: Pid, pending: Pending) -> Result<(), Lost> {
        self.task_mut(pid).state = State::AtStep(pending);
        self.task_mut(pid).delay_checked = false;
        self.task_mut(pid).fault_checked = false;
        let actor = self.task(pid).actor;
        self.actors[actor].looked = true;
        if !self.delays.is_empty() {
            let still = self.read_group(pid, &pending);
            if let Some(wait) = self.delays.group_over(actor, still, None) {
                self.delay(pid, wait);
            }
        }
        Ok(())
    }

    /// The group of reads that a call on an open file belongs to: reading, seeking and asking for the size go on.
    pub(super) fn read_group(&self, pid: Pid, pending: &Pending) -> Option<(Pid, i32, u64)> {
        let Pending::Call { call, .. } = pending else { return None };
        let fd = match *call {
            Call::Read { fd, .. } | Call::Seek { fd } | Call::Fcntl { fd, .. } => fd,
            Call::Stat { at, .. } if at.path == 0 => at.dir,
            _ => return None,
        };
        let file = self.inspect(pid, fd).filter(|f| f.world)?;
        Some((self.task(pid).process, fd, file.inode))
    }

    /// Before a descriptor closes: a delay that waited for the end of its reads holds the task.
    fn delay_before_close(&mut self, pid: Pid, call: &Call) -> bool {
        let (Call::Close { fd } | Call::Dup2 { to: fd, .. }) = *call else { return false };
        if self.delays.is_empty() {
            return false;
        }
        let Some(file) = self.inspect(pid, fd).filter(|f| f.world) else { return false };
        let (actor, group) = (self.task(pid).actor, (self.task(pid).process, fd, file.inode));
        match self.delays.group_over(actor, None, Some(group)) {
            Some(wait) => {
                self.delay(pid, wait);
                true
            }
            None => false,
        }
    }

    /// Descriptors are about to close. Without locks at stake nobody can notice: noted, and let through.
    fn close(&mut self, pid: Pid, fds: &[i32], entry: Registers, call: Call) -> Result<(), Lost> {
        let mut noted = Vec::new();
        for fd in fds {
            if !self.closes_channel(pid, *fd).is_empty() {
                return self.hold(pid, Pending::Call { call, entry });
            }
            if let Some(file) = self.inspect(pid, *fd).filter(|f| f.world) {
                let drops = self.locked.contains(&file.inode) && self.drops_locks(pid, *fd, file.inode);
                let wanted = self.faults.wants(self.task(pid).actor, Op::Close);
                if drops || wanted || self.close_is_noticed(pid, *fd, &file) {
                    return self.hold(pid, Pending::Call { call, entry });
                }
                noted.push((*fd, file));
            }
        }
        for (fd, file) in noted {
            self.record_close(pid, fd, &file)?;
        }
        self.go_on(pid, 0)
    }

    fn is_captured(&self, inode: u64) -> bool {
        self.actors.iter().any(|a| a.capture.as_ref().is_some_and(|c| c.stream_of(inode).is_some()))
    }
}

/// Skips the call of a task at its seccomp stop; `result` is what it gets.
pub(super) fn answer(pid: Pid, entry: Registers, result: i64) -> Result<(), Lost> {
    let mut regs = entry;
    regs.skip_call(result);
    must("answering a call", regs.set(pid))
}

/// The process that a descriptor of a process stands for; 0: none.
fn process_of_descriptor(pid: Pid, fd: i32) -> i32 {
    let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    info.lines().find_map(|l| l.strip_prefix("Pid:")).and_then(|l| l.trim().parse().ok()).unwrap_or(0)
}

/// The one or two places that a call names, and whether a final symbolic link is followed.
pub(super) fn places(call: &Call) -> [Option<(At, bool)>; 2] {
    match *call {
        Call::Open { at, flags, .. } => {
            let exclusive = flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0;
            [Some((at, flags & libc::O_NOFOLLOW == 0 && !exclusive)), None]
        }
        Call::Truncate { at, .. } | Call::Chdir { at } | Call::Exec { at } => [Some((at, true)), None],
        Call::Rename { from, to, .. } => [Some((from, false)), Some((to, false))],
        Call::Link { from, to, flags } => [Some((from, flags & libc::AT_SYMLINK_FOLLOW != 0)), Some((to, false))],
        Call::Symlink { at, .. }
        | Call::Unlink { at }
        | Call::Rmdir { at }
        | Call::Mkdir { at }
        | Call::Mknod { at }
        | Call::Readlink { at, .. } => [Some((at, false)), None],
        Call::Notify { at, mask } => [Some((at, mask & libc::IN_DONT_FOLLOW == 0)), None],
        Call::Stat { at, follow, .. }
        | Call::Access { at, follow }
        | Call::Chmod { at, follow }
        | Call::Utime { at, follow, .. }
        | Call::XattrGet { at, follow }
        | Call::XattrSet { at, follow } => [Some((at, follow)), None],
        _ => [None, None],
    }
}
