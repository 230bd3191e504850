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

use crate::fault::{Fault, Faults};

pub use agent_doc::{
    AGENT_SLOTS, AgentLeaseDoc, DEFAULT_WAIT_MS, LeasesDoc, MAX_INSTANCE_BYTES, MAX_WAIT_MS, RecordedDoc,
};
pub use backend_doc::{ActionDoc, BackendDoc, ParamDoc};
pub use cluster_doc::{
    ClusterDoc, ControllerDoc, JoinBody, JoinedDoc, MAX_MEMBER_TEXT_BYTES, StepDownBody, SupersededDoc,
};
pub use event_doc::{EVENT_KINDS, EventDoc};
pub use job_doc::{Counts, JobDoc, ResultDoc, RunDoc, StepDoc, TargetDoc, target_doc, tasks_doc};
pub use log_doc::{LogCursor, LogDoc, LogNote, LogText, LogsBody};

/// Header of every response: the id of the controller that answers.
pub const HEADER_NODE: &str = "x-grid-node";
/// Header of every response: its [`Role`].
pub const HEADER_ROLE: &str = "x-grid-role";
/// Header of every response: its leader epoch. In a request: the epoch under which the request may take effect (E9).
pub const HEADER_EPOCH: &str = "x-grid-leader-epoch";
/// Header of a submit: its idempotency key (L8).
pub const HEADER_KEY: &str = "idempotency-key";
/// The `next` of a list that is a bare array.
pub const HEADER_NEXT: &str = "x-grid-next";
/// Header of a backup: BLAKE3 of the whole file, in hex.
pub const HEADER_BACKUP_BLAKE3: &str = "x-grid-backup-blake3";
/// Of a backup: the last log index in it.
pub const HEADER_BACKUP_INDEX: &str = "x-grid-backup-index";
/// Of a backup: the leader epoch of its state.
pub const HEADER_BACKUP_EPOCH: &str = "x-grid-backup-epoch";
/// Of a backup: `true` if no majority confirmed that nothing acknowledged is missing.
pub const HEADER_BACKUP_STALE: &str = "x-grid-backup-stale";
/// Of a backup: how many jobs it contains.
pub const HEADER_BACKUP_JOBS: &str = "x-grid-backup-jobs";
/// Of a backup: the time of its state.
pub const HEADER_BACKUP_TAKEN: &str = "x-grid-backup-taken-at";

/// The role of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum Role {
    /// Accepts writes and dispatches.
    Leader,
    /// Serves reads and answers writes with NOT_LEADER.
    Standby,
    /// Is handing leadership over (E7).
    Draining,
}

impl Role {
    /// The name in documents and headers.
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
    /// The controller that answers.
    pub node_id: String,
    /// Its role.
    pub role: Role,
    /// The leader epoch that it knows; null if it has none yet.
    pub leader_epoch: Option<u64>,
    /// The leader, if it is known.
    pub leader_id: Option<String>,
    /// API address of the leader, if it is known.
    pub leader_url: Option<String>,
    /// Address of the leader's fabric, for workers of this cluster.
    #[serde(default)]
    pub leader_grpc: Option<String>,
    /// API addresses of every controller, so that a client that knows one learns the others.
    #[serde(default)]
    pub controllers: Vec<String>,
}

/// `GET /status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StatusDoc {
    /// The id of the cluster: the same on every controller, and in a cluster restored from its backup.
    pub cluster_id: String,
    /// Version of the program that answers.
    pub version: String,
    /// The controller that answers, and the leader.
    #[serde(flatten)]
    pub role: RoleDoc,
    /// Number of nodes by status.
    pub nodes: BTreeMap<String, u64>,
    /// Number of jobs by status.
    pub jobs: BTreeMap<String, u64>,
    /// Log index of the state that the answer was read from.
    pub applied_index: u64,
    /// L7, of the stored state at `applied_index`; only if the request asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_hash: Option<String>,
    /// Why this controller's snapshots fail now; they are repeated, and the log grows meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_problem: Option<String>,
    /// Why the data folder of the worker on this machine is refused; as leader this controller would not dispatch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch_problem: Option<String>,
    /// Set if the cluster was restored elsewhere: it refuses writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded: Option<SupersededDoc>,
    /// What this controller refused since it started: by port (`api`, `raft`, `grpc`), then by kind. Kinds without a refusal
    /// are left out.
    #[serde(default)]
    pub refused: BTreeMap<String, BTreeMap<String, u64>>,
}

