//! The HTTP API of a controller: routes, guards, reading of input, the shape of every answer.
//!
//! ```text
//!   serve (sockets, patience) -> stamp (X-Grid-*, error bodies) -> browser (hosts, origins) -> catch panics -> guards (E4) -> handler -> Control
//! ```
//!
//! E4: a mutation is refused by role before anything of its body is looked at; the guard sits in the route table, so
//! that no handler can forget it.
//! Not here: what a request does (`grid_controller::Control`), the documents (`grid_types::api`), the table of codes
//! (`grid_types::code`).
//! A refusal travels as a value and becomes a body only in `stamp`: NOT_LEADER and STALE_EPOCH need the role, and so
//! the headers and the body of one answer never disagree about it.

mod agents;
mod arrivals;
mod backends;
mod backup;
mod bare;
mod body;
mod browser;
mod cluster;
mod consistency;
mod decisions;
mod document;
mod events;
mod guard;
mod hosts;
mod introspect;
mod jobs;
mod logs;
mod nodes;
mod path;
mod query;
mod refused;
mod results;
mod router;
mod serve;
mod streams;
mod strict_json;
mod wire;

#[cfg(test)]
mod tests;

pub use hosts::{Hosts, is_host};
pub use logs::{HEADER_OUTPUT_ATTEMPT, HEADER_OUTPUT_OFFSET, HEADER_OUTPUT_TOTAL};
pub use router::router;
pub use serve::{Audience, serve};
