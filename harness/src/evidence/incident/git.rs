//! Copies from a git repository: each commit that changed a file left one.

use std::{
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use jiff::Timestamp;

use super::copies::{Clock, Copy, Found, MAX_FILES, Place};
use crate::evidence::EvidenceError;

/// `REPO:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitPath {
    /// The repository.
    pub repository: PathBuf,
    /// The file in it, from its top.
    pub path: String,
}

impl std::str::FromStr for GitPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.rsplit_once(':') {
            Some((repository, path)) if !path.is_empty() => Ok(GitPath {
                repository: PathBuf::from(if repository.is_empty() { "." } else { repository }),
                path: path.to_owned(),
            }),
            _ => Err("write REPO:PATH, as in .:data/queue.json".to_owned()),
        }
    }
}

/// A git that runs nothing that the repository brings along.
fn git(repository: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .arg("-C")
        .arg(repository)
        .args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat"])
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_LITERAL_PATHSPECS", "1")
        .stdin(Stdio::null());
    command
}

/// The versions of a file, oldest first.
pub(super) fn find(from: &GitPath) -> Result<Found, EvidenceError> {
    let failed = |why: &str| {
        let (repository, path) = (from.repository.display(), &from.path);
        EvidenceError::Mistake(format!("--git: `{repository}:{path}`: {why}\n  write REPO:PATH, the path from the top"))
    };
    let log = git(&from.repository)
        .args(["log", "--reverse", "--topo-order", "--format=%H %ct", "--diff-filter=AM", "HEAD", "--"])
        .arg(&from.path)
        .output()
        .map_err(|e| failed(&format!("git cannot be run: {e}")))?;
    if !log.status.success() {
        let said = String::from_utf8_lossy(&log.stderr);
        return Err(failed(said.lines().next().unwrap_or("git failed")));
    }
    let mut found = Found::default();
    for line in String::from_utf8_lossy(&log.stdout).lines().take(MAX_FILES) {
        let Some((commit, seconds)) = line.split_once(' ') else { continue };
        found.copies.push(Copy {
            name: commit[..commit.len().min(12)].to_owned(),
            place: Place::Blob(format!("{commit}:{}", from.path)),
            time: seconds.parse().ok().and_then(|s| Timestamp::from_second(s).ok()),
            clock: Clock::Order,
            pid: None,
        });
    }
    if found.copies.is_empty() {
        return Err(failed("no commit has this file"));
    }
    found.notes.push(format!("{} copies, in the order of their commits", found.copies.len()));
    Ok(found)
}

/// A process that gives out blobs.
#[derive(Debug)]
pub(super) struct Blobs {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Blobs {
    pub(super) fn open(from: &GitPath) -> std::io::Result<Self> {
        let mut child = git(&from.repository)
            .args(["cat-file", "--batch"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let missing = || std::io::Error::other("no pipe to git");
        let ask = child.stdin.take().ok_or_else(missing)?;
        let answers = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        Ok(Blobs { child, ask, answers })
    }

    /// The bytes of a blob, at most `limit`.
    pub(super) fn read(&mut self, blob: &str, limit: u64) -> std::io::Result<Vec<u8>> {
        writeln!(self.ask, "{blob}")?;
        self.ask.flush()?;
        let mut head = String::new();
        self.answers.read_line(&mut head)?;
        let words: Vec<&str> = head.split_whitespace().collect();
        let size: u64 = match words[..] {
            [_, "blob", size] => size.parse().map_err(std::io::Error::other)?,
            _ => return Err(std::io::Error::other("git has no such blob")),
        };
        let mut bytes = Vec::new();
        self.answers.by_ref().take(size.min(limit)).read_to_end(&mut bytes)?;
        // What is beyond the limit, and the newline after it.
        std::io::copy(&mut self.answers.by_ref().take(size - bytes.len() as u64 + 1), &mut std::io::sink())?;
        match size > limit {
            true => Err(std::io::Error::other(format!("larger than {limit} bytes"))),
            false => Ok(bytes),
        }
    }
}

impl Drop for Blobs {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
