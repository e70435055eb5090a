//! System calls by number on x86_64: which are trapped, and what they mean.

use nix::libc;

use super::x86_64::Registers;
use crate::tracer::{
    calls::{At, Buffer, Call, ClockRead, OnTimeout, SyncKind, Timeout, Times, Watch},
    timers::TimerCall,
};

/// Which argument (from 0) of an open or rename call holds its flags; `None`: it has none in a register.
pub(crate) fn flags_arg(number: i64) -> Option<usize> {
    match number {
        libc::SYS_open => Some(1),
        libc::SYS_openat => Some(2),
        libc::SYS_renameat2 => Some(4),
        _ => None,
    }
}

/// `pause(2)`: waits for a signal; sleeps are turned into it.
pub(crate) const PAUSE: i64 = libc::SYS_pause;

/// Calls answered with ENOSYS, so that programs fall back to calls that can be seen.
pub(crate) const REFUSED: &[i64] =
    &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_futex_waitv];

/// Calls that stop a process that is only recorded.
pub(crate) const RECORDED: &[i64] = &[
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_creat,
    libc::SYS_truncate,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_link,
    libc::SYS_linkat,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_flock,
    libc::SYS_io_uring_setup,
];

/// Calls that stop whatever their arguments are.
pub(crate) const TRAPPED: &[i64] = &[
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_creat,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_readv,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_sendfile,
    libc::SYS_copy_file_range,
    libc::SYS_splice,
    libc::SYS_truncate,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_link,
    libc::SYS_linkat,
    libc::SYS_symlink,
    libc::SYS_symlinkat,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_rmdir,
    libc::SYS_mknod,
    libc::SYS_mknodat,
    libc::SYS_getdents,
    libc::SYS_getdents64,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_access,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_chown,
    libc::SYS_fchown,
    libc::SYS_lchown,
    libc::SYS_fchownat,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_utimensat,
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_fgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_flistxattr,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync,
    libc::SYS_syncfs,
    libc::SYS_sync_file_range,
    libc::SYS_msync,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_send_signal,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_set_tid_address,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_time,
    libc::SYS_times,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_pause,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_yield,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendmmsg,
    libc::SYS_listen,
    libc::SYS_shutdown,
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_seccomp,
    libc::SYS_timerfd_settime,
    libc::SYS_timer_settime,
    libc::SYS_setitimer,
    libc::SYS_alarm,
    libc::SYS_getitimer,
    libc::SYS_timer_create,
    libc::SYS_timer_gettime,
    libc::SYS_timer_getoverrun,
    libc::SYS_timer_delete,
    libc::SYS_timerfd_gettime,
    libc::SYS_inotify_add_watch,
    libc::SYS_fanotify_init,
    libc::SYS_open_by_handle_at,
    libc::SYS_semtimedop,
    libc::SYS_semop,
    libc::SYS_msgrcv,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_timedsend,
];