/// A node. In alias lists `status` is `online` or `offline`; `state` is always exact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NodeDoc {
    /// The name of the node.
    pub id: String,
    /// Host name of the machine.
    pub hostname: String,
    /// Address of the machine, as its worker reports it.
    pub address: String,
    /// Groups of the node.
    pub groups: Vec<String>,
    /// Labels of the node.
    pub labels: BTreeMap<String, String>,
    /// Backends that it runs, each with its actions.
    pub backends: BTreeMap<String, Vec<String>>,
    /// Operating system.
    pub os: String,
    /// Processor architecture.
    pub arch: String,
    /// Capacity of the machine, and how many leases it runs at once.
    pub capacity: crate::node::Capacity,
    /// Version of its worker.
    pub version: String,
    /// Facts about the machine that its worker reported, such as `os.id`; left out of lists.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// The state; `online` or `offline` in alias lists.
    pub status: String,
    /// The state: `ready`, `warning`, `unhealthy`, `dead`, `draining`, `left`.
    pub state: String,
    /// Number of the node, never reused.
    pub ordinal: u32,
    /// Number of its newest session.
    pub session: u64,
    /// An operator drained the node: it gets no new leases.
    #[serde(default)]
    pub drained: bool,
    /// A plain HTTP agent, not a worker with a session.
    #[serde(default)]
    pub agent: bool,
    /// Number of its outstanding leases.
    pub leases: u32,
    /// When its last message arrived, as the leader knows it; otherwise its last change of state.
    pub last_seen: String,
    /// When it first registered.
    pub registered_at: String,
    /// The leader epoch in which it last changed.
    pub leader_epoch: u64,
}

/// Response to a removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NodeStateDoc {
    /// The name of the node.
    pub id: String,
    /// `removed`.
    pub status: String,
}

/// A canonical list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ListDoc<T> {
    /// One page of rows.
    pub items: Vec<T>,
    /// `after` of the next page; null on the last one.
    pub next: Option<String>,
}

/// The body of every refusal except NOT_LEADER and STALE_EPOCH, which have further fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ErrorDoc {
    /// The name of a [`Code`](crate::Code).
    pub error: String,
    /// The explanation, for an operator.
    #[serde(default)]
    pub message: String,
    /// Every fault of the request, by its field.
    #[serde(default)]
    pub details: Vec<FaultDoc>,
}

/// A fault in one field of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FaultDoc {
    /// Path of the field, such as `tasks[0].timeout`; empty for the whole document.
    pub field: String,
    /// The problem.
    pub problem: String,
    /// For a field with a grammar, such as `target`: the number of characters before the fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u32>,
}

impl From<&Fault> for FaultDoc {
    fn from(fault: &Fault) -> Self {
        let at = fault.at.and_then(|at| u32::try_from(at).ok());
        Self { field: fault.field.clone(), problem: fault.problem.clone(), at }
    }
}

/// The faults that are recorded by name, and how many more there are.
#[must_use]
pub fn fault_docs(faults: &Faults) -> Vec<FaultDoc> {
    let named = faults.list().iter().map(FaultDoc::from);
    let more = (faults.more() > 0).then(|| FaultDoc {
        field: String::new(),
        problem: format!("{} more faults are not listed", faults.more()),
        at: None,
    });
    named.chain(more).collect()
}

/// NOT_LEADER (409), with the address to send the request to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NotLeaderDoc {
    /// `NOT_LEADER`.
    pub error: String,
    /// The explanation, for an operator.
    pub message: String,
    /// The leader, if it is known.
    pub leader_id: Option<String>,
    /// Where to send the request instead; null: try again later.
    pub leader_url: Option<String>,
    /// The leader epoch that the answering controller knows.
    pub leader_epoch: Option<u64>,
    /// The controller that answers.
    pub node_id: String,
    /// Its role: never `LEADER`.
    pub role: Role,
}

