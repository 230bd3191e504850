//! The way to the leader: finds it, registers, moves messages, and answers readers of outputs.
//!
//! Not here: any decision (`engine`).

pub(crate) mod connect;
pub(crate) mod facts;
pub(crate) mod logs;
pub(crate) mod wires;
