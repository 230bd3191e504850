//! Defines what the API asks of a controller, one trait for each resource. Traits, so that handlers are tested without a log and a disk.
//!
//! Every method but those of [`Introspect`] takes a [`Caller`], whose right is checked in one place (`caller`). Mutations
//! answer only when they are committed, fsynced and applied (L3); reads are SQL and stale by default.
//! Not here: what the methods do (`requests`), paths and bodies (`grid-api`).

mod agents;
mod caller;
mod canonical;
mod cluster;
mod events;
mod introspect;
mod jobs;
mod nodes;
mod outputs;
mod plan_hash;
mod refusal;
mod rejections;

pub use agents::{AgentFacts, AgentPoll, AgentResult, Agents};
pub use caller::{Caller, Origin, Permit, Right, Scope};
pub use cluster::{Backup, BackupScope, Cluster, MemberChange};
pub use events::{EventQuery, Events};
pub use introspect::{Introspect, Standing, StateHash};
pub use jobs::{Confirmation, JobQuery, Jobs, Rerun, RunQuery, StepResolution, Submission, SubmitKey, Submitted};
pub use nodes::{NodeQuery, Nodes, Removal};
pub use outputs::{BrokenOff, LogQuery, Output, OutputQuery, Outputs, ResultQuery};
pub use plan_hash::PlanHash;
pub use refusal::{Refusal, Stale, no_job, no_node};
pub use rejections::{code_of, refused};

/// Everything that the API needs.
pub trait Control: Agents + Cluster + Events + Jobs + Nodes + Outputs {}

impl<C: Agents + Cluster + Events + Jobs + Nodes + Outputs> Control for C {}
