//! What a call did, once it is over: its step, and its result without what depends on the machine.

use nix::{errno::Errno, libc, unistd::Pid};

use crate::{
    tracer::{
        calls::Call,
        draft::{After, Draft},
        machine::{Lost, Machine},
        memory, rewrite,
        walk::Lookup,
    },
    world::{Access, Mode, Object, Op, Step, Sync, WarningKind},
};

impl Machine {
    /// Notes what a finished call did and makes its result deterministic.
    pub(super) fn finish(
        &mut self,
        pid: Pid,
        draft: &Draft,
        call: Call,
        ret: i64,
        before: Option<Vec<(String, Option<u64>)>>,
    ) -> Result<Step, Lost> {
        let actor = self.task(pid).actor;
        let now = self.clock.wall();
        let connecting = ret == -i64::from(libc::EINPROGRESS) && matches!(draft.after, After::Connected { .. });
        if ret < 0 && !connecting {
            return Ok(self.failed_step(pid, draft, ret));
        }
        let mut step = self.step(pid, draft, ret, result_words(draft.op, ret));
        let mut changed_content = None;
        match draft.after.clone() {
            After::Open { created, truncated } => {
                let fd = ret as i32;
                if let Some(file) = self.inspect(pid, fd) {
                    step.inode = Some(self.inodes.number(file.inode, actor, now));
                    if created && let Some(dir) = self.entry_dir(pid, &call) {
                        self.inodes.modified(dir, actor, now);
                    }
                    if truncated {
                        self.inodes.modified(file.inode, actor, now);
                    }
                    if file.writable() {
                        self.note_written(pid);
                        self.processes_wrote(pid);
                    }
                    if created || truncated {
                        changed_content = Some(file.inode);
                    }
                }
                step.result = "ok".into();
            }
            After::Data => {
                if let Call::Read { fd, buffer, .. } = call {
                    self.hide_cookies(pid, fd, buffer, ret as u64);
                }
                if let Call::Read { buffer, .. } | Call::Receive { buffer, .. } = call {
                    self.keep_data(&mut step, memory::read_buffer(pid, buffer, ret as u64));
                }
            }
            After::Modified(file) => {
                self.inodes.modified(file, actor, now);
                if let Call::Write { buffer, .. } = call {
                    self.keep_data(&mut step, memory::read_buffer(pid, buffer, ret as u64));
                }
                changed_content = Some(file);
            }
            After::Named { at, dir } => {
                self.inodes.modified(dir, actor, now);
                if let Some((file, _)) = self.lookup(pid, at, false).target {
                    step.inode = Some(self.inodes.number(file, actor, now));
                    self.inodes.changed(file, actor, now);
                }
            }
            After::Unnamed { dir, target } => {
                self.inodes.modified(dir, actor, now);
                if let Some(file) = target {
                    self.inodes.changed(file, actor, now);
                }
            }
            After::Renamed { dirs, moved, replaced } => {
                for dir in dirs {
                    self.inodes.modified(dir, actor, now);
                }
                for file in [moved, replaced].into_iter().flatten() {
                    self.inodes.changed(file, actor, now);
                }
            }
            After::Changed(file) => self.inodes.changed(file, actor, now),
            After::Timed { file, times } => match rewrite::modified_time(pid, times) {
                Some(modified) => self.inodes.set_modified(file, modified, actor, now),
                None => self.inodes.changed(file, actor, now),
            },
            After::Stat { buffer, extended, file } => {
                let number = self.inodes.number(file, actor, now);
                let times = self.inodes.times(file);
                let seen = rewrite::stat(pid, buffer, extended, number, times);
                step.bytes = Some(*blake3::hash(&seen).as_bytes());
            }
            After::List { buffer, wide } => {
                let inodes = &mut self.inodes;
                let number = |real| inodes.number(real, actor, now);
                let names = rewrite::listing(pid, buffer, ret as u64, wide, number);
                step.result = match names.len() {
                    0 => "end".to_owned(),
                    n => format!("{n} names"),
                };
                step.bytes = Some(*blake3::hash(&self.shown_bytes(&names.join(&b'\n'))).as_bytes());
            }
            After::Flock { file, unlock } => {
                if !unlock {
                    self.locked.insert(file);
                }
                step.result = if unlock { "unlocked".into() } else { "locked".into() };
            }
            After::Record { owner, file, request } => {
                self.record_locks.granted(owner, file, request);
                self.locked.insert(file);
                step.result = if request.kind == libc::F_UNLCK { "unlocked".into() } else { "locked".into() };
            }
            After::Closes { .. } => {
                if draft.accesses.iter().any(|a| a.sync == Some(Sync::Free)) {
                    step.result = "gives its lock back".into();
                }
            }
            After::Sent => {
                if let Call::Write { buffer, .. } | Call::Send { buffer, .. } = call {
                    self.keep_data(&mut step, memory::read_buffer(pid, buffer, ret as u64));
                }
                self.sent(pid, &call);
            }
            After::Connected { address } => self.connected(pid, &call, address.as_ref()),
            After::Accepted { listening } => {
                if let Some(file) = self.inspect(pid, ret as i32) {
                    self.channels.accept(listening, file.inode);
                }
                step.ret = 0;
            }
            After::Bound { named } => self.bound(pid, &call, named, &mut step),
            After::Watches { file, mask } => {
                self.watches(pid, file, mask);
                step.ret = 0;
            }
            After::Signalled { actor } => {
                self.signals.sent = true;
                self.signals.to.push(actor);
            }
            After::Exec { .. } | After::Nothing => {}
        }
        if let Call::CopyRange { from, from_offset, .. } = call
            && let Some(data) = self.bytes_copied(pid, from, from_offset, ret as u64)
        {
            self.keep_data(&mut step, data);
        }
        if let Call::Map { .. } = call
            && draft.flags.contains(&"writable")
        {
            let name = self.actor_name(pid);
            let path = draft.path.clone().unwrap_or_default();
            if let Some(file) = draft.file {
                self.inodes.modified(file, actor, now);
                let process = self.task(pid).process;
                if !self.mapped.contains(&(process, file)) {
                    self.mapped.push((process, file));
                }
                self.maps.push((actor, self.inodes.number(file, actor, now), path.clone()));
            }
            if self.exhaustive {
                let text = format!("{name} maps {path} shared and writable: orders inside its memory are not explored");
                self.warn(WarningKind::NotControlled, text);
            }
            self.warn(WarningKind::Coverage, format!("memory of {path} switched at steps only"));
        }
        self.record_effects(&mut step, draft, &call, before, changed_content);
        self.note_storage(pid, &step, draft, &call);
        Ok(step)
    }

