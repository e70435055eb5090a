//! The engine seen from outside: a process of its own inside a sandbox, which runs plans on request.
//!
//! It is a fork of the caller, not a new program, so that the library can be used from any test. Requests and answers
//! go over a socket pair; when either side dies the other notices, and everything below the engine ends with it.

use std::{
    convert::Infallible,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::net::UnixStream,
    },
    panic::AssertUnwindSafe,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    sys::signal::{Signal, kill},
    unistd::{ForkResult, Pid},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    kernel, numbers, sandbox,
    session::{PrepareError, Session},
};
use crate::{
    explore::{Lost, System},
    scenario::Scenario,
    world::{Plan, Run, Tree},
};

/// Longest message that is believed.
const MAX_MESSAGE: u32 = 1 << 30;

/// A scenario in its sandbox, on one CPU.
#[derive(Debug)]
pub struct Engine {
    socket: UnixStream,
    keeper: Pid,
    initial: Tree,
    /// Without namespaces: its folder, which does not disappear by itself.
    shared: Option<PathBuf>,
}

/// What an engine says when it is ready.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    initial: Tree,
    shared: Option<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
enum Request {
    Run(Plan),
    Templates(bool),
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer<T> {
    Done(T),
    Scenario(String),
    Machine(String),
    /// A sandbox of this kind is not to be had here.
    Refused(String),
}

/// In what an engine lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    /// Namespaces of its own.
    Private,
    /// A folder: see [`sandbox::build_shared_root`].
    Shared,
}

/// What is missing where descriptors cannot be borrowed.
const BORROW: &str = "cannot look at what other processes have open (pidfd_getfd): in Docker: --cap-add SYS_PTRACE";

impl<T> Answer<T> {
    fn from(result: Result<T, PrepareError>) -> Self {
        match result {
            Ok(value) => Answer::Done(value),
            Err(PrepareError::Scenario(e)) => Answer::Scenario(e),
            Err(PrepareError::Machine(e)) => Answer::Machine(e),
        }
    }

    fn into_result(self) -> Result<T, PrepareError> {
        match self {
            Answer::Done(value) => Ok(value),
            Answer::Scenario(e) => Err(PrepareError::Scenario(e)),
            Answer::Machine(e) | Answer::Refused(e) => Err(PrepareError::Machine(e)),
        }
    }
}

impl Engine {
    /// Starts an engine for a scenario and prepares the world. The engine of place 0 takes the CPU that the caller runs
    /// on, the next ones those after it.
    ///
    /// # Errors
    /// A mistake in the scenario, or something that this machine does not allow.
    pub fn start(scenario: &Scenario, place: usize) -> Result<Engine, PrepareError> {
        let refused = match Engine::start_in(Home::Private, scenario, place)? {
            Ok(engine) => return Ok(engine),
            Err(refused) => refused,
        };
        let cannot = |e| PrepareError::Machine(format!("{refused}; nor without namespaces: {e}"));
        Engine::start_in(Home::Shared, scenario, place)?.map_err(cannot)
    }

    /// In the inner result: why such a home is not to be had here.
    fn start_in(home: Home, scenario: &Scenario, place: usize) -> Result<Result<Engine, String>, PrepareError> {
        let machine = |e: &dyn std::fmt::Display| PrepareError::Machine(format!("cannot start the engine: {e}"));
        let (ours, theirs) = UnixStream::pair().map_err(|e| machine(&e))?;
        let cpu = cpu_of(place);
        let keeper = match kernel::fork().map_err(|e| machine(&e))? {
            ForkResult::Child => apart(|| keep(scenario, cpu, home, theirs)),
            ForkResult::Parent { child } => child,
        };
        drop(theirs);
        let mut engine = Engine { socket: ours, keeper, initial: Tree::new(), shared: None };
        let hello: Answer<Hello> = engine.receive().map_err(|e| machine(&e))?;
        if let Answer::Refused(why) = hello {
            return Ok(Err(why));
        }
        Hello { initial: engine.initial, shared: engine.shared } = hello.into_result()?;
        Ok(Ok(engine))
    }

    /// The world before the first step: after setup.
    pub fn initial(&self) -> &Tree {
        &self.initial
    }

