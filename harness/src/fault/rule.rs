//! Which steps a fault can hit.

use std::collections::{BTreeMap, BTreeSet};

use libc::{EACCES, EDQUOT, EFBIG, EINTR, EIO, EMFILE, ENFILE, ENOLCK, ENOMEM, ENOSPC, EPERM, EROFS, ESTALE};

use crate::{
    scenario::{Fault, FaultKind, GlobError, Nth, PatternMatcher},
    world::{ASKED_FLAG, Op, Step},
};

/// A page: calls that move more than one are not done at once.
pub const PAGE: u64 = 4096;

/// A `[[fault]]`, ready to be matched.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What happens.
    pub kind: FaultKind,
    /// The workers it can hit.
    pub workers: Vec<usize>,
    /// Which matches.
    pub nth: Nth,
    /// The pattern as written.
    pub at: Option<String>,
    matcher: Option<PatternMatcher>,
    /// The pattern names an operation.
    op: Option<Op>,
}

/// A step as far as faults look at it.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The operation.
    pub op: Op,
    /// Its path.
    pub path: Option<&'a str>,
    /// Its second path.
    pub path2: Option<&'a str>,
    /// Where a read or write begins.
    pub offset: Option<u64>,
    /// How many bytes it moves (or would move).
    pub len: u64,
    /// A write that is done as a whole at the end of the file.
    pub append: bool,
    /// A lock request that would wait.
    pub waits: bool,
}

impl<'a> Target<'a> {
    /// A step that was made.
    pub fn of(step: &'a Step) -> Self {
        let has = |name: &str| step.flags.iter().any(|flag| flag == name);
        Target {
            op: step.op,
            path: step.path.as_deref(),
            path2: step.path2.as_deref(),
            offset: step.offset,
            // What a fault cut short was as long as it was asked to be.
            len: asked(step).unwrap_or_else(|| u64::try_from(step.ret).unwrap_or(0)),
            append: has("append"),
            waits: step.op == Op::Lock && !has("nonblock") && !has("test"),
        }
    }

    fn crosses_page(&self) -> bool {
        let from = self.offset.unwrap_or(0);
        self.len > 1 && from / PAGE != (from + self.len - 1) / PAGE
    }
}

/// How many bytes a call that was hit by a fault would have moved.
fn asked(step: &Step) -> Option<u64> {
    step.flags.iter().find_map(|flag| flag.strip_prefix(ASKED_FLAG)?.parse().ok())
}

impl Rule {
    /// Compiles a fault of a scenario that was read.
    ///
    /// # Errors
    /// A malformed glob, or a kind that no parser let through (both were refused when the scenario was read).
    pub fn new(fault: &Fault) -> Result<Rule, GlobError> {
        let unreadable = |e: &dyn std::fmt::Display| GlobError { glob: fault.kind.clone(), why: e.to_string() };
        Ok(Rule {
            kind: fault.parsed_kind().map_err(|e| unreadable(&e))?,
            workers: fault.workers.clone(),
            nth: fault.nth,
            at: fault.at.as_ref().map(|at| at.text.clone()),
            matcher: fault.at.as_ref().map(|at| at.matcher()).transpose()?,
            op: fault.at.as_ref().and_then(|at| at.op),
        })
    }

    /// Whether this worker can be hit at this step.
    pub fn matches(&self, worker: usize, target: &Target<'_>) -> bool {
        self.names(worker, target) && self.can_hit(target)
    }

    /// Whether this step is one that the fault names, whether or not it could happen there.
    pub fn names(&self, worker: usize, target: &Target<'_>) -> bool {
        self.workers.contains(&worker)
            && self.matcher.as_ref().is_none_or(|m| m.matches_parts(target.op, target.path, target.path2))
    }

    /// The decisions before which the power is to go, from 0: one for each chosen step that this fault names.
    pub fn moments(&self, steps: &[Step]) -> BTreeSet<usize> {
        let mut matches: BTreeMap<u16, u64> = BTreeMap::new();
        let mut moments = BTreeSet::new();
        for (at, step) in steps.iter().filter(|step| step.chosen).enumerate() {
            if self.names(usize::from(step.actor.0), &Target::of(step)) {
                let count = matches.entry(step.actor.0).or_default();
                *count += 1;
                if matches!(self.nth, Nth::Each | Nth::All) || self.nth == Nth::Number(*count) {
                    moments.insert(at);
                }
            }
        }
        moments
    }

    /// Whether steps of this operation must be choice points although nothing depends on them: closes, syncs and the
    /// worker's end, where this fault can happen there.
    pub fn wants(&self, worker: usize, op: Op) -> bool {
        if self.kind == FaultKind::PowerCut {
            return matches!(op, Op::Sync | Op::Exit);
        }
        let nothing = Target { op, path: None, path2: None, offset: None, len: 0, append: false, waits: false };
        self.workers.contains(&worker)
            && match op {
                // Being killed before a close or a sync is being killed before what comes next.
                Op::Close | Op::Sync => self.op == Some(op) || (self.op.is_none() && self.is_errno()),
                Op::Exit => self.op.is_none_or(|wanted| wanted == op),
                _ => false,
            }
            && self.can_hit(&nothing)
    }

    /// The rule says nothing of the operation: every step is meant.
    pub fn is_general(&self) -> bool {
        self.op.is_none()
    }

