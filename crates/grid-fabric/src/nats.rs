//! Carries sessions, broadcasts and results over the subjects of a nats-server.
//!
//! Not here: what a message means, which is the same on every fabric. JetStream carries nothing that a promise depends on.

mod arrivals;
mod broadcast;
mod calls;
mod client;
mod command;
mod hearing;
mod include;
mod leading;
mod link;
mod mirrors;
mod pace;
mod params;
mod requests;
mod result;
mod server;
mod session;
mod split;
mod streams;
pub mod subjects;
mod term;
#[cfg(test)]
mod tests;
mod wire;

pub use client::{Client, ConnectError, PublishError, RequestError, Settings, inbox_prefix};
pub use leading::serve_clients;
pub use link::{NatsBroker, NatsLink};
pub use server::serve;
