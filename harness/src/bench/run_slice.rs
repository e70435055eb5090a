//! One slice: the competitor's processes are started, begin together, and report.

use std::{
    path::Path,
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

use thiserror::Error;

use super::{
    case::Case,
    competitor::{Competitor, Store},
    conserve::{Left, conserve, read_json_queue},
    lines,
    protocol::{BadRecord, Hello, Record, Role},
    sample::Slice,
    talker::{TalkError, Talker},
    usage::{self, Usage},
};

/// How long a process may take to say something.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long after everybody is ready they begin.
const BARRIER: Duration = Duration::from_millis(10);

/// More reports than that from one worker are refused.
const MAX_RECORDS: usize = 20_000_000;

/// Why a slice came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SliceError {
    /// In talking to a process.
    #[error("{role}: {why}", role = match .role { Role::Serve => "server", Role::Fill => "filling the queue", Role::Worker => "worker", Role::Read => "reading the queue" })]
    Talk {
        /// Which.
        role: Role,
        /// What happened.
        why: TalkError,
    },
    /// A report that is none.
    #[error("worker: {0}")]
    Record(#[from] BadRecord),
    /// Too much of it.
    #[error("a worker reported more than {MAX_RECORDS} operations")]
    TooMany,
    /// It did nothing at all.
    #[error("no operation succeeded")]
    Idle,
}

/// How long is measured.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// What is not counted.
    pub warm_up: Duration,
    /// What is.
    pub measured: Duration,
}

/// Nanoseconds on the clock that workers report in.
pub(super) fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// How the processes of one slice are started and talked to.
pub(super) struct Stage<'a> {
    pub(super) competitor: &'a Competitor,
    pub(super) case: Case,
    pub(super) dir: &'a Path,
    pub(super) interrupt: &'a AtomicBool,
}

/// How a process answered.
enum Answer {
    /// As it should.
    As(Talker),
    /// It wants one operation a line.
    Lines(Talker),
    /// There is nothing to do in this role.
    Nothing,
}

