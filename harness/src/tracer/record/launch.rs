//! Starting commands as a shell would, with a watcher beside them.
//!
//! Two processes: the *front*, which is what the user started and which ends as the commands end, and the *watcher*,
//! their tracer, which goes on as long as anything that they started lives. A program that becomes a daemon thus
//! behaves as without us.

use std::{
    ffi::{CString, OsStr},
    io::{BufRead, BufReader, PipeWriter, Read, Write},
    os::{
        fd::{AsFd, AsRawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        ptrace,
        signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask},
        signalfd::{SfdFlags, SignalFd},
    },
    unistd::{ForkResult, Pid},
};
use seccompiler::BpfProgram;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{RecordRequest, document::Documents, files::Watched, watch::Watcher};
use crate::{
    evidence::recording::{Recording, Store, StoreError},
    tracer::{filter, kernel},
};

/// Signals that somebody sends to us and means for the commands.
const PASSED_ON: [Signal; 6] =
    [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2];
/// What of these and others must not end or stop the watcher before the commands have dealt with it.
const IGNORED: [Signal; 9] = [
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
];
/// `si_code` of a signal that the kernel sends, as the terminal's Ctrl-C: the commands get it themselves.
const FROM_KERNEL: i32 = 0x80;

/// Nothing was recorded.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// A mistake in the arguments.
    #[error("{0}")]
    Mistake(String),
    /// A command cannot be executed: 126, or 127 if it is not there.
    #[error("{why}")]
    NoProgram {
        /// What is wrong.
        why: String,
        /// The exit code that shells have for it.
        code: i32,
    },
    /// This machine does not allow it.
    #[error("{0}")]
    NotAllowed(String),
    /// Something that should not happen.
    #[error("{0}")]
    Internal(String),
}

/// What the watcher tells the front, one a line.
#[derive(Debug, Serialize, Deserialize)]
enum Told {
    Started(Vec<i32>),
    Ended(Box<Recording>),
    NoProgram(String, i32),
    Mistake(String),
    NotAllowed(String),
    Internal(String),
}

/// Runs commands and records what they do to files; returns when the commands have ended.
///
/// # Errors
/// [`LaunchError`]; then nothing was run, or what ran was ended.
pub fn record(request: &RecordRequest) -> Result<Recording, LaunchError> {
    let internal = |what: &str, e: &dyn std::fmt::Display| LaunchError::Internal(format!("{what}: {e}"));
    let filter = filter::for_recording().map_err(|e| internal("compiling the filter", &e))?;
    let (mut listen, tell) = std::io::pipe().map_err(|e| internal("making a pipe", &e))?;
    match kernel::fork().map_err(|e| internal("forking", &e))? {
        ForkResult::Child => {
            drop(listen);
            // The commands end with the watcher: a panic must not leave them half under control.
            let watched = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| watch(request, &filter, &tell)));
            if let Ok(Err(told)) = watched {
                say(&tell, &told);
            }
            kernel::exit_now(0);
        }
        ForkResult::Parent { child } => {
            drop(tell);
            let told = front(&mut listen);
            // One that goes on is nobody's any more; one that ends leaves nothing behind.
            if told.as_ref().map_or(true, |recording| recording.running.is_empty()) {
                let _ = nix::sys::wait::waitpid(child, None);
            }
            told
        }
    }
}

fn say(mut to: &PipeWriter, told: &Told) {
    if let Ok(mut line) = serde_json::to_vec(told) {
        line.push(b'\n');
        // A front that is gone needs to know nothing.
        let _ = to.write_all(&line);
    }
}

/// Waits for the end of the commands, and passes on signals.
fn front(listen: &mut std::io::PipeReader) -> Result<Recording, LaunchError> {
    let internal = |what: &str, e: Errno| LaunchError::Internal(format!("{what}: {e}"));
    let signals: SigSet = PASSED_ON.into_iter().collect();
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&signals), None).map_err(|e| internal("blocking signals", e))?;
    let heard = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
        .map_err(|e| internal("hearing signals", e))?;
    let mut lines = BufReader::new(listen.try_clone().map_err(|e| LaunchError::Internal(e.to_string()))?);
    let mut started: Vec<i32> = Vec::new();
    loop {
        let mut ready = [PollFd::new(listen.as_fd(), PollFlags::POLLIN), PollFd::new(heard.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, PollTimeout::NONE) {
            Err(Errno::EINTR) => continue,
            Err(e) => return Err(internal("waiting", e)),
            Ok(_) => {}
        }
        while let Ok(Some(signal)) = heard.read_signal() {
            let terminal = signal.ssi_code == FROM_KERNEL;
            if let Ok(signal) = Signal::try_from(signal.ssi_signo as i32).map(Some)
                && !terminal
            {
                for pid in &started {
                    let _ = kill(Pid::from_raw(*pid), signal);
                }
            }
        }
        if ready[0].revents().is_none_or(|events| events.is_empty()) {
            continue;
        }
        loop {
            match hear(&mut lines)? {
                Told::Started(pids) => started = pids,
                Told::Ended(recording) => return Ok(*recording),
                Told::NoProgram(why, code) => return Err(LaunchError::NoProgram { why, code }),
                Told::Mistake(why) => return Err(LaunchError::Mistake(why)),
                Told::NotAllowed(why) => return Err(LaunchError::NotAllowed(why)),
                Told::Internal(why) => return Err(LaunchError::Internal(why)),
            }
            // What is read already does not wake us again.
            if lines.buffer().is_empty() {
                break;
            }
        }
    }
}

