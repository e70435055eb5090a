//! A transcript: commands behind `$ `, and what they print, `[...]` for what is left out.

/// A command and the lines that a reader is shown of its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The command, with its further lines.
    pub command: String,
    /// The lines shown.
    pub shown: Vec<String>,
}

/// Takes a transcript apart.
///
/// # Panics
/// When it does not begin with a command.
pub fn entries(text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut goes_on = false;
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            entries.push(Entry { command: command.to_owned(), shown: Vec::new() });
        } else {
            let last = entries.last_mut().unwrap_or_else(|| panic!("no command before `{line}`"));
            if goes_on {
                last.command = format!("{}\n{line}", last.command);
            } else {
                last.shown.push(line.to_owned());
            }
        }
        goes_on = line.ends_with('\\') && entries.last().is_some_and(|entry| entry.shown.is_empty());
    }
    entries
}

/// Whether an output has the shown lines: each run of lines between `[...]` as it stands, in order. What differs from
/// machine to machine (real seconds) is not compared. Returns the first run of lines that is not there.
pub fn missing(shown: &[String], output: &str) -> Option<String> {
    let output: Vec<String> = output.lines().map(plain).collect();
    let mut from = 0;
    for part in shown.split(|line| line.trim() == "[...]") {
        let part: Vec<String> = part.iter().map(|line| plain(line)).collect();
        if part.is_empty() {
            continue;
        }
        let found = output[from..].windows(part.len()).position(|lines| lines == part);
        match found {
            Some(at) => from += at + part.len(),
            None => return Some(part.join("\n")),
        }
    }
    None
}

/// A line without what differs: real seconds, blanks at its end.
pub fn plain(line: &str) -> String {
    let words = line.trim_end().split(' ').map(|word| {
        let digits = word.trim_start_matches('(');
        let is_seconds = digits.split_once('.').is_some_and(|(whole, part)| {
            part.len() == 2 && [whole, part].iter().all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        });
        if is_seconds { "…" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_go_on_behind_a_backslash() {
        let entries = entries("$ a \\\n  b\nout\n$ c\n[...]\nlast\n");
        let entry = |command: &str, shown: &[&str]| Entry {
            command: command.into(),
            shown: shown.iter().map(|s| (*s).to_owned()).collect(),
        };
        assert_eq!(entries, [entry("a \\\n  b", &["out"]), entry("c", &["[...]", "last"])]);
    }

    #[test]
    fn what_is_shown_must_be_there_in_order() {
        let shown = |lines: &[&str]| lines.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let output = "a\nb\nc\nall (3 schedules, 0.33 s)\n";
        assert_eq!(missing(&shown(&["a", "[...]", "c", "all (3 schedules, 12.50 s)"]), output), None);
        for wrong in [&["c", "[...]", "a"][..], &["a", "c"], &["d"], &["all (4 schedules, 0.33 s)"]] {
            assert!(missing(&shown(wrong), output).is_some(), "{wrong:?}");
        }
    }
}
