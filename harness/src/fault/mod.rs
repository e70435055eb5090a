//! What can go wrong with a program or under it.

pub mod power_cut;
