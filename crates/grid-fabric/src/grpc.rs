//! Carries sessions over gRPC: tonic on both sides, plaintext.

mod lean;
mod link;
mod server;
mod session;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use link::{GrpcDialer, GrpcLink};
pub use server::{ServeError, serve};

/// A peer that neither speaks nor answers a ping is gone after both of these; less than the 20 s for which a
/// restarted worker waits for its old session to be noticed as dead.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Bounds what a peer can make this process buffer per stream; hyper's default is 1 MiB.
const WINDOW_BYTES: u32 = 256 * 1024;
