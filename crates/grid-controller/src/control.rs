//! What the API asks of a controller. A trait, so that handlers are tested without a log and a disk.
//!
//! Mutations answer only when they are committed, fsynced and applied (L3); reads are SQL and stale by default.

mod agents;
mod refused;

use std::future::Future;

use bytes::Bytes;
use grid_store::{JobFilter, LogFilter};
use grid_types::api::{
    ClusterDoc, EventDoc, EventFilter, JobDoc, JobStateDoc, JoinBody, JoinedDoc, LeasesDoc, ListDoc, LogCursor, LogDoc,
    NodeDoc, NodeStateDoc, OutputGroupDoc, PlanDoc, RecordedDoc, Resolution, ResultRowDoc, Role, RoleDoc, RunDoc,
    StatusDoc, WhyDoc,
};
use grid_types::job::JobSpec;
use grid_types::{Attempt, Code, Faults, JobId, NodeId, Outcome, StepIndex};
use tokio::sync::mpsc;

pub use agents::{AgentFacts, AgentPoll, AgentResult};
pub use refused::{no_job, no_node, refused};

/// A refusal, ready for the table of codes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub code: Code,
    pub message: String,
    pub faults: Faults,
    /// Of STALE_EPOCH: `leader`, `job`, `attempt` or `settled`.
    pub stale: Option<&'static str>,
}

impl Refusal {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), faults: Faults::default(), stale: None }
    }

    #[must_use]
    pub fn invalid(faults: Faults) -> Self {
        Self { code: Code::Invalid, message: faults.to_string(), faults, stale: None }
    }
}

/// The hash of a plan, written as 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanHash(pub [u8; 32]);

impl std::fmt::Display for PlanHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::str::FromStr for PlanHash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || "a plan is named by 64 hexadecimal digits, as gridc job plan prints them".to_owned();
        let digits: Vec<u32> = text.chars().map(|c| c.to_digit(16)).collect::<Option<_>>().ok_or_else(bad)?;
        let bytes: Vec<u8> =
            digits.chunks(2).filter_map(|pair| u8::try_from(pair[0] * 16 + pair.get(1)?).ok()).collect();
        if digits.len() != 64 {
            return Err(bad());
        }
        bytes.try_into().map(Self).map_err(|_| bad())
    }
}

/// A backup on its way to whoever asked for it.
#[derive(Debug)]
pub struct Backup {
    pub bytes: u64,
    /// Of the whole file, in hex.
    pub blake3: String,
    /// The last entry of the log that is in it.
    pub index: u64,
    pub leader_epoch: u64,
    pub jobs: u64,
    /// The time of the state in it, not of the copy.
    pub taken_at: String,
    /// Something that was acknowledged may be missing.
    pub stale: bool,
    pub pieces: mpsc::Receiver<bytes::Bytes>,
}

/// An `Idempotency-Key` and the request that it came with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmitKey {
    pub key: String,
    /// As it was parsed, before defaults: equal requests are equal texts (J12).
    pub request: String,
}

/// A submit that was accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Submitted {
    pub job: JobDoc,
    /// The same key gave this job before.
    pub repeated: bool,
}

