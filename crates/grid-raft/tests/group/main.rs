//! Groups of several members, in one process, over real sockets and real folders.
//!
//! Each member has a runtime of its own, so that dropping it is a `kill -9`; links
//! between members go through a proxy that can be cut in either direction.

mod changes;
mod failures;
#[path = "../file_machine/mod.rs"]
mod file_machine;
mod links;
mod replication;
mod trio;
