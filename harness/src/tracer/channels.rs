//! Pipes, sockets and queues of file events between actors: what they are called, whether a call on one would wait,
//! and what it touches.
//!
//! What only the processes of one actor can reach (a pipe, a socket pair) is no channel: it runs natively. A call on a
//! channel that would wait is held *before* it is made, as one that wants a lock is: whether it would is asked of the
//! kernel through a borrowed descriptor, so that nothing is consumed by asking.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    os::fd::{AsFd, OwnedFd},
};

use nix::{
    errno::Errno,
    libc,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd::Pid,
};
use rustix::fs::{FileType, OFlags};

use super::{
    calls::{Call, Watch},
    draft::{After, Draft},
    machine::Machine,
    memory,
    opened::Opened,
};
use crate::world::{Access, Inode, Mode, Object, Op, Sync};

/// A name by which a socket is reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Address {
    /// The real inode of a socket file in the world.
    File(u64),
    /// An abstract name.
    Name(Vec<u8>),
    /// A port of this machine.
    Port(u16),
}

/// What an open descriptor of a channel leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    /// Where what is received comes from.
    pub incoming: Option<u64>,
    /// Where what is sent goes.
    pub outgoing: Option<u64>,
    /// For people.
    pub name: String,
}

impl Ends {
    fn objects(&self) -> impl Iterator<Item = u64> {
        let second = self.outgoing.filter(|o| Some(*o) != self.incoming);
        self.incoming.into_iter().chain(second)
    }
}

/// Somebody who can be reached.
#[derive(Debug)]
struct Listener {
    object: u64,
    name: String,
    /// Connections made and not accepted yet: they are accepted in the order in which they were made.
    waiting: VecDeque<u64>,
}

/// The channels of one run.
#[derive(Debug, Default)]
pub(super) struct Channels {
    /// Actors that have opened any: only their descriptors are looked at.
    pub users: BTreeSet<usize>,
    listeners: BTreeMap<Address, Listener>,
    /// Sockets with a name, by their real inode.
    bound: BTreeMap<u64, Address>,
    /// Connected sockets, by their real inode.
    ends: BTreeMap<u64, Ends>,
    made: BTreeMap<usize, u64>,
}

impl Channels {
    /// A socket got a name.
    pub(super) fn bind(&mut self, socket: u64, address: Address, stable: &[u8], name: String) {
        self.bound.insert(socket, address.clone());
        self.listeners.insert(address, Listener { object: object(stable), name, waiting: VecDeque::new() });
    }

    /// What connecting to an address (or sending there) touches, if anybody was reachable there in this run.
    pub(super) fn reach(&self, address: &Address) -> Option<(u64, String)> {
        self.listeners.get(address).map(|l| (l.object, l.name.clone()))
    }

    /// The object of a named socket.
    pub(super) fn own(&self, socket: u64) -> Option<(u64, String)> {
        self.bound.get(&socket).and_then(|address| self.reach(address))
    }

    /// A socket was connected to an address. `stream`: it gets a connection of its own.
    pub(super) fn connect(&mut self, socket: u64, address: &Address, actor: usize, stream: bool) {
        let own = self.own(socket).map(|(object, _)| object);
        let Some(listener) = self.listeners.get_mut(address) else { return };
        let name = listener.name.clone();
        if !stream {
            let ends = Ends { incoming: own, outgoing: Some(listener.object), name };
            self.ends.insert(socket, ends);
            return;
        }
        let count = self.made.entry(actor).or_default();
        *count += 1;
        let connection = object(format!("connection {actor} {count}").as_bytes()) & !1;
        listener.waiting.push_back(connection);
        self.ends.insert(socket, Ends { incoming: Some(connection), outgoing: Some(connection | 1), name });
    }

    /// A connection was accepted: `socket` is the new one.
    pub(super) fn accept(&mut self, listening: u64, socket: u64) {
        let Some(address) = self.bound.get(&listening) else { return };
        let Some(listener) = self.listeners.get_mut(address) else { return };
        let name = listener.name.clone();
        if let Some(connection) = listener.waiting.pop_front() {
            self.ends.insert(socket, Ends { incoming: Some(connection | 1), outgoing: Some(connection), name });
        }
    }
}

