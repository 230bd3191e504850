//! The HTTP API of a controller: routes, guards, reading of input, the shape of every answer.
//!
//! ```text
//!   serve (sockets, patience) -> stamp (X-Grid-*, error bodies) -> browser (hosts, origins) -> catch panics -> guards (E4) -> handler -> Control
//! ```
//!
//! `http` is what every route shares, `routes` the handlers by subject, `schema` the bodies that are read by hand, `document` the
//! OpenAPI document, `router` the table of routes, `serve` the sockets.
//!
//! E4: a mutation is refused by role before anything of its body is looked at; the guard sits in the route table, so
//! that no handler can forget it.
//! Not here: what a request does (`grid_controller::Control`), the documents (`grid_types::api`), the table of codes
//! (`grid_types::code`).
//! A refusal travels as a value and becomes a body only in `stamp`: NOT_LEADER and STALE_EPOCH need the role, and so
//! the headers and the body of one answer never disagree about it.

mod document;
mod http;
mod router;
mod routes;
mod schema;
mod serve;

#[cfg(test)]
mod tests;

pub use http::hosts::{Hosts, is_host};
pub use router::router;
pub use routes::logs::{HEADER_OUTPUT_ATTEMPT, HEADER_OUTPUT_OFFSET, HEADER_OUTPUT_TOTAL};
pub use serve::{Audience, serve};
