//! The documents of the HTTP API, shared by server and client.
//!
//! Not here: job bodies (`job::parse_job` reads them, `job_view` writes them) and handlers (`grid-api`).

mod agent_doc;
mod backend_doc;
mod cluster_doc;
mod event_doc;
mod job_doc;
mod log_doc;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fault::Faults;

pub use agent_doc::{
    AGENT_SLOTS, AgentLeaseDoc, DEFAULT_WAIT_MS, LeasesDoc, MAX_INSTANCE_BYTES, MAX_WAIT_MS, RecordedDoc,
};
pub use backend_doc::{ActionDoc, BackendDoc, ParamDoc};
pub use cluster_doc::{
    ClusterDoc, ControllerDoc, JoinBody, JoinedDoc, MAX_MEMBER_TEXT_BYTES, StepDownBody, SupersededDoc,
};
pub use event_doc::{EVENT_KINDS, EventDoc, EventFilter};
pub use job_doc::{Counts, JobDoc, ResultDoc, RunDoc, StepDoc, TargetDoc, target_doc, tasks_doc};
pub use log_doc::{LogCursor, LogDoc, LogNote, LogText, LogsBody};

pub const HEADER_NODE: &str = "x-grid-node";
pub const HEADER_ROLE: &str = "x-grid-role";
pub const HEADER_EPOCH: &str = "x-grid-leader-epoch";
pub const HEADER_KEY: &str = "idempotency-key";
/// The `next` of a list that is a bare array.
pub const HEADER_NEXT: &str = "x-grid-next";
/// Of a backup that is streamed: BLAKE3 of the whole file in hex, its entry of the log, jobs in it, when it was taken.
pub const HEADER_BACKUP_BLAKE3: &str = "x-grid-backup-blake3";
pub const HEADER_BACKUP_INDEX: &str = "x-grid-backup-index";
pub const HEADER_BACKUP_EPOCH: &str = "x-grid-backup-epoch";
pub const HEADER_BACKUP_STALE: &str = "x-grid-backup-stale";
pub const HEADER_BACKUP_JOBS: &str = "x-grid-backup-jobs";
pub const HEADER_BACKUP_TAKEN: &str = "x-grid-backup-taken-at";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum Role {
    Leader,
    Standby,
    Draining,
}

impl Role {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Leader => "LEADER",
            Self::Standby => "STANDBY",
            Self::Draining => "DRAINING",
        }
    }
}

/// `GET /role`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RoleDoc {
    pub node_id: String,
    pub role: Role,
    pub leader_epoch: Option<u64>,
    pub leader_id: Option<String>,
    pub leader_url: Option<String>,
    /// Where workers of this cluster dial the leader's fabric.
    #[serde(default)]
    pub leader_grpc: Option<String>,
    /// API addresses of every controller: whoever knows one learns the others.
    #[serde(default)]
    pub controllers: Vec<String>,
}

/// `GET /status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StatusDoc {
    pub cluster_id: String,
    pub version: String,
    #[serde(flatten)]
    pub role: RoleDoc,
    /// Nodes by status word.
    pub nodes: BTreeMap<String, u64>,
    /// Jobs by status word.
    pub jobs: BTreeMap<String, u64>,
    pub applied_index: u64,
    /// L7, of the stored state at `applied_index`; only if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_hash: Option<String>,
    /// Why this controller's snapshots fail at present; they are tried again, and the log grows meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_problem: Option<String>,
    /// Why the data folder of the worker on this machine is refused; as leader this controller would not dispatch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch_problem: Option<String>,
    /// It was restored elsewhere and refuses writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded: Option<SupersededDoc>,
    /// What this controller refused since it started: by port (`api`, `raft`, `grpc`), then by kind. What never was is left out.
    #[serde(default)]
    pub refused: BTreeMap<String, BTreeMap<String, u64>>,
}

/// A node. In alias lists `status` is `online` or `offline`; `state` is always exact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NodeDoc {
    pub id: String,
    pub hostname: String,
    pub address: String,
    pub groups: Vec<String>,
    pub labels: BTreeMap<String, String>,
    pub backends: BTreeMap<String, Vec<String>>,
    pub os: String,
    pub arch: String,
    pub capacity: crate::node::Capacity,
    pub version: String,
    pub status: String,
    pub state: String,
    pub ordinal: u32,
    pub session: u64,
    /// A person wants no new work there.
    #[serde(default)]
    pub drained: bool,
    /// A plain HTTP agent, not a worker with a session.
    #[serde(default)]
    pub agent: bool,
    /// Leases it holds now.
    pub leases: u32,
    /// When it was last heard, as the leader knows it; otherwise its last change of state.
    pub last_seen: String,
    pub registered_at: String,
    pub leader_epoch: u64,
}