fn hear(lines: &mut impl BufRead) -> Result<Told, LaunchError> {
    let mut line = String::new();
    match lines.read_line(&mut line) {
        Ok(1..) => serde_json::from_str(&line).map_err(|e| LaunchError::Internal(e.to_string())),
        _ => Err(LaunchError::Internal("the recorder was ended, and the commands with it".to_owned())),
    }
}

/// The watcher's whole life.
fn watch(request: &RecordRequest, filter: &BpfProgram, tell: &PipeWriter) -> Result<(), Told> {
    let internal = |what: &str, e: &dyn std::fmt::Display| Told::Internal(format!("{what}: {e}"));
    let root = std::env::current_dir().and_then(std::fs::canonicalize);
    let root = root.map_err(|e| internal("the current folder", &e))?;
    let host = nix::unistd::gethostname().map(|host| host.to_string_lossy().into_owned()).unwrap_or_default();
    let store = match Store::create(&root.join(&request.out), &host, request.limits) {
        Ok(store) => store,
        Err(e @ (StoreError::Exists(_) | StoreError::Io { .. })) => return Err(Told::Mistake(e.to_string())),
    };
    let out = store.root().to_owned();
    let mut watcher = Watcher::new(Documents::new(Watched::new(&root, &request.files, &out), store));
    let mut gates = Vec::new();
    let started = (|| {
        for words in &request.commands {
            let (pid, gate) = start(words, request.commands.len() > 1, filter)?;
            gates.push((pid, gate));
        }
        Ok(())
    })();
    if let Err(told) = started {
        // Those that wait at their gates go away when these close.
        drop(gates);
        let _ = std::fs::remove_dir(&out);
        return Err(told);
    }
    for signal in IGNORED {
        kernel::set_ignored(signal as i32, true);
    }
    let options = ptrace::Options::PTRACE_O_TRACESYSGOOD
        | ptrace::Options::PTRACE_O_TRACEFORK
        | ptrace::Options::PTRACE_O_TRACEVFORK
        | ptrace::Options::PTRACE_O_TRACECLONE
        | ptrace::Options::PTRACE_O_TRACEEXEC
        | ptrace::Options::PTRACE_O_TRACESECCOMP
        | ptrace::Options::PTRACE_O_TRACEEXIT
        | ptrace::Options::PTRACE_O_EXITKILL;
    for (pid, _) in &gates {
        if let Err(e) = ptrace::seize(*pid, options) {
            let _ = std::fs::remove_dir(&out);
            return Err(Told::NotAllowed(format!(
                "ptrace is not allowed here: {e}\n  in Docker: --cap-add SYS_PTRACE; on a host: kernel.yama.ptrace_scope \
                 below 3"
            )));
        }
        watcher.add_main(*pid);
    }
    say(tell, &Told::Started(gates.iter().map(|(pid, _)| pid.as_raw()).collect()));
    // All at the same time.
    for (_, gate) in &mut gates {
        gate.go.write_all(&[1]).map_err(|e| internal("starting a command", &e))?;
    }
    let mut trouble: Vec<std::io::PipeReader> = gates.into_iter().map(|(_, gate)| gate.trouble).collect();
    let mut told = false;
    let recording = watcher.run(|recording| {
        told = true;
        write_summary(&out, recording);
        say(tell, &Told::Ended(Box::new(recording.clone())));
        // Whoever reads what the commands print must not wait for us.
        let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null");
        for fd in 0..3 {
            if let Ok(null) = &null {
                let _ = kernel::redirect(null.as_raw_fd(), fd);
            }
        }
    });
    let recording = recording.map_err(|e| Told::Internal(e.to_string()))?;
    if told {
        write_summary(&out, &recording);
        return Ok(());
    }
    let said: Vec<String> = trouble
        .iter_mut()
        .filter_map(|trouble| {
            let mut said = String::new();
            trouble.read_to_string(&mut said).ok().filter(|n| *n > 0).map(|_| said)
        })
        .collect();
    if let Some(said) = said.first() {
        let _ = std::fs::remove_dir_all(&out);
        let (code, why) = said.split_once(' ').unwrap_or(("126", said));
        return Err(Told::NoProgram(why.to_owned(), code.parse().unwrap_or(126)));
    }
    write_summary(&out, &recording);
    say(tell, &Told::Ended(Box::new(recording)));
    Ok(())
}

