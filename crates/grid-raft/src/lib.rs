//! Consensus: a replicated log that drives a [`Machine`].
//!
//! ```text
//!   propose ──► openraft ──► log_store (fsync) ──► committed ──► applier ──► Machine ──► reply
//!                  │                                                │
//!                  └── leadership, stopped                          └── snapshots
//! ```
//!
//! Promises L1–L5 and E4 of PROTOCOL.md, as far as they concern the log. Knows
//! nothing of jobs, nodes or SQLite: payloads are bytes, state is the
//! machine's.
//!
//! Not here: a transport between members (`network` says so), automatic
//! snapshots, membership changes.
//! openraft's types do not appear in the public interface: its next version
//! changes most of them, and nothing else in Grid should notice.

mod applier;
mod config;
mod error;
mod folder;
mod founding;
mod ground;
mod group;
mod leadership;
mod log_check;
mod log_store;
mod machine;
mod mark;
mod network;
mod raft;
mod record;
mod snapshots;
mod start;
mod state_machine;
#[cfg(test)]
mod storage_suite;

// The tests' machine is written against the public interface, by its name.
#[cfg(test)]
extern crate self as grid_raft;
#[cfg(test)]
#[path = "../tests/file_machine/mod.rs"]
mod file_machine;

pub use config::{Config, MAX_PAYLOAD_BYTES, Start};
pub use error::{OpenError, ProposeError, Stopped};
pub use folder::{Identity, Restored, identity, is_initialised};
pub use founding::{found, lone_membership};
pub use ground::{Ground, MachineKnown};
pub use leadership::{LeaderInfo, Leadership};
pub use machine::{Committed, LogPosition, Machine, MachineError, MachinePosition};
pub use raft::Raft;
pub use snapshots::{check_snapshot, sound_snapshots};