/// Answer to a removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NodeStateDoc {
    pub id: String,
    /// `removed`.
    pub status: String,
}

/// A canonical list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ListDoc<T> {
    pub items: Vec<T>,
    pub next: Option<String>,
}

/// Every refusal but NOT_LEADER and STALE_EPOCH, which add fields of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ErrorDoc {
    pub error: String,
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub details: Vec<FaultDoc>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FaultDoc {
    pub field: String,
    pub problem: String,
}

/// Every fault that is kept by name, and how many more there are.
#[must_use]
pub fn fault_docs(faults: &Faults) -> Vec<FaultDoc> {
    let named = faults.list().iter().map(|f| FaultDoc { field: f.field.clone(), problem: f.problem.clone() });
    let more = (faults.more() > 0)
        .then(|| FaultDoc { field: String::new(), problem: format!("{} more faults are not listed", faults.more()) });
    named.chain(more).collect()
}

/// NOT_LEADER (409), the body agents redirect by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NotLeaderDoc {
    pub error: String,
    pub message: String,
    pub leader_id: Option<String>,
    pub leader_url: Option<String>,
    pub leader_epoch: Option<u64>,
    pub node_id: String,
    pub role: Role,
}

/// Answer to a cancel, a confirmation, a resolution: how the job stands now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobStateDoc {
    pub id: String,
    pub status: crate::outcome::JobStatus,
    /// What a person should know besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// After the confirmation of a held job: `once` steps that become unknown when they are reached, the first 1,000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_have_run: Vec<DoubtDoc>,
}

/// A `once` step of a restored job that may have run after the backup: nobody knows (E2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DoubtDoc {
    pub step: u32,
    pub node: String,
    /// The node has not registered since the restore; its journal may still tell.
    #[serde(default)]
    pub awaited: bool,
}

/// One row of `…/results`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ResultRowDoc {
    pub step: u32,
    pub node: String,
    #[serde(flatten)]
    pub result: ResultDoc,
}

/// Nodes whose output of a step is the same, largest group first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OutputGroupDoc {
    pub count: u64,
    pub nodes: Vec<String>,
    pub output: String,
    /// Bytes of the whole output; `output` holds the last of them.
    pub total_bytes: u64,
}

/// `POST …/confirm`; the body may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ConfirmBody {
    /// The phase that is meant; without it, whichever waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<u32>,
    /// Only a job that is held after a restore is meant, no phase.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Of a held job: run once-only steps again that may have run after the backup.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rerun_once: bool,
}

/// `POST …/resume` and `…/retry`; the body may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ResumeBody {
    /// Run once-only steps again that may have run already (W8).
    #[serde(default)]
    pub rerun_once: bool,
}

/// `POST …/resolve`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ResolveBody {
    pub step: u32,
    pub node: String,
    #[serde(rename = "as")]
    pub verdict: Resolution,
}

/// How a step ended that nobody knows, as a person says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    Success,
    Failed,
    /// Run it again.
    Retry,
}

/// `GET …/why`: the one reason a job is not further, or how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WhyDoc {
    pub id: String,
    pub status: crate::outcome::JobStatus,
    pub why: String,
    /// Of a job that is held after a restore: `once` steps that become unknown when they are reached, the first 1,000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_have_run: Vec<DoubtDoc>,
}

/// `POST …/jobs/plan`: what a job would do, without doing it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PlanDoc {
    /// Names exactly this; `POST …/jobs?plan=HASH` refuses if anything it covers has changed.
    pub hash: String,
    pub target: TargetDoc,
    /// The nodes it would run on.
    pub expected: Vec<String>,
    /// Those of them that are offline now, with their state.
    pub offline: BTreeMap<String, String>,
    /// Those that are there and do not offer what a step needs, by `backend/action`: it would fail on them.
    #[serde(default)]
    pub lacking: BTreeMap<String, Vec<String>>,
    /// Phases with every default filled in.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub tasks: serde_json::Value,
    pub strategy: String,
    pub failure_tolerate: String,
    /// How many nodes may be in a phase at once, or which share of them, where the phase does not say it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<String>,
    /// Steps times nodes.
    pub rows: u64,
}