/// What was recorded, beside it.
fn write_summary(out: &Path, recording: &Recording) {
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(out)?;
        serde_json::to_writer(&mut file, recording)?;
        file.write_all(b"\n")?;
        file.persist(out.join("record.json"))?;
        Ok(())
    };
    // The evidence itself is there; its summary was told too.
    let _ = write();
}

/// A command that waits to be let go.
struct Gate {
    go: PipeWriter,
    trouble: std::io::PipeReader,
}

fn start(words: &[String], several: bool, filter: &BpfProgram) -> Result<(Pid, Gate), Told> {
    let internal = |what: &str, e: &dyn std::fmt::Display| Told::Internal(format!("{what}: {e}"));
    let program = Program::new(words).map_err(|(why, code)| Told::NoProgram(why, code))?;
    let (mut wait, go) = std::io::pipe().map_err(|e| internal("making a pipe", &e))?;
    let (trouble, mut report) = std::io::pipe().map_err(|e| internal("making a pipe", &e))?;
    match kernel::fork().map_err(|e| internal("forking", &e))? {
        ForkResult::Child => {
            drop(go);
            let mut byte = [0];
            // The gate closes when another command cannot be started.
            if wait.read_exact(&mut byte).is_ok() {
                let said = become_program(&program, several, filter);
                let _ = report.write_all(said.as_bytes());
            }
            kernel::exit_now(127);
        }
        ForkResult::Parent { child } => Ok((child, Gate { go, trouble })),
    }
}

/// What is to be executed.
struct Program {
    paths: Vec<CString>,
    args: Vec<CString>,
    env: Vec<CString>,
}

impl Program {
    fn new(words: &[String]) -> Result<Program, (String, i32)> {
        let is_shell = |c: char| c.is_whitespace() || "|&;<>()$`\"'*?[]#~={}!\\".contains(c);
        let shell;
        let words = match words {
            [text] if text.contains(is_shell) && !Path::new(text).exists() => {
                shell = ["/bin/sh".to_owned(), "-c".to_owned(), text.clone()];
                &shell[..]
            }
            words => words,
        };
        let name = &words[0];
        let c = |text: &[u8]| CString::new(text).map_err(|_| (format!("a NUL byte in the command `{name}`"), 126));
        let search = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let candidates = match name.contains('/') {
            true => vec![Path::new(name).to_owned()],
            false => std::env::split_paths(&search).map(|dir| dir.join(name)).filter(|path| path.is_file()).collect(),
        };
        if candidates.is_empty() || !candidates.iter().any(|path| path.exists()) {
            return Err((
                format!("no program `{name}`\n  it is in no folder of PATH; a shell command goes into quotes"),
                127,
            ));
        }
        let env = std::env::vars_os().map(|(mut key, value)| {
            key.push("=");
            key.push(value);
            c(key.as_bytes())
        });
        Ok(Program {
            paths: candidates.iter().map(|path| c(path.as_os_str().as_bytes())).collect::<Result<_, _>>()?,
            args: words.iter().map(|word| c(word.as_bytes())).collect::<Result<_, _>>()?,
            env: env.collect::<Result<_, _>>()?,
        })
    }
}

/// In the child: everything up to exec. Returns only when something failed: exit code, blank, what.
fn become_program(program: &Program, several: bool, filter: &BpfProgram) -> String {
    // The runtime ignores it for us; programs expect to be ended by it.
    kernel::set_ignored(Signal::SIGPIPE as i32, false);
    if several {
        // Two programs cannot share what somebody types.
        let null = std::fs::File::open("/dev/null").and_then(|null| kernel::redirect(null.as_raw_fd(), 0));
        if let Err(e) = null {
            return format!("126 /dev/null: {e}");
        }
    }
    if let Err(e) = seccompiler::apply_filter(filter) {
        return format!("126 cannot install the system-call filter: {e}");
    }
    let mut error = Errno::ENOENT;
    for path in &program.paths {
        error = kernel::exec(path, &program.args, &program.env);
        if error == Errno::ENOEXEC {
            // As shells and execvp do with a script that does not say what runs it.
            let sh = CString::from(c"/bin/sh");
            let args: Vec<CString> =
                [sh.clone(), path.clone()].into_iter().chain(program.args.iter().skip(1).cloned()).collect();
            error = kernel::exec(&sh, &args, &program.env);
        }
        if !matches!(error, Errno::ENOENT | Errno::EACCES | Errno::ENOTDIR) {
            break;
        }
    }
    let path = program.paths.last().map_or(OsStr::new(""), |path| OsStr::from_bytes(path.as_bytes()));
    let (code, hint) = match error {
        Errno::ENOENT => (127, " (or the interpreter that its first line names is missing)"),
        Errno::EACCES => (126, " (is it executable? chmod +x)"),
        _ => (126, ""),
    };
    format!("{code} cannot execute {}: {}{hint}", Path::new(path).display(), error.desc())
}
