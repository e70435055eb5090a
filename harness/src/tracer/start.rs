//! Starting a worker: fork, seize, filter, exec.

use std::{
    collections::BTreeMap,
    ffi::{CString, OsStr, OsString},
    io::{Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::Path,
};

use nix::{
    errno::Errno,
    sys::{personality, ptrace},
    unistd::ForkResult,
};

use super::{
    capture::{self, Capture},
    filter::Filters,
    kernel,
    machine::{Lost, Machine, must},
    sandbox,
    task::State,
};
use crate::scenario::Command;

/// A command ready to be started.
#[derive(Clone, Debug)]
pub(super) struct Program {
    /// File to execute.
    pub path: CString,
    /// Arguments, the program's name first.
    pub args: Vec<CString>,
    /// Environment.
    pub env: Vec<CString>,
}

impl Program {
    /// Resolves a command as a shell in the world would.
    ///
    /// # Errors
    /// A text: no such program, or a NUL byte.
    pub(super) fn new(command: &Command, env: &BTreeMap<OsString, OsString>) -> Result<Self, String> {
        let args: Vec<String> = match command {
            Command::Shell(text) if is_plain_call(text, env) => {
                vec!["/bin/sh".into(), "-c".into(), format!("exec {text}")]
            }
            Command::Shell(text) => vec!["/bin/sh".into(), "-c".into(), text.clone()],
            Command::Args(args) => args.clone(),
        };
        let name = args.first().filter(|a| !a.is_empty()).ok_or("an empty command")?;
        let path = find(name, env).ok_or_else(|| format!("no program `{name}` in PATH or the world"))?;
        let c = |text: &OsStr| CString::new(text.as_bytes()).map_err(|_| format!("a NUL byte in the command `{name}`"));
        let env = env.iter().map(|(key, value)| {
            let mut pair = key.clone();
            pair.push("=");
            pair.push(value);
            c(&pair)
        });
        let mut program = Program {
            path: c(path.as_os_str())?,
            args: args.iter().map(|a| c(OsStr::new(a))).collect::<Result<_, _>>()?,
            env: env.collect::<Result<_, _>>()?,
        };
        program.pad();
        Ok(program)
    }

    /// Fills the environment up, so that the stack begins at one address whatever the caller's environment is like: names
    /// of temporary files are made of addresses (glibc's mkstemp).
    fn pad(&mut self) {
        let padding = |len: usize| {
            let text = [PADDING.as_bytes(), &vec![b'.'; len]].concat();
            CString::new(text).unwrap_or_else(|e| unreachable!("no NUL among these: {e}"))
        };
        self.env.push(padding(0));
        let missing = self.size().next_multiple_of(PAGES) - self.size();
        self.env.pop();
        self.env.push(padding(missing));
    }

    /// The bytes on the stack that depend on what it is given: texts, and the addresses of arguments and environment.
    fn size(&self) -> usize {
        let text = |text: &CString| text.as_bytes_with_nul().len();
        let listed: usize = self.args.iter().chain(&self.env).map(|one| text(one) + size_of::<usize>()).sum();
        listed + text(&self.path)
    }
}

/// What a worker's environment is filled up with, and to a multiple of how many bytes.
const PADDING: &str = "NOCLOBBER_PADDING=";
const PAGES: usize = 16 * 1024;

/// Whether a shell command only calls one program, so that the program may take the shell's place, as it does when
/// bash runs it (dash would wait for it in a process of its own). One process can be forked from a template.
fn is_plain_call(text: &str, env: &BTreeMap<OsString, OsString>) -> bool {
    let trimmed = text.trim();
    let first = trimmed.split_whitespace().next().unwrap_or_default();
    let plain =
        unquoted(trimmed).is_some_and(|rest| !rest.contains(['|', '&', ';', '<', '>', '(', ')', '`', '\n', '#']));
    let bare = !first.contains(['\'', '"', '\\', '=', '*', '?', '[', '~']);
    // Without a slash it may be a builtin, an alias or a reserved word; with one it is a file.
    let program =
        first.contains('/') || !first.contains('$') && !BUILTINS.contains(&first) && find(first, env).is_some();
    plain && bare && program
}

/// What of a shell command stands outside of quotes; what is run within double quotes counts as outside. `None`: a
/// quote that does not end.
fn unquoted(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => drop(chars.next()),
            (None, '\'' | '"') => quote = Some(c),
            (Some(_), '`') | (None, _) => out.push(c),
            (Some(_), '$') if chars.as_str().starts_with('(') => out.push('('),
            _ => {}
        }
    }
    quote.is_none().then_some(out)
}

