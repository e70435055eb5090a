//! Untrusted text on a terminal: harmless, of a known width, never mistaken for a command.

use unicode_width::UnicodeWidthStr;

use crate::scenario::printable;

/// A text on one line. Escapes what a terminal or an eye could be misled by, and the beginnings that a CI runner
/// takes for commands (`::`, `##[`).
pub(crate) fn line(text: &str) -> String {
    no_command(printable(text))
}

/// A line that no CI runner takes for a command.
fn no_command(text: String) -> String {
    let trimmed = text.trim_start();
    if trimmed.starts_with("::") || trimmed.starts_with("##[") {
        let indent = &text[..text.len() - trimmed.len()];
        return format!("{indent}\\{trimmed}");
    }
    text
}

/// Columns on a terminal.
pub(crate) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// The text, cut in its middle to this width: both ends of a path tell something.
pub(crate) fn elide(text: &str, max: usize) -> String {
    if width(text) <= max {
        return text.to_owned();
    }
    // The end gets more: it has the file's name.
    let head = take(text.chars(), max.saturating_sub(1) / 3);
    let tail: String = take(text.chars().rev(), max.saturating_sub(1) - width(&head)).chars().rev().collect();
    if max == 0 { String::new() } else { format!("{head}…{tail}") }
}

fn take(chars: impl Iterator<Item = char>, max: usize) -> String {
    let mut out = String::new();
    for c in chars {
        out.push(c);
        if width(&out) > max {
            out.pop();
            break;
        }
    }
    out
}

/// The text filled up with blanks to this width.
pub(crate) fn pad(text: &str, to: usize) -> String {
    format!("{text}{}", " ".repeat(to.saturating_sub(width(text))))
}

/// The text in lines of at most this width, broken at blanks; a longer word is broken where it must be.
pub(crate) fn wrap(text: &str, max: usize) -> Vec<String> {
    // A column is kept free for `no_command`: a break may put `::` at the start of a line.
    let max = max.max(9) - 1;
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let mut word = word.to_owned();
        loop {
            let last = lines.last_mut().expect("there is always a line");
            let gap = usize::from(!last.is_empty());
            if width(last) + gap + width(&word) <= max {
                *last += &" ".repeat(gap);
                *last += &word;
                break;
            }
            if last.is_empty() {
                let head = take(word.chars(), max);
                word = word[head.len()..].to_owned();
                *last = head;
            }
            lines.push(String::new());
        }
    }
    lines.into_iter().map(no_command).collect()
}

/// `A`, `A and B`, `A, B and C`.
pub(crate) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A number with commas between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 step`, `2 steps`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_harmless() {
        let cases = [
            ("plain ü 账户 🦀", "plain ü 账户 🦀"),
            ("a\nb\tc\r", "a\\nb\\tc\\r"),
            ("\u{1b}[31mred\u{9b}0m\u{7f}", "\\u{1b}[31mred\\u{9b}0m\\u{7f}"),
            ("a\u{202e}txt.exe\u{2066}", "a\\u{202e}txt.exe\\u{2066}"),
            ("zero\u{200b}width\u{feff}", "zero\\u{200b}width\\u{feff}"),
            ("::error::x", "\\::error::x"),
            ("  ##[error]x", "  \\##[error]x"),
            ("a::b", "a::b"),
        ];
        for (text, expected) in cases {
            assert_eq!(line(text), expected, "{text:?}");
        }
    }

    #[test]
    fn elided_text_fits() {
        let cases = [
            ("queue.json", 10, "queue.json"),
            ("queues/account/queue.json", 12, "que…eue.json"),
            ("queue.json", 1, "…"),
            ("queue.json", 0, ""),
            ("账户账户账户", 7, "账…账户"),
        ];
        for (text, max, expected) in cases {
            assert_eq!(elide(text, max), expected, "{text} in {max}");
            assert!(width(&elide(text, max)) <= max);
        }
    }

    #[test]
    fn wrapped_text_fits_and_loses_nothing() {
        let text = "Hold one lock from before the read until after the write averyveryverylongwordthatfitsnowhere end";
        for max in [9, 13, 40, 200] {
            let lines = wrap(text, max);
            assert!(lines.iter().all(|l| width(l) <= max && !l.is_empty()), "{lines:?}");
            let joined: String = lines.concat().split_whitespace().collect();
            assert_eq!(joined, text.split_whitespace().collect::<String>());
        }
        assert_eq!(wrap("", 10), [""]);
        assert_eq!(wrap("a line ::error::x", 11), ["a line", "\\::error::x"]);
    }

    #[test]
    fn names_are_listed() {
        let cases: [(&[&str], &str); 4] =
            [(&[], ""), (&["A"], "A"), (&["A", "B"], "A and B"), (&["A", "B", "C"], "A, B and C")];
        for (names, expected) in cases {
            assert_eq!(listed(&names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()), expected);
        }
    }

    #[test]
    fn numbers() {
        let cases = [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")];
        for (number, expected) in cases {
            assert_eq!(grouped(number), expected);
        }
        assert_eq!((count(1, "step"), count(1_000, "step")), ("1 step".into(), "1,000 steps".into()));
    }
}