/// What of an ended job is to run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rerun {
    /// A retry: only nodes on which something failed take part.
    pub failed_only: bool,
    /// Also once-only steps that may have run already (W8).
    pub rerun_once: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobQuery {
    pub limit: u32,
    pub filter: JobFilter,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResultQuery {
    pub limit: u32,
    /// Rows after (step, node), in that order.
    pub after: Option<(u32, String)>,
    pub step: Option<u32>,
    pub status: Option<Outcome>,
    /// Of this run; without it, the newest.
    pub run: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventQuery {
    pub limit: u32,
    pub after: Option<u64>,
    pub before: Option<u64>,
}

/// Which outputs of a job, and whether to stay for what is still printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogQuery {
    pub filter: LogFilter,
    pub follow: bool,
    /// Of each output only the last so many lines.
    pub tail: Option<u32>,
    /// Where the reader was before.
    pub from: Vec<LogCursor>,
}

/// What may be done with a member of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberChange {
    Promote,
    Demote,
    Remove,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutputQuery {
    pub follow: bool,
    pub offset: u64,
    /// Without it, the newest.
    pub attempt: Option<Attempt>,
    /// Of this run; without it, the newest.
    pub run: Option<u32>,
}

/// One output as it is: whole if it is short or its worker is there, otherwise its last bytes.
#[derive(Debug)]
pub struct Output {
    pub attempt: Attempt,
    /// Of the whole; none while it grows.
    pub total_bytes: Option<u64>,
    /// Of the first byte.
    pub offset: u64,
    pub pieces: mpsc::Receiver<Result<Bytes, BrokenOff>>,
}

/// Why an output ends before its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BrokenOff(pub String);

/// What a controller is at this moment, without what it takes to reach others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub node_id: NodeId,
    pub role: Role,
    /// None: nobody has ever led.
    pub leader_epoch: Option<u64>,
}