/// Decodes a trapped call. `None`: not one that we need to look at.
pub(crate) fn decode(regs: &Registers) -> Option<Call> {
    let [a, b, c, d, e, f] = regs.args();
    let fd = a as i32;
    let here = At { dir: fd, path: b };
    let this = At { dir: fd, path: 0 };
    let no_wait = |flags: u64| flags as i32 & libc::MSG_DONTWAIT != 0;
    let polled = Watch::Poll { fds: a, count: b };
    let selected = Watch::Select { count: a, sets: [b, c, d] };
    let position = |low: u64| (low as i64 != -1).then_some(low as i64);
    Some(match regs.number() {
        libc::SYS_open => Call::Open { at: At::cwd(a), flags: b as i32, how: 0 },
        libc::SYS_creat => Call::Open { at: At::cwd(a), flags: libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, how: 0 },
        libc::SYS_openat => Call::Open { at: here, flags: c as i32, how: 0 },
        libc::SYS_openat2 => Call::Open { at: here, flags: 0, how: c },
        libc::SYS_close => Call::Close { fd },
        libc::SYS_close_range => Call::CloseRange { first: a as u32, last: b as u32, flags: c as u32 },
        libc::SYS_dup => Call::Fcntl { fd, cmd: libc::F_DUPFD, arg: 0 },
        libc::SYS_dup2 | libc::SYS_dup3 => Call::Dup2 { from: fd, to: b as i32 },
        libc::SYS_read => Call::Read { fd, buffer: Buffer::Flat(b, c), offset: None },
        libc::SYS_pread64 => Call::Read { fd, buffer: Buffer::Flat(b, c), offset: Some(d as i64) },
        libc::SYS_readv => Call::Read { fd, buffer: Buffer::Vector(b, c), offset: None },
        libc::SYS_preadv => Call::Read { fd, buffer: Buffer::Vector(b, c), offset: Some(d as i64) },
        libc::SYS_preadv2 => Call::Read { fd, buffer: Buffer::Vector(b, c), offset: position(d) },
        libc::SYS_write => Call::Write { fd, buffer: Buffer::Flat(b, c), offset: None },
        libc::SYS_pwrite64 => Call::Write { fd, buffer: Buffer::Flat(b, c), offset: Some(d as i64) },
        libc::SYS_writev => Call::Write { fd, buffer: Buffer::Vector(b, c), offset: None },
        libc::SYS_pwritev => Call::Write { fd, buffer: Buffer::Vector(b, c), offset: Some(d as i64) },
        libc::SYS_pwritev2 => Call::Write { fd, buffer: Buffer::Vector(b, c), offset: position(d) },
        libc::SYS_sendfile => Call::CopyRange { from: b as i32, from_offset: c, to: fd, to_offset: 0, len: d },
        libc::SYS_copy_file_range | libc::SYS_splice => {
            Call::CopyRange { from: fd, from_offset: b, to: c as i32, to_offset: d, len: e }
        }
        libc::SYS_truncate => Call::Truncate { at: At::cwd(a), len: b },
        libc::SYS_ftruncate => Call::Ftruncate { fd, len: b },
        libc::SYS_fallocate => Call::Fallocate { fd, offset: c, len: d },
        libc::SYS_lseek => Call::Seek { fd },
        libc::SYS_rename => Call::Rename { from: At::cwd(a), to: At::cwd(b), flags: 0 },
        libc::SYS_renameat => Call::Rename { from: here, to: At { dir: c as i32, path: d }, flags: 0 },
        libc::SYS_renameat2 => Call::Rename { from: here, to: At { dir: c as i32, path: d }, flags: e as u32 },
        libc::SYS_link => Call::Link { from: At::cwd(a), to: At::cwd(b), flags: 0 },
        libc::SYS_linkat => Call::Link { from: here, to: At { dir: c as i32, path: d }, flags: e as i32 },
        libc::SYS_symlink => Call::Symlink { target: a, at: At::cwd(b) },
        libc::SYS_symlinkat => Call::Symlink { target: a, at: At { dir: b as i32, path: c } },
        libc::SYS_unlink => Call::Unlink { at: At::cwd(a) },
        libc::SYS_unlinkat if c as i32 & libc::AT_REMOVEDIR != 0 => Call::Rmdir { at: here },
        libc::SYS_unlinkat => Call::Unlink { at: here },
        libc::SYS_rmdir => Call::Rmdir { at: At::cwd(a) },
        libc::SYS_mkdir => Call::Mkdir { at: At::cwd(a) },
        libc::SYS_mkdirat => Call::Mkdir { at: here },
        libc::SYS_mknod => Call::Mknod { at: At::cwd(a) },
        libc::SYS_mknodat => Call::Mknod { at: here },
        libc::SYS_getdents => Call::List { fd, buffer: b, wide: false },
        libc::SYS_getdents64 => Call::List { fd, buffer: b, wide: true },
        libc::SYS_stat => Call::Stat { at: At::cwd(a), buffer: b, follow: true, extended: false },
        libc::SYS_lstat => Call::Stat { at: At::cwd(a), buffer: b, follow: false, extended: false },
        libc::SYS_fstat => Call::Stat { at: this, buffer: b, follow: true, extended: false },
        libc::SYS_newfstatat => Call::Stat { at: here, buffer: c, follow: follow(d), extended: false },
        libc::SYS_statx => Call::Stat { at: here, buffer: e, follow: follow(c), extended: true },
        libc::SYS_access => Call::Access { at: At::cwd(a), follow: true },
        libc::SYS_faccessat => Call::Access { at: here, follow: true },
        libc::SYS_faccessat2 => Call::Access { at: here, follow: follow(d) },
        libc::SYS_readlink => Call::Readlink { at: At::cwd(a), buffer: b, len: c },
        libc::SYS_readlinkat => Call::Readlink { at: here, buffer: c, len: d },
        libc::SYS_chmod | libc::SYS_chown => Call::Chmod { at: At::cwd(a), follow: true },
        libc::SYS_lchown => Call::Chmod { at: At::cwd(a), follow: false },
        libc::SYS_fchmod | libc::SYS_fchown => Call::Chmod { at: this, follow: true },
        libc::SYS_fchmodat => Call::Chmod { at: here, follow: true },
        libc::SYS_fchmodat2 => Call::Chmod { at: here, follow: follow(d) },
        libc::SYS_fchownat => Call::Chmod { at: here, follow: follow(e) },
        libc::SYS_utime => Call::Utime { at: At::cwd(a), follow: true, times: Times::Utimbuf(b) },
        libc::SYS_utimes => Call::Utime { at: At::cwd(a), follow: true, times: Times::Timeval(b) },
        libc::SYS_futimesat => Call::Utime { at: here, follow: true, times: Times::Timeval(c) },
        libc::SYS_utimensat => Call::Utime { at: here, follow: follow(d), times: Times::Timespec(c) },
        libc::SYS_getxattr | libc::SYS_listxattr => Call::XattrGet { at: At::cwd(a), follow: true },
        libc::SYS_lgetxattr | libc::SYS_llistxattr => Call::XattrGet { at: At::cwd(a), follow: false },
        libc::SYS_fgetxattr | libc::SYS_flistxattr => Call::XattrGet { at: this, follow: true },
        libc::SYS_setxattr | libc::SYS_removexattr => Call::XattrSet { at: At::cwd(a), follow: true },
        libc::SYS_lsetxattr | libc::SYS_lremovexattr => Call::XattrSet { at: At::cwd(a), follow: false },
        libc::SYS_fsetxattr | libc::SYS_fremovexattr => Call::XattrSet { at: this, follow: true },
        libc::SYS_flock => Call::Flock { fd, op: b as i32 },
        libc::SYS_fcntl => Call::Fcntl { fd, cmd: b as i32, arg: c },
        libc::SYS_fsync => Call::Sync { fd: Some(fd), kind: SyncKind::File { data_only: false } },
        libc::SYS_fdatasync => Call::Sync { fd: Some(fd), kind: SyncKind::File { data_only: true } },
        libc::SYS_syncfs => Call::Sync { fd: Some(fd), kind: SyncKind::All },
        libc::SYS_sync_file_range => Call::Sync { fd: Some(fd), kind: SyncKind::Nothing },
        libc::SYS_sync => Call::Sync { fd: None, kind: SyncKind::All },
        libc::SYS_msync => Call::Sync { fd: None, kind: SyncKind::Nothing },
        libc::SYS_mmap => Call::Map { fd: e as i32, protection: c as i32, flags: d as i32 },
        libc::SYS_chdir => Call::Chdir { at: At::cwd(a) },
        libc::SYS_fchdir => Call::Chdir { at: this },
        libc::SYS_execve => Call::Exec { at: At::cwd(a) },
        libc::SYS_execveat => Call::Exec { at: here },
        libc::SYS_fork | libc::SYS_vfork | libc::SYS_clone | libc::SYS_clone3 => Call::Fork,
        libc::SYS_getpid | libc::SYS_gettid => Call::Identity,
        libc::SYS_set_tid_address => Call::TidAddress { address: a },
        libc::SYS_getrandom => Call::Random { buffer: a, len: b },
        libc::SYS_clock_gettime => Call::Clock(ClockRead::Timespec { clock: fd, at: b }),
        libc::SYS_gettimeofday => Call::Clock(ClockRead::Timeval { at: a }),
        libc::SYS_time => Call::Clock(ClockRead::Seconds { at: a }),
        libc::SYS_times => Call::Clock(ClockRead::Times { at: a }),
        libc::SYS_getrusage => Call::Clock(ClockRead::Usage { at: b }),
        libc::SYS_sysinfo => Call::Clock(ClockRead::Machine { at: a }),
        libc::SYS_statfs | libc::SYS_fstatfs => Call::FileSystem { buffer: b },
        libc::SYS_nanosleep => Call::SleepFor { request: a, remaining: b },
        libc::SYS_clock_nanosleep => Call::SleepOn { clock: fd, flags: b as i32, request: c, remaining: d },
        libc::SYS_poll => wait_for(Timeout::Millis { arg: 2 }, OnTimeout::Zero, polled),
        libc::SYS_ppoll => wait_for(Timeout::Timespec { arg: 2, absolute: None }, OnTimeout::Zero, polled),
        libc::SYS_select => wait_for(Timeout::Timeval { arg: 4 }, OnTimeout::ClearSets, selected),
        libc::SYS_pselect6 => wait_for(Timeout::Timespec { arg: 4, absolute: None }, OnTimeout::ClearSets, selected),
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => {
            wait_for(Timeout::Millis { arg: 3 }, OnTimeout::Zero, Watch::Epoll { fd })
        }
        libc::SYS_epoll_pwait2 => {
            wait_for(Timeout::Timespec { arg: 3, absolute: None }, OnTimeout::Zero, Watch::Epoll { fd })
        }
        libc::SYS_futex => {
            let absolute = match b as i32 & FUTEX_COMMAND {
                FUTEX_WAIT => None,
                _ if b as i32 & libc::FUTEX_CLOCK_REALTIME != 0 => Some(libc::CLOCK_REALTIME),
                libc::FUTEX_LOCK_PI => Some(libc::CLOCK_REALTIME),
                _ => Some(libc::CLOCK_MONOTONIC),
            };
            wait(Timeout::Timespec { arg: 3, absolute }, OnTimeout::Error(libc::ETIMEDOUT))
        }
        libc::SYS_rt_sigtimedwait => wait(Timeout::Timespec { arg: 2, absolute: None }, OnTimeout::Error(libc::EAGAIN)),
        libc::SYS_semtimedop => wait(Timeout::Timespec { arg: 3, absolute: None }, OnTimeout::Error(libc::EAGAIN)),
        libc::SYS_wait4
        | libc::SYS_waitid
        | libc::SYS_pause
        | libc::SYS_rt_sigsuspend
        | libc::SYS_semop
        | libc::SYS_msgrcv
        | libc::SYS_mq_timedreceive
        | libc::SYS_mq_timedsend => wait(Timeout::None, OnTimeout::Zero),
        libc::SYS_sched_yield => Call::Yield,
        libc::SYS_recvfrom => Call::Receive { fd, buffer: Buffer::Flat(b, c), no_wait: no_wait(d) },
        libc::SYS_recvmsg => Call::Receive { fd, buffer: Buffer::Message(b), no_wait: no_wait(c) },
        libc::SYS_recvmmsg => Call::Receive { fd, buffer: Buffer::Message(b), no_wait: no_wait(d) },
        libc::SYS_sendto => {
            Call::Send { fd, buffer: Buffer::Flat(b, c), no_wait: no_wait(d), address: e, len: f, message: 0 }
        }
        libc::SYS_sendmsg => {
            Call::Send { fd, buffer: Buffer::Message(b), no_wait: no_wait(c), address: 0, len: 0, message: b }
        }
        libc::SYS_sendmmsg => {
            Call::Send { fd, buffer: Buffer::Message(b), no_wait: no_wait(d), address: 0, len: 0, message: b }
        }
        libc::SYS_connect => Call::Connect { fd, address: b, len: c },
        libc::SYS_bind => Call::Bind { fd, address: b, len: c },
        libc::SYS_listen => Call::Listen { fd },
        libc::SYS_shutdown => Call::Shutdown { fd },
        libc::SYS_kill => Call::Kill { process: fd, signal: b as i32 },
        libc::SYS_tkill => Call::Kill { process: fd, signal: b as i32 },
        libc::SYS_tgkill => Call::Kill { process: fd, signal: c as i32 },
        libc::SYS_rt_sigqueueinfo => Call::Kill { process: fd, signal: b as i32 },
        libc::SYS_rt_tgsigqueueinfo => Call::Kill { process: fd, signal: c as i32 },
        libc::SYS_pidfd_send_signal => Call::KillByDescriptor { fd, signal: b as i32 },
        libc::SYS_accept | libc::SYS_accept4 => Call::Accept { fd },
        libc::SYS_sched_getaffinity => Call::Affinity { size: b, mask: c },
        libc::SYS_getcpu => Call::Cpu { cpu: a, node: b },
        libc::SYS_mount | libc::SYS_umount2 => Call::Uncontrolled("mounts a file system"),
        libc::SYS_chroot | libc::SYS_pivot_root => Call::Uncontrolled("changes its root directory"),
        libc::SYS_setns | libc::SYS_unshare => Call::Uncontrolled("changes its namespaces"),
        // Asking what is available changes nothing.
        libc::SYS_seccomp if a > 1 => return None,
        libc::SYS_seccomp | libc::SYS_prctl => Call::Uncontrolled("installs a system-call filter of its own"),
        libc::SYS_alarm => Call::Timer(TimerCall::Alarm { seconds: a }),
        libc::SYS_setitimer => Call::Timer(TimerCall::SetInterval { which: fd, new: b, old: c }),
        libc::SYS_getitimer => Call::Timer(TimerCall::GetInterval { which: fd, at: b }),
        libc::SYS_timer_create => Call::Timer(TimerCall::Create { clock: fd, event: b, id: c }),
        libc::SYS_timer_settime => Call::Timer(TimerCall::Set { id: fd, flags: b as i32, new: c, old: d }),
        libc::SYS_timer_gettime => Call::Timer(TimerCall::Get { id: fd, at: b }),
        libc::SYS_timer_getoverrun => Call::Timer(TimerCall::Overrun { id: fd }),
        libc::SYS_timer_delete => Call::Timer(TimerCall::Delete { id: fd }),
        libc::SYS_timerfd_settime => Call::Timer(TimerCall::SetFd { fd, flags: b as i32, new: c, old: d }),
        libc::SYS_timerfd_gettime => Call::Timer(TimerCall::GetFd { fd, at: b }),
        libc::SYS_inotify_add_watch => Call::Notify { at: At::cwd(b), mask: c as u32 },
        libc::SYS_fanotify_init => Call::Uncontrolled("is told of what others do by fanotify"),
        libc::SYS_io_uring_setup => Call::Uncontrolled("uses io_uring"),
        libc::SYS_open_by_handle_at => Call::Uncontrolled("opens files by handle"),
        _ => return None,
    })
}

