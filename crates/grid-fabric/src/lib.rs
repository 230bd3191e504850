//! Defines the border between controller and worker: how leases go out and results come back.
//!
//! The controller implements [`Hub`] and calls [`serve`]; what it says to a worker goes into that session's
//! [`Outbox`]. The worker speaks through a [`Link`]. Both sides see wire messages and nothing of tonic, so that a
//! simulator can put its own network between them.
//! Not here: what a message means. Which lease is offered is decided by the leader, whether it is run by the worker.

pub mod closing;
mod credential;
mod grpc;
mod hub;
mod intake;
mod leave;
mod link;
mod mirrored;
pub mod nats;
mod offer_many;
mod outbox;
mod refusal;
mod shape;

pub use closing::CloseReason;
pub use credential::Credential;
pub use grpc::{GrpcDialer, GrpcLink, ServeError, serve};
pub use hub::{Hub, Peer};
pub use intake::{Intake, JobRefusal, JobRequest};
pub use leave::Leave;
pub use link::{Arrival, Broker, Dialer, Downlink, Link, LinkError, Slot, Uplink};
pub use mirrored::{Changed, Collection, Mirrored, Shown};
pub use offer_many::{Audience, Broadcaster, Broadcasts, NotPublished, OfferMany, Recipient};
pub use outbox::{Outbox, Overflow};
pub use refusal::FabricRefusal;

/// Largest message either side accepts.
pub const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;
