//! `sign BOOK NAME [--locked]`

use std::{path::Path, process::ExitCode};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let signed = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [book, name] => guest_book::sign(Path::new(book), name),
        [book, name, "--locked"] => guest_book::sign_locked(Path::new(book), name),
        _ => {
            eprintln!("usage: sign BOOK NAME [--locked]");
            return ExitCode::from(2);
        }
    };
    match signed {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("sign: {e}");
            ExitCode::FAILURE
        }
    }
}
