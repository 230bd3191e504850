//! Runs leases: their programs, their surroundings, and the backends whose actions they are.
//!
//! Not here: whether a lease may run (`engine::book`), starting a process (`machine::processes`).

pub mod backends;
pub mod environment;
pub mod executor;
pub mod lease;
