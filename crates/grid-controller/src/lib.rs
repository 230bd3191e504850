//! The leader's runtime: everything between the API and the fabric on one side, the log and the store on the other.
//!
//! ```text
//!   Control (API) ─┐                              ┌─► machine: core::apply + store ─► effects ─► dispatch ─► leader ─► sessions
//!   FabricHub ─────┼─► proposer ─► raft (fsync) ──┘
//!   ticker ────────┘      ▲
//!                    leadership: opens and closes the term
//! ```
//!
//! Modules depend on each other in one direction:
//!
//! ```text
//!   reply, term, time, documents, control, data_dir <- leader <- log, reading <- shared <- leadership, tasks, fabric, outputs
//!                                                               shared <- controller <- agents <- requests <- open
//! ```
//!
//! State changes in one way only: a command, through the proposer. What only a leader has is a value (`leader`), gone with the
//! term, without a clock, a lock or a socket; `leading` runs it.

mod agents;
mod control;
mod controller;
mod data_dir;
mod documents;
mod fabric;
pub mod leader;
mod leadership;
#[cfg(test)]
mod life;
mod log;
mod open;
mod outputs;
mod reading;
pub mod reply;
mod requests;
mod shared;
mod tasks;
mod term;
mod time;

pub use control::{
    AgentFacts, AgentPoll, AgentResult, Agents, Backup, BackupScope, BrokenOff, Caller, Cluster, Confirmation, Control,
    EventQuery, Events, Introspect, JobQuery, Jobs, LogQuery, MemberChange, NodeQuery, Nodes, Origin, Output,
    OutputQuery, Outputs, Permit, PlanHash, Refusal, Removal, Rerun, ResultQuery, Right, RunQuery, Scope, Stale,
    Standing, StateHash, StepResolution, Submission, SubmitKey, Submitted,
};
pub use controller::Controller;
pub use data_dir::{OpenError, RestoredFolder, Restoring, accept_join, has_cluster, prepare_join, restore, restored};
pub use fabric::FabricHub;
pub use grid_core::{FEATURE_LEVEL, OLDEST_LEVEL, Quotas};
pub use grid_plan::Thresholds;
pub use grid_raft::Start;
pub use grid_store::{BackupInfo, EventFilter, JobFilter, LogFilter};
pub use open::{Opening, Pace};
pub use shared::{LocalWorker, Settings};
pub use time::time_text;
