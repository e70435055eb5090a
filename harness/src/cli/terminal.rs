//! Whether to colour.

use std::ffi::OsStr;

/// Colour only on a terminal that can show it, and not when `NO_COLOR` is set to anything but nothing
/// (<https://no-color.org>).
pub fn wants_colour(is_terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty) && term != Some(OsStr::new("dumb"))
}
