//! Layout of the kernel's structures on x86_64 (offsets in bytes), as far as results are rewritten.

/// `struct stat`.
pub(in super::super) mod stat {
    pub(in super::super::super) const SIZE: usize = 144;
    pub(in super::super::super) const DEV: usize = 0;
    pub(in super::super::super) const INO: usize = 8;
    pub(in super::super::super) const NLINK: usize = 16;
    pub(in super::super::super) const MODE: usize = 24;
    pub(in super::super::super) const LEN: usize = 48;
    pub(in super::super::super) const BLOCKS: usize = 64;
    pub(in super::super::super) const ATIME: usize = 72;
    pub(in super::super::super) const MTIME: usize = 88;
    pub(in super::super::super) const CTIME: usize = 104;
}

/// `struct statx`, the same on every processor.
pub(in super::super) mod statx {
    pub(in super::super::super) const SIZE: usize = 256;
    pub(in super::super::super) const NLINK: usize = 16;
    pub(in super::super::super) const MODE: usize = 28;
    pub(in super::super::super) const INO: usize = 32;
    pub(in super::super::super) const LEN: usize = 40;
    pub(in super::super::super) const BLOCKS: usize = 48;
    pub(in super::super::super) const ATIME: usize = 64;
    pub(in super::super::super) const BTIME: usize = 80;
    pub(in super::super::super) const CTIME: usize = 96;
    pub(in super::super::super) const MTIME: usize = 112;
    pub(in super::super::super) const DEV_MAJOR: usize = 136;
    pub(in super::super::super) const DEV_MINOR: usize = 140;
    pub(in super::super::super) const MOUNT_ID: usize = 144;
}