    /// Whether it has namespaces of its own. Without them there is one world, and one schedule at a time.
    pub fn is_private(&self) -> bool {
        self.shared.is_none()
    }

    /// Runs one schedule.
    ///
    /// # Errors
    /// A worker that does not start, or an engine that died.
    pub fn run(&mut self, plan: &Plan) -> Result<Run, PrepareError> {
        self.submit(plan)?;
        self.collect()
    }

    /// Begins a schedule, whose run [`collect`](Self::collect) gives. One at a time.
    ///
    /// # Errors
    /// An engine that died.
    pub fn submit(&mut self, plan: &Plan) -> Result<(), PrepareError> {
        send(&mut self.socket, &Request::Run(plan.clone())).map_err(died)
    }

    /// Waits for the run of the plan that was submitted.
    ///
    /// # Errors
    /// A worker that does not start, or an engine that died.
    pub fn collect(&mut self) -> Result<Run, PrepareError> {
        let answer: Answer<Run> = self.receive().map_err(died)?;
        answer.into_result()
    }

    /// Whether workers are forked from parked copies of themselves from now on, or started afresh for each schedule
    /// (as at first). Copies that cannot be made are done without: for each worker that has none, why.
    ///
    /// # Errors
    /// An engine that died.
    pub fn templates(&mut self, wanted: bool) -> Result<Vec<Option<String>>, PrepareError> {
        send(&mut self.socket, &Request::Templates(wanted)).map_err(died)?;
        let answer: Answer<Vec<Option<String>>> = self.receive().map_err(died)?;
        answer.into_result()
    }

    fn receive<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        receive(&mut self.socket)
    }
}

/// Readable once the run that was submitted can be collected.
impl AsFd for Engine {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn died(e: io::Error) -> PrepareError {
    PrepareError::Machine(format!("the engine died: {e}"))
}

impl System for Engine {
    fn run(&mut self, plan: &Plan) -> Result<Run, Lost> {
        Engine::run(self, plan).map_err(|e| Lost::Engine(e.to_string()))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The keeper's death takes the engine along, and the engine's death everything in its namespace.
        let _ = kill(self.keeper, Signal::SIGKILL);
        let _ = kernel::wait_one(self.keeper, true);
        if let Some(root) = &self.shared {
            sandbox::remove_shared_root(root);
        }
    }
}

/// What a forked process does. It must not come back into the caller's code, whose destructors are not its own, and
/// would not know what to do with a panic either.
fn apart(work: impl FnOnce() -> Infallible) -> ! {
    match std::panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(never) => match never {},
        Err(_) => kernel::exit_now(4),
    }
}

/// The process between caller and engine: enters the namespaces, whose first process its child becomes.
fn keep(scenario: &Scenario, cpu: Option<usize>, home: Home, mut socket: UnixStream) -> Infallible {
    let _ = kernel::die_with_parent();
    close_others(&socket);
    if home == Home::Private
        && let Err(e) = sandbox::enter_namespaces()
    {
        let _ = send(&mut socket, &Answer::<Hello>::Refused(e.to_string()));
        kernel::exit_now(3);
    }
    match kernel::fork() {
        Ok(ForkResult::Child) => apart(|| serve(scenario, cpu, home, socket)),
        Ok(ForkResult::Parent { child }) => {
            drop(socket);
            while let Ok(None) = kernel::wait_one(child, true) {}
            kernel::exit_now(0);
        }
        Err(e) => {
            let _ = send(&mut socket, &Answer::<Hello>::Machine(e.to_string()));
            kernel::exit_now(3);
        }
    }
}

