//! Consensus: a replicated log that drives a [`Machine`].
//!
//! ```text
//!   propose ──► openraft ──► log (fsync) ──► committed ──► state_machine ──► Machine ──► reply
//!                │    │                                         │
//!                │    └── leadership, stopped                   └── snapshots
//!                └── peers ══► peer_port of the other members
//! ```
//!
//! Imports point one way:
//!
//! ```text
//!   config, group, machine, error, bounds  ◄─  data_dir  ◄─  log, snapshots  ◄─  state_machine, peers
//!     ◄─  member (what a member does while it runs)  ◄─  start, peer_port  ◄─  raft (the public handle)
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

mod bounds;
mod config;
mod data_dir;
mod error;
mod group;
mod leadership;
mod log;
mod machine;
mod member;
mod peer_port;
mod peers;
mod raft;
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
pub use data_dir::folder::{Identity, Restored, identity, is_initialised};
pub use data_dir::local_member::{LocalMember, new_member_id};
pub use error::{ChangeError, HandOverError, OpenError, PeerPortError, ProposeError, ReadError, Stopped};
pub use group::Member;
pub use leadership::{LeaderInfo, Leadership};
pub use machine::{Committed, LogPosition, Machine, MachineError, MachinePosition, WriteCopy};
pub use member::membership::{Listed, Namesake, Roster};
pub use member::read::PeerState;
pub use peers::epochs::{GENERATION_STEP, PlausibleEpochs};
pub use raft::Raft;
pub use snapshots::{check_snapshot, sound_snapshots};
pub use start::checked_folder::{CheckedFolder, MachineKnown};
pub use start::restored::{create_from_copy, lone_membership};
