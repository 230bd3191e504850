//! Every operation with its guard, its aliases and the refusals that are its own; and every document it may show.
//!
//! A new route gets its line here. What its guard, its body and its path can refuse is added by `answers`.

use grid_types::Code;
use grid_types::api::{
    BackendDoc, ClusterDoc, ConfirmBody, ControllerDoc, ErrorDoc, EventDoc, JobDoc, JobStateDoc, JoinBody, JoinedDoc,
    LeasesDoc, ListDoc, LogDoc, LogsBody, NodeDoc, NodeStateDoc, NotLeaderDoc, OutputGroupDoc, PlanDoc, RecordedDoc,
    ResolveBody, ResultRowDoc, ResumeBody, RoleDoc, RunDoc, StatusDoc, StepDownBody, WhyDoc,
};
use serde_json::{Map, Value, json};
use utoipa::openapi::path::HttpMethod;
use utoipa::{OpenApi, Path};

use crate::document;
use crate::http::refused::StaleEpochDoc;
use crate::routes::introspect::HealthDoc;
use crate::routes::{agents, backends, backup, cluster, decisions, events, introspect, jobs, logs, nodes, results};

/// Who may ask, as the guards of the route table have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anybody, whatever the epoch.
    Open,
    /// Any controller answers; an epoch that is named must be current.
    Read,
    /// Only the leader.
    Leader,
    /// The leader, also while it hands over.
    LeaderOrDraining,
}

pub struct Operation {
    pub method: &'static str,
    pub canonical: String,
    pub aliases: Vec<String>,
    pub access: Access,
    /// Beside what every operation of its kind refuses.
    pub refusals: &'static [Code],
    pub doc: Value,
}

impl Operation {
    fn of<P: Path>(access: Access, refusals: &'static [Code], aliases: &[&str]) -> Self {
        let method = match P::methods().first() {
            Some(HttpMethod::Post) => "post",
            Some(HttpMethod::Delete) => "delete",
            Some(HttpMethod::Put) => "put",
            Some(HttpMethod::Patch) => "patch",
            _ => "get",
        };
        Self {
            method,
            canonical: P::path(),
            aliases: aliases.iter().map(ToString::to_string).collect(),
            access,
            refusals,
            // A document of plain data can always be written.
            doc: serde_json::to_value(P::operation()).unwrap_or_default(),
        }
    }

    pub fn paths(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.canonical).chain(&self.aliases)
    }

    pub fn id(&self) -> &str {
        self.doc["operationId"].as_str().unwrap_or_default()
    }
}

const DECIDES: &[Code] = &[Code::Conflict, Code::Superseded];
const ASKS: &[Code] = &[Code::Conflict, Code::Superseded, Code::DuplicateNode, Code::QueueFull];
const REPORTS: &[Code] = &[Code::Conflict, Code::Superseded, Code::NotFound];
const QUEUES: &[Code] = &[Code::Conflict, Code::Superseded, Code::QueueFull];