/// Words that the shell answers itself although a program of that name may exist.
const BUILTINS: [&str; 40] = [
    ".", ":", "[", "alias", "bg", "break", "case", "cd", "chdir", "command", "continue", "do", "done", "echo", "eval",
    "exec", "exit", "export", "false", "fg", "for", "getopts", "hash", "if", "jobs", "kill", "printf", "pwd", "read",
    "return", "set", "shift", "test", "times", "trap", "true", "type", "ulimit", "umask", "wait",
];

fn find(name: &str, env: &BTreeMap<OsString, OsString>) -> Option<std::path::PathBuf> {
    if name.contains('/') {
        // Relative to the world; whether it exists may depend on setup, so exec decides.
        return Some(Path::new(sandbox::world()).join(name));
    }
    let default = OsString::from("/usr/local/bin:/usr/bin:/bin");
    let path = env.get(OsStr::new("PATH")).unwrap_or(&default);
    std::env::split_paths(path)
        .map(|dir| Path::new(sandbox::world()).join(dir).join(name))
        .find(|file| rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok() && file.is_file())
}

impl Machine {
    /// Starts a worker; it runs to its first rest with the next [`settle`](Machine::settle).
    pub(super) fn start(
        &mut self,
        actor: usize,
        program: &Program,
        filters: &Filters,
        output_limit: u64,
    ) -> Result<(), Lost> {
        if self.start_from_template(actor)? {
            return Ok(());
        }
        let (capture, ends) = must("making pipes", Capture::new(output_limit))?;
        let null = must("opening /dev/null", capture::null())?;
        let (mut wait, mut go) = must("making a pipe", std::io::pipe())?;
        let (mut report, mut trouble) = must("making a pipe", std::io::pipe())?;
        self.reserve_pid(actor)?;
        let child = match must("forking a worker", kernel::fork())? {
            ForkResult::Child => {
                drop(go);
                let mut byte = [0];
                let what = match wait.read_exact(&mut byte) {
                    Ok(()) => become_worker(program, filters, &null, &ends),
                    Err(e) => e.to_string(),
                };
                let _ = trouble.write_all(what.as_bytes());
                // Not by a macro: a test harness may have caught those, and another thread may have held the lock.
                let _ = nix::unistd::write(std::io::stderr(), format!("{what}\n").as_bytes());
                kernel::exit_now(127);
            }
            ForkResult::Parent { child } => child,
        };
        drop((wait, trouble, ends, null));
        let options = ptrace::Options::PTRACE_O_TRACESYSGOOD
            | ptrace::Options::PTRACE_O_TRACEFORK
            | ptrace::Options::PTRACE_O_TRACEVFORK
            | ptrace::Options::PTRACE_O_TRACEVFORKDONE
            | ptrace::Options::PTRACE_O_TRACECLONE
            | ptrace::Options::PTRACE_O_TRACEEXEC
            | ptrace::Options::PTRACE_O_TRACESECCOMP
            | ptrace::Options::PTRACE_O_TRACEEXIT
            | ptrace::Options::PTRACE_O_EXITKILL;
        must(
            "ptrace is not allowed here (in Docker: --cap-add SYS_PTRACE; on a host: kernel.yama.ptrace_scope below 3)",
            ptrace::seize(child, options),
        )?;
        self.adopt(child, actor)?;
        self.task_mut(child).state = State::Running;
        let entry = &mut self.actors[actor];
        entry.started = true;
        entry.main = Some(child);
        entry.capture = Some(capture);
        must("starting a worker", go.write_all(&[1]))?;
        self.settle()?;
        // It may be held before its exec (a program in the world), or gone: then the pipe says why.
        let mut said = [0; 512];
        must("reading a pipe", rustix::fs::fcntl_setfl(&report, rustix::fs::OFlags::NONBLOCK))?;
        match report.read(&mut said) {
            Ok(n @ 1..) => Err(Lost::Other(String::from_utf8_lossy(&said[..n]).into_owned())),
            _ => Ok(()),
        }
    }
}

