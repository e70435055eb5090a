//! Sockets with a name: who binds, who connects, and what of it other actors can notice.

use nix::{
    libc,
    sys::socket::{SockType, getsockopt, sockopt},
    unistd::Pid,
};

use super::{
    arch::Registers,
    calls::{At, Call, OnTimeout, Timeout},
    channels::{Address, Ends, free, object},
    draft::{After, Draft, display},
    machine::{Lost, Machine},
    memory,
    task::{InCall, Pending, State},
};
use crate::world::{Op, Step, WarningKind};

/// Where a socket address leads, as far as it is ours to know.
#[derive(Debug)]
pub(super) enum Place {
    /// A path in the world; the socket file's real inode, if it exists.
    World(At, Option<u64>),
    /// An abstract name or a port of this machine.
    Named(Address),
    /// A path or machine outside: for people.
    Outside(String),
    /// None at all, or a family that is no way between actors.
    Nowhere,
}

impl Machine {
    /// Reads a socket address of a task.
    pub(super) fn place(&mut self, pid: Pid, at: u64, len: u64) -> Place {
        /// `struct sockaddr_un`, the longest that matters.
        const LONGEST: u64 = 110;
        let mut bytes = vec![0; len.min(LONGEST) as usize];
        if at == 0 || bytes.len() < 3 || memory::read(pid, at, &mut bytes).is_err() {
            return Place::Nowhere;
        }
        let port = || u16::from_be_bytes([bytes[2], bytes[3]]);
        match i32::from(u16::from_ne_bytes([bytes[0], bytes[1]])) {
            libc::AF_UNIX if bytes[2] == 0 => Place::Named(Address::Name(bytes[3..].to_vec())),
            libc::AF_UNIX => {
                let path = At::cwd(at + 2);
                let walk = self.lookup(pid, path, true);
                if walk.touches_world() {
                    Place::World(path, walk.target.map(|t| t.0))
                } else {
                    Place::Outside(display(&String::from_utf8_lossy(&memory::read_path(pid, at + 2))))
                }
            }
            libc::AF_INET if bytes.len() >= 8 => match bytes[4] {
                0 | 127 => Place::Named(Address::Port(port())),
                _ => Place::Outside(format!("{}.{}.{}.{}:{}", bytes[4], bytes[5], bytes[6], bytes[7], port())),
            },
            libc::AF_INET6 if bytes.len() >= 24 => {
                let mut octets = [0; 16];
                octets.copy_from_slice(&bytes[8..24]);
                let address = std::net::Ipv6Addr::from(octets);
                let mapped = address.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback());
                if address.is_loopback() || address.is_unspecified() || mapped {
                    Place::Named(Address::Port(port()))
                } else {
                    Place::Outside(format!("[{address}]:{}", port()))
                }
            }
            _ => Place::Nowhere,
        }
    }

    /// A socket call that other actors may notice is held; others run natively.
    pub(super) fn dispatch_socket(&mut self, pid: Pid, call: Call, entry: Registers) -> Result<(), Lost> {
        let held = Pending::Call { call, entry };
        let native = |machine: &mut Machine| machine.start_wait(pid, Timeout::None, OnTimeout::Zero, entry);
        match call {
            Call::Bind { address, len, .. } => match self.place(pid, address, len) {
                Place::World(..) | Place::Named(_) => {
                    self.uses_channels(pid);
                    self.hold(pid, held)
                }
                Place::Outside(name) => {
                    let actor = self.actor_name(pid);
                    let text = format!("{actor} can be reached at {name}, outside the world: that is not explored");
                    self.warn(WarningKind::NotControlled, text);
                    self.go_on(pid, 0)
                }
                Place::Nowhere => self.go_on(pid, 0),
            },
            Call::Connect { address, len, .. } => match self.place(pid, address, len) {
                Place::World(..) | Place::Named(_) => {
                    self.uses_channels(pid);
                    self.hold(pid, held)
                }
                Place::Outside(_) => self.call(pid, State::Calling(InCall::Connecting { address, len })),
                Place::Nowhere => native(self),
            },
            Call::Listen { fd } => match self.channel_of(pid, fd) {
                Some(_) => self.hold(pid, held),
                None => self.go_on(pid, 0),
            },
            Call::Accept { fd } | Call::Shutdown { fd } | Call::Receive { fd, .. } => match self.channel_of(pid, fd) {
                Some(_) => self.hold(pid, held),
                None => native(self),
            },
            Call::Send { fd, address, len, .. } => {
                let named = address != 0 && matches!(self.place(pid, address, len), Place::World(..) | Place::Named(_));
                if named {
                    self.uses_channels(pid);
                }
                if named || self.channel_of(pid, fd).is_some() { self.hold(pid, held) } else { native(self) }
            }
            _ => self.go_on(pid, 0),
        }
    }

    /// A connection to something outside was made, or is being made: nothing said there is controlled.
    pub(super) fn connected_outside(&mut self, pid: Pid, address: u64, len: u64, result: i64) {
        if result != 0 && result != -i64::from(libc::EINPROGRESS) {
            return;
        }
        if let Place::Outside(name) = self.place(pid, address, len) {
            let actor = self.actor_name(pid);
            let text = format!("{actor} talks to {name}, outside the world: what is said there is not controlled");
            self.warn(WarningKind::NotControlled, text);
        }
    }

    /// What a socket call will touch.
    pub(super) fn draft_socket(&mut self, pid: Pid, call: Call) -> Draft {
        match call {
            Call::Bind { address, len, .. } => match self.place(pid, address, len) {
                Place::World(at, _) => {
                    let mut draft = self.draft_new_name(pid, at, Op::Create);
                    draft.flag(true, "socket");
                    if let After::Named { at, dir } = draft.after {
                        draft.after = After::Bound { named: Some((at, dir)) };
                    }
                    draft
                }
                Place::Named(address) => {
                    let mut draft = Draft::new(Op::Create);
                    draft.flag(true, "socket");
                    draft.path = Some(name(&address));
                    draft.accesses.push(free(object(&stable(&address))));
                    draft.after = After::Bound { named: None };
                    draft
                }
                _ => Draft::new(Op::Create),
            },
            Call::Listen { fd } | Call::Shutdown { fd } => {
                let mut draft = Draft::new(if matches!(call, Call::Listen { .. }) { Op::Access } else { Op::Close });
                draft.flag(true, if matches!(call, Call::Listen { .. }) { "listen" } else { "shutdown" });
                draft.accesses = self.closes_channel(pid, fd);
                draft.path = self.channel_of(pid, fd).map(|ends| ends.name);
                draft
            }
            Call::Connect { address, len, .. } => self.draft_reach(pid, address, len, Op::Connect),
            Call::Accept { fd } => self.draft_accept(pid, fd),
            Call::Receive { fd, no_wait, .. } => match self.channel_of(pid, fd) {
                Some(ends) => self.draft_receive(pid, fd, &ends, no_wait),
                None => Draft::new(Op::Receive),
            },
            Call::Send { fd, address, len, no_wait, .. } => {
                let mut draft = match address {
                    0 => Draft::new(Op::Send),
                    _ => self.draft_reach(pid, address, len, Op::Send),
                };
                let ends =
                    self.channel_of(pid, fd).unwrap_or(Ends { incoming: None, outgoing: None, name: String::new() });
                let plain = self.draft_send(pid, fd, &ends, no_wait);
                draft.accesses.extend(plain.accesses);
                draft.path = draft.path.or(plain.path);
                draft.until_ready = plain.until_ready;
                draft.after = After::Sent;
                draft
            }
            _ => Draft::new(Op::Access),
        }
    }

    /// Connecting, or sending without a connection: every name on the way is read.
    fn draft_reach(&mut self, pid: Pid, at: u64, len: u64, op: Op) -> Draft {
        let (mut draft, address) = match self.place(pid, at, len) {
            Place::World(path, target) => {
                let (draft, _) = self.draft_at(pid, path, true, op);
                (draft, target.map(Address::File))
            }
            Place::Named(address) => {
                let mut draft = Draft::new(op);
                draft.path = Some(name(&address));
                (draft, Some(address))
            }
            _ => (Draft::new(op), None),
        };
        draft.file = None;
        let reached = address.as_ref().and_then(|a| match a {
            Address::File(_) => self.channels.reach(a).map(|(object, _)| object),
            named => Some(object(&stable(named))),
        });
        draft.accesses.extend(reached.map(free));
        draft.after = After::Connected { address };
        draft
    }

    /// A socket got its name.
    pub(super) fn bound(&mut self, pid: Pid, call: &Call, named: Option<(At, u64)>, step: &mut Step) {
        let Call::Bind { fd, address, len } = *call else { return };
        let Some(socket) = self.inspect(pid, fd).map(|f| f.inode) else { return };
        let shown = step.path.clone().unwrap_or_default();
        match named {
            Some((at, dir)) => {
                let (actor, now) = (self.task(pid).actor, self.clock.wall());
                self.inodes.modified(dir, actor, now);
                if let Some((file, _)) = self.lookup(pid, at, false).target {
                    let number = self.inodes.number(file, actor, now);
                    step.inode = Some(number);
                    self.channels.bind(socket, Address::File(file), format!("file {}", number.0).as_bytes(), shown);
                }
            }
            None => {
                if let Place::Named(address) = self.place(pid, address, len) {
                    if address == Address::Port(0) {
                        let actor = self.actor_name(pid);
                        let text = format!("{actor} takes any free port: its number differs from run to run");
                        self.warn(WarningKind::NotControlled, text);
                    }
                    let stable = stable(&address);
                    self.channels.bind(socket, address, &stable, shown);
                }
            }
        }
    }

    /// A socket was connected.
    pub(super) fn connected(&mut self, pid: Pid, call: &Call, address: Option<&Address>) {
        let Call::Connect { fd, .. } = *call else { return };
        let (Some(file), Some(address)) = (self.inspect(pid, fd), address) else { return };
        if self.channels.reach(address).is_none() {
            let actor = self.actor_name(pid);
            let text = format!(
                "{actor} talks to {}, where no worker listens: what is said there is not controlled",
                name(address)
            );
            self.warn(WarningKind::NotControlled, text);
            return;
        }
        let stream = !matches!(getsockopt(&file.file, sockopt::SockType), Ok(SockType::Datagram));
        let actor = self.task(pid).actor;
        self.channels.connect(file.inode, address, actor, stream);
    }

    /// Descriptors sent to another actor lead to objects that then have two owners.
    pub(super) fn sent(&mut self, pid: Pid, call: &Call) {
        let Call::Send { message, .. } = *call else { return };
        // `struct msghdr`: control messages at 32, their length at 40.
        let Ok((control, len)) = memory::read_pair(pid, message + 32) else { return };
        if message == 0 || control == 0 || len < 16 {
            return;
        }
        let mut header = [0; 16];
        let level = |h: &[u8; 16], at: usize| i32::from_ne_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
        if memory::read(pid, control, &mut header).is_ok()
            && level(&header, 8) == libc::SOL_SOCKET
            && level(&header, 12) == libc::SCM_RIGHTS
        {
            let actor = self.actor_name(pid);
            let text =
                format!("{actor} hands an open descriptor to another worker: what both do with it is not explored");
            self.warn(WarningKind::NotControlled, text);
        }
    }
}

/// An address as the text from which its object is made.
fn stable(address: &Address) -> Vec<u8> {
    match address {
        Address::File(inode) => format!("inode {inode}").into_bytes(),
        Address::Name(name) => [b"name ", &name[..]].concat(),
        Address::Port(port) => format!("port {port}").into_bytes(),
    }
}

fn name(address: &Address) -> String {
    match address {
        Address::File(_) => "socket".into(),
        Address::Name(name) => format!("@{}", String::from_utf8_lossy(name).escape_debug()),
        Address::Port(port) => format!("port {port}"),
    }
}
