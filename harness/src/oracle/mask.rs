//! Noise masks: what one serial order leaves differently when only the environment (epoch, pids, random bytes) changes.
//!
//! A mask belongs to one content of one serial order and covers as little as it can: single JSON scalars, and in
//! strings and plain text single words. Whatever is equal in both environments stays compared, so a lost task beside
//! a time stamp is still seen. A content whose *structure* changes (keys, array lengths, number of tokens) is not
//! masked at all.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    json,
    text::{as_text, is_word, tokens},
};

/// The masked places of one content, relative to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Mask {
    /// Nothing is masked.
    #[default]
    Nothing,
    /// The scalar here may be any scalar of the same type.
    Scalar,
    /// These words (numbers of tokens) of the text here may be any word.
    Tokens(BTreeSet<usize>),
    /// Below these members.
    Members(BTreeMap<String, Mask>),
    /// Below these elements.
    Elements(BTreeMap<usize, Mask>),
}

/// A mask with its size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Noise {
    /// What is masked.
    pub(super) mask: Mask,
    /// How many words (of texts and of strings; other scalars count as one) it covers.
    pub(super) covered: usize,
    /// How many there are.
    pub(super) total: usize,
    /// The masked places, for people.
    pub(super) places: Vec<String>,
}

/// The two environments left contents of different structure: nothing may be masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StructureDiffers;

impl Noise {
    /// What differs between the same content in two environments.
    pub(super) fn between(a: &[u8], b: &[u8]) -> Result<Noise, StructureDiffers> {
        if a == b {
            return Ok(Noise::default());
        }
        let mut noise = Noise::default();
        if let (Some(a), Some(b)) = (json::parse(a), json::parse(b)) {
            noise.mask = noise.value(&a, &b, &mut Vec::new())?;
        } else if let (Some(a), Some(b)) = (as_text(a), as_text(b)) {
            let (a, b) = (tokens(a), tokens(b));
            noise.total = a.iter().filter(|token| is_word(token)).count();
            noise.mask = noise.words(&a, &b, "word ")?;
            if let Mask::Tokens(words) = &noise.mask {
                noise.covered = words.len();
            }
        } else {
            return Err(StructureDiffers);
        }
        Ok(noise)
    }

    /// More than half of the content is masked: equality would say little.
    pub(super) fn heavy(&self) -> bool {
        self.covered * 2 > self.total
    }

    fn value(&mut self, a: &Value, b: &Value, place: &mut Vec<String>) -> Result<Mask, StructureDiffers> {
        match (a, b) {
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
                let mut masks = BTreeMap::new();
                for (at, (a, b)) in a.iter().zip(b).enumerate() {
                    place.push(at.to_string());
                    let mask = self.value(a, b, place)?;
                    place.pop();
                    if mask != Mask::Nothing {
                        masks.insert(at, mask);
                    }
                }
                Ok(if masks.is_empty() { Mask::Nothing } else { Mask::Elements(masks) })
            }
            (Value::Object(a), Value::Object(b)) if a.len() == b.len() => {
                let mut masks = BTreeMap::new();
                for (key, a) in a {
                    let b = b.get(key).ok_or(StructureDiffers)?;
                    place.push(key.clone());
                    let mask = self.value(a, b, place)?;
                    place.pop();
                    if mask != Mask::Nothing {
                        masks.insert(key.clone(), mask);
                    }
                }
                Ok(if masks.is_empty() { Mask::Nothing } else { Mask::Members(masks) })
            }
            (Value::Array(_) | Value::Object(_), _) | (_, Value::Array(_) | Value::Object(_)) => Err(StructureDiffers),
            _ => self.scalar(a, b, place),
        }
    }

    fn scalar(&mut self, a: &Value, b: &Value, place: &[String]) -> Result<Mask, StructureDiffers> {
        let words = match a {
            Value::String(text) => tokens(text).iter().filter(|token| is_word(token)).count().max(1),
            _ => 1,
        };
        self.total += words;
        let mask = match (a, b) {
            (Value::Number(a), Value::Number(b)) if json::same_number(a, b) => return Ok(Mask::Nothing),
            (a, b) if a == b => return Ok(Mask::Nothing),
            (Value::String(a), Value::String(b)) => {
                let before = self.places.len();
                let mask = self.words(&tokens(a), &tokens(b), "");
                self.places.truncate(before);
                // A string of another shape is masked whole: it is one value, and its neighbours stay compared.
                mask.unwrap_or(Mask::Scalar)
            }
            (a, b) if json::kind(a) == json::kind(b) => Mask::Scalar,
            _ => return Err(StructureDiffers),
        };
        self.covered += match &mask {
            Mask::Tokens(masked) => masked.len(),
            _ => words,
        };
        self.places.push(json::place_text(place));
        Ok(mask)
    }

    fn words(&mut self, a: &[&str], b: &[&str], label: &str) -> Result<Mask, StructureDiffers> {
        if a.len() != b.len() {
            return Err(StructureDiffers);
        }
        let mut masked = BTreeSet::new();
        for (at, (a, b)) in a.iter().zip(b).enumerate() {
            if a == b {
                continue;
            }
            if !is_word(a) || !is_word(b) {
                return Err(StructureDiffers);
            }
            masked.insert(at);
            self.places.push(format!("{label}`{}`", json::shorten(a)));
        }
        Ok(if masked.is_empty() { Mask::Nothing } else { Mask::Tokens(masked) })
    }
}
