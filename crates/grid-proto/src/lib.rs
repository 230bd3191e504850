//! The wire between controllers and workers: generated messages and their conversion to and from the words of
//! `grid-types`. Nothing of the state machine is here, so that a worker never links it.

mod convert;
mod digest;

pub use convert::BadMessage;
pub use digest::held_digest;

/// Messages and services as generated from `proto/grid.worker.v1.proto`.
pub mod v1 {
    #![allow(clippy::all, clippy::pedantic)]
    tonic::include_proto!("grid.worker.v1");
}