/// fcntl commands that stop.
pub(crate) const FCNTL_TRAPPED: &[i32] = &[
    libc::F_SETLK,
    libc::F_SETLKW,
    libc::F_GETLK,
    libc::F_OFD_SETLK,
    libc::F_OFD_SETLKW,
    libc::F_OFD_GETLK,
    libc::F_SETLEASE,
    libc::F_NOTIFY,
];

/// The futex commands that wait.
pub(crate) const FUTEX_WAITS: &[i32] =
    &[FUTEX_WAIT, libc::FUTEX_WAIT_BITSET, libc::FUTEX_LOCK_PI, libc::FUTEX_WAIT_REQUEUE_PI, FUTEX_LOCK_PI2];

/// The bits of a futex operation that name the command.
pub(crate) const FUTEX_COMMAND: i32 = 0x7f;
const FUTEX_WAIT: i32 = libc::FUTEX_WAIT;
const FUTEX_LOCK_PI2: i32 = 13;

fn follow(flags: u64) -> bool {
    flags as i32 & libc::AT_SYMLINK_NOFOLLOW == 0
}

fn wait(timeout: Timeout, on_timeout: OnTimeout) -> Call {
    wait_for(timeout, on_timeout, Watch::Nothing)
}

fn wait_for(timeout: Timeout, on_timeout: OnTimeout, watch: Watch) -> Call {
    Call::Wait { timeout, on_timeout, watch }
}