#[rustfmt::skip]
pub fn operations() -> Vec<Operation> {
    use Access::{Leader, LeaderOrDraining, Open, Read};
    vec![
        Operation::of::<jobs::__path_submit>(Leader, QUEUES, &["/job", "/v1/jobs"]),
        Operation::of::<jobs::__path_plan>(Read, &[], &["/job/plan"]),
        Operation::of::<jobs::__path_list>(Read, &[], &[]),
        Operation::of::<jobs::__path_list_bare>(Read, &[], &["/v1/jobs"]),
        Operation::of::<jobs::__path_get>(Read, &[], &["/job/{id}", "/v1/jobs/{id}"]),
        Operation::of::<jobs::__path_runs>(Read, &[], &["/job/{id}/runs"]),
        Operation::of::<jobs::__path_why>(Read, &[], &["/job/{id}/why"]),
        Operation::of::<jobs::__path_cancel>(LeaderOrDraining, DECIDES, &["/job/{id}/cancel"]),
        Operation::of::<decisions::__path_confirm>(Leader, DECIDES, &["/job/{id}/confirm"]),
        Operation::of::<decisions::__path_resume>(Leader, QUEUES, &["/job/{id}/resume"]),
        Operation::of::<decisions::__path_retry>(Leader, QUEUES, &["/job/{id}/retry"]),
        Operation::of::<decisions::__path_resolve>(Leader, DECIDES, &["/job/{id}/resolve"]),
        Operation::of::<results::__path_rows>(Read, &[], &["/job/{id}/results"]),
        Operation::of::<logs::__path_output>(Read, &[Code::NotLeader, Code::QueueFull], &["/job/{id}/output/{step}/{node}"]),
        Operation::of::<logs::__path_logs>(Leader, &[Code::QueueFull], &["/job/{id}/logs"]),
        Operation::of::<logs::__path_logs_from>(Leader, &[Code::QueueFull], &["/job/{id}/logs"]),
        Operation::of::<results::__path_outputs>(Read, &[], &["/job/{id}/outputs/{step}"]),
        Operation::of::<events::__path_events>(Read, &[Code::QueueFull], &["/v1/events"]),
        Operation::of::<backends::__path_list>(Read, &[], &[]),
        Operation::of::<backends::__path_get>(Read, &[], &[]),
        Operation::of::<nodes::__path_list>(Read, &[], &[]),
        Operation::of::<nodes::__path_list_bare>(Read, &[], &["/v1/agents"]),
        Operation::of::<nodes::__path_get>(Read, &[], &[]),
        Operation::of::<nodes::__path_get_alias>(Read, &[], &["/v1/agents/{id}"]),
        Operation::of::<nodes::__path_drain>(Leader, DECIDES, &["/node/{id}/drain"]),
        Operation::of::<nodes::__path_undrain>(Leader, DECIDES, &["/node/{id}/undrain"]),
        Operation::of::<nodes::__path_remove>(Leader, DECIDES, &["/node/{id}", "/v1/agents/{id}"]),
        Operation::of::<agents::__path_leases>(Leader, ASKS, &[]),
        Operation::of::<agents::__path_results>(LeaderOrDraining, REPORTS, &[]),
        Operation::of::<backup::__path_backup>(Read, &[Code::QueueFull], &[]),
        Operation::of::<cluster::__path_status>(Read, &[], &[]),
        Operation::of::<cluster::__path_controllers>(Read, &[], &["/controllers"]),
        Operation::of::<cluster::__path_join>(Leader, DECIDES, &[]),
        Operation::of::<cluster::__path_remove>(Leader, DECIDES, &[]),
        Operation::of::<cluster::__path_promote>(Leader, DECIDES, &[]),
        Operation::of::<cluster::__path_demote>(Leader, DECIDES, &[]),
        Operation::of::<cluster::__path_lift>(Leader, &[Code::Conflict], &[]),
        Operation::of::<cluster::__path_step_down>(Leader, &[Code::Conflict, Code::NotFound], &[]),
        Operation::of::<introspect::__path_role>(Open, &[], &[]),
        Operation::of::<introspect::__path_status>(Open, &[], &[]),
        Operation::of::<introspect::__path_health>(Open, &[], &["/health"]),
        Operation::of::<introspect::__path_ready>(Open, &[], &["/ready"]),
        Operation::of::<document::__path_openapi>(Open, &[], &[]),
    ]
}

/// Whatever these mention comes with them.
#[derive(OpenApi)]
#[openapi(components(schemas(
    BackendDoc, ClusterDoc, ConfirmBody, ControllerDoc, JoinBody, JoinedDoc, StepDownBody, ErrorDoc, EventDoc, HealthDoc, JobDoc, JobStateDoc, NodeDoc, NodeStateDoc, NotLeaderDoc,
    LeasesDoc, RecordedDoc,
    OutputGroupDoc, PlanDoc, ResolveBody, ResultRowDoc, ResumeBody, RoleDoc, RunDoc, StaleEpochDoc<'_>, StatusDoc, WhyDoc,
    LogDoc, LogsBody,
    ListDoc<BackendDoc>, ListDoc<EventDoc>, ListDoc<JobDoc>, ListDoc<NodeDoc>, ListDoc<OutputGroupDoc>,
    ListDoc<ResultRowDoc>, ListDoc<RunDoc>,
)))]
struct Documents;

pub fn schemas() -> Map<String, Value> {
    let all = serde_json::to_value(Documents::openapi().components).unwrap_or_else(|_| json!({}));
    all["schemas"].as_object().cloned().unwrap_or_default()
}
