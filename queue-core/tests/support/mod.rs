//! What the tests share: a modelled file system, ways to interleave processes on it, operations as data, and judges.
//!
//! - [`world`]: the file system itself, a plain state machine.
//! - [`storage`]: the queue's port to it; a [`storage::Gate`] decides when each step happens.
//! - [`turnstile`], [`loom_gate`]: gates for a given schedule and for all of them.
//! - [`ops`]: operations as data, so that they can be generated, compared and carried out anywhere.
//! - [`reference`]: what the operations should do, without files, locks or JSON.
//! - [`judge`]: whether a concurrent run kept every task.
#![allow(dead_code, reason = "every test program uses a part of it")]

pub(crate) mod judge;
pub(crate) mod loom_gate;
pub(crate) mod ops;
pub(crate) mod reference;
pub(crate) mod storage;
pub(crate) mod turnstile;
pub(crate) mod world;
