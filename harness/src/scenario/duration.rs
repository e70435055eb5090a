//! Durations as people write them: `3s`, `500ms`, `1m30s`, `1.5h`. Microseconds are the finest unit.

use std::time::Duration;

use thiserror::Error;

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DurationError {
    /// There is a number, but nothing says what it counts.
    #[error("`{0}` has no unit: write `{0}s` or `{0}ms`")]
    NoUnit(String),
    /// It cannot be read at all.
    #[error("`{}` is no duration: write one like `3s`, `500ms`, `1m30s` (units: us, ms, s, m, h)", .0.escape_debug())]
    Malformed(String),
    /// It is finer than virtual time can express.
    #[error("`{0}` is finer than a microsecond, the smallest unit of virtual time")]
    TooFine(String),
    /// It does not fit.
    #[error("`{0}` is longer than virtual time can express (about 580,000 years)")]
    TooLong(String),
}

/// Microseconds of each unit, and the order in which [`format_duration`] tries them.
const UNITS: [(&str, u64); 6] =
    [("h", 3_600_000_000), ("m", 60_000_000), ("min", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1)];

/// Reads a duration: one or more numbers, each with a unit of `us`, `ms`, `s`, `m` (or `min`), `h`; a plain `0` too.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let malformed = || DurationError::Malformed(text.to_owned());
    let mut rest = text.trim();
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(malformed());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let unit_end = after.find(|c: char| !c.is_ascii_lowercase() && c != 'µ').unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        if number.is_empty() {
            return Err(malformed());
        }
        if unit.is_empty() {
            return Err(if next.trim().is_empty() {
                DurationError::NoUnit(text.trim().to_owned())
            } else {
                malformed()
            });
        }
        let unit = if unit == "µs" { "us" } else { unit };
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(malformed)?;
        total =
            scaled(number, *scale, text)?.checked_add(total).ok_or_else(|| DurationError::TooLong(text.to_owned()))?;
        rest = next.trim_start();
    }
    Ok(Duration::from_micros(total))
}

/// A decimal number times `scale`, exactly.
fn scaled(number: &str, scale: u64, text: &str) -> Result<u64, DurationError> {
    let malformed = || DurationError::Malformed(text.to_owned());
    let too_long = || DurationError::TooLong(text.to_owned());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') || (number.contains('.') && fraction.is_empty()) {
        return Err(malformed());
    }
    let whole = whole.parse::<u64>().map_err(|_| too_long())?.checked_mul(scale).ok_or_else(too_long)?;
    // The fraction as a numerator over a power of ten; more than twelve digits are finer than a microsecond of an hour.
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 12 {
        return Err(DurationError::TooFine(text.to_owned()));
    }
    let numerator = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().map_err(|_| malformed())? };
    let (product, power) = (numerator * u128::from(scale), 10_u128.pow(fraction.len() as u32));
    if product % power != 0 {
        return Err(DurationError::TooFine(text.to_owned()));
    }
    u64::try_from(product / power).ok().and_then(|f| f.checked_add(whole)).ok_or_else(too_long)
}

/// Writes a duration so that [`parse_duration`] gives it back (parts below a microsecond are cut off).
pub fn format_duration(duration: Duration) -> String {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    if micros == 0 {
        return String::from("0s");
    }
    let (name, scale) = UNITS.iter().find(|(_, scale)| micros % scale == 0).copied().unwrap_or(("us", 1));
    format!("{}{name}", micros / scale)
}
