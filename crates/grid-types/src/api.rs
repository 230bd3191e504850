//! Defines the documents of the HTTP API, shared by server and client: a module for each resource.
//!
//! Not here: job bodies (`job::parse_job` reads them, `tasks_doc` and `target_doc` write them) and handlers (`grid-api`).

mod agent_doc;
mod backend_doc;
mod cluster_doc;
mod decision_doc;
mod error_doc;
mod event_doc;
mod headers;
mod job_doc;
mod log_doc;
mod node_doc;
mod plan_doc;
mod result_doc;
mod role_doc;

use serde::{Deserialize, Serialize};

pub use agent_doc::{
    AGENT_SLOTS, AgentLeaseDoc, DEFAULT_WAIT_MS, LeasesDoc, MAX_INSTANCE_BYTES, MAX_WAIT_MS, RecordedDoc,
};
pub use backend_doc::{ActionDoc, BackendDoc, ParamDoc};
pub use cluster_doc::{
    ClusterDoc, ControllerDoc, JoinBody, JoinedDoc, MAX_MEMBER_TEXT_BYTES, StepDownBody, SupersededDoc,
};
pub use decision_doc::{ConfirmBody, DoubtDoc, JobStateDoc, Resolution, ResolveBody, ResumeBody, WhyDoc};
pub use error_doc::{ErrorDoc, FaultDoc, NotLeaderDoc, fault_docs};
pub use event_doc::{EVENT_KINDS, EventDoc};
pub use headers::{
    HEADER_BACKUP_BLAKE3, HEADER_BACKUP_EPOCH, HEADER_BACKUP_INDEX, HEADER_BACKUP_JOBS, HEADER_BACKUP_STALE,
    HEADER_BACKUP_TAKEN, HEADER_EPOCH, HEADER_KEY, HEADER_NEXT, HEADER_NODE, HEADER_ROLE,
};
pub use job_doc::{Counts, JobDoc, ResultDoc, RunDoc, StepDoc, TargetDoc, target_doc, tasks_doc};
pub use log_doc::{LogCursor, LogDoc, LogNote, LogText, LogsBody};
pub use node_doc::{NodeDoc, NodeStateDoc};
pub use plan_doc::{PlanDoc, UnmatchedDoc};
pub use result_doc::{OutputGroupDoc, ResultRowDoc};
pub use role_doc::{Role, RoleDoc, StatusDoc};

/// A canonical list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ListDoc<T> {
    /// One page of rows.
    pub items: Vec<T>,
    /// `after` of the next page; null on the last one.
    pub next: Option<String>,
}
