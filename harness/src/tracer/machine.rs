//! All tasks under control in one run, and the small operations on them that the other files share.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    path::PathBuf,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::{ptrace, signal::Signal},
    unistd::Pid,
};

use super::{
    anonymous::Anonymous,
    capture::Capture,
    channels::Channels,
    clock::Clock,
    delays::Delays,
    faults::Faults,
    inodes::Inodes,
    kernel,
    locks::RecordLocks,
    notify::Watched,
    numbers::Numbers,
    sandbox,
    session::CutPoint,
    signals::Signals,
    storage::Storage,
    task::{Pending, State, Task},
    template::Template,
    timers::Timers,
    vdso::SharedClock,
    walk::Walker,
    weaken::Copying,
};
use crate::world::{
    ACK_MARKER, Access, ActorEnd, ActorId, Inode, Mode, Object, Step, Sync, Warning, WarningKind, Weakening,
};

/// The processes of actor i are numbered from `PID_BASE + i * PIDS_PER_ACTOR`.
const PID_BASE: i32 = 1000;
/// Process numbers reserved for each actor.
const PIDS_PER_ACTOR: i32 = 1000;
/// Templates are numbered from here.
const TEMPLATE_PIDS: i32 = 300;
/// In another variant of the environment process numbers begin this much later.
const VARIANT_PIDS: i32 = 307;