    /// A call that failed, or that a fault makes fail.
    pub(in crate::tracer) fn failed_step(&mut self, pid: Pid, draft: &Draft, ret: i64) -> Step {
        let mut step = self.step(pid, draft, ret, result_words(draft.op, ret));
        step.accesses = failed(&draft.accesses, draft.op);
        step.accesses.extend(self.memory_accesses(pid));
        step
    }

    fn entry_dir(&mut self, pid: Pid, call: &Call) -> Option<u64> {
        let Call::Open { at, .. } = call else { return None };
        let Lookup { dir, .. } = self.lookup(pid, *at, true).last()?.clone();
        Some(dir)
    }

    fn processes_wrote(&mut self, pid: Pid) {
        let process = self.task(pid).process;
        for task in self.tasks.values_mut().filter(|t| t.process == process) {
            task.wrote = true;
        }
    }
}

/// The accesses of a call that failed: it only looked. A refused lock looked at the lock.
fn failed(accesses: &[Access], op: Op) -> Vec<Access> {
    accesses
        .iter()
        .filter(|a| op == Op::Rmdir || !matches!(a.object, Object::Listing(_)) || a.mode == Mode::Read)
        .map(|a| Access { mode: Mode::Read, sync: None, ..a.clone() })
        .collect()
}

/// What a step's result is called.
pub(super) fn result_words(op: Op, ret: i64) -> String {
    if ret < 0 {
        let errno = Errno::from_raw(-ret as i32);
        return match (op, errno) {
            (Op::Lock, Errno::EAGAIN | Errno::EACCES) => "held by another".into(),
            _ => format!("{errno:?}"),
        };
    }
    match op {
        Op::Read | Op::Write | Op::Send | Op::Receive if ret > 0 => format!("{ret} bytes"),
        _ => "ok".into(),
    }
}
