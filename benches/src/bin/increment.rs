//! The smallest worker in Rust: reads the number in the file `n` and writes the next one.

use std::{error::Error, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let n: u64 = fs::read_to_string("n")?.trim().parse()?;
    fs::write("n", format!("{}\n", n + 1))?;
    Ok(())
}
