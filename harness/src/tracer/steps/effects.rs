//! What a step did to names and contents, kept in recorded runs.

use std::{os::unix::fs::FileExt, sync::Arc};

use nix::unistd::Pid;

use crate::{
    tracer::{calls::Call, draft::Draft, machine::Machine, memory, sandbox},
    world::{Effect, Mode, Object, Step},
};

/// Contents up to this size are kept in recorded runs.
const RECORD_CAP: u64 = 4 << 20;

impl Machine {
    pub(super) fn keep_data(&mut self, step: &mut Step, data: Vec<u8>) {
        step.bytes = Some(*blake3::hash(&self.shown_bytes(&data)).as_bytes());
        if self.record && data.len() as u64 <= RECORD_CAP {
            step.data = Some(Arc::from(data));
        }
    }

    /// The bytes that a finished call moved from one file to another within the kernel. `position`: where the caller
    /// keeps its place in the source; 0: the descriptor has it.
    pub(super) fn bytes_copied(&self, pid: Pid, from: i32, position: u64, len: u64) -> Option<Vec<u8>> {
        let source = self.inspect(pid, from).filter(|file| file.world)?;
        let end = match position {
            0 => source.position(),
            address => {
                let mut end = [0; 8];
                memory::read(pid, address, &mut end).ok()?;
                u64::from_ne_bytes(end)
            }
        };
        let mut data = vec![0; usize::try_from(len.min(source.size)).ok()?];
        let file = std::fs::File::open(format!("/proc/{pid}/fd/{from}")).ok()?;
        file.read_exact_at(&mut data, end.checked_sub(len)?).ok()?;
        Some(data)
    }

    /// What the paths of a step named before it, for recorded runs.
    pub(in crate::tracer) fn contents_before(&self, draft: &Draft) -> Option<Vec<(String, Option<u64>)>> {
        self.record.then(|| {
            let paths = [&draft.path, &draft.path2];
            paths.into_iter().flatten().map(|p| (p.clone(), named_inode(&self.real_name(p)))).collect()
        })
    }

    pub(in crate::tracer) fn record_effects(
        &mut self,
        step: &mut Step,
        draft: &Draft,
        call: &Call,
        before: Option<Vec<(String, Option<u64>)>>,
        changed: Option<u64>,
    ) {
        let Some(before) = before else { return };
        let renames = draft.accesses.iter().any(|a| matches!(a.object, Object::Entry(..)) && a.mode == Mode::Write);
        if renames {
            for (path, was) in before {
                let is = named_inode(&self.real_name(&path));
                if is != was {
                    let inode = is.and_then(|real| self.inodes.peek(real));
                    step.effects.push(Effect::Bind { path, inode });
                }
            }
        }
        if let Some(file) = changed
            && let Some(inode) = self.inodes.peek(file)
        {
            let after = self.content(step, call, file);
            step.effects.push(Effect::Content { inode, after });
        }
    }

    /// All bytes of a file that a step changed, through whatever still leads to it.
    fn content(&self, step: &Step, call: &Call, file: u64) -> Option<Arc<[u8]>> {
        let pid = self.tasks.values().find(|t| t.actor == step.actor.0 as usize && t.number == step.task)?.pid;
        let fd = match *call {
            Call::Open { .. } => Some(step.ret as i32),
            Call::Write { fd, .. } | Call::Ftruncate { fd, .. } | Call::Fallocate { fd, .. } => Some(fd),
            Call::CopyRange { to, .. } => Some(to),
            _ => None,
        };
        let path = match fd {
            Some(fd) => format!("/proc/{pid}/fd/{fd}"),
            None => real_path(&self.real_name(step.path.as_deref()?)),
        };
        use std::os::unix::fs::MetadataExt;
        let meta = std::fs::metadata(&path).ok()?;
        (meta.ino() == file && meta.len() <= RECORD_CAP).then(|| std::fs::read(&path).ok().map(Arc::from)).flatten()
    }
}

/// The real path of one shown in a report.
pub(in crate::tracer) fn real_path(shown: &str) -> String {
    if shown.starts_with('/') {
        return shown.to_owned();
    }
    match shown.strip_prefix("$TMPDIR/") {
        Some(rest) => format!("{}/{rest}", sandbox::tmp()),
        None => format!("{}/{shown}", sandbox::world()),
    }
}

fn named_inode(shown: &str) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    std::fs::symlink_metadata(real_path(shown)).ok().map(|m| m.ino())
}
