//! Times in names, as people and programs write them.

use std::sync::LazyLock;

use jiff::{Timestamp, civil, tz::TimeZone};
use regex::{Captures, Regex};

/// A time found in a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Date and time of day, without a zone.
    civil: civil::DateTime,
    /// Seconds east of Greenwich, if the name says it; a count of seconds since 1970 is at 0.
    offset: Option<i32>,
    /// Where in the name it stands.
    pub(super) span: (usize, usize),
}

static DATED: LazyLock<Regex> = LazyLock::new(|| {
    let date = r"(?P<y>(?:19|20)\d\d)[-_.]?(?P<mo>0[1-9]|1[0-2])[-_.]?(?P<d>0[1-9]|[12]\d|3[01])";
    let fraction = r"(?:[.,](?P<f>\d{1,9})|_?(?P<g>\d{3}|\d{6}|\d{9}))?";
    let time = r"[Tt _@.-]{0,3}(?P<h>[01]\d|2[0-3])[-_:.h]?(?P<mi>[0-5]\d)(?:[-_:.m]?(?P<s>[0-5]\d|60))?";
    let zone = r"(?P<z>[ _]?(?:Z|UTC|GMT)|[+-](?:0\d|1[0-4]):?(?:00|30|45))?";
    Regex::new(&format!(r"(?:^|\D)(?P<all>{date}(?:{time}{fraction}{zone})?)(?:\D|$)")).expect("a sound pattern")
});
static EPOCH: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?:^|\D)(?P<all>(?P<n>1\d{18}|1\d{15}|1\d{12}|1\d{9})(?:[.,](?P<f>\d{1,9}))?)(?:\D|$)")
        .expect("a sound pattern")
});

/// The time in a name: `20260131T120000.123456Z`, `2026-01-31_12-00-00`, `1769860800`, and the like.
pub(super) fn in_name(name: &str) -> Option<Stamp> {
    DATED.captures(name).and_then(|c| dated(&c)).or_else(|| EPOCH.captures(name).and_then(|c| epoch(&c)))
}

fn dated(found: &Captures<'_>) -> Option<Stamp> {
    let number = |key: &str| found.name(key).and_then(|m| m.as_str().parse::<i16>().ok());
    let small = |key: &str| i8::try_from(number(key).unwrap_or(0)).ok();
    let fraction = found.name("f").or(found.name("g")).map_or(0, |m| nanoseconds(m.as_str()));
    // A leap second is the last of its minute.
    let second = small("s")?.min(59);
    let civil =
        civil::DateTime::new(number("y")?, small("mo")?, small("d")?, small("h")?, small("mi")?, second, fraction)
            .ok()?;
    let offset = found.name("z").and_then(|zone| offset(zone.as_str()));
    let all = found.name("all")?;
    Some(Stamp { civil, offset, span: (all.start(), all.end()) })
}

fn epoch(found: &Captures<'_>) -> Option<Stamp> {
    let digits = found.name("n")?.as_str();
    let n: i128 = digits.parse().ok()?;
    let unit = 10_i128.pow(9 - (digits.len() as u32 - 10));
    let fraction = found.name("f").map_or(0, |m| i128::from(nanoseconds(m.as_str())));
    let at = Timestamp::from_nanosecond(n * unit + if digits.len() == 10 { fraction } else { 0 }).ok()?;
    let all = found.name("all")?;
    Some(Stamp { civil: TimeZone::UTC.to_datetime(at), offset: Some(0), span: (all.start(), all.end()) })
}

fn nanoseconds(digits: &str) -> i32 {
    format!("{digits:0<9}").parse().unwrap_or(0)
}

/// Seconds east of Greenwich of `Z`, `+02:00`, `-0530`.
fn offset(zone: &str) -> Option<i32> {
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return Some(0),
    };
    let digits: String = zone.chars().filter(char::is_ascii_digit).collect();
    let (hours, minutes) = digits.split_at_checked(2)?;
    Some(sign * (hours.parse::<i32>().ok()? * 3600 + minutes.parse::<i32>().ok()? * 60))
}

