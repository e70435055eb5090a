//! File contents as text that a page can hold.

use serde::Serialize;

/// More than this of one content is not shown: its head and its tail are.
const MOST_OF_ONE: usize = 48 * 1024;
/// More than this in all contents of a page together is not shown.
const MOST_OF_ALL: usize = 16 * 1024 * 1024;

/// How much more the page may hold.
#[derive(Debug)]
pub(super) struct Budget(usize);

impl Default for Budget {
    fn default() -> Self {
        Budget(MOST_OF_ALL)
    }
}

/// A content on the page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Shown {
    /// Bytes it really has; absent: not recorded, since it is too large.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<usize>,
    /// The text, or its head. Bytes that are no UTF-8 are replaced.
    pub(super) text: String,
    /// Its tail, when something is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tail: Option<String>,
    /// So many bytes between head and tail are left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) left_out: usize,
    /// Not all of it is UTF-8.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) binary: bool,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl Shown {
    /// What is shown of a content.
    pub(super) fn of(bytes: Option<&[u8]>, budget: &mut Budget) -> Shown {
        let Some(bytes) = bytes else { return Shown::default() };
        let room = MOST_OF_ONE.min(budget.0);
        let (head, tail) = if bytes.len() <= room {
            (bytes, None)
        } else {
            let half = room / 2;
            (&bytes[..start_of_char(bytes, half)], Some(&bytes[start_of_char(bytes, bytes.len() - half)..]))
        };
        let shown = head.len() + tail.map_or(0, <[u8]>::len);
        budget.0 -= shown.min(budget.0);
        let valid = |part: &[u8]| std::str::from_utf8(part).is_ok();
        Shown {
            size: Some(bytes.len()),
            text: String::from_utf8_lossy(head).into_owned(),
            tail: tail.map(|tail| String::from_utf8_lossy(tail).into_owned()),
            left_out: bytes.len() - shown,
            binary: !valid(head) || tail.is_some_and(|tail| !valid(tail)),
        }
    }
}

/// The nearest place at or after `at` where no UTF-8 character is cut (within the length of one).
fn start_of_char(bytes: &[u8], at: usize) -> usize {
    (at..bytes.len().min(at + 4)).find(|i| bytes[*i] & 0xc0 != 0x80).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_texts_are_shown_whole() {
        let mut budget = Budget::default();
        for text in ["", "{\"a\":1}\n", "账户 🦀"] {
            let shown = Shown::of(Some(text.as_bytes()), &mut budget);
            assert_eq!(shown, Shown { size: Some(text.len()), text: text.into(), ..Shown::default() });
        }
        assert_eq!(Shown::of(None, &mut budget).size, None);
    }

    #[test]
    fn large_ones_lose_their_middle_and_no_character_is_cut() {
        let text = "账".repeat(1_000_000);
        let shown = Shown::of(Some(text.as_bytes()), &mut Budget::default());
        let tail = shown.tail.unwrap();
        assert!(!shown.binary);
        assert!(shown.text.len() + tail.len() <= MOST_OF_ONE + 8);
        assert_eq!(shown.text.len() + tail.len() + shown.left_out, text.len());
    }

    #[test]
    fn invalid_bytes_are_marked() {
        let shown = Shown::of(Some(b"a\xffb"), &mut Budget::default());
        assert_eq!((shown.text.as_str(), shown.binary), ("a\u{fffd}b", true));
    }

    #[test]
    fn a_page_is_bounded() {
        let mut budget = Budget::default();
        let bytes = vec![b'x'; 1 << 20];
        let total: usize = (0..1_000)
            .map(|_| Shown::of(Some(&bytes), &mut budget))
            .map(|shown| shown.text.len() + shown.tail.map_or(0, |t| t.len()))
            .sum();
        assert!(total <= MOST_OF_ALL, "{total}");
    }
}
