//! Text as tokens: what noise may change without changing what a text says.

/// A text cut into words (letters, digits, `_`) and single other characters.
pub(super) fn tokens(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices() {
        if word_char(c) {
            start.get_or_insert(at);
            continue;
        }
        if let Some(from) = start.take() {
            out.push(&text[from..at]);
        }
        out.push(&text[at..at + c.len_utf8()]);
    }
    if let Some(from) = start {
        out.push(&text[from..]);
    }
    out
}

/// Whether a token is a word: only words can be noise.
pub(super) fn is_word(token: &str) -> bool {
    token.chars().next().is_some_and(word_char)
}

fn word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The bytes as text, unless they hold a NUL or are no UTF-8.
pub(super) fn as_text(bytes: &[u8]) -> Option<&str> {
    if bytes.contains(&0) { None } else { std::str::from_utf8(bytes).ok() }
}
