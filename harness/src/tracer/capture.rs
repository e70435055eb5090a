//! The standard output and error of a worker: pipes that the engine empties.

use std::{
    io::Read,
    os::fd::{AsFd, OwnedFd},
};

/// As much as a pipe may hold while nobody empties it.
const PIPE_SIZE: i32 = 1 << 20;

/// One captured stream.
#[derive(Debug)]
struct Stream {
    pipe: std::fs::File,
    inode: u64,
    bytes: Vec<u8>,
    total: u64,
    /// Written by a template before it was parked: every fork's output begins with it.
    prefix: Vec<u8>,
}

/// Both streams of a worker.
#[derive(Debug)]
pub(super) struct Capture {
    streams: [Stream; 2],
    limit: u64,
}

impl Capture {
    /// Makes the pipes; returns the ends for the worker: its standard output and error.
    pub(super) fn new(limit: u64) -> std::io::Result<(Self, [OwnedFd; 2])> {
        let (out, out_end) = stream()?;
        let (err, err_end) = stream()?;
        Ok((Capture { streams: [out, err], limit }, [out_end, err_end]))
    }

    /// Takes what has been written so far. Returns whether there was anything.
    pub(super) fn drain(&mut self) -> bool {
        let mut any = false;
        for stream in &mut self.streams {
            let mut piece = [0; 16 * 1024];
            while let Ok(n @ 1..) = stream.pipe.read(&mut piece) {
                any = true;
                stream.total += n as u64;
                let room = (self.limit as usize).saturating_sub(stream.bytes.len());
                stream.bytes.extend_from_slice(&piece[..n.min(room)]);
            }
        }
        any
    }

    /// Which of the two streams this pipe takes, if it is one of ours.
    pub(super) fn stream_of(&self, inode: u64) -> Option<usize> {
        self.streams.iter().position(|s| s.inode == inode)
    }

    /// Whether more was written than is kept.
    pub(super) fn overflowed(&self) -> bool {
        self.streams.iter().any(|s| s.total > self.limit)
    }

    /// Bytes kept per stream.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// The standard output so far.
    pub(super) fn output(&self) -> &[u8] {
        &self.streams[0].bytes
    }

    /// What was written: output and error.
    pub(super) fn bytes(&self) -> [Vec<u8>; 2] {
        [self.streams[0].bytes.clone(), self.streams[1].bytes.clone()]
    }

    /// What was written so far comes first in every use from now on.
    pub(super) fn keep_as_prefix(&mut self) {
        self.drain();
        for stream in &mut self.streams {
            stream.prefix = std::mem::take(&mut stream.bytes);
        }
        self.reset();
    }

    /// Ready for the next use.
    pub(super) fn reset(&mut self) {
        for stream in &mut self.streams {
            stream.bytes.clone_from(&stream.prefix);
            stream.total = stream.prefix.len() as u64;
        }
    }
}

fn stream() -> std::io::Result<(Stream, OwnedFd)> {
    use rustix::pipe::{PipeFlags, pipe_with};
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&read, rustix::fs::OFlags::NONBLOCK)?;
    // A smaller pipe is emptied more often, nothing else.
    let _ = rustix::pipe::fcntl_setpipe_size(read.as_fd(), PIPE_SIZE as usize);
    let inode = rustix::fs::fstat(&read)?.st_ino;
    Ok((Stream { pipe: read.into(), inode, bytes: Vec::new(), total: 0, prefix: Vec::new() }, write))
}

/// Opens `/dev/null` for a worker's standard input.
pub(super) fn null() -> std::io::Result<OwnedFd> {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    Ok(rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty())?)
}
