//! `replay --step`: walking through a schedule in the terminal, forwards and backwards.

use std::io::{self, BufRead, Write};

use crate::{report::StepLine, scenario::printable};

/// Shows one step after each line of `input`: an empty line or `n` goes on, `b` goes back, a number goes there, `q`
/// ends, and so does the end of the input.
///
/// # Errors
/// The terminal cannot be written or read.
pub(super) fn walk(steps: &[StepLine], input: &mut dyn BufRead, out: &mut dyn Write) -> io::Result<()> {
    if steps.is_empty() {
        return writeln!(out, "the schedule has no steps");
    }
    let mut at = 0;
    loop {
        show(&steps[at], steps.len(), out)?;
        write!(out, "[Enter] next  b back  NUMBER go to  q quit > ")?;
        out.flush()?;
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return writeln!(out);
        }
        match line.trim() {
            "" | "n" if at + 1 < steps.len() => at += 1,
            "" | "n" => return writeln!(out, "that was the last step"),
            "b" => at = at.saturating_sub(1),
            "q" => return Ok(()),
            text => match text.parse::<usize>() {
                Ok(n) if (1..=steps.len()).contains(&n) => at = n - 1,
                _ => writeln!(out, "there is no step `{}`: 1 to {}", printable(text), steps.len())?,
            },
        }
    }
}

fn show(step: &StepLine, of: usize, out: &mut dyn Write) -> io::Result<()> {
    let note = step.note.as_deref().map(|note| format!("  ({note})")).unwrap_or_default();
    let line = format!(
        "{}/{of}  {}.{:03} s  {}  {} {}  {}{note}",
        step.n,
        step.time_ms / 1000,
        step.time_ms % 1000,
        step.actor,
        step.op,
        step.path,
        step.result
    );
    writeln!(out, "{}", printable(&line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(n: usize, actor: &str) -> StepLine {
        StepLine {
            n,
            actor: actor.into(),
            op: "read".into(),
            path: "q.json".into(),
            result: "2 bytes".into(),
            time_ms: 1500,
            note: None,
            chosen: true,
        }
    }

    #[test]
    fn goes_forwards_backwards_and_to_a_number() {
        let steps = [step(1, "A"), step(2, "B"), step(3, "\u{1b}[31mC")];
        let mut out = Vec::new();
        walk(&steps, &mut "\nb\n3\n9\nq\n".as_bytes(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let shown: Vec<&str> = text.match_indices("/3  1.500 s").map(|(i, _)| &text[i - 1..i]).collect();
        assert_eq!(shown, ["1", "2", "1", "3", "3"]);
        assert!(text.contains("there is no step `9`: 1 to 3"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn the_end_of_the_input_and_the_last_step_end_it() {
        let mut out = Vec::new();
        walk(&[step(1, "A")], &mut "".as_bytes(), &mut out).unwrap();
        walk(&[step(1, "A")], &mut "\n\n".as_bytes(), &mut out).unwrap();
        walk(&[], &mut "".as_bytes(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("that was the last step") && text.contains("no steps"), "{text}");
    }
}
