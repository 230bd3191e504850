//! Accepts calls of other members and answers them (the peer port).
//!
//! `gate` checks the caller before the body is read, `service` answers.
//! Not here: calls to other members (`peers`), who counts as a member (`member::callers`).

pub mod gate;
pub mod service;
