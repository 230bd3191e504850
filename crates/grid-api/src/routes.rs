//! The handlers, one module a subject. Each reads its input, asks `Control`, and answers with a document of `grid_types::api`.
//!
//! Not here: which path leads to which handler, and for whom (`router`).

pub mod agents;
pub mod backends;
pub mod backup;
pub mod cluster;
pub mod decisions;
pub mod events;
pub mod introspect;
pub mod jobs;
pub mod logs;
pub mod nodes;
pub mod results;
