//! The wire between controllers and workers, and between controllers: generated messages, and the conversion of the
//! worker's to and from the words of `grid-types`. Nothing of the state machine is here, so that a worker never links it.
//!
//! `listen` is what the listeners of both wires share.
//! Not here: what the messages between controllers mean (`grid-raft`).

mod causes;
mod convert;
mod digest;
pub mod listen;

pub use causes::causes;
pub use convert::BadMessage;
pub use digest::held_digest;

/// Messages and services as generated from `proto/grid.worker.v1.proto`.
pub mod v1 {
    #![allow(clippy::all, clippy::pedantic)]
    tonic::include_proto!("grid.worker.v1");
}

/// Messages and services as generated from `proto/grid.peer.v1.proto`.
pub mod peer {
    #![allow(clippy::all, clippy::pedantic)]
    tonic::include_proto!("grid.peer.v1");
}
