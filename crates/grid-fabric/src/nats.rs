//! The NATS fabric: sessions, broadcasts and results over the subjects of a nats-server.
//!
//! Not here: what a message means, which is the same on every fabric. JetStream carries nothing that a promise depends on.

mod client;
pub mod subjects;

pub use client::{Client, ConnectError, PublishError, Settings};
