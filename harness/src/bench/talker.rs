//! A competitor's process: what is said to it, and what it says.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, sync_channel},
    },
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use thiserror::Error;

use super::protocol::{Hello, MAX_LINE};

/// How many lines may be under way from a process; beyond that it waits.
const LINES_AHEAD: usize = 4096;

/// How much of a process's last words is kept.
const LAST_WORDS: usize = 2048;

/// How long a process may take to go once its standard input has ended.
const PARTING: Duration = Duration::from_secs(20);

/// Why a conversation came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TalkError {
    /// It cannot be started.
    #[error("cannot start `{program}`: {why}")]
    Start {
        /// The program.
        program: String,
        /// The system's reason.
        why: String,
    },
    /// It ended, or closed its output.
    #[error("it ended before it said `{wanted}`{last_words}")]
    Ended {
        /// What it should have said.
        wanted: &'static str,
        /// The end of its standard error.
        last_words: String,
    },
    /// It says nothing.
    #[error("it did not say `{wanted}` in {seconds} s{last_words}")]
    Silent {
        /// What it should have said.
        wanted: &'static str,
        /// How long it was waited for.
        seconds: u64,
        /// The end of its standard error.
        last_words: String,
    },
    /// It says something else.
    #[error("it said `{}` in place of `{wanted}`", .said.escape_debug())]
    Strange {
        /// What it should have said.
        wanted: &'static str,
        /// What it said.
        said: String,
    },
    /// It says that it cannot run here.
    #[error("{0}")]
    Missing(String),
    /// The user does not want to wait any longer.
    #[error("interrupted")]
    Interrupted,
}

enum Heard {
    Line(String),
    TooLong(String),
}

/// A process that is talked to. When this is dropped it is told to go by the end of its standard input, and killed with
/// all that it has started if it does not.
#[derive(Debug)]
pub(super) struct Talker {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Heard>,
    last_words: Arc<Mutex<Vec<u8>>>,
    patience: Duration,
}

impl std::fmt::Debug for Heard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Heard")
    }
}

impl Talker {
    /// Starts a process in a process group of its own and says hello.
    pub(super) fn start(mut command: Command, hello: &Hello<'_>) -> Result<Talker, TalkError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().map_err(|e| TalkError::Start { program, why: e.to_string() })?;
        let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (send, lines) = sync_channel(LINES_AHEAD);
        std::thread::spawn(move || {
            let Some(output) = output else { return };
            let mut output = BufReader::with_capacity(64 * 1024, output);
            let mut line = Vec::new();
            loop {
                line.clear();
                match (&mut output).take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line) {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                let heard = if line.len() > MAX_LINE { Heard::TooLong(text) } else { Heard::Line(text) };
                if send.send(heard).is_err() {
                    return;
                }
            }
        });
        let last_words = Arc::new(Mutex::new(Vec::new()));
        let kept = last_words.clone();
        std::thread::spawn(move || {
            let Some(mut errors) = errors else { return };
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = errors.read(&mut buffer) {
                let mut kept = kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                kept.extend_from_slice(&buffer[..count]);
                let surplus = kept.len().saturating_sub(LAST_WORDS);
                kept.drain(..surplus);
            }
        });
        let mut talker = Talker { child, input, lines, last_words, patience: PARTING };
        let hello = serde_json::to_string(hello).unwrap_or_else(|e| unreachable!("plain fields: {e}"));
        // If it is gone already, that is noticed when it does not answer.
        let _ = talker.say(&hello);
        Ok(talker)
    }

    /// The number of its process group.
    pub(super) fn group(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line.
    pub(super) fn say(&mut self, line: &str) -> std::io::Result<()> {
        let Some(input) = &mut self.input else { return Err(std::io::ErrorKind::BrokenPipe.into()) };
        input.write_all(format!("{line}\n").as_bytes())
    }

    /// The next line; `wanted` is what it should be, for the error.
    pub(super) fn hear(
        &mut self,
        wanted: &'static str,
        deadline: Instant,
        interrupt: &AtomicBool,
    ) -> Result<String, TalkError> {
        let begun = Instant::now();
        loop {
            if interrupt.load(Ordering::Relaxed) {
                return Err(TalkError::Interrupted);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let seconds = begun.elapsed().as_secs();
                return Err(TalkError::Silent { wanted, seconds, last_words: self.last_words() });
            }
            match self.lines.recv_timeout(left.min(Duration::from_millis(100))) {
                Ok(Heard::Line(line)) => return Ok(line),
                Ok(Heard::TooLong(line)) => {
                    return Err(TalkError::Strange { wanted, said: line.chars().take(120).collect() });
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    // Its last words may still be on their way.
                    std::thread::sleep(Duration::from_millis(50));
                    return Err(TalkError::Ended { wanted, last_words: self.last_words() });
                }
            }
        }
    }

    fn last_words(&self) -> String {
        let words = self.last_words.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let text = String::from_utf8_lossy(&words);
        let lines: Vec<&str> = text.lines().rev().filter(|line| !line.trim().is_empty()).take(2).collect();
        match &lines[..] {
            [] => String::new(),
            some => format!("; its last words: {}", some.iter().rev().copied().collect::<Vec<_>>().join(" / ")),
        }
    }

    /// Does not wait for it to go by itself.
    pub(super) fn dismiss(mut self) {
        self.patience = Duration::ZERO;
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        self.input = None;
        let deadline = Instant::now() + self.patience;
        let mut gone = false;
        while !gone && Instant::now() < deadline {
            // What it still has to say would block it.
            while self.lines.try_recv().is_ok() {}
            gone = !matches!(self.child.try_wait(), Ok(None));
            if !gone {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        // With all that it has started; it has a group of its own, whose number is its own.
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
        if !gone {
            let _ = self.child.wait();
        }
    }
}