    /// The worker that it hits dies.
    pub fn kills(&self) -> bool {
        matches!(self.kind, FaultKind::Kill | FaultKind::KillOne)
    }

    fn is_errno(&self) -> bool {
        matches!(self.kind, FaultKind::Errno(..))
    }

    fn can_hit(&self, target: &Target<'_>) -> bool {
        if matches!(target.op, Op::Sleep | Op::Spawn) {
            return false;
        }
        match &self.kind {
            FaultKind::Kill | FaultKind::KillOne | FaultKind::Pause(_) => true,
            FaultKind::Errno(..) if target.op == Op::Exit => false,
            // Who names an operation knows what his file system can answer.
            FaultKind::Errno(_, number) => self.op.is_some() || can_give(*number, target),
            FaultKind::ShortWrite(bytes) => target.op == Op::Write && target.len > *bytes,
            FaultKind::ShortRead(bytes) => target.op == Op::Read && target.len > *bytes,
            FaultKind::Split => matches!(target.op, Op::Read | Op::Write) && !target.append && target.crosses_page(),
            FaultKind::PowerCut => false,
        }
    }
}

/// Whether a call can give an error, by the manual pages of Linux (section 2) and POSIX.1-2017.
fn can_give(errno: i32, target: &Target<'_>) -> bool {
    use Op::*;
    let op = target.op;
    let makes_names = matches!(op, Create | Mkdir | Link | Symlink | Rename | Exchange);
    let removes_names = matches!(op, Unlink | Rmdir);
    let by_path = makes_names || removes_names || matches!(op, Open | Access | Chmod | Utime | Xattr);
    match errno {
        ENOSPC | EDQUOT => makes_names || matches!(op, Write | Sync | Truncate),
        EIO => !matches!(op, Lock | Unlock | Exit),
        EINTR => matches!(op, Open | Create | Read | Write | Truncate) || (op == Lock && target.waits),
        EMFILE | ENFILE => matches!(op, Open | Create),
        EACCES | EPERM => by_path || matches!(op, Truncate | Stat),
        EROFS => makes_names || removes_names || matches!(op, Chmod | Utime | Truncate),
        EFBIG => matches!(op, Write | Truncate),
        ENOLCK => op == Lock,
        ENOMEM => by_path || matches!(op, Map | Stat | List),
        ESTALE => !matches!(op, Exit | Unlock),
        _ => !matches!(op, Exit | Close),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Pattern;

    fn rule(kind: &str, at: Option<&str>) -> Rule {
        let at = at.map(|at| Pattern::parse(at).unwrap());
        Rule::new(&Fault { workers: vec![0], kind: kind.into(), at, nth: Nth::Each }).unwrap()
    }

    fn target(op: Op, offset: u64, len: u64) -> Target<'static> {
        Target { op, path: Some("q"), path2: None, offset: Some(offset), len, append: false, waits: false }
    }

    #[test]
    fn a_fault_hits_only_what_it_can() {
        let cases = [
            ("kill", None, target(Op::Stat, 0, 0), true),
            ("kill", None, target(Op::Exit, 0, 0), true),
            ("kill", None, target(Op::Sleep, 0, 0), false),
            ("kill", Some("write"), target(Op::Read, 0, 9), false),
            ("kill", Some("write other"), target(Op::Write, 0, 9), false),
            ("errno:ENOSPC", None, target(Op::Write, 0, 9), true),
            ("errno:ENOSPC", None, target(Op::Open, 0, 0), false),
            ("errno:ENOSPC", None, target(Op::Create, 0, 0), true),
            ("errno:ENOSPC", Some("open"), target(Op::Open, 0, 0), true),
            ("errno:EIO", Some("exit"), target(Op::Exit, 0, 0), false),
            ("errno:EINTR", None, target(Op::Lock, 0, 0), false),
            ("errno:EINTR", None, Target { waits: true, ..target(Op::Lock, 0, 0) }, true),
            ("short-write:4", None, target(Op::Write, 0, 4), false),
            ("short-write:4", None, target(Op::Write, 0, 5), true),
            ("short-read:4", None, target(Op::Write, 0, 5), false),
            ("short-read:4", None, target(Op::Read, 0, 5), true),
            ("split", None, target(Op::Write, 0, 4096), false),
            ("split", None, target(Op::Write, 1, 4096), true),
            ("split", None, Target { append: true, ..target(Op::Write, 0, 9999) }, false),
            ("power-cut", None, target(Op::Write, 0, 9), false),
        ];
        for (kind, at, target, hits) in cases {
            assert_eq!(rule(kind, at).matches(0, &target), hits, "{kind} {at:?} {target:?}");
            assert!(!rule(kind, at).matches(1, &target), "another worker");
        }
    }

    #[test]
    fn closes_syncs_and_ends_are_choice_points_only_where_a_fault_can_happen_there() {
        let cases = [
            ("kill", None, Op::Close, false),
            ("kill", Some("close"), Op::Close, true),
            ("kill", None, Op::Exit, true),
            ("kill", Some("write"), Op::Exit, false),
            ("errno:EIO", None, Op::Sync, true),
            ("errno:EIO", None, Op::Exit, false),
            ("errno:EMFILE", None, Op::Sync, false),
        ];
        for (kind, at, op, wanted) in cases {
            assert_eq!(rule(kind, at).wants(0, op), wanted, "{kind} {at:?} {op}");
        }
    }
}
