//! One number for everything that a search was given: parts with different ones do not belong together.

use super::shared::Settings;
use crate::{
    scenario::{Scenario, save},
    world::Tree,
};

/// A hash of the scenario as it was run (options included), its initial world, and what is not in the scenario.
pub(super) fn inputs(scenario: &Scenario, initial: &Tree, settings: &Settings) -> String {
    // What cannot be written as TOML is still the same on the same machine.
    let text = save(scenario).unwrap_or_else(|_| format!("{scenario:?}"));
    let mut hasher = blake3::Hasher::new_derive_key("noclobber inputs of a partitioned search v1");
    hasher.update(&(text.len() as u64).to_le_bytes());
    hasher.update(text.as_bytes());
    hasher.update(&[u8::from(settings.all)]);
    hasher.update(&postcard::to_stdvec(initial).unwrap_or_default());
    hasher.finalize().to_hex().to_string()
}
