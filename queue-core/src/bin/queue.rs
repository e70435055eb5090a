//! The program `queue`: see [`queue_core::cli`].

fn main() -> std::process::ExitCode {
    queue_core::cli::main()
}
