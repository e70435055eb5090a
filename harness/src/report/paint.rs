//! Colour, or none.

use anstyle::{AnsiColor, Style};

/// What a text means; colours follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// As it should be.
    Good,
    /// As it should not be.
    Bad,
    /// Unsure.
    Unsure,
    /// What to look at.
    Strong,
    /// What to look at last.
    Faint,
    /// Nothing special.
    Plain,
}

/// Colours texts, if asked to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint(pub(crate) bool);

impl Paint {
    /// The text in its colour.
    pub(crate) fn text(self, tone: Tone, text: &str) -> String {
        let style = match tone {
            Tone::Good => AnsiColor::Green.on_default().bold(),
            Tone::Bad => AnsiColor::Red.on_default().bold(),
            Tone::Unsure => AnsiColor::Yellow.on_default().bold(),
            Tone::Strong => Style::new().bold(),
            Tone::Faint => Style::new().dimmed(),
            Tone::Plain => Style::new(),
        };
        if !self.0 || style.is_plain() || text.is_empty() {
            return text.to_owned();
        }
        format!("{}{text}{}", style.render(), style.render_reset())
    }
}
