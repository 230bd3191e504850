//! The contract's HTTP clauses, each by name, over an in-memory `Control`.

mod agents;
mod cluster;
mod decisions;
mod fake;
mod guards;
mod input;
mod openapi;
mod reads;
mod sockets;
mod streams;
mod writes;
