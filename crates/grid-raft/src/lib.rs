//! Consensus: a replicated log that drives a [`Machine`].
//!
//! ```text
//!   propose ──► openraft ──► log_store (fsync) ──► committed ──► applier ──► Machine ──► reply
//!                │    │                                             │
//!                │    └── leadership, stopped                       └── snapshots
//!                └── network ──► peers ══► service of the other members
//! ```
//!
//! Promises L1–L5 and E3–E7 of docs/protocol.md, as far as they concern log, members
//! and votes. Knows nothing of jobs, nodes or SQLite: payloads are bytes, state
//! is the machine's.
//!
//! Not here: automatic snapshots, roles and epochs, who may ask for a change of
//! members.
//! openraft's types do not appear in the public interface: its next version
//! changes most of them, and nothing else in Grid should notice.

mod announce;
mod applier;
mod bounds;
mod candidacy;
mod card;
mod config;
mod contact;
mod epochs;
mod error;
mod folder;
mod founding;
#[cfg(test)]
mod fuzz;
mod gate;
mod ground;
mod group;
mod hand_over;
mod leadership;
mod log_check;
mod log_store;
mod machine;
mod mark;
mod membership;
mod network;
mod peers;
mod persistence;
mod raft;
mod read;
mod record;
mod removal;
mod rolled_back;
mod sender;
mod service;
mod snapshots;
mod start;
mod state_machine;
#[cfg(test)]
mod storage_suite;
mod wire;

// The tests' machine is written against the public interface, by its name.
#[cfg(test)]
extern crate self as grid_raft;
#[cfg(test)]
#[path = "../tests/file_machine/mod.rs"]
mod file_machine;

pub use card::{Card, new_member_id};
pub use config::{Config, MAX_PAYLOAD_BYTES, Start};
pub use epochs::{GENERATION_STEP, PlausibleEpochs};
pub use error::{ChangeError, HandOverError, OpenError, PeerPortError, ProposeError, ReadError, Stopped};
pub use folder::{Identity, Restored, identity, is_initialised};
pub use founding::{found, lone_membership};
pub use ground::{Ground, MachineKnown};
pub use group::Member;
pub use leadership::{LeaderInfo, Leadership};
pub use machine::{Committed, LogPosition, Machine, MachineError, MachinePosition, WriteCopy};
pub use membership::{Listed, Roster};
pub use raft::Raft;
pub use read::PeerState;
pub use snapshots::{check_snapshot, sound_snapshots};
