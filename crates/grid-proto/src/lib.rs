//! The wire between controllers and workers, and between controllers: generated messages, and the conversion of the
//! worker's to and from the words of `grid-types`. Nothing of the state machine is here, so that a worker never links it.
//!
//! `listen` and `refusals` are what the listeners of this process share.
//! Not here: what the messages between controllers mean (`grid-raft`).

mod causes;
mod convert;
mod digest;
mod foreign;
pub mod listen;
pub mod refusals;
mod secret;

pub use causes::causes;
pub use convert::BadMessage;
pub use digest::outstanding_digest;
pub use foreign::{Foreign, MAX_CHARS};

/// Messages and services as generated from `proto/grid.worker.v1.proto`.
pub mod v1 {
    #![allow(clippy::all, clippy::pedantic)]
    include!("generated/grid.worker.v1.rs");
}

/// Messages and services as generated from `proto/grid.peer.v1.proto`.
pub mod peer {
    #![allow(clippy::all, clippy::pedantic)]
    include!("generated/grid.peer.v1.rs");
}
