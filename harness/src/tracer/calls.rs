//! System calls in one vocabulary, whatever number or variant the program used.

use nix::libc;

use super::timers::TimerCall;

/// A file named by a directory descriptor and a path in the tracee's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    /// Directory descriptor, or `AT_FDCWD`.
    pub dir: i32,
    /// Address of the path; 0: none (the descriptor itself is meant).
    pub path: u64,
}

impl At {
    pub(super) fn cwd(path: u64) -> At {
        At { dir: libc::AT_FDCWD, path }
    }
}

/// How the bytes of a read or write lie in the tracee's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Buffer {
    /// One piece: address and length.
    Flat(u64, u64),
    /// An array of `iovec`: address and count.
    Vector(u64, u64),
    /// What a `msghdr` at this address says.
    Message(u64),
}

/// Where a call that reports the time puts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClockRead {
    /// `struct timespec` of this clock.
    Timespec { clock: i32, at: u64 },
    /// `struct timeval`.
    Timeval { at: u64 },
    /// Seconds, returned and stored when the address is not 0.
    Seconds { at: u64 },
    /// `struct tms`, ticks returned.
    Times { at: u64 },
    /// `struct rusage`: zeros.
    Usage { at: u64 },
    /// `struct sysinfo`: how long the machine has been up; nothing runs on it, and all of its memory is free.
    Machine { at: u64 },
}

/// How long a waiting call waits, and how its time-out is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timeout {
    /// Waits for ever, or never waits: nothing to do.
    None,
    /// Milliseconds in this argument register (index from 0); -1 is for ever.
    Millis { arg: usize },
    /// Address of a `timespec` in this argument register; 0 is for ever. `absolute` on that clock.
    Timespec { arg: usize, absolute: Option<i32> },
    /// Address of a `timeval` in this argument register; 0 is for ever.
    Timeval { arg: usize },
}

/// What a waiting call returns when its time-out is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnTimeout {
    /// 0, as poll and select.
    Zero,
    /// 0, and the three sets of descriptors (arguments 1 to 3, `nfds` bits) are emptied.
    ClearSets,
    /// This error.
    Error(i32),
}

/// The descriptors that a waiting call watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// None: it waits for something else.
    Nothing,
    /// An array of `pollfd`.
    Poll { fds: u64, count: u64 },
    /// Three sets of descriptors below `count`; 0: none.
    Select { count: u64, sets: [u64; 3] },
    /// Those of an epoll descriptor.
    Epoll { fd: i32 },
}

/// A system call, decoded. Addresses are in the tracee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(super) enum Call {
    Open {
        at: At,
        flags: i32,
        how: u64,
    },
    Close {
        fd: i32,
    },
    CloseRange {
        first: u32,
        last: u32,
        flags: u32,
    },
    Dup2 {
        from: i32,
        to: i32,
    },
    Read {
        fd: i32,
        buffer: Buffer,
        offset: Option<i64>,
    },
    Write {
        fd: i32,
        buffer: Buffer,
        offset: Option<i64>,
    },
    CopyRange {
        from: i32,
        from_offset: u64,
        to: i32,
        to_offset: u64,
        len: u64,
    },
    Truncate {
        at: At,
        len: u64,
    },
    Ftruncate {
        fd: i32,
        len: u64,
    },
    Fallocate {
        fd: i32,
        offset: u64,
        len: u64,
    },
    Seek {
        fd: i32,
    },
    Rename {
        from: At,
        to: At,
        flags: u32,
    },
    Link {
        from: At,
        to: At,
        flags: i32,
    },
    Symlink {
        target: u64,
        at: At,
    },
    Unlink {
        at: At,
    },
    Rmdir {
        at: At,
    },
    Mkdir {
        at: At,
    },
    Mknod {
        at: At,
    },
    List {
        fd: i32,
        buffer: u64,
        wide: bool,
    },
    Stat {
        at: At,
        buffer: u64,
        follow: bool,
        extended: bool,
    },
    Access {
        at: At,
        follow: bool,
    },
    /// What a file system holds and has room for (`struct statfs`).
    FileSystem {
        buffer: u64,
    },
    Readlink {
        at: At,
        buffer: u64,
        len: u64,
    },
    Chmod {
        at: At,
        follow: bool,
    },
    Utime {
        at: At,
        follow: bool,
        times: Times,
    },
    XattrGet {
        at: At,
        follow: bool,
    },
    XattrSet {
        at: At,
        follow: bool,
    },
    Flock {
        fd: i32,
        op: i32,
    },
    Fcntl {
        fd: i32,
        cmd: i32,
        arg: u64,
    },
    Sync {
        fd: Option<i32>,
        kind: SyncKind,
    },
    Map {
        fd: i32,
        protection: i32,
        flags: i32,
    },
    Chdir {
        at: At,
    },
    Exec {
        at: At,
    },
    Fork,
    Random {
        buffer: u64,
        len: u64,
    },
    Clock(ClockRead),
    SleepFor {
        request: u64,
        remaining: u64,
    },
    SleepOn {
        clock: i32,
        flags: i32,
        request: u64,
        remaining: u64,
    },
    /// A call that may wait for something of the actor's own (a child, a futex, a pipe, a signal).
    Wait {
        timeout: Timeout,
        on_timeout: OnTimeout,
        watch: Watch,
    },
    Yield,
    /// Makes itself reachable at an address.
    Bind {
        fd: i32,
        address: u64,
        len: u64,
    },
    Listen {
        fd: i32,
    },
    Shutdown {
        fd: i32,
    },
    /// Receives from a socket.
    Receive {
        fd: i32,
        buffer: Buffer,
        no_wait: bool,
    },
    /// Sends into a socket, to an address if one is given. `message`: the `msghdr`, if there is one.
    Send {
        fd: i32,
        buffer: Buffer,
        no_wait: bool,
        address: u64,
        len: u64,
        message: u64,
    },
    Timer(TimerCall),
    /// Begins to watch a file with inotify.
    Notify {
        at: At,
        mask: u32,
    },
    /// Sends a signal (0: only asks whether the process lives) to a process; negative and 0 are groups.
    Kill {
        process: i32,
        signal: i32,
    },
    /// Sends a signal to the process of a process descriptor.
    KillByDescriptor {
        fd: i32,
        signal: i32,
    },
    /// Asks for its own process or thread number.
    Identity,
    /// Says where its thread number is kept.
    TidAddress {
        address: u64,
    },
    Connect {
        fd: i32,
        address: u64,
        len: u64,
    },
    Accept {
        fd: i32,
    },
    Affinity {
        size: u64,
        mask: u64,
    },
    Cpu {
        cpu: u64,
        node: u64,
    },
    /// Known not to be controlled: what it is, for the warning.
    Uncontrolled(&'static str),
}

/// The times argument of the utime family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Times {
    /// Two `timespec` (0: now).
    Timespec(u64),
    /// Two `timeval` (0: now).
    Timeval(u64),
    /// `struct utimbuf` (0: now).
    Utimbuf(u64),
}

/// What a sync promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncKind {
    /// One file or directory; with `data_only` no more of its metadata than reading it back needs.
    File { data_only: bool },
    /// Everything.
    All,
    /// Nothing that outlasts a power cut.
    Nothing,
}
