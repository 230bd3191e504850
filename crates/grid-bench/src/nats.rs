//! What `fanout --fabric nats` measures beside Grid itself: the nats-server, and the same fan-out over NATS without Grid.
//!
//! ```text
//!   core      publish once ─► N core subscriptions ─► N answers ─► a reply to each; nothing is stored
//!   durable   publish once ─► stream ─► N durable pull consumers ─► N publishes into a stream, acknowledged ─► one consumer
//! ```
//!
//! The baselines run on a nats-server of their own, so that its consumers are not taken for Grid's; it is idle while Grid is measured.

mod baseline;
mod core;
mod durable;
mod server;

pub use baseline::{leader, workers};
pub use server::NatsServer;