/// In the child: everything up to exec. Returns only when something failed.
fn become_worker(program: &Program, filters: &Filters, null: &OwnedFd, ends: &[OwnedFd; 2]) -> String {
    let prepare = || -> Result<(), String> {
        let text = |e: std::io::Error| e.to_string();
        kernel::reset_signals();
        nix::unistd::setsid().map_err(|e| e.to_string())?;
        for (fd, target) in [(null, 0), (&ends[0], 1), (&ends[1], 2)] {
            kernel::redirect(fd.as_raw_fd(), target).map_err(text)?;
        }
        nix::unistd::chdir(sandbox::world()).map_err(|e| e.to_string())?;
        rustix::process::umask(rustix::fs::Mode::from_bits_truncate(0o022));
        let persona = personality::get().map_err(|e| e.to_string())? | personality::Persona::ADDR_NO_RANDOMIZE;
        // Docker forbids it. Few programs show where their memory lies; of one that does, two runs differ.
        personality::set(persona)
            .map(drop)
            .or_else(|e| if sandbox::shared().is_some() { Ok(()) } else { Err(e) })
            .map_err(|e| format!("cannot fix where memory lies (personality): {e}"))?;
        kernel::trap_time_stamp_counter().map_err(text)?;
        filters.install().map_err(|e| format!("cannot install the system-call filter: {e}"))
    };
    if let Err(e) = prepare() {
        return e;
    }
    let error = kernel::exec(&program.path, &program.args, &program.env);
    let path = Path::new(OsStr::from_bytes(program.path.as_bytes()));
    let path = path.strip_prefix(sandbox::world()).unwrap_or(path);
    let hint = match error {
        Errno::ENOENT => " (or the interpreter that its first line names is missing)",
        Errno::EACCES => " (is it executable? chmod +x)",
        Errno::ENOEXEC => " (a script needs a first line like #!/bin/sh)",
        _ => "",
    };
    format!("cannot execute {}: {}{hint}", path.display(), error.desc())
}

/// The environment of every command of a scenario: the caller's, the scenario's, ours.
pub(super) fn environment(
    scenario: &BTreeMap<String, String>,
    own: &[(&str, OsString)],
) -> BTreeMap<OsString, OsString> {
    let mut env: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    env.remove(OsStr::new("OLDPWD"));
    env.extend(scenario.iter().map(|(k, v)| (OsString::from(k), OsString::from(v))));
    env.extend(own.iter().map(|(k, v)| (OsString::from(*k), v.clone())));
    env.retain(|key, value| !has_nul(key) && !has_nul(value));
    env
}

fn has_nul(text: &OsString) -> bool {
    text.clone().into_vec().contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stack_is_as_full_whatever_the_environment_is_like() {
        let command = Command::Args(vec!["/bin/cat".into(), "f".into()]);
        for size in [0, 1, 7, 500, PAGES - 200, PAGES, 3 * PAGES] {
            let env: BTreeMap<OsString, OsString> = [("A".into(), "x".repeat(size).into())].into();
            let program = Program::new(&command, &env).unwrap();
            assert_eq!(program.size() % PAGES, 0, "{size}");
            assert_eq!(program.env.len(), 2);
        }
    }

    #[test]
    fn only_what_calls_one_program_takes_the_shells_place() {
        let env = BTreeMap::new();
        for plain in ["/bin/cat f", "/bin/cat 'a;b' \"x(y); z\"", "/bin/cat a\\;b", "/bin/cat $HOME \"$HOME\""] {
            assert!(is_plain_call(plain, &env), "{plain}");
        }
        for other in [
            "/bin/cat f; true",
            "/bin/cat f > g",
            "A=1 /bin/cat f",
            "/bin/cat \"$(pwd)\"",
            "/bin/cat \"`pwd`\"",
            "/bin/cat 'f",
            "/bin/cat f\n/bin/cat g",
            "/bin/cat f & ",
        ] {
            assert!(!is_plain_call(other, &env), "{other}");
        }
    }
}
