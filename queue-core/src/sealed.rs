//! A line of JSON that ends in the sum of what is before it, so that half of one, or of two, is told from a whole one.

use serde::Serialize;

use crate::audit;

/// The line, without a line break.
pub(crate) fn seal(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).unwrap_or_else(|error| unreachable!("plain fields: {error}"));
    let sum = audit::hash(&line);
    line.push(b' ');
    line.extend_from_slice(sum.as_bytes());
    line
}

/// The JSON of such a line, if its sum is right.
pub(crate) fn unseal(line: &[u8]) -> Option<&[u8]> {
    let (json, sum) = line.split_at_checked(line.len().checked_sub(9)?)?;
    (sum[0] == b' ' && sum[1..] == *audit::hash(json).as_bytes()).then_some(json)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_line_is_read_as_it_was_written_and_no_other_is(
            text in ".{0,60}", place in any::<prop::sample::Index>(), other in 1..=255_u8,
        ) {
            let mut line = seal(&text);
            prop_assert_eq!(unseal(&line), Some(&*serde_json::to_vec(&text).unwrap()));
            let at = place.index(line.len());
            prop_assert_eq!(unseal(&line[..at]), None);
            line[at] ^= other;
            prop_assert_eq!(unseal(&line), None);
        }
    }
}
