//! The leader's runtime: everything between the API and the fabric on one side, the log and the store on the other.
//!
//! ```text
//!   Control (API) ─┐                              ┌─► machine: core::apply + store ─► effects ─► dispatch ─► sessions
//!   FabricHub ─────┼─► proposer ─► raft (fsync) ──┘
//!   ticker ────────┘      ▲
//!                    leader: opens and closes the term
//! ```
//!
//! State changes in one way only: a command, through the proposer. Sessions, liveness and the backstop are soft: they
//! are gone with the term, and everything they lead to is a command again.

mod agents;
mod announce;
mod backups;
mod cluster;
mod control;
mod controller;
mod dispatch;
mod elapsed;
mod events;
mod folder;
mod gate;
mod ground;
mod hand_over;
mod hub;
mod journals;
mod leader;
mod levels;
mod locks;
mod log_size;
mod logs;
mod machine;
mod output_desk;
mod plan;
mod progress;
mod proposer;
mod pruner;
mod reads;
mod reconcile;
mod refused_folder;
mod requests;
mod restore;
mod resume;
mod sessions;
mod shared;
mod snapshots;
mod status;
mod superseded;
mod term;
mod ticker;

pub use agents::{AgentFacts, AgentPoll, AgentResult};
pub use control::{
    Backup, BrokenOff, Control, EventQuery, JobQuery, LogQuery, MemberChange, Output, OutputQuery, PlanHash, Refusal,
    Rerun, ResultQuery, Standing, SubmitKey, Submitted,
};
pub use controller::{Controller, OpenError, Opening, Pace};
pub use folder::{accept_join, has_cluster, prepare_join};
pub use gate::LocalWorker;
pub use grid_core::{FEATURE_LEVEL, OLDEST_LEVEL, Quotas};
pub use grid_plan::Thresholds;
pub use grid_raft::Start;
pub use grid_store::{BackupInfo, JobFilter, LogFilter, time_text};
pub use hub::FabricHub;
pub use restore::{RestoredFolder, Restoring, restore, restored};
pub use shared::Settings;
