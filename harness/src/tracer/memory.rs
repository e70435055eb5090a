//! Reading and writing a stopped task's memory.

use std::io::{IoSlice, IoSliceMut};

use nix::{
    errno::Errno,
    sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev},
    unistd::Pid,
};

use super::calls::Buffer;

/// Longest path, as the kernel has it.
const PATH_MAX: usize = 4096;
/// Most `iovec`s in one call, as the kernel has it.
const IOV_MAX: u64 = 1024;
const PAGE: u64 = 4096;

/// Fills `into` from the task's memory; an error when not all of it can be read.
pub(super) fn read(pid: Pid, address: u64, into: &mut [u8]) -> Result<(), Errno> {
    let mut done = 0;
    while done < into.len() {
        let remote = [RemoteIoVec { base: address as usize + done, len: into.len() - done }];
        match process_vm_readv(pid, &mut [IoSliceMut::new(&mut into[done..])], &remote)? {
            0 => return Err(Errno::EFAULT),
            n => done += n,
        }
    }
    Ok(())
}

/// Writes all of `bytes` into the task's memory.
pub(super) fn write(pid: Pid, address: u64, bytes: &[u8]) -> Result<(), Errno> {
    let mut done = 0;
    while done < bytes.len() {
        let remote = [RemoteIoVec { base: address as usize + done, len: bytes.len() - done }];
        match process_vm_writev(pid, &[IoSlice::new(&bytes[done..])], &remote)? {
            0 => return Err(Errno::EFAULT),
            n => done += n,
        }
    }
    Ok(())
}

/// A NUL-terminated path. What cannot be read is empty: the call itself will then fail with EFAULT.
pub(super) fn read_path(pid: Pid, address: u64) -> Vec<u8> {
    let mut path = Vec::new();
    let mut at = address;
    while address != 0 && path.len() < PATH_MAX {
        // A string may end just before an unmapped page: never read across a border.
        let mut piece = vec![0; (PAGE - at % PAGE).min(256) as usize];
        if read(pid, at, &mut piece).is_err() {
            return Vec::new();
        }
        if let Some(end) = piece.iter().position(|b| *b == 0) {
            path.extend_from_slice(&piece[..end]);
            return path;
        }
        at += piece.len() as u64;
        path.extend_from_slice(&piece);
    }
    path
}

/// A 64-bit number.
pub(super) fn read_u64(pid: Pid, address: u64) -> Result<u64, Errno> {
    let mut bytes = [0; 8];
    read(pid, address, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Two 64-bit numbers: a `timespec`, a `timeval`, an `iovec`.
pub(super) fn read_pair(pid: Pid, address: u64) -> Result<(u64, u64), Errno> {
    Ok((read_u64(pid, address)?, read_u64(pid, address + 8)?))
}

/// The pieces of a buffer: address and length.
pub(super) fn pieces(pid: Pid, buffer: Buffer) -> Vec<(u64, u64)> {
    match buffer {
        Buffer::Flat(address, len) => vec![(address, len)],
        // `struct msghdr`: the array at 16, its length at 24.
        Buffer::Message(address) => match read_pair(pid, address + 16) {
            Ok((vector, count)) => pieces(pid, Buffer::Vector(vector, count)),
            Err(_) => Vec::new(),
        },
        Buffer::Vector(address, count) => {
            (0..count.min(IOV_MAX)).filter_map(|i| read_pair(pid, address + i * 16).ok()).collect()
        }
    }
}

/// The first `len` bytes of a buffer, as far as they can be read.
pub(super) fn read_buffer(pid: Pid, buffer: Buffer, len: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut left = len;
    for (address, size) in pieces(pid, buffer) {
        let take = size.min(left);
        let start = bytes.len();
        bytes.resize(start + take as usize, 0);
        if read(pid, address, &mut bytes[start..]).is_err() {
            bytes.truncate(start);
            break;
        }
        left -= take;
    }
    bytes
}
