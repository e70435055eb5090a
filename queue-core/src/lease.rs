//! How long a claim holds, and how it is named.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;

/// A moment on the clocks that leases are measured with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// The time of day.
    pub now: Timestamp,
    /// Which boot of the machine this is; empty where unknown.
    pub boot: String,
    /// Milliseconds since that boot.
    pub since_boot: u64,
}

/// When a claim runs out.
///
/// The time of day may be set back or forth; the clock that counts from the machine's start may not. So within one boot
/// only the latter counts, and the time of day only on another machine or after a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deadline {
    /// The time of day.
    pub until: Timestamp,
    /// The boot, and the milliseconds since its start.
    pub boot: Option<(String, u64)>,
}

impl Deadline {
    /// So long after a moment; none: beyond the end of time, that is, never.
    pub fn after(moment: &Moment, lease: Duration) -> Option<Self> {
        let until = moment.now.checked_add(lease).ok()?;
        let clock = u64::try_from(lease.as_millis()).ok().and_then(|lease| moment.since_boot.checked_add(lease));
        let boot = clock.filter(|_| !moment.boot.is_empty()).map(|clock| (moment.boot.clone(), clock));
        Some(Deadline { until, boot })
    }

    /// Whether it has passed.
    pub fn is_over(&self, moment: &Moment) -> bool {
        match &self.boot {
            Some((boot, clock)) if *boot == moment.boot => *clock <= moment.since_boot,
            _ => self.until <= moment.now,
        }
    }
}

/// What a claim gives, and what completing, extending and releasing need: which task, and which of its claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The task.
    pub id: String,
    /// The number of the claim, from 1.
    pub attempt: u64,
}

impl fmt::Display for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}#{}", self.id, self.attempt)
    }
}

impl FromStr for Token {
    type Err = String;

    /// Reads what [`Display`](fmt::Display) wrote. An id may hold `#` too, so the last one counts.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.rsplit_once('#').filter(|(id, _)| !id.is_empty());
        let token = parts.and_then(|(id, attempt)| Some(Token { id: id.to_owned(), attempt: attempt.parse().ok()? }));
        token.ok_or_else(|| "a token is ID#ATTEMPT, as `claim` prints it".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_can_be_read_back() {
        for id in ["t1", "a#b", "#"] {
            let token = Token { id: id.into(), attempt: 12 };
            assert_eq!(token.to_string().parse(), Ok(token));
        }
        for text in ["", "t1", "#1", "t1#", "t1#x", "t1#-1"] {
            assert!(text.parse::<Token>().is_err(), "{text}");
        }
    }
}
