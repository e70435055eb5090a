//! Templates: a worker parked before its first visible step, from which each schedule's worker is forked.
//!
//! Most of what a short program does is starting up: an interpreter reads its library, and touches nothing of the
//! world. That part is the same in every schedule, so it is run once. A template is used only where a fork cannot be
//! told from a fresh start: one task, nothing shared with anybody, nothing of the world open. The first schedule
//! is run without templates and then with them, and both must give the same trace.

use std::os::fd::OwnedFd;

use nix::{libc, sys::ptrace, unistd::Pid};

use super::{
    arch::Registers,
    capture::Capture,
    filter::Filters,
    kernel::{self, Status},
    machine::{Lost, Machine, must, resume},
    opened::open_fds,
    start::Program,
    task::{Pending, State, Task},
};

/// A worker parked before its first visible step.
#[derive(Debug)]
pub(super) struct Template {
    task: Task,
    entry: Registers,
    /// Files outside the world that it has open, and where it is in them: forks share these positions.
    positions: Vec<(OwnedFd, u64)>,
    /// Its streams; lent to the run that uses it.
    pub capture: Option<Capture>,
}

impl Template {
    /// Its process, which must outlive every run.
    pub(super) fn pid(&self) -> Pid {
        self.task.pid
    }
}

impl Machine {
    /// Parks a template for each worker for which that is sound, and says why there is none for the others. `None` in
    /// `programs`: not wanted.
    pub(super) fn build_templates(
        &mut self,
        programs: &[Option<&Program>],
        filters: &Filters,
        output_limit: u64,
    ) -> Result<Vec<Option<&'static str>>, Lost> {
        let mut why = vec![Some("it starts when others have ended"); programs.len()];
        self.templates.clear();
        self.templates.resize_with(programs.len(), || None);
        self.begin(programs.len(), 0);
        for (actor, program) in programs.iter().enumerate() {
            if let Some(program) = program {
                self.building = true;
                let started = self.start(actor, program, filters, output_limit);
                self.building = false;
                started?;
                let parked = self.park(actor);
                why[actor] = parked.as_ref().err().copied();
                self.templates[actor] = parked.ok();
            }
        }
        self.kill_all()?;
        Ok(why)
    }

    /// Takes the only task of an actor out of the run, if it makes a sound template; else says why it does not.
    fn park(&mut self, actor: usize) -> Result<Template, &'static str> {
        let pids: Vec<Pid> = self.tasks.values().filter(|t| t.actor == actor).map(|t| t.pid).collect();
        let [pid] = pids[..] else { return Err("it has more than one process or thread before its first step") };
        let task = self.task(pid);
        let State::AtStep(Pending::Call { entry, .. }) = task.state else {
            return Err("it comes to no step that a copy could be made before");
        };
        // A fork does not inherit timers.
        if self.timers.next(|a| a == actor).is_some() || task.deadline.is_some() {
            return Err("a timer of it runs before its first step");
        }
        if task.tid_address == 0 || task.pid != task.process {
            return Err("its first step is not that of its first thread");
        }
        if has_shared_memory(pid) {
            return Err("it shares memory before its first step");
        }
        let mut positions = Vec::new();
        for fd in open_fds(pid) {
            let file = self.inspect(pid, fd).ok_or("it has something open that cannot be looked at")?;
            if file.world {
                return Err("it has a file of the world open before its first step");
            }
            if file.is_plain() {
                let at = file.position();
                positions.push((file.file, at));
            } else if !file.is_stateless()
                && self.actors[actor].capture.as_ref().is_none_or(|c| c.stream_of(file.inode).is_none())
            {
                return Err("it has a pipe, socket or the like open before its first step");
            }
        }
        let mut capture = self.actors[actor].capture.take().ok_or("its output is not captured")?;
        capture.keep_as_prefix();
        let task = self.tasks.remove(&pid).ok_or("it is gone")?;
        Ok(Template { task, entry, positions, capture: Some(capture) })
    }

    /// Starts a worker by forking its template. False: it has none that fits.
    pub(super) fn start_from_template(&mut self, actor: usize) -> Result<bool, Lost> {
        // Setup, check and state are other programs than the worker with their number.
        if self.building || !self.explored || self.variant != 0 || self.clock.since_start() != 0 {
            return Ok(false);
        }
        let Some(mut template) = self.templates.get_mut(actor).and_then(Option::take) else { return Ok(false) };
        let forked = self.fork_template(actor, &mut template);
        self.templates[actor] = Some(template);
        forked.map(|()| true)
    }

    fn fork_template(&mut self, actor: usize, template: &mut Template) -> Result<(), Lost> {
        for (file, at) in &template.positions {
            let _ = rustix::fs::seek(file, rustix::fs::SeekFrom::Start(*at));
        }
        let parent = template.task.pid;
        self.reserve_pid(actor)?;
        let flags = libc::CLONE_PARENT | libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID | libc::SIGCHLD;
        let fork = template.entry.as_fork(flags as u64, template.task.tid_address);
        must("preparing a fork", fork.set(parent))?;
        resume(parent, true, 0)?;
        // The fork event, then the exit stop of the fork, then the entry of the held call again.
        let mut child = None;
        loop {
            match must("waiting for a template", kernel::wait_one(parent, true))? {
                Some((_, Status::Stopped { event: libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_CLONE, .. })) => {
                    child = Some(Pid::from_raw(must("asking for a fork", ptrace::getevent(parent))? as i32));
                    resume(parent, true, 0)?;
                }
                Some((_, Status::Stopped { signal, event: 0 })) if signal == libc::SIGTRAP | 0x80 => {
                    must("rewinding a template", Registers::rewound(&template.entry).set(parent))?;
                    resume(parent, false, 0)?;
                }
                Some((_, Status::Stopped { event: libc::PTRACE_EVENT_SECCOMP, .. })) => break,
                Some((_, status)) => return Err(Lost::Other(format!("a template gave {status:?}"))),
                None => {}
            }
        }
        let child = child.ok_or_else(|| Lost::Other("a template did not fork".into()))?;
        while must("waiting for a fork", kernel::wait_one(child, true))?.is_none() {}
        must("setting up a fork", Registers::rewound(&template.entry).not_in_call().set(child))?;
        self.orphans.remove(&child);
        self.adopt(child, actor)?;
        let task = self.task_mut(child);
        task.clock_reads = template.task.clock_reads;
        task.random = template.task.random.clone();
        task.tid_address = template.task.tid_address;
        let entry = &mut self.actors[actor];
        entry.started = true;
        entry.main = Some(child);
        entry.capture = template.capture.take();
        entry.from_template = true;
        self.go_on(child, 0)?;
        self.settle()
    }

    /// Gives lent streams back to their templates.
    pub(super) fn return_captures(&mut self) {
        for (actor, template) in self.actors.iter_mut().zip(&mut self.templates) {
            if let (true, Some(template), Some(mut capture)) =
                (actor.from_template, template.as_mut(), actor.capture.take())
            {
                capture.drain();
                capture.reset();
                template.capture = Some(capture);
            }
        }
    }
}

fn has_shared_memory(pid: Pid) -> bool {
    // Permissions `rw-s`: writable, shared. The clock's memory is the same in every worker.
    let clock = format!("{:x}-", super::arch::CLOCK_AT);
    let shared = |line: &str| line.split(' ').nth(1).is_some_and(|p| p.starts_with("rw") && p.ends_with('s'));
    std::fs::read_to_string(format!("/proc/{pid}/maps"))
        .map_or(true, |maps| maps.lines().any(|line| shared(line) && !line.starts_with(&clock)))
}
