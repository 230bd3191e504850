//! Workers gone bad, and clients that pretend to be one: raw gRPC at the workers' port of a real server.

mod facts;
mod lists;
pub mod peer;
mod sessions;
