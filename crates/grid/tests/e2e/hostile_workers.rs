//! Compromised workers, and clients that pretend to be workers: raw gRPC on the workers' port of a real server.

mod facts;
mod lists;
pub mod peer;
mod sessions;
