//! The thin layer over the kernel: the only file with `unsafe` code.
//!
//! Everything here is a system call that the safe wrappers (nix, rustix) either lack or get wrong for a tracer.
#![allow(unsafe_code)]

use std::{ffi::CString, io, os::fd::OwnedFd, time::Duration};

use nix::{
    errno::Errno,
    unistd::{ForkResult, Pid},
};

/// How often a wait of the tracer ends to look whether the tracee fell asleep in a call that it does not know.
const TICK: Duration = Duration::from_millis(20);

/// What `waitpid` said of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// It exited with this code.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
    /// It stopped: the stop signal (bit 7 set for system-call stops) and the ptrace event.
    Stopped { signal: i32, event: i32 },
}

/// `waitpid` for any child and thread. nix's version fails on real-time signals after having consumed the status.
///
/// Returns `None` when nothing is to be reported (with `block` false), or when a signal interrupted the wait.
///
/// # Errors
/// `ECHILD` when there is nobody to wait for.
pub(super) fn wait_any(block: bool) -> Result<Option<(Pid, Status)>, Errno> {
    wait(-1, block)
}

/// As [`wait_any`], for one task.
pub(super) fn wait_one(pid: Pid, block: bool) -> Result<Option<(Pid, Status)>, Errno> {
    wait(pid.as_raw(), block)
}

fn wait(pid: i32, block: bool) -> Result<Option<(Pid, Status)>, Errno> {
    let mut status = 0;
    let flags = libc::__WALL | if block { 0 } else { libc::WNOHANG };
    // SAFETY: `status` is a valid place for the result.
    let got = unsafe { libc::waitpid(pid, &mut status, flags) };
    match got {
        0 => Ok(None),
        -1 if Errno::last() == Errno::EINTR => Ok(None),
        -1 => Err(Errno::last()),
        pid => {
            let status = if libc::WIFEXITED(status) {
                Status::Exited(libc::WEXITSTATUS(status))
            } else if libc::WIFSIGNALED(status) {
                Status::Killed(libc::WTERMSIG(status))
            } else {
                Status::Stopped { signal: (status >> 8) & 0xff, event: status >> 16 }
            };
            Ok(Some((Pid::from_raw(pid), status)))
        }
    }
}

/// Where a task stands at a system-call or seccomp stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallStop {
    /// Before the call; with the filter's stop still to come if the filter wants the call.
    Entry,
    /// After it.
    Exit,
    /// At the filter's stop, before the call.
    Filter,
}

/// PTRACE_GET_SYSCALL_INFO: at which side of a call a task stopped. `None`: at neither.
pub(super) fn call_stop(pid: Pid) -> Option<CallStop> {
    // As the kernel has them; the C libraries that lack them have this system call all the same.
    const GET_SYSCALL_INFO: libc::c_uint = 0x420e;
    let mut info = [0_u64; 16];
    // SAFETY: the kernel writes at most the size that is given, which the buffer has.
    let got = unsafe {
        libc::ptrace(GET_SYSCALL_INFO as _, pid.as_raw(), size_of_val(&info), info.as_mut_ptr().cast::<libc::c_void>())
    };
    // The first byte says what the rest is about.
    match (got, info[0].to_ne_bytes()[0]) {
        (..=0, _) => None,
        (_, 1) => Some(CallStop::Entry),
        (_, 2) => Some(CallStop::Exit),
        (_, 3) => Some(CallStop::Filter),
        _ => None,
    }
}

/// Resumes a stopped task, to its next system call or to the next stop of the filter, with any signal; nix knows only
/// the classic ones.
pub(super) fn resume_with(pid: Pid, to_call: bool, signal: i32) -> Result<(), Errno> {
    let request = if to_call { libc::PTRACE_SYSCALL } else { libc::PTRACE_CONT };
    // SAFETY: neither request reads or writes memory of ours.
    let result = unsafe { libc::ptrace(request, pid.as_raw(), 0_usize, signal as usize) };
    Errno::result(result).map(drop)
}