/// Response to a cancel, a confirmation or a resolution: the job's new status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobStateDoc {
    /// The job.
    pub id: String,
    /// Its status now.
    pub status: crate::outcome::JobStatus,
    /// A hint for the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// After the confirmation of a held job: `once` steps that become unknown when they are reached, the first 1,000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_have_run: Vec<DoubtDoc>,
}

/// A `once` step of a restored job that may have run after the backup (E2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DoubtDoc {
    /// The step.
    pub step: u32,
    /// The node on which it may have run.
    pub node: String,
    /// The node has not registered since the restore; its journal may still have the outcome.
    #[serde(default)]
    pub awaited: bool,
}

/// One row of `…/results`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ResultRowDoc {
    /// The step.
    pub step: u32,
    /// The node.
    pub node: String,
    /// How the step ended there, or its current state.
    #[serde(flatten)]
    pub result: ResultDoc,
}

/// Nodes whose output of a step is the same, largest group first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OutputGroupDoc {
    /// How many nodes have this output.
    pub count: u64,
    /// Their names; only the first ones if there are many.
    pub nodes: Vec<String>,
    /// The end of the output.
    pub output: String,
    /// Bytes of the whole output; `output` holds the last of them.
    pub total_bytes: u64,
}

/// `POST …/confirm`; the body may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ConfirmBody {
    /// The phase to confirm; without it, the one that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<u32>,
    /// Confirm only a job that is held after a restore, never a phase.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// For a held job: run once-only steps again that may have run after the backup.
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
    /// The step.
    pub step: u32,
    /// The node on which its outcome is unknown.
    pub node: String,
    /// How it ended, or that it should run again.
    #[serde(rename = "as")]
    pub verdict: Resolution,
}

/// The operator's decision on a step with an unknown outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// It took effect.
    Success,
    /// It failed.
    Failed,
    /// Run it again.
    Retry,
}

/// `GET …/why`: what a job is waiting for, or how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WhyDoc {
    /// The job.
    pub id: String,
    /// Its status.
    pub status: crate::outcome::JobStatus,
    /// The explanation, for an operator.
    pub why: String,
    /// For a job that is held after a restore: `once` steps that become unknown when they are reached, the first 1,000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_have_run: Vec<DoubtDoc>,
}

/// `POST …/jobs/plan`: what a job would do, without running it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PlanDoc {
    /// Identifies this plan; `POST …/jobs?plan=HASH` refuses the job if anything that the hash covers has changed.
    pub hash: String,
    /// The target as given.
    pub target: TargetDoc,
    /// Nodes of the target that it would not run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude: Option<String>,
    /// The part of the target that it would run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// How many nodes, or which share, would run a phase before the others, where the phase does not say it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// How many nodes the cluster knows.
    #[serde(default)]
    pub known: u64,
    /// Why the other nodes are left out, grouped by the first part of the target that they fail.
    #[serde(default)]
    pub unmatched: Vec<UnmatchedDoc>,
    /// The nodes it would run on.
    pub expected: Vec<String>,
    /// Those of them that are offline now, with their state.
    pub offline: BTreeMap<String, String>,
    /// Those that are online and lack what a step needs, by `backend/action`: the step would fail on them.
    #[serde(default)]
    pub lacking: BTreeMap<String, Vec<String>>,
    /// Phases with every default filled in.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub tasks: serde_json::Value,
    /// `fail-fast` or `continue`.
    pub strategy: String,
    /// How many nodes may fail, or which share of them.
    pub failure_tolerate: String,
    /// How many nodes, or which share of them, may be in a phase at once, unless the phase has its own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<String>,
    /// Steps times nodes.
    pub rows: u64,
}

/// Nodes that a job leaves out for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct UnmatchedDoc {
    /// Continues "3 of 10 nodes …", such as `do not match group:web`.
    pub reason: String,
    /// How many they are.
    pub count: u64,
    /// The first five of them by id.
    pub nodes: Vec<String>,
}
