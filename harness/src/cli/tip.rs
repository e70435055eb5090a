//! What the parser cannot know of a mistake.

use std::ffi::OsString;

use clap::error::ErrorKind;

/// A hint for the commonest mistake: commands without `--` before them.
pub fn tip(error: &clap::Error, mut words: impl Iterator<Item = OsString>) -> Option<&'static str> {
    let command = words.by_ref().skip(1).find_map(|word| match word.to_str() {
        Some("explore") => Some("noclobber explore -- CMD ::: CMD"),
        Some("record") => Some("noclobber record -- CMD ::: CMD"),
        Some("init") => Some("noclobber init -- CMD ::: CMD"),
        Some("replay") => Some("noclobber replay FILE -- CMD ::: CMD"),
        _ => None,
    })?;
    (error.kind() == ErrorKind::UnknownArgument && !words.any(|word| word == "--")).then_some(command)
}
