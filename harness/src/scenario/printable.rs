//! Untrusted text made harmless: what a terminal, or a reader's eye, could be misled by is written as an escape.

/// Whether a character can be shown as it is. Not so: control characters (terminal escapes among them), characters
/// that change the direction of text, and those that cannot be seen.
pub fn is_printable(c: char) -> bool {
    !(c.is_control()
        || matches!(c,
            '\u{061c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{00ad}' | '\u{180e}' | '\u{3164}' | '\u{ffa0}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'))
}

/// The text on one line, with `\n`, `\t`, `\u{1b}` and the like for what [`is_printable`] rejects.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if is_printable(c) => out.push(c),
            c => out.extend(c.escape_default()),
        }
    }
    out
}