impl Stamp {
    /// Whether the name says its zone.
    pub(super) fn has_zone(&self) -> bool {
        self.offset.is_some()
    }

    /// The instant, with `zone` for a name that does not say one.
    pub(super) fn at(&self, zone: &TimeZone) -> Option<Timestamp> {
        let fixed = self.offset.and_then(|s| jiff::tz::Offset::from_seconds(s).ok()).map(TimeZone::fixed);
        fixed.as_ref().unwrap_or(zone).to_timestamp(self.civil).ok()
    }
}

/// A zone as `--tz` takes it: `Europe/Berlin`, `+02:00`, `UTC`, `local`.
pub(super) fn zone(text: &str) -> Result<TimeZone, String> {
    if text.eq_ignore_ascii_case("local") {
        return Ok(TimeZone::system());
    }
    if text.starts_with(['+', '-']) {
        let seconds = offset(text).filter(|_| text.len() >= 3);
        if let Some(offset) = seconds.and_then(|s| jiff::tz::Offset::from_seconds(s).ok()) {
            return Ok(TimeZone::fixed(offset));
        }
    }
    TimeZone::get(text).map_err(|_| format!("--tz: `{text}` is no time zone\n  write Europe/Berlin, +02:00 or UTC"))
}

/// A time as logs have it: RFC 3339, with a blank for the T, without a zone, or seconds since 1970 (also in
/// thousandths and finer).
pub(super) fn in_log(text: &str, zone: &TimeZone) -> Option<Timestamp> {
    let text = text.trim();
    text.parse().ok().or_else(|| in_name(text).filter(|stamp| stamp.span.0 == 0)?.at(zone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_forms() {
        let noon = "2026-01-31T12:00:00Z";
        let cases = [
            ("20260131T120000Z-v17-4242-3.json", noon),
            ("20260131T120000.123456Z-v17-4242-3.json", "2026-01-31T12:00:00.123456Z"),
            ("queue_2026-01-31_12-00-00.json.gz", noon),
            ("queue.json.2026-01-31T12:00:00+02:00", "2026-01-31T10:00:00Z"),
            ("queue.json.2026-01-31 12.00.00", noon),
            ("queue-20260131-120000.json", noon),
            ("queue-20260131-120000-4242.json", noon),
            ("queue-20260131_120000_000500.json", "2026-01-31T12:00:00.0005Z"),
            ("20260131120000.bak", noon),
            ("20260131120000250.bak", "2026-01-31T12:00:00.25Z"),
            ("queue.20260131", "2026-01-31T00:00:00Z"),
            ("queue.json.1769860800", noon),
            ("queue.json.1769860800.25", "2026-01-31T12:00:00.25Z"),
            ("1769860800250-queue.json", "2026-01-31T12:00:00.25Z"),
            ("q-1769860800000000001.json", "2026-01-31T12:00:00.000000001Z"),
            ("20260131T235960Z", "2026-01-31T23:59:59Z"),
        ];
        for (name, expected) in cases {
            let at = in_name(name).unwrap_or_else(|| panic!("{name}")).at(&TimeZone::UTC).unwrap();
            assert_eq!(at, expected.parse().unwrap(), "{name}");
        }
        for name in ["queue.json", "queue.json.1", "v17-4242.json", "99999999.json", "queue-12345678901.json"] {
            assert_eq!(in_name(name), None, "{name}");
        }
    }

    #[test]
    fn zones() {
        let at = |tz: &str| in_name("2026-07-01_12-00-00").unwrap().at(&zone(tz).unwrap()).unwrap().to_string();
        assert_eq!(
            [at("UTC"), at("+02:00"), at("Europe/Berlin")],
            ["2026-07-01T12:00:00Z", "2026-07-01T10:00:00Z", "2026-07-01T10:00:00Z"]
        );
        assert!(zone("Nowhere/City").is_err());
        assert_eq!(in_log("2026-07-01 12:00:00,250", &TimeZone::UTC).unwrap().to_string(), "2026-07-01T12:00:00.25Z");
    }
}
