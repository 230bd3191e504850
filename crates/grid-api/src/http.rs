//! Does what every route shares: reads input strictly, guards roles, answers refusals, checks hosts and origins, serves streams and sockets.
//!
//! Not here: what a route does (`routes`), the table of routes (`router`).

pub mod arrivals;
pub mod bare;
pub mod body;
pub mod browser;
pub mod caller;
pub mod consistency;
pub mod guard;
pub mod hosts;
pub mod path;
pub mod query;
pub mod refused;
pub mod streams;
pub mod wire;