pub trait Control: Clone + Send + Sync + 'static {
    /// E9: a handle whose mutations take effect only under this leader epoch.
    #[must_use]
    fn fenced(&self, epoch: u64) -> Self;
    fn role(&self) -> RoleDoc;
    /// What every request and every answer needs of the role, and is cheap.
    fn standing(&self) -> Standing;
    /// Whether this controller is a member that knows the leader.
    fn is_ready(&self) -> bool;
    /// E4: it would lead, but no majority answers it.
    fn is_cut_off(&self) -> bool;
    /// E6: returns when everything acknowledged before the call can be read here.
    fn read_barrier(&self) -> impl Future<Output = Result<(), Refusal>> + Send;

    fn cluster(&self) -> impl Future<Output = Result<ClusterDoc, Refusal>> + Send;
    /// A controller asks to become a member.
    fn join(&self, body: JoinBody) -> impl Future<Output = Result<JoinedDoc, Refusal>> + Send;
    fn change_member(&self, id: &str, change: MemberChange)
    -> impl Future<Output = Result<ClusterDoc, Refusal>> + Send;
    /// E2: an operator lets a superseded cluster accept writes again.
    fn lift_superseded(&self) -> impl Future<Output = Result<ClusterDoc, Refusal>> + Send;
    /// E2: a client sent an epoch that is not the current one.
    fn epoch_claimed(&self, epoch: u64);
    /// E7; answers when another controller leads.
    fn step_down(&self, to: Option<String>) -> impl Future<Output = Result<RoleDoc, Refusal>> + Send;

    fn submit(
        &self,
        namespace: &str,
        spec: JobSpec,
        key: Option<SubmitKey>,
        plan: Option<PlanHash>,
    ) -> impl Future<Output = Result<Submitted, Refusal>> + Send;
    /// What a job would do now.
    fn plan(&self, namespace: &str, spec: JobSpec) -> impl Future<Output = Result<PlanDoc, Refusal>> + Send;
    fn cancel(&self, namespace: &str, job: JobId) -> impl Future<Output = Result<JobStateDoc, Refusal>> + Send;

    /// `held`: only a job that is held after a restore is meant, no phase. `rerun_once`: its `once` steps that may have run
    /// already run again (E2).
    fn confirm(
        &self,
        namespace: &str,
        job: JobId,
        phase: Option<u32>,
        held: bool,
        rerun_once: bool,
    ) -> impl Future<Output = Result<JobStateDoc, Refusal>> + Send;
    fn resolve(
        &self,
        namespace: &str,
        job: JobId,
        step: StepIndex,
        node: NodeId,
        verdict: Resolution,
    ) -> impl Future<Output = Result<JobStateDoc, Refusal>> + Send;

    /// Runs what is missing of an ended job, or, as a retry, only what its failed nodes miss.
    fn resume(
        &self,
        namespace: &str,
        job: JobId,
        wanted: Rerun,
    ) -> impl Future<Output = Result<JobStateDoc, Refusal>> + Send;

    fn why(&self, namespace: &str, job: JobId) -> impl Future<Output = Result<WhyDoc, Refusal>> + Send;
    /// `run`: as that run had it; without it, the newest.
    fn job(
        &self,
        namespace: &str,
        job: JobId,
        run: Option<u32>,
    ) -> impl Future<Output = Result<JobDoc, Refusal>> + Send;
    /// The runs of a job, newest first, older than `before`.
    fn runs(
        &self,
        namespace: &str,
        job: JobId,
        before: Option<u32>,
        limit: u32,
    ) -> impl Future<Output = Result<ListDoc<RunDoc>, Refusal>> + Send;
    fn jobs(&self, namespace: &str, query: JobQuery) -> impl Future<Output = Result<ListDoc<JobDoc>, Refusal>> + Send;
    fn results(
        &self,
        namespace: &str,
        job: JobId,
        query: ResultQuery,
    ) -> impl Future<Output = Result<ListDoc<ResultRowDoc>, Refusal>> + Send;
    fn output(
        &self,
        namespace: &str,
        job: JobId,
        step: StepIndex,
        node: NodeId,
        query: OutputQuery,
    ) -> impl Future<Output = Result<Output, Refusal>> + Send;
    /// The outputs of a job, record by record.
    fn logs(
        &self,
        namespace: &str,
        job: JobId,
        query: LogQuery,
    ) -> impl Future<Output = Result<mpsc::Receiver<LogDoc>, Refusal>> + Send;
    fn outputs(
        &self,
        namespace: &str,
        job: JobId,
        step: StepIndex,
        run: Option<u32>,
    ) -> impl Future<Output = Result<Vec<OutputGroupDoc>, Refusal>> + Send;

    /// Events behind `after` as they come; without it, those from now on.
    fn listen(
        &self,
        filter: EventFilter,
        after: Option<u64>,
    ) -> impl Future<Output = Result<mpsc::Receiver<EventDoc>, Refusal>> + Send;
    /// A page of events: behind `after`, oldest first, or else older than `before`, newest first.
    fn events(
        &self,
        filter: EventFilter,
        query: EventQuery,
    ) -> impl Future<Output = Result<ListDoc<EventDoc>, Refusal>> + Send;

    fn nodes(
        &self,
        limit: u32,
        after: Option<NodeId>,
    ) -> impl Future<Output = Result<ListDoc<NodeDoc>, Refusal>> + Send;
    fn node(&self, node: NodeId) -> impl Future<Output = Result<NodeDoc, Refusal>> + Send;
    /// Everything that was acknowledged before the call, as one file, or NO_QUORUM; `stale`: whatever is applied here.
    fn backup(&self, stale: bool) -> impl Future<Output = Result<Backup, Refusal>> + Send;
    /// A person wants no new work on a node, or (`drain` false) wants it again.
    fn order_drain(&self, node: NodeId, drain: bool) -> impl Future<Output = Result<NodeDoc, Refusal>> + Send;
    /// The node is none any more. Refused while work may run there, unless it is forced.
    fn remove_node(&self, node: NodeId, force: bool) -> impl Future<Output = Result<NodeStateDoc, Refusal>> + Send;
    /// A plain HTTP agent asks for work; answers when there is some, when its time is over, or when `stop` is.
    fn poll_agent(
        &self,
        poll: AgentPoll,
        stop: impl Future<Output = ()> + Send,
    ) -> impl Future<Output = Result<LeasesDoc, Refusal>> + Send;
    /// It tells how a lease ended (W4).
    fn agent_result(&self, result: AgentResult) -> impl Future<Output = Result<RecordedDoc, Refusal>> + Send;
    /// `hash`: with the hash of the stored state (L7), which reads all of it.
    fn status(&self, hash: bool) -> impl Future<Output = Result<StatusDoc, Refusal>> + Send;
}