/// Ignores a signal, or puts it back to its default action.
pub(super) fn set_ignored(signal: i32, ignored: bool) {
    let action = if ignored { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: both are valid actions for every signal; one that cannot be set is left as it is.
    unsafe { libc::signal(signal, action) };
}

/// PTRACE_LISTEN: leave a task in its group stop, but hear of events.
pub(super) fn listen(pid: Pid) -> Result<(), Errno> {
    // SAFETY: PTRACE_LISTEN takes no addresses.
    let result = unsafe { libc::ptrace(libc::PTRACE_LISTEN, pid.as_raw(), 0, 0) };
    Errno::result(result).map(drop)
}

/// `fork`. The engine has one thread when it calls this, so the child may do as it likes; its caller may have many.
pub(super) fn fork() -> Result<ForkResult, Errno> {
    // SAFETY: the child either execs or is the engine itself, which uses nothing that another thread of the parent
    // could have held locked but the allocator, which the C library makes safe across fork: no lazily made global, and
    // of std neither the locks of the standard streams nor, to change it, that of the environment.
    unsafe { nix::unistd::fork() }
}

/// Ends the process at once, without destructors or exit handlers of the parent's copy.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Makes reads of the time-stamp counter fault, so that they can be answered. Survives exec.
pub(super) fn trap_time_stamp_counter() -> io::Result<()> {
    // SAFETY: a prctl without addresses.
    check(unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV, 0, 0, 0) })
}

/// The kernel kills this process with SIGKILL when its parent dies.
pub(super) fn die_with_parent() -> io::Result<()> {
    // SAFETY: a prctl without addresses.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) })
}

/// From now on this process is the parent of those below it whose parent has died, as process 1 is.
pub(super) fn serve_orphans() -> io::Result<()> {
    // SAFETY: a prctl without addresses.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })
}

/// Whether descriptors of other processes can be borrowed at all, tried on one of our own.
pub(super) fn can_borrow() -> io::Result<()> {
    let me = rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty())?;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&me);
    borrow_fd(&me, fd).map(drop).map_err(Into::into)
}

/// Installs the do-nothing handler for SIGALRM without SA_RESTART and starts a periodic timer, so that a blocking
/// wait comes back now and then to look whether the tracee fell asleep.
pub(super) fn start_ticking() -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: a zeroed sigaction with a handler that does nothing is valid; no flags, so waits return EINTR.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        check(libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut()))?;
    }
    tick(TICK, TICK)
}

/// The next interruption of a blocking wait comes after `first`, more in the distance `then`: the first may come before
/// the wait begins.
pub(super) fn tick(first: Duration, then: Duration) -> io::Result<()> {
    let interval = |length: Duration| libc::timeval { tv_sec: 0, tv_usec: length.as_micros() as _ };
    let timer = libc::itimerval { it_interval: interval(then), it_value: interval(first) };
    // SAFETY: a valid timer; the old one is not asked for.
    check(unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) })
}

/// Puts every signal back to its default action and unblocks all: what a new worker expects.
pub(super) fn reset_signals() {
    // SAFETY: SIG_DFL is a valid action for every signal; failures (KILL, STOP) are meant to be ignored.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

/// `dup2`: makes descriptor `target` (of a process that is about to exec) the same as `fd`.
pub(super) fn redirect(fd: i32, target: i32) -> io::Result<()> {
    // SAFETY: no addresses; whatever `target` was is meant to be closed.
    check(unsafe { libc::dup2(fd, target) })
}

/// `execve`; returns only when it failed.
pub(super) fn exec(program: &CString, args: &[CString], env: &[CString]) -> Errno {
    match nix::unistd::execve(program, args, env) {
        Ok(never) => match never {},
        Err(e) => e,
    }
}

/// Opens another task's descriptor as one of ours (`pidfd_getfd`): the same open file description.
pub(super) fn borrow_fd(pidfd: &OwnedFd, fd: i32) -> Result<OwnedFd, Errno> {
    use std::os::fd::{AsRawFd, FromRawFd};
    // SAFETY: the call makes a new descriptor, which we own from here on.
    unsafe {
        let got = libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), fd, 0);
        Errno::result(got).map(|fd| OwnedFd::from_raw_fd(fd as i32))
    }
}

