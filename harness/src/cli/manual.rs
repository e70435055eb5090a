//! Completions for shells, and man pages: both from the definitions of the commands.

use std::{
    io::{self, Write},
    path::Path,
};

use clap::CommandFactory;
use clap_complete::Shell;

use super::Args;

/// Writes the completion script of a shell.
///
/// # Errors
/// Output that cannot be written.
pub(super) fn completions(shell: Shell, out: &mut impl Write) -> io::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "noclobber", &mut text);
    out.write_all(&text)
}

/// Writes a man page for noclobber and one for each of its commands into a folder, which must be there.
///
/// # Errors
/// Files that cannot be written.
pub(super) fn man_pages(folder: &Path) -> io::Result<()> {
    clap_mangen::generate_to(Args::command(), folder)
}
