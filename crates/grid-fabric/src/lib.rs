//! The border between controller and worker: how leases go out and results come back.
//!
//! The controller implements [`Hub`] and calls [`serve`]; what it says to a worker goes into that session's
//! [`Outbox`]. The worker speaks through a [`Link`]. Both sides see wire messages and nothing of tonic, so that a
//! simulator can put its own network between them.
//! Not here: what a message means. Which lease is offered is decided by the leader, whether it is run by the worker.

mod grpc;
mod hub;
mod link;
mod outbox;
mod refusal;

pub use grpc::{GrpcDialer, GrpcLink, ServeError, serve};
pub use hub::Hub;
pub use link::{Dialer, Downlink, Link, LinkError, Slot, Uplink};
pub use outbox::{Outbox, Overflow};
pub use refusal::FabricRefusal;

/// Why a stream was closed, as `Closing.reason` says it.
pub mod closing {
    pub const NOT_LEADER: &str = "NOT_LEADER";
    pub const STALE_SESSION: &str = "STALE_SESSION";
    pub const SHUTDOWN: &str = "SHUTDOWN";
    /// The worker read too slowly; it opens a new session and is told again what is still true.
    pub const OVERFLOW: &str = "OVERFLOW";
    /// A person removed the node: the worker ends, and is a new node if it is started again.
    pub const REMOVED: &str = "REMOVED";
}

/// Largest message either side accepts.
pub const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;