/// Memory that this process and others can both have: a System V segment, marked for removal when nobody has it any
/// more.
#[derive(Debug)]
pub(super) struct SharedPages {
    id: i32,
    words: std::ptr::NonNull<u64>,
    len: usize,
}

impl SharedPages {
    /// Makes `len` bytes, readable, writable and executable for everybody who knows the number.
    pub(super) fn new(len: usize) -> io::Result<Self> {
        // SAFETY: the kernel chooses the address, so nothing is replaced; the segment is page-aligned and zeroed.
        unsafe {
            let id = libc::shmget(libc::IPC_PRIVATE, len, libc::IPC_CREAT | 0o777);
            check(id)?;
            let at = libc::shmat(id, std::ptr::null(), libc::SHM_EXEC);
            let attached = if at as isize == -1 { Err(io::Error::last_os_error()) } else { Ok(()) };
            // Whoever knows the number can still attach it while we have it.
            let removed = check(libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()));
            attached.and(removed)?;
            let words = std::ptr::NonNull::new(at.cast()).ok_or(io::ErrorKind::InvalidData)?;
            Ok(SharedPages { id, words, len })
        }
    }

    /// The number under which other processes attach it.
    pub(super) fn id(&self) -> i32 {
        self.id
    }

    /// The 64-bit word at this index.
    pub(super) fn load(&self, index: usize) -> u64 {
        assert!(index < self.len / 8);
        // SAFETY: in bounds and aligned; volatile because workers change it.
        unsafe { self.words.add(index).read_volatile() }
    }

    /// Sets the 64-bit word at this index.
    pub(super) fn store(&self, index: usize, value: u64) {
        assert!(index < self.len / 8);
        // SAFETY: in bounds and aligned; volatile because workers read it.
        unsafe { self.words.add(index).write_volatile(value) }
    }

    /// Copies bytes to this offset, before any worker has the memory.
    pub(super) fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.len);
        // SAFETY: in bounds; the source is ordinary memory of ours.
        unsafe {
            self.words.cast::<u8>().add(at).copy_from_nonoverlapping(std::ptr::NonNull::from(bytes).cast(), bytes.len())
        }
    }
}

/// Sends a signal to a process, or to one of its threads.
pub(super) fn send_signal(process: Pid, thread: Option<Pid>, signal: i32) -> Result<(), Errno> {
    // SAFETY: no addresses.
    let result = unsafe {
        match thread {
            Some(thread) => libc::syscall(libc::SYS_tgkill, process.as_raw(), thread.as_raw(), signal),
            None => libc::syscall(libc::SYS_kill, process.as_raw(), signal),
        }
    };
    Errno::result(result).map(drop)
}

/// At the stop before a signal is delivered: makes it say that it comes from a POSIX timer.
pub(super) fn set_timer_origin(pid: Pid, timer: i32, value: u64) -> Result<(), Errno> {
    let mut info = nix::sys::ptrace::getsiginfo(pid)?;
    info.si_code = libc::SI_TIMER;
    // SAFETY: `siginfo_t` is plain memory of 128 bytes; for SI_TIMER the kernel's layout has the timer's number at 16,
    // the overrun count at 20 and the value at 24.
    unsafe {
        let bytes = std::ptr::from_mut(&mut info).cast::<u8>();
        bytes.add(16).cast::<i32>().write_unaligned(timer);
        bytes.add(20).cast::<i32>().write_unaligned(0);
        bytes.add(24).cast::<u64>().write_unaligned(value);
    }
    nix::sys::ptrace::setsiginfo(pid, &info)
}

/// Whether two descriptors of two processes are the same open file description. `None`: this kernel does not say.
pub(super) fn same_description(a: (Pid, i32), b: (Pid, i32)) -> Option<bool> {
    const KCMP_FILE: i32 = 0;
    // SAFETY: no addresses.
    let result = unsafe { libc::syscall(libc::SYS_kcmp, a.0.as_raw(), b.0.as_raw(), KCMP_FILE, a.1, b.1) };
    Errno::result(result).ok().map(|order| order == 0)
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