impl Stage<'_> {
    fn hello(&self, role: Role, number: usize) -> Hello<'_> {
        Hello {
            schema: 1,
            role,
            dir: self.dir,
            worker: format!("w{number}"),
            number,
            processes: self.case.processes,
            accounts: if self.competitor.sharded { self.case.processes } else { 1 },
            kept: self.case.kept,
            task_bytes: self.case.task_bytes,
            think_us: self.case.think_us,
            durability: self.case.durability,
        }
    }

    fn start(&self, role: Role, number: usize) -> Result<Talker, SliceError> {
        let command = self.competitor.command(self.dir, self.case.durability);
        Talker::start(command, &self.hello(role, number)).map_err(|why| SliceError::Talk { role, why })
    }

    fn answer(&self, mut talker: Talker, role: Role, wanted: &'static str) -> Result<Answer, SliceError> {
        let talk = |why| SliceError::Talk { role, why };
        let said = talker.hear(wanted, Instant::now() + PATIENCE, self.interrupt).map_err(talk)?;
        match said.as_str() {
            "ready lines" => Ok(Answer::Lines(talker)),
            "none" if role == Role::Serve => Ok(Answer::Nothing),
            said if said == wanted => Ok(Answer::As(talker)),
            said => Err(talk(match said.strip_prefix("missing ") {
                Some(why) => TalkError::Missing(why.chars().take(200).collect()),
                None => TalkError::Strange { wanted, said: said.chars().take(120).collect() },
            })),
        }
    }

    /// What all others need; none: nothing.
    fn serve(&self) -> Result<Option<Talker>, SliceError> {
        match self.answer(self.start(Role::Serve, 0)?, Role::Serve, "ready")? {
            Answer::As(server) => Ok(Some(server)),
            Answer::Lines(talker) => {
                talker.dismiss();
                Ok(None)
            }
            Answer::Nothing => Ok(None),
        }
    }

    /// Puts in the first tasks.
    pub(super) fn fill(&self) -> Result<(), SliceError> {
        match self.answer(self.start(Role::Fill, 0)?, Role::Fill, "done")? {
            Answer::Lines(mut talker) => {
                let task = lines::task("k", self.case.task_bytes);
                for number in 0..self.case.kept {
                    let said = lines::ask(&mut talker, &format!("push k-{number} {task}"), self.interrupt);
                    let why = match said {
                        Ok(said) if said == "ok" => continue,
                        Ok(said) => TalkError::Strange { wanted: "ok", said },
                        Err(why) => why,
                    };
                    return Err(SliceError::Talk { role: Role::Fill, why });
                }
                Ok(())
            }
            Answer::As(_) | Answer::Nothing => Ok(()),
        }
    }

    /// What is in the queue.
    fn left(&self) -> Result<Left, SliceError> {
        if self.competitor.store == Store::Json {
            return Ok(read_json_queue(self.dir));
        }
        let mut talker = self.start(Role::Read, 0)?;
        let talk = |why| SliceError::Talk { role: Role::Read, why };
        let deadline = Instant::now() + PATIENCE;
        let hear = |talker: &mut Talker| talker.hear("end", deadline, self.interrupt).map_err(talk);
        let mut said = hear(&mut talker)?;
        if said == "ready lines" {
            // Whether it can be written to is seen when it does not answer.
            let _ = talker.say("list");
            said = hear(&mut talker)?;
        }
        let mut left = Left::default();
        while said != "end" {
            left.ids.push(said);
            if left.ids.len() > MAX_RECORDS {
                return Err(SliceError::TooMany);
            }
            said = hear(&mut talker)?;
        }
        Ok(left)
    }

    /// Runs it.
    pub(super) fn run(&self, timing: Timing) -> Result<Slice, SliceError> {
        let server = self.serve()?;
        self.fill()?;
        // All are started before the first is listened to: they start side by side.
        let started: Result<Vec<Talker>, SliceError> =
            (0..self.case.processes).map(|number| self.start(Role::Worker, number)).collect();
        let mut own_time = Vec::new();
        let mut in_lines = Vec::new();
        for (number, talker) in started?.into_iter().enumerate() {
            match self.answer(talker, Role::Worker, "ready")? {
                Answer::As(talker) => own_time.push(talker),
                Answer::Lines(talker) => in_lines.push((number, talker)),
                Answer::Nothing => unreachable!("only servers may have nothing to do"),
            }
        }
        let workers = own_time.iter().chain(in_lines.iter().map(|(_, talker)| talker));
        let groups: Vec<u32> = workers.chain(&server).map(Talker::group).collect();
        let before = usage::of_groups(&groups);
        let start = now() + u64::try_from(BARRIER.as_nanos()).unwrap_or(0);
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4);
        let from = start + nanos(timing.warm_up);
        let until = from + nanos(timing.measured);
        for talker in &mut own_time {
            // One that is gone is noticed below.
            let _ = talker.say(&format!("go {start} {until}"));
        }
        let driver = lines::Driver {
            task: lines::task("w", self.case.task_bytes),
            start,
            until,
            think: Duration::from_micros(self.case.think_us),
            interrupt: self.interrupt,
        };
        let (used, driven) = std::thread::scope(|scope| {
            let driver = &driver;
            let driven: Vec<_> =
                in_lines.into_iter().map(|(n, talker)| scope.spawn(move || driver.drive(talker, n))).collect();
            while now() < until && !self.interrupt.load(std::sync::atomic::Ordering::Relaxed) {
                std::thread::sleep(Duration::from_nanos(until.saturating_sub(now())).min(Duration::from_millis(50)));
            }
            let used: Usage = usage::of_groups(&groups).since(before);
            let driven: Vec<Result<Vec<Record>, SliceError>> =
                driven.into_iter().map(|thread| thread.join().unwrap_or(Err(SliceError::Idle))).collect();
            (used, driven)
        });
        let mut workers = driven.into_iter().collect::<Result<Vec<_>, _>>()?;
        for talker in &mut own_time {
            workers.push(self.reports(talker)?);
        }
        drop(own_time);
        let left = self.left()?;
        drop(server);
        let conservation = conserve(self.case.kept, workers.iter().flatten(), &left);
        Ok(Slice { workers, from, until, usage: used, conservation })
    }

    fn reports(&self, talker: &mut Talker) -> Result<Vec<Record>, SliceError> {
        let deadline = Instant::now() + PATIENCE;
        let mut records = Vec::new();
        loop {
            let line = talker
                .hear("end", deadline, self.interrupt)
                .map_err(|why| SliceError::Talk { role: Role::Worker, why })?;
            if line == "end" {
                return Ok(records);
            }
            if records.len() == MAX_RECORDS {
                return Err(SliceError::TooMany);
            }
            records.push(Record::parse(&line)?);
        }
    }
}