/// Control was lost, or a limit was reached: nothing may be concluded from the run.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    /// A call of ours failed in a way that must not happen.
    #[error("{what}: {source}")]
    Kernel {
        /// What we tried.
        what: &'static str,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// Something else.
    #[error("{0}")]
    Other(String),
    /// A limit of the scenario.
    #[error("the limit `{0}` = {1} was reached")]
    Limit(&'static str, u64),
}

/// Wraps the error of a call that must not fail.
pub(super) fn must<T, E: Into<std::io::Error>>(what: &'static str, result: Result<T, E>) -> Result<T, Lost> {
    result.map_err(|e| Lost::Kernel { what, source: e.into() })
}

/// One worker command in this run.
#[derive(Debug, Default)]
pub(super) struct Actor {
    /// Tasks made so far.
    pub made: u32,
    /// Its first process.
    pub main: Option<Pid>,
    /// It was started.
    pub started: bool,
    /// All its tasks are gone, or what is left is not waited for.
    pub ended: bool,
    /// How its first process ended.
    pub end: ActorEnd,
    /// Its standard output and error.
    pub capture: Option<Capture>,
    /// The task (number) that went on last: the others come before it again.
    pub turn: u32,
    /// It has touched the world.
    pub looked: bool,
    /// Stands for the paths outside the world that it looked at since its last step.
    pub private: u64,
    /// It was forked from its template.
    pub from_template: bool,
    /// An order among its own tasks was not explored.
    pub inner_choice: bool,
    /// The worker stands still until this task's delay is over.
    pub paused: Option<Pid>,
}

/// Everything under control in one run.
pub(super) struct Machine {
    pub tasks: BTreeMap<Pid, Task>,
    /// First stops of children whose parents' events have not been seen.
    pub orphans: BTreeSet<Pid>,
    pub actors: Vec<Actor>,
    pub walker: Walker,
    pub inodes: Inodes,
    pub anonymous: Anonymous,
    pub numbers: Numbers,
    pub clock: Clock,
    pub variant: u32,
    /// How often the machine was started in this run, as its programs see it: once, and after each power cut.
    pub boot: u16,
    pub record_locks: RecordLocks,
    /// Inodes (real) on which any lock was taken in this run.
    pub locked: BTreeSet<u64>,
    pub steps: Vec<Step>,
    pub record: bool,
    pub warnings: BTreeSet<Warning>,
    /// Steps made since the run began, for the limit.
    pub step_limit: u64,
    /// CPU time that one stretch between two stops may take.
    pub cpu_limit: Duration,
    /// Seccomp stops and others, for `-v`.
    pub stops: u64,
    /// False for setup, check and state: their steps are neither recorded nor choice points.
    pub explored: bool,
    last_pid: Option<File>,
    /// Paths outside the world that somebody changed, with the actor.
    pub outside: HashMap<PathBuf, usize>,
    pub busy_since: Instant,
    /// How long these tasks had been on a CPU when that was looked at first.
    pub busy_cpu: Option<Duration>,
    /// Parked workers, by actor.
    pub templates: Vec<Option<Template>>,
    /// Templates are being made.
    pub building: bool,
    /// Real inode numbers of the sandbox's and the world's directory.
    pub roots: [u64; 2],
    /// Delays of the scenario.
    pub delays: Delays,
    /// Faults of the scenario, and of this run.
    pub faults: Faults,
    /// Actors for whose end others wait.
    pub waited_for: Vec<bool>,
    /// Which processes have a writable shared mapping of which world files (real inodes).
    pub mapped: Vec<(Pid, u64)>,
    /// Every such mapping made in this run: actor, file, path.
    pub maps: Vec<(usize, Inode, String)>,
    /// Nothing less than all orders will do.
    pub exhaustive: bool,
    /// Clock reads without stops, where they are possible.
    pub shared_clock: Option<SharedClock>,
    /// Pipes and sockets between actors.
    pub channels: Channels,
    /// What actors watch with inotify.
    pub watched: Vec<Watched>,
    /// Numbers of renames as inotify shows them, and as they are shown to workers.
    pub cookies: HashMap<u32, u32>,
    pub signals: Signals,
    pub timers: Timers,
    /// Signals that timers sent and that have not arrived: process, signal, timer, value.
    pub timers_fired: Vec<(Pid, i32, i32, u64)>,
    /// What the programs do not have in this run although they ask for it.
    pub weakening: Option<Weakening>,
    /// Renames that are being made by copying.
    pub copying: BTreeMap<Pid, Copying>,
    /// What happened to the disk, when the power may be cut.
    pub storage: Option<Storage>,
    /// The moments of this run at which it may be.
    pub cut_points: Vec<CutPoint>,
}

impl Machine {
    /// Must be made inside the sandbox, by its process 1.
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Machine {
            tasks: BTreeMap::new(),
            orphans: BTreeSet::new(),
            actors: Vec::new(),
            walker: Walker::new()?,
            inodes: Inodes::default(),
            anonymous: Anonymous::default(),
            numbers: Numbers::default(),
            clock: Clock::new(0),
            variant: 0,
            boot: 1,
            record_locks: RecordLocks::default(),
            locked: BTreeSet::new(),
            steps: Vec::new(),
            record: false,
            warnings: BTreeSet::new(),
            step_limit: u64::MAX,
            cpu_limit: Duration::MAX,
            stops: 0,
            explored: true,
            last_pid: match sandbox::shared() {
                None => Some(OpenOptions::new().write(true).open("/proc/sys/kernel/ns_last_pid")?),
                Some(_) => None,
            },
            outside: HashMap::new(),
            busy_since: Instant::now(),
            busy_cpu: None,
            templates: Vec::new(),
            building: false,
            roots: [0; 2],
            delays: Delays::default(),
            faults: Faults::default(),
            waited_for: Vec::new(),
            mapped: Vec::new(),
            maps: Vec::new(),
            exhaustive: false,
            shared_clock: SharedClock::new(),
            channels: Channels::default(),
            watched: Vec::new(),
            cookies: HashMap::new(),
            signals: Signals::default(),
            timers: Timers::default(),
            timers_fired: Vec::new(),
            weakening: None,
            copying: BTreeMap::new(),
            storage: None,
            cut_points: Vec::new(),
        })
    }

    /// Forgets the last run.
    pub(super) fn begin(&mut self, actors: usize, variant: u32) {
        self.return_captures();
        self.tasks.clear();
        self.orphans.clear();
        self.actors = (0..actors).map(|_| Actor::default()).collect();
        self.clock = Clock::new(variant);
        self.variant = variant;
        self.boot = 1;
        self.record_locks = RecordLocks::default();
        self.locked.clear();
        self.anonymous = Anonymous::default();
        self.numbers = Numbers::default();
        self.steps.clear();
        self.warnings.clear();
        self.outside.clear();
        self.mapped.clear();
        self.maps.clear();
        if let Some(shared) = &mut self.shared_clock {
            shared.owner = None;
        }
        self.channels = Channels::default();
        self.watched.clear();
        self.cookies.clear();
        self.signals = Signals::default();
        self.timers = Timers::default();
        self.timers_fired.clear();
        self.copying.clear();
        self.delays.begin();
        self.storage = None;
        self.cut_points.clear();
    }

    /// The machine is started anew: gone is what the kernel kept for processes.
    pub(super) fn reboot(&mut self) {
        self.boot += 1;
        self.record_locks = RecordLocks::default();
        self.locked.clear();
        self.mapped.clear();
        if let Some(shared) = &mut self.shared_clock {
            shared.owner = None;
        }
    }

    /// A moment at which the power may go.
    pub(super) fn note_cut_point(&mut self, at: usize) {
        let Some(storage) = &self.storage else { return };
        let ended = (0..self.actors.len()).filter(|actor| self.actors[*actor].ended).collect();
        let mut said = Vec::new();
        for (number, actor) in self.actors.iter_mut().enumerate() {
            let marks = self.steps.iter().filter(|s| usize::from(s.actor.0) == number && s.looks_up(ACK_MARKER));
            let lines = match (storage.says.get(number), &mut actor.capture) {
                (Some(says), Some(capture)) => {
                    capture.drain();
                    says.lines(capture.output()).count()
                }
                _ => 0,
            };
            said.push((marks.count() + lines) as u64);
        }
        self.cut_points.push(CutPoint { at, events: storage.events.len(), steps: self.steps.len(), ended, said });
    }

    /// The task; it must exist.
    pub(super) fn task(&self, pid: Pid) -> &Task {
        &self.tasks[&pid]
    }

    /// The task; it must exist.
    pub(super) fn task_mut(&mut self, pid: Pid) -> &mut Task {
        self.tasks.get_mut(&pid).expect("a task that is being handled exists")
    }

    /// Makes the next process or thread of this actor get the number that its place among the actor's tasks gives.
    pub(super) fn reserve_pid(&mut self, actor: usize) -> Result<(), Lost> {
        let next = match self.building {
            true => TEMPLATE_PIDS + actor as i32,
            false => self.nth_pid(actor, self.actors[actor].made),
        };
        if let Some(last_pid) = &self.last_pid {
            must("setting the next process number", last_pid.write_at((next - 1).to_string().as_bytes(), 0))?;
        }
        Ok(())
    }

    /// The number of the task that an actor makes as the nth.
    pub(super) fn nth_pid(&self, actor: usize, nth: u32) -> i32 {
        self.first_pid(actor) + nth as i32 % PIDS_PER_ACTOR
    }

    /// The number of an actor's first process.
    pub(super) fn first_pid(&self, actor: usize) -> i32 {
        PID_BASE + self.variant as i32 * VARIANT_PIDS + actor as i32 * PIDS_PER_ACTOR
    }

    /// The numbers of an actor's processes and threads.
    pub(super) fn pids(&self, actor: usize) -> std::ops::Range<i32> {
        let first = self.first_pid(actor);
        first..first + PIDS_PER_ACTOR
    }

    /// Lets a task go on natively until its next stop.
    pub(super) fn go_on(&mut self, pid: Pid, signal: i32) -> Result<(), Lost> {
        self.task_mut(pid).state = State::Running;
        if let Some(shared) = &mut self.shared_clock {
            shared.show(&self.tasks[&pid], &self.clock);
        }
        resume(pid, false, signal)
    }

    /// Takes over how often the task that runs has read a clock. `stopped`: who has stopped now.
    pub(super) fn keep_clock_reads(&mut self, stopped: Pid) {
        let Some(shared) = &mut self.shared_clock else { return };
        let Some(owner) = shared.owner else { return };
        if let Some(task) = self.tasks.get_mut(&owner) {
            task.clock_reads = shared.reads();
        }
        if owner == stopped {
            // From here on the task's own count is the right one, until it runs again.
            shared.owner = None;
        }
    }

    /// Lets a task at a seccomp stop run its call and stop at its exit.
    pub(super) fn call(&mut self, pid: Pid, state: State) -> Result<(), Lost> {
        self.task_mut(pid).state = state;
        resume(pid, true, 0)
    }

    /// Adds a warning (once).
    pub(super) fn warn(&mut self, kind: WarningKind, text: impl Into<String>) {
        self.warnings.insert(Warning { kind, text: text.into() });
    }

    /// The task of an actor whose turn it is among those that `fits` and are not delayed: the first after the one that
    /// went on last.
    pub(super) fn in_turn(&self, actor: usize, fits: impl Fn(&State) -> bool) -> Option<Pid> {
        if self.stands_still(actor) {
            return None;
        }
        let turn = self.actors[actor].turn;
        let mut fitting: Vec<&Task> =
            self.tasks.values().filter(|t| t.actor == actor && t.deadline.is_none() && fits(&t.state)).collect();
        // In turns: always the lowest first lets a thread pool livelock.
        fitting.sort_by_key(|t| (t.number <= turn, t.number));
        fitting.first().map(|t| t.pid)
    }

    /// Whether the actor has a visible step to make that is not known to wait.
    pub(super) fn is_ready(&self, actor: usize) -> bool {
        !self.stands_still(actor)
            && self
                .tasks
                .values()
                .any(|t| t.actor == actor && matches!(t.state, State::AtStep(_)) && t.deadline.is_none())
    }

    /// The steps that an actor's tasks wait with.
    pub(super) fn blocked(&self, actor: usize) -> impl Iterator<Item = (&Task, Pending)> {
        self.tasks.values().filter(move |t| t.actor == actor).filter_map(|t| match t.state {
            State::Blocked(pending) => Some((t, pending)),
            _ => None,
        })
    }

    /// Kills whatever is left of the run and waits until it is gone; templates stay.
    pub(super) fn kill_all(&mut self) -> Result<(), Lost> {
        loop {
            let parked: Vec<Pid> = self.templates.iter().flatten().map(Template::pid).collect();
            let left: Vec<Pid> =
                must("listing processes", self.processes())?.into_iter().filter(|pid| !parked.contains(pid)).collect();
            if left.is_empty() {
                break;
            }
            for pid in &left {
                let _ = nix::sys::signal::kill(*pid, Signal::SIGKILL);
            }
            // The signal does not wake a task that is held at its exit already.
            for pid in left.iter().chain(self.tasks.keys()) {
                let _ = ptrace::cont(*pid, None);
            }
            // Everybody left is our tracee or our child: each will be reported.
            match kernel::wait_any(true) {
                Err(Errno::ECHILD) => break,
                Err(e) => return must("waiting for killed processes", Err(e)),
                Ok(Some((pid, kernel::Status::Stopped { .. }))) => {
                    let _ = nix::sys::signal::kill(pid, Signal::SIGKILL);
                    let _ = ptrace::cont(pid, None);
                }
                Ok(_) => {}
            }
        }
        self.tasks.clear();
        self.orphans.clear();
        Ok(())
    }

    /// Ends all templates.
    pub(super) fn drop_templates(&mut self) -> Result<(), Lost> {
        self.return_captures();
        self.templates.clear();
        self.kill_all()
    }
}

/// All processes of the sandbox.
/// Resumes a stopped task. One that was killed meanwhile is no error: its end will be reported.
pub(super) fn resume(pid: Pid, to_exit: bool, signal: i32) -> Result<(), Lost> {
    let signal = Signal::try_from(signal).ok();
    let result = if to_exit { ptrace::syscall(pid, signal) } else { ptrace::cont(pid, signal) };
    match result {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(e) => must("resuming a task", Err(e)),
    }
}

/// The access of the end of an actor (`ends`) and of a start that waited for it.
pub(super) fn life(actor: usize, ends: bool) -> Access {
    let sync = if ends { Sync::Free } else { Sync::Take { waits: true } };
    Access { sync: Some(sync), ..Access::new(Object::Life(ActorId(actor as u16)), Mode::Write) }
}