/// Whether any of these is ready, after so long at most. The tracer's own timer interrupts even a look that does not wait,
/// and that says nothing of them.
pub(super) fn look(fds: &mut [PollFd<'_>], patience: PollTimeout) -> bool {
    answered(|| poll(fds, patience))
}

/// What a look that may be interrupted says in the end.
fn answered(mut look: impl FnMut() -> Result<i32, Errno>) -> bool {
    loop {
        match look() {
            Err(Errno::EINTR) => {}
            // What cannot be looked at does not make a call wait either.
            looked => return looked.map_or(true, |ready| ready > 0),
        }
    }
}

/// A number for something that has a name which does not depend on the order in which actors ran.
pub(super) fn object(stable: &[u8]) -> u64 {
    let hash = blake3::hash(stable);
    u64::from_le_bytes(std::array::from_fn(|i| hash.as_bytes()[i]))
}

/// The accesses of receiving (or accepting, or waiting for that).
fn take(object: u64, mode: Mode, waits: bool) -> Access {
    Access { sync: Some(Sync::Take { waits }), ..Access::new(Object::Channel(object), mode) }
}

/// The accesses of sending, connecting, closing.
pub(super) fn free(object: u64) -> Access {
    Access { sync: Some(Sync::Free), ..Access::new(Object::Channel(object), Mode::Write) }
}

impl Machine {
    /// What a descriptor leads to, if it is one of a channel.
    pub(super) fn channel(&mut self, pid: Pid, fd: i32, file: &Opened) -> Option<Ends> {
        match file.kind() {
            FileType::Fifo if file.world => {
                let number = self.number(pid, file.inode);
                Some(self.fifo(number, self.path_of(pid, fd)))
            }
            FileType::Socket => self.channels.ends.get(&file.inode).cloned().or_else(|| {
                let (own, name) = self.channels.own(file.inode)?;
                Some(Ends { incoming: Some(own), outgoing: None, name })
            }),
            FileType::Unknown => self.event_queue(pid, fd),
            _ => None,
        }
    }

    /// A named pipe.
    pub(super) fn fifo(&self, number: Inode, name: String) -> Ends {
        let fifo = Some(object(format!("fifo {}", number.0).as_bytes()));
        Ends { incoming: fifo, outgoing: fifo, name }
    }

    /// As [`channel`](Machine::channel), for a descriptor that was not looked at yet.
    pub(super) fn channel_of(&mut self, pid: Pid, fd: i32) -> Option<Ends> {
        if !self.channels.users.contains(&self.task(pid).actor) {
            return None;
        }
        let file = self.inspect(pid, fd)?;
        self.channel(pid, fd, &file)
    }

    /// This actor has a channel from now on.
    pub(super) fn uses_channels(&mut self, pid: Pid) {
        let actor = self.task(pid).actor;
        self.channels.users.insert(actor);
    }

    /// Receiving from a channel.
    pub(super) fn draft_receive(&mut self, pid: Pid, fd: i32, ends: &Ends, no_wait: bool) -> Draft {
        let mut draft = Draft::new(Op::Receive);
        draft.path = Some(ends.name.clone());
        draft.until_ready = !no_wait && self.is_blocking(pid, fd);
        draft.flag(!draft.until_ready, "nonblock");
        draft.accesses.extend(ends.incoming.map(|o| take(o, Mode::Write, draft.until_ready)));
        draft.after = After::Data;
        draft
    }

    /// Sending into a channel.
    pub(super) fn draft_send(&mut self, pid: Pid, fd: i32, ends: &Ends, no_wait: bool) -> Draft {
        let mut draft = Draft::new(Op::Send);
        draft.path = Some(ends.name.clone());
        draft.until_ready = !no_wait && self.is_blocking(pid, fd);
        draft.flag(!draft.until_ready, "nonblock");
        draft.accesses.extend(ends.outgoing.map(free));
        draft.after = After::Sent;
        draft
    }

    /// Accepting a connection.
    pub(super) fn draft_accept(&mut self, pid: Pid, fd: i32) -> Draft {
        let mut draft = Draft::new(Op::Accept);
        let Some(ends) = self.channel_of(pid, fd) else { return draft };
        draft.path = Some(ends.name.clone());
        draft.until_ready = self.is_blocking(pid, fd);
        draft.accesses.extend(ends.incoming.map(|o| take(o, Mode::Write, draft.until_ready)));
        draft.after = After::Accepted { listening: self.inspect(pid, fd).map_or(0, |f| f.inode) };
        draft
    }

    /// Waiting until any of several descriptors is ready.
    pub(super) fn draft_poll(&mut self, pid: Pid, watch: Watch, waits: bool) -> Draft {
        let mut draft = Draft::new(Op::Stat);
        draft.flag(true, "poll");
        draft.until_ready = waits;
        let mut names = Vec::new();
        for (fd, wanted) in self.watched_fds(pid, watch) {
            let Some(ends) = self.channel_of(pid, fd) else { continue };
            if !names.contains(&ends.name) {
                names.push(ends.name.clone());
            }
            let wanted = [
                ends.incoming.filter(|_| wanted.contains(PollFlags::POLLIN)),
                ends.outgoing.filter(|_| wanted.contains(PollFlags::POLLOUT)),
            ];
            for object in wanted.into_iter().flatten() {
                draft.accesses.push(take(object, Mode::Read, waits));
            }
        }
        draft.path = Some(names.join(" "));
        draft
    }

    /// What closing a descriptor of a channel tells the others: the end of what it sends, and that nobody receives.
    pub(super) fn closes_channel(&mut self, pid: Pid, fd: i32) -> Vec<Access> {
        self.channel_of(pid, fd).map(|ends| ends.objects().map(free).collect()).unwrap_or_default()
    }

    /// Whether a waiting call watches a channel.
    pub(super) fn watches_channel(&mut self, pid: Pid, watch: Watch) -> bool {
        watch != Watch::Nothing
            && self.channels.users.contains(&self.task(pid).actor)
            && self.watched_fds(pid, watch).into_iter().any(|(fd, _)| self.channel_of(pid, fd).is_some())
    }

    fn is_blocking(&self, pid: Pid, fd: i32) -> bool {
        self.inspect(pid, fd).is_some_and(|file| !file.flags().contains(OFlags::NONBLOCK))
    }

    /// Whether a call on channels can be made without waiting.
    pub(super) fn is_ready_now(&self, pid: Pid, call: &Call) -> bool {
        let wanted = match *call {
            Call::Read { fd, .. } | Call::Receive { fd, .. } | Call::Accept { fd } => vec![(fd, PollFlags::POLLIN)],
            Call::Write { fd, .. } | Call::Send { fd, .. } => vec![(fd, PollFlags::POLLOUT)],
            Call::CopyRange { from, to, .. } => {
                // Both ends must be ready; files always are.
                return self.any_ready(pid, &[(from, PollFlags::POLLIN)])
                    && self.any_ready(pid, &[(to, PollFlags::POLLOUT)]);
            }
            // An epoll descriptor can be asked itself, which consumes no events.
            Call::Wait { watch: Watch::Epoll { fd }, .. } => vec![(fd, PollFlags::POLLIN)],
            Call::Wait { watch, .. } => self.watched_fds(pid, watch),
            _ => return true,
        };
        self.any_ready(pid, &wanted)
    }

    fn any_ready(&self, pid: Pid, wanted: &[(i32, PollFlags)]) -> bool {
        let open: Vec<(OwnedFd, PollFlags)> =
            wanted.iter().filter_map(|(fd, flags)| Some((self.inspect(pid, *fd)?.file, *flags))).collect();
        // The call fails at once for what is not open.
        if open.len() < wanted.len() {
            return true;
        }
        let mut fds: Vec<PollFd<'_>> = open.iter().map(|(fd, flags)| PollFd::new(fd.as_fd(), *flags)).collect();
        look(&mut fds, PollTimeout::ZERO)
    }

    /// The descriptors that a waiting call watches, and for what.
    pub(super) fn watched_fds(&self, pid: Pid, watch: Watch) -> Vec<(i32, PollFlags)> {
        /// More than any program has open.
        const MOST: u64 = 65_536;
        match watch {
            Watch::Nothing => Vec::new(),
            Watch::Poll { fds, count } => {
                let mut bytes = vec![0; count.min(MOST) as usize * 8];
                if memory::read(pid, fds, &mut bytes).is_err() {
                    return Vec::new();
                }
                let one = |b: &[u8]| {
                    let fd = i32::from_ne_bytes([b[0], b[1], b[2], b[3]]);
                    (fd, PollFlags::from_bits_truncate(i16::from_ne_bytes([b[4], b[5]])))
                };
                bytes.chunks_exact(8).map(one).filter(|(fd, _)| *fd >= 0).collect()
            }
            Watch::Select { count, sets } => {
                const WANTED: [PollFlags; 3] = [PollFlags::POLLIN, PollFlags::POLLOUT, PollFlags::POLLPRI];
                let mut all: BTreeMap<i32, PollFlags> = BTreeMap::new();
                for (set, wanted) in sets.into_iter().zip(WANTED).filter(|(set, _)| *set != 0) {
                    let mut bytes = vec![0; (count.min(MOST) as usize).div_ceil(64) * 8];
                    if memory::read(pid, set, &mut bytes).is_ok() {
                        let set = (0..count.min(MOST) as usize).filter(|fd| bytes[fd / 8] & (1 << (fd % 8)) != 0);
                        set.for_each(|fd| *all.entry(fd as i32).or_insert(PollFlags::empty()) |= wanted);
                    }
                }
                all.into_iter().collect()
            }
            Watch::Epoll { fd } => {
                let Ok(info) = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")) else { return Vec::new() };
                let one = |line: &str| {
                    let mut words = line.strip_prefix("tfd:")?.split_whitespace();
                    let fd = words.next()?.parse().ok()?;
                    let events = u32::from_str_radix(words.nth(1)?, 16).ok()?;
                    Some((fd, PollFlags::from_bits_truncate(events as i16)))
                };
                info.lines().filter_map(one).collect()
            }
        }
    }

    /// The wait of a held task is over: nothing was ready in time.
    pub(super) fn time_out_result(&self, pid: Pid, call: &Call) -> i64 {
        match *call {
            Call::Wait { watch: Watch::Poll { fds, count }, .. } => {
                for i in 0..count.min(65_536) {
                    let _ = memory::write(pid, fds + i * 8 + 6, &[0; 2]);
                }
                0
            }
            Call::Wait { watch: Watch::Select { count, sets }, .. } => {
                let zeros = vec![0; (count.min(65_536) as usize).div_ceil(64) * 8];
                for set in sets.into_iter().filter(|s| *s != 0) {
                    let _ = memory::write(pid, set, &zeros);
                }
                0
            }
            Call::Wait { .. } => 0,
            _ => -i64::from(libc::EAGAIN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_accepted_in_the_order_in_which_they_were_made() {
        let mut channels = Channels::default();
        let place = Address::File(9);
        channels.bind(100, place.clone(), b"file 7", "s".into());
        channels.connect(200, &place, 1, true);
        channels.connect(201, &place, 2, true);
        channels.accept(100, 300);
        channels.accept(100, 301);
        for (client, server) in [(200, 300), (201, 301)] {
            let (client, server) = (&channels.ends[&client], &channels.ends[&server]);
            assert_eq!(client.incoming, server.outgoing);
            assert_eq!(client.outgoing, server.incoming);
            assert_ne!(client.incoming, client.outgoing);
        }
        assert_ne!(channels.ends[&200], channels.ends[&201]);
    }

    #[test]
    fn an_interrupted_look_says_nothing() {
        for (then, ready) in [(Ok(0), false), (Ok(1), true), (Err(Errno::EBADF), true)] {
            let mut looks = vec![then, Err(Errno::EINTR), Err(Errno::EINTR)];
            assert_eq!(answered(|| looks.pop().unwrap()), ready, "{then:?}");
            assert!(looks.is_empty());
        }
    }

    #[test]
    fn a_connection_is_known_by_its_maker_and_its_number_only() {
        let number = |order: &[(u64, usize)]| {
            let mut channels = Channels::default();
            channels.bind(100, Address::Port(80), b"port 80", ":80".into());
            order.iter().for_each(|(socket, actor)| channels.connect(*socket, &Address::Port(80), *actor, true));
            channels.ends[&1].clone()
        };
        assert_eq!(number(&[(1, 0), (2, 1)]), number(&[(2, 1), (1, 0)]));
    }
}
