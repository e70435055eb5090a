//! Layout of the kernel's structures on x86_64 (offsets in bytes), as far as results are rewritten.

/// `struct stat`.
pub(crate) mod stat {
    pub(crate) const SIZE: usize = 144;
    pub(crate) const DEV: usize = 0;
    pub(crate) const INO: usize = 8;
    pub(crate) const NLINK: usize = 16;
    pub(crate) const MODE: usize = 24;
    pub(crate) const LEN: usize = 48;
    pub(crate) const BLOCKS: usize = 64;
    pub(crate) const ATIME: usize = 72;
    pub(crate) const MTIME: usize = 88;
    pub(crate) const CTIME: usize = 104;
}

/// `struct statfs`.
pub(crate) mod statfs {
    pub(crate) const SIZE: usize = 120;
    pub(crate) const BLOCKS: usize = 16;
    pub(crate) const FREE: usize = 24;
    pub(crate) const AVAILABLE: usize = 32;
    pub(crate) const FILES: usize = 40;
    pub(crate) const FILES_FREE: usize = 48;
    pub(crate) const ID: usize = 56;
}

/// `struct sysinfo`.
pub(crate) mod sysinfo {
    pub(crate) const SIZE: usize = 112;
    pub(crate) const UPTIME: usize = 0;
    pub(crate) const RAM: usize = 32;
    pub(crate) const FREE_RAM: usize = 40;
    pub(crate) const PROCESSES: usize = 80;
    pub(crate) const UNIT: usize = 104;
}

/// `struct statx`, the same on every processor.
pub(crate) mod statx {
    pub(crate) const SIZE: usize = 256;
    pub(crate) const NLINK: usize = 16;
    pub(crate) const MODE: usize = 28;
    pub(crate) const INO: usize = 32;
    pub(crate) const LEN: usize = 40;
    pub(crate) const BLOCKS: usize = 48;
    pub(crate) const ATIME: usize = 64;
    pub(crate) const BTIME: usize = 80;
    pub(crate) const CTIME: usize = 96;
    pub(crate) const MTIME: usize = 112;
    pub(crate) const DEV_MAJOR: usize = 136;
    pub(crate) const DEV_MINOR: usize = 140;
    pub(crate) const MOUNT_ID: usize = 144;
}
