//! A modelled system: tiny programs interpreted through the same chooser port as the Linux tracer.
//!
//! Included by several test programs, each of which uses a part of it.
#![allow(dead_code, unreachable_pub)]

pub mod brute;
mod locks;
mod machine;
pub mod search;

pub use machine::Machine;
use noclobber::{
    explore::{Lost, System, chooser},
    world::{ActorId, Choice, Decision, Ended, Plan, Run, View},
};

/// How a lock is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Waits for as long as it takes.
    Wait,
    /// Fails at once; then the actor ends (`true`) or goes on without the lock.
    Try(bool),
    /// Waits for this long, then fails; then the actor ends (`true`) or goes on without the lock.
    Timed(u64, bool),
}

/// One instruction: one step, except where noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum I {
    /// Reads the content of file n (through an open descriptor).
    Read(u64),
    /// Changes file n to something that depends on what was read before and on who writes.
    Write(u64),
    /// Empties file n.
    Truncate(u64),
    /// Appends to file n: changes it without looking at what was read.
    Append(u64),
    /// Looks up name n and reads what it names.
    ReadName(u64),
    /// Writes the actor's own temporary file: nobody else touches it.
    WriteTemp,
    /// Renames the temporary file to name n.
    Rename(u64),
    /// O_CREAT | O_EXCL on name n (100 and more do not exist at first); when it fails, the actor ends (`true`).
    Create(u64, bool),
    /// Removes name n.
    Unlink(u64),
    /// Lists the directory.
    List,
    /// flock on file n; exclusive when the flag is set.
    Flock(u64, bool, Ask),
    /// Unlocks file n.
    Funlock(u64),
    /// POSIX lock on bytes [a, b) of file n.
    Lock(u64, (u64, u64), bool, Ask),
    /// Gives bytes [a, b) of file n back.
    Unlock(u64, (u64, u64)),
    /// Sends a byte into pipe n.
    Send(u64),
    /// Takes one byte from pipe n; waits while it is empty.
    Receive(u64),
    /// Takes one byte from pipe n if there is one, and does not wait.
    Poll(u64),
    /// Sleeps.
    Sleep(u64),
    /// No step: ends the actor when the value read last is odd.
    ExitIfOdd,
    /// No step: ends the actor unless the last value read is this one.
    ExitUnless(u64),
}

/// How the model is made worse, to see that tests notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weaken {
    #[default]
    Nothing,
    /// Lock steps do not say that they take and free.
    NoSync,
    /// Acquisitions still waiting at the end are said to touch nothing.
    NoPending,
    /// Truncations touch nothing.
    BlindTruncate,
    /// Failed attempts touch nothing.
    BlindFailures,
}

/// A system of tiny programs.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub programs: Vec<Vec<I>>,
    pub adversarial: bool,
    /// Waiting is found out only by trying, as with a real call.
    pub lazy: bool,
    pub weaken: Weaken,
    /// Runs so far.
    pub runs: u64,
}

impl Model {
    pub fn new(programs: Vec<Vec<I>>) -> Self {
        Model { programs, ..Model::default() }
    }

    pub fn copies(program: &[I], n: usize) -> Self {
        Model::new(vec![program.to_vec(); n])
    }
}

impl System for Model {
    fn run(&mut self, plan: &Plan) -> Result<Run, Lost> {
        self.runs += 1;
        let mut chooser = chooser(plan);
        let mut machine = Machine::new(self);
        let mut choices: Vec<Choice> = Vec::new();
        let ended = 'run: loop {
            let mut ready = if self.lazy { machine.willing() } else { machine.ready() };
            loop {
                let wakeable = if self.adversarial { machine.asleep() } else { Vec::new() };
                if ready.is_empty() && wakeable.is_empty() {
                    match machine.due() {
                        Some(sleeper) => ready.push(sleeper),
                        None => break 'run machine.end(),
                    }
                }
                let last = choices.last().map(|(Choice::Step(a) | Choice::Wake(a))| *a);
                let (asleep, ended) = (machine.asleep(), machine.ended());
                let predict = |a: ActorId| machine.predict(a);
                let number = choices.len();
                let view = View {
                    number,
                    last,
                    ready: &ready,
                    wakeable: &wakeable,
                    asleep: &asleep,
                    ended: &ended,
                    predict: &predict,
                };
                match chooser.choose(&view) {
                    Decision::SleepSet => break 'run Ended::SleepSet,
                    Decision::Infeasible => break 'run Ended::Infeasible(number),
                    Decision::Go(Choice::Step(a)) if machine.waits(a) && machine.due() != Some(a) => {
                        ready.retain(|r| *r != a);
                    }
                    Decision::Go(choice) => {
                        let known = if self.lazy { ready.clone() } else { machine.ready() };
                        let enabled = if known.is_empty() { ready.clone() } else { known };
                        let step = machine.execute(choice, enabled, wakeable);
                        chooser.stepped(&step);
                        choices.push(choice);
                        break;
                    }
                }
            }
        };
        let diverged = chooser.diverged();
        Ok(machine.finish(choices, ended, diverged))
    }
}
