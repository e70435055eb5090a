//! What clients and the writer say to each other: one JSON object a line, in both directions.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::Error;
use crate::operation::{Operation, Reply};

/// The longest line that is read: what the longest queue file takes, and some more.
pub(super) const MAX_LINE: u64 = 600 * 1024 * 1024;

/// What a client asks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Request {
    /// Names this request for ever. A request that is sent again has the same.
    pub(super) id: String,
    /// Whether it may have been sent before, to a writer that has not answered.
    pub(super) again: bool,
    /// What is to be done.
    pub(super) ask: Ask,
}

impl Request {
    /// Whether one of us can have sent it: what we push has been checked before.
    pub(super) fn is_one_of_ours(&self) -> bool {
        match &self.ask {
            Ask::Operate(Operation::Push { tasks }) => tasks.iter().all(|task| task.check_names().is_ok()),
            _ => true,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and not for long")]
pub(super) enum Ask {
    /// An operation.
    Operate(Operation),
    /// To serve nobody else until this client has said what the file is to be, or is gone.
    Hold,
    /// After a hold: the new document, in place of the one of this version.
    Swap {
        /// The version that the client has read.
        read: u64,
        /// The document, whatever version it says.
        text: Box<RawValue>,
        /// The operation's name in the audit line.
        op: String,
        /// The tasks that it concerns.
        ids: Vec<String>,
    },
}

/// What the writer answers, after the commit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Response {
    /// The request that it answers.
    pub(super) id: String,
    /// What came of it.
    pub(super) said: Said,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Said {
    /// Done.
    Done(Reply),
    /// The client has the file for itself.
    Held,
    /// The new document is in place.
    Swapped,
    /// No task has the id; whether it was completed.
    UnknownId(String, bool),
    /// Not held under that claim any more: the id, the claim, who holds it now.
    LeaseLost(String, String, String),
    /// Anything else, in words.
    Failed(String),
}

impl Said {
    pub(super) fn from_error(error: &Error) -> Self {
        match error {
            Error::UnknownId { id, done } => Said::UnknownId(id.clone(), *done),
            Error::LeaseLost { id, claim, now } => Said::LeaseLost(id.clone(), claim.clone(), now.clone()),
            other => Said::Failed(other.to_string()),
        }
    }

    /// The answer to an operation.
    pub(super) fn into_reply(self) -> Result<Reply, Error> {
        match self {
            Said::Done(reply) => Ok(reply),
            other => Err(other.into_error()),
        }
    }

    pub(super) fn into_error(self) -> Error {
        match self {
            Said::UnknownId(id, done) => Error::UnknownId { id, done },
            Said::LeaseLost(id, claim, now) => Error::LeaseLost { id, claim, now },
            Said::Failed(words) => Error::Remote(words),
            Said::Done(_) | Said::Held | Said::Swapped => {
                Error::Remote("the writer gave an answer to another question".into())
            }
        }
    }
}

/// Sends one message.
pub(super) fn send<T: Serialize>(to: &mut impl Write, message: &T) -> io::Result<()> {
    to.write_all(&line_of(message)?)
}

/// A message as it is sent.
pub(super) fn line_of<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    // A document has line breaks of its own, between its values; in strings they are escaped.
    line.iter_mut().filter(|byte| matches!(**byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    line.push(b'\n');
    Ok(line)
}

/// Receives one message. An end of the stream before it is [`io::ErrorKind::UnexpectedEof`].
pub(super) fn receive<T: for<'de> Deserialize<'de>>(from: &mut impl BufRead) -> io::Result<T> {
    let mut line = Vec::new();
    io::Read::take(&mut *from, MAX_LINE).read_until(b'\n', &mut line)?;
    match line.last() {
        Some(b'\n') => Ok(serde_json::from_slice(&line)?),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