/// The engine: process 1 of its namespace, if it has one.
fn serve(scenario: &Scenario, cpu: Option<usize>, home: Home, mut socket: UnixStream) -> Infallible {
    let built = match home {
        Home::Private => sandbox::build_root().map(|()| None),
        Home::Shared => sandbox::build_shared_root().map(Some),
    };
    let shared = match built {
        Ok(shared) => shared,
        Err(e) => {
            let _ = send(&mut socket, &Answer::<Hello>::Refused(e.to_string()));
            kernel::exit_now(0);
        }
    };
    let prepare = || -> Result<Session, PrepareError> {
        let machine = |e: &dyn std::fmt::Display| PrepareError::Machine(e.to_string());
        kernel::die_with_parent().map_err(|e| machine(&e))?;
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC).map_err(|e| machine(&e))?;
        if home == Home::Shared {
            kernel::serve_orphans().map_err(|e| machine(&e))?;
            numbers::use_up_small_ones().map_err(|e| machine(&e))?;
        }
        kernel::can_borrow().map_err(|e| machine(&format!("{BORROW} ({e})")))?;
        pin(cpu);
        kernel::start_ticking().map_err(|e| machine(&e))?;
        Session::new(scenario.clone())
    };
    let prepared = prepare().and_then(|mut session| session.initial().map(|initial| (session, initial)));
    let (mut session, initial) = match prepared {
        Ok(prepared) => prepared,
        Err(e) => {
            let _ = send(&mut socket, &Answer::<Hello>::from(Err(e)));
            if let Some(root) = shared {
                let _ = std::fs::remove_dir_all(root);
            }
            kernel::exit_now(0);
        }
    };
    let mut said = send(&mut socket, &Answer::Done(Hello { initial, shared }));
    while said.is_ok() {
        said = match receive(&mut socket) {
            Ok(Request::Run(plan)) => send(&mut socket, &Answer::from(session.run(&plan))),
            Ok(Request::Templates(wanted)) => send(&mut socket, &Answer::from(session.templates(wanted))),
            Err(_) => break,
        };
    }
    kernel::exit_now(0);
}

/// Descriptors that the caller has open must not reach the workers, nor be kept open: at the other end of one may be a
/// thread of the caller's that waits for its end.
fn close_others(socket: &UnixStream) {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<i32> = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    for fd in open.into_iter().filter(|fd| *fd > 2 && *fd != socket.as_raw_fd()) {
        // That of the listing is closed already.
        let _ = nix::unistd::close(fd);
    }
}

/// The CPU of an engine. Searches side by side, each with an engine of place 0, must not meet on one CPU while others
/// are idle: the first is where the kernel put this process.
fn cpu_of(place: usize) -> Option<usize> {
    static FIRST: AtomicUsize = AtomicUsize::new(0);
    let allowed = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let cpus: Vec<usize> = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).collect();
    if place == 0 {
        FIRST.store(rustix::thread::sched_getcpu(), Ordering::Relaxed);
    }
    nth_from(&cpus, FIRST.load(Ordering::Relaxed), place)
}

/// Counted from `first`, or from the first of all when that is none of them.
fn nth_from(cpus: &[usize], first: usize, place: usize) -> Option<usize> {
    let first = cpus.iter().position(|cpu| *cpu == first).unwrap_or(0);
    cpus.get((first + place) % cpus.len().max(1)).copied()
}

/// Tracer and tracees share one CPU: a stop costs a third of what it costs across CPUs.
fn pin(cpu: Option<usize>) {
    let mut one = CpuSet::new();
    if cpu.is_some_and(|cpu| one.set(cpu).is_ok()) {
        let _ = sched_setaffinity(Pid::from_raw(0), &one);
    }
}

fn send<T: Serialize>(socket: &mut UnixStream, message: &T) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    let len = u32::try_from(bytes.len()).ok().filter(|len| *len <= MAX_MESSAGE);
    let len = len.ok_or_else(|| io::Error::other("a run of more than 1 GiB"))?;
    socket.write_all(&len.to_le_bytes())?;
    socket.write_all(&bytes)
}

fn receive<T: DeserializeOwned>(socket: &mut UnixStream) -> io::Result<T> {
    // The engine's timer interrupts reads; `read_exact` goes on.
    let mut len = [0; 4];
    socket.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len);
    if len > MAX_MESSAGE {
        return Err(io::Error::other("a message that is too long"));
    }
    let mut bytes = vec![0; len as usize];
    socket.read_exact(&mut bytes)?;
    postcard::from_bytes(&bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_take_the_cpus_from_where_their_process_runs() {
        let took = |cpus: &[usize], first| (0..4).map(|place| nth_from(cpus, first, place)).collect::<Vec<_>>();
        assert_eq!(took(&[2, 5, 6], 5), [Some(5), Some(6), Some(2), Some(5)]);
        assert_eq!(took(&[2, 5, 6], 3), [Some(2), Some(5), Some(6), Some(2)]);
        assert_eq!(took(&[], 0), [None; 4]);
    }
}
