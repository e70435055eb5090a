//! The seccomp filter: which system calls stop, which are refused; all else runs at full speed.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition as Condition,
    SeccompFilter, SeccompRule,
};

use super::{arch, sabotage};

/// The two filters of a worker, in the order in which they are installed.
pub(super) struct Filters {
    refuse: BpfProgram,
    trap: BpfProgram,
}

impl Filters {
    /// Compiles the filters for this processor.
    pub(super) fn new() -> Result<Self, seccompiler::Error> {
        let arch = std::env::consts::ARCH.try_into()?;
        let refuse = arch::REFUSED.iter().map(|n| (*n, Vec::new())).collect();
        let refuse = SeccompFilter::new(refuse, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32), arch)?;
        let trap = SeccompFilter::new(trapped()?, SeccompAction::Allow, SeccompAction::Trace(0), arch)?;
        Ok(Filters { refuse: refuse.try_into()?, trap: trap.try_into()? })
    }

    /// Installs them in the calling process; its children inherit them.
    pub(super) fn install(&self) -> Result<(), seccompiler::Error> {
        seccompiler::apply_filter(&self.refuse)?;
        seccompiler::apply_filter(&self.trap)
    }
}

/// The filter for recording: only what opens, names or locks files stops, nothing is refused.
pub(super) fn for_recording() -> Result<BpfProgram, seccompiler::Error> {
    let target = std::env::consts::ARCH.try_into()?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = arch::RECORDED.iter().map(|n| (*n, Vec::new())).collect();
    let locks = [libc::F_SETLK, libc::F_SETLKW, libc::F_OFD_SETLK, libc::F_OFD_SETLKW];
    let rule = |command: &i32| SeccompRule::new(vec![Condition::new(1, Len::Dword, Op::Eq, *command as u64)?]);
    rules.insert(libc::SYS_fcntl, locks.iter().map(rule).collect::<Result<_, _>>()?);
    SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Trace(0), target)?.try_into().map_err(Into::into)
}

fn trapped() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = arch::TRAPPED.iter().map(|n| (*n, Vec::new())).collect();
    let mut only = |number: i64, arg: u8, op: Op, values: &[i64]| -> Result<(), seccompiler::Error> {
        let mut any = Vec::new();
        for value in values {
            let condition = Condition::new(arg, Len::Dword, op.clone(), *value as u32 as u64)?;
            any.push(SeccompRule::new(vec![condition])?);
        }
        rules.insert(number, any);
        Ok(())
    };
    let commands: Vec<i64> = arch::FCNTL_TRAPPED.iter().map(|c| i64::from(*c)).collect();
    only(libc::SYS_fcntl, 1, Op::Eq, &commands)?;
    let waits: Vec<i64> = arch::FUTEX_WAITS.iter().map(|c| i64::from(*c)).collect();
    only(libc::SYS_futex, 1, Op::MaskedEq(arch::FUTEX_COMMAND as u64), &waits)?;
    let seeks = [libc::SEEK_END, libc::SEEK_DATA, libc::SEEK_HOLE].map(i64::from);
    only(libc::SYS_lseek, 2, Op::Eq, &seeks)?;
    only(libc::SYS_prctl, 0, Op::Eq, &[i64::from(libc::PR_SET_SECCOMP)])?;
    // Only the dynamic loader uses MAP_DENYWRITE; its mappings are many and never of the world.
    let loader = (libc::MAP_ANONYMOUS | libc::MAP_DENYWRITE) as u64;
    only(libc::SYS_mmap, 3, Op::MaskedEq(loader), &[0])?;
    for number in sabotage::unseen() {
        rules.remove(&number);
    }
    Ok(rules)
}
