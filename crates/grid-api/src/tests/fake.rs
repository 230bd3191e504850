//! A controller in memory: answers what a test put in, and writes down what it was asked.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use grid_controller::{
    AgentPoll, AgentResult, Backup, BrokenOff, Control, EventQuery, JobQuery, LogQuery, MemberChange, Output,
    OutputQuery, PlanHash, Refusal, Rerun, ResultQuery, Standing, SubmitKey, Submitted,
};
use grid_types::api::{
    ClusterDoc, EventDoc, EventFilter, HEADER_EPOCH, HEADER_NODE, HEADER_ROLE, JobDoc, JobStateDoc, JoinBody,
    JoinedDoc, LeasesDoc, ListDoc, LogDoc, LogNote, NodeDoc, NodeStateDoc, OutputGroupDoc, PlanDoc, RecordedDoc,
    Resolution, ResultRowDoc, Role, RoleDoc, RunDoc, StatusDoc, WhyDoc, target_doc, tasks_doc,
};
use grid_types::job::JobSpec;
use grid_types::{Attempt, Code, JobId, JobStatus, NodeId, StepIndex};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tower::ServiceExt;

pub const EPOCH: u64 = 7;
pub const JOB: &str = "job-0c5t9v3k2m7qa";

#[derive(Clone)]
pub struct Fake(Arc<Mutex<Inner>>);

pub struct Inner {
    pub role: RoleDoc,
    pub ready: bool,
    pub cut_off: bool,
    /// Everything but `role` and `is_ready` answers this.
    pub refusal: Option<Refusal>,
    pub panics: bool,
    /// Every call, in order.
    pub calls: Vec<String>,
    pub keys: BTreeMap<String, JobDoc>,
    pub nodes: Vec<NodeDoc>,
    pub spec: Option<JobSpec>,
    /// That of the last submit with a key.
    pub request: Option<String>,
    /// The epochs under which something was to take effect.
    pub fenced: Vec<u64>,
}

impl Fake {
    pub fn leader() -> Self {
        let role = RoleDoc {
            node_id: "ctl-1".to_owned(),
            role: Role::Leader,
            leader_epoch: Some(EPOCH),
            leader_id: Some("ctl-1".to_owned()),
            leader_url: Some("http://127.0.0.1:4001".to_owned()),
            leader_grpc: Some("http://127.0.0.1:4002".to_owned()),
            controllers: vec!["http://127.0.0.1:4001".to_owned()],
        };
        let nodes = ["ready", "warning", "unhealthy", "dead", "draining", "left"].map(node).to_vec();
        Self(Arc::new(Mutex::new(Inner {
            role,
            ready: true,
            cut_off: false,
            refusal: None,
            panics: false,
            calls: Vec::new(),
            keys: BTreeMap::new(),
            nodes,
            spec: None,
            request: None,
            fenced: Vec::new(),
        })))
    }

    pub fn standby() -> Self {
        let fake = Self::leader();
        fake.inner().role.role = Role::Standby;
        fake.inner().role.leader_id = Some("ctl-2".to_owned());
        fake
    }

    pub fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn calls(&self) -> Vec<String> {
        self.inner().calls.clone()
    }

    fn called(&self, call: String) -> Result<(), Refusal> {
        let mut inner = self.inner();
        inner.calls.push(call);
        assert!(!inner.panics, "told to panic");
        inner.refusal.clone().map_or(Ok(()), Err)
    }

    /// Sends a request through the router and checks what every answer must carry.
    pub async fn send(&self, request: Request<Body>) -> Answer {
        let response = crate::router(self.clone()).oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap().to_vec();
        for name in [HEADER_NODE, HEADER_ROLE, HEADER_EPOCH] {
            assert!(parts.headers.contains_key(name), "{name} is missing: {:?}", parts.headers);
        }
        if parts.status.as_u16() >= 400 {
            assert_eq!(parts.headers["content-type"], "application/json", "{}", String::from_utf8_lossy(&bytes));
        }
        Answer { status: parts.status, headers: parts.headers, bytes }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    pub async fn post(&self, path: &str, body: impl Into<Body>) -> Answer {
        self.send(Request::post(path).body(body.into()).unwrap()).await
    }
}

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub bytes: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap()
    }

    /// Status and `error` word.
    pub fn error(&self) -> (u16, String) {
        (self.status.as_u16(), self.json()["error"].as_str().unwrap().to_owned())
    }

    pub fn fault_fields(&self) -> Vec<String> {
        let json = self.json();
        let details = json["details"].as_array().unwrap();
        details.iter().map(|d| d["field"].as_str().unwrap().to_owned()).collect()
    }
}

pub fn refused(status: u16, word: &str) -> (u16, String) {
    (status, word.to_owned())
}

fn cluster() -> ClusterDoc {
    ClusterDoc {
        cluster_id: "c".to_owned(),
        leader_id: Some("ctl-1".to_owned()),
        leader_epoch: Some(EPOCH),
        voters: 1,
        feature_level: 0,
        majority: 1,
        superseded: None,
        members: Vec::new(),
    }
}

pub fn job_body() -> Value {
    json!({"target": {"scope": "group", "value": "web"}, "tasks": [{"backend": "ping", "action": "echo"}]})
}

pub fn job(id: &str) -> JobDoc {
    serde_json::from_value(json!({
        "id": id, "namespace": "default", "target": {"scope": "all"}, "tasks": [], "strategy": "fail-fast",
        "status": "pending", "reason": null, "step": 0, "expected": [], "owner": "ctl-1", "job_epoch": 1,
        "leader_epoch": EPOCH, "counts": {}, "steps": [], "results": {"0": {"web-01": {"status": "success"}}},
        "created_at": "2026-02-12T10:30:00Z", "updated_at": "2026-02-12T10:30:00Z",
    }))
    .unwrap()
}

pub fn node(state: &str) -> NodeDoc {
    serde_json::from_value(json!({
        "id": format!("node-{state}"), "hostname": "h", "address": "a", "groups": [], "labels": {}, "backends": {},
        "os": "linux", "arch": "x86_64",
        "capacity": {"cpu_milli": 1, "memory_bytes": 1, "disk_bytes": 1, "slots": 1}, "version": "0.1.0",
        "status": state, "state": state, "ordinal": 1, "session": 1, "leases": 0,
        "last_seen": "2026-02-12T10:30:00Z", "registered_at": "2026-02-12T10:30:00Z", "leader_epoch": EPOCH,
    }))
    .unwrap()
}

pub fn event(id: u64) -> EventDoc {
    EventDoc {
        id,
        at: "2026-02-12T10:30:00.000Z".to_owned(),
        kind: "JobStarted".to_owned(),
        subject: JOB.to_owned(),
        text: "3 nodes".to_owned(),
        job: Some(JOB.to_owned()),
        node: None,
        nodes: None,
        namespace: Some("default".to_owned()),
        name: None,
        labels: None,
        leader_epoch: EPOCH,
        role: None,
    }
}

impl Control for Fake {
    fn fenced(&self, epoch: u64) -> Self {
        self.inner().fenced.push(epoch);
        self.clone()
    }

    fn role(&self) -> RoleDoc {
        self.inner().role.clone()
    }

    fn standing(&self) -> Standing {
        let RoleDoc { node_id, role, leader_epoch, .. } = self.role();
        Standing { node_id: node_id.parse().expect("a name"), role, leader_epoch }
    }

    fn is_ready(&self) -> bool {
        self.inner().ready
    }

    fn is_cut_off(&self) -> bool {
        self.inner().cut_off
    }

    async fn read_barrier(&self) -> Result<(), Refusal> {
        self.called("read_barrier".to_owned())
    }

    async fn cluster(&self) -> Result<ClusterDoc, Refusal> {
        self.called("cluster".to_owned())?;
        Ok(cluster())
    }

    async fn join(&self, body: JoinBody) -> Result<JoinedDoc, Refusal> {
        self.called(format!("join {} {} {}", body.node_id, body.raft_id, body.replace))?;
        Ok(JoinedDoc { cluster_id: "c".to_owned() })
    }

    async fn change_member(&self, id: &str, change: MemberChange) -> Result<ClusterDoc, Refusal> {
        self.called(format!("{change:?} {id}"))?;
        Ok(cluster())
    }

    async fn lift_superseded(&self) -> Result<ClusterDoc, Refusal> {
        self.called("lift_superseded".to_owned())?;
        Ok(cluster())
    }

    fn epoch_claimed(&self, _: u64) {}

    async fn step_down(&self, to: Option<String>) -> Result<RoleDoc, Refusal> {
        self.called(format!("step_down {to:?}"))?;
        Ok(self.role())
    }

    async fn submit(
        &self,
        namespace: &str,
        spec: JobSpec,
        key: Option<SubmitKey>,
        plan: Option<PlanHash>,
    ) -> Result<Submitted, Refusal> {
        let bound = plan.map(|plan| format!(" {plan}")).unwrap_or_default();
        let (key, request) = key.map(|key| (key.key, key.request)).unzip();
        self.called(format!("submit {namespace} {key:?}{bound}"))?;
        let mut inner = self.inner();
        inner.spec = Some(spec);
        inner.request = request;
        let fresh = job(JOB);
        let Some(key) = key else { return Ok(Submitted { job: fresh, repeated: false }) };
        let repeated = inner.keys.contains_key(&key);
        let job = inner.keys.entry(key).or_insert(fresh).clone();
        Ok(Submitted { job, repeated })
    }

    async fn plan(&self, namespace: &str, spec: JobSpec) -> Result<PlanDoc, Refusal> {
        self.called(format!("plan {namespace} {}", spec.target))?;
        Ok(PlanDoc {
            hash: PlanHash([0xab; 32]).to_string(),
            target: target_doc(&spec.target),
            expected: vec!["web-01".to_owned()],
            offline: BTreeMap::new(),
            lacking: BTreeMap::new(),
            tasks: tasks_doc(&spec.phases),
            strategy: "fail-fast".to_owned(),
            failure_tolerate: "0".to_owned(),
            concurrency: None,
            rows: 1,
        })
    }

    async fn cancel(&self, namespace: &str, job: JobId) -> Result<JobStateDoc, Refusal> {
        self.called(format!("cancel {namespace} {job}"))?;
        Ok(JobStateDoc { id: job.to_string(), status: JobStatus::Cancelled, note: None, may_have_run: Vec::new() })
    }

    async fn resume(&self, namespace: &str, job: JobId, wanted: Rerun) -> Result<JobStateDoc, Refusal> {
        let verb = if wanted.failed_only { "retry" } else { "resume" };
        self.called(format!("{verb} {namespace} {job} {}", wanted.rerun_once))?;
        Ok(JobStateDoc { id: job.to_string(), status: JobStatus::Pending, note: None, may_have_run: Vec::new() })
    }

    async fn confirm(
        &self,
        namespace: &str,
        job: JobId,
        phase: Option<u32>,
        held: bool,
        rerun_once: bool,
    ) -> Result<JobStateDoc, Refusal> {
        let held = if held { " held" } else { "" };
        let rerun = if rerun_once { " rerun" } else { "" };
        self.called(format!("confirm {namespace} {job} {phase:?}{held}{rerun}"))?;
        Ok(JobStateDoc { id: job.to_string(), status: JobStatus::Running, note: None, may_have_run: Vec::new() })
    }

    async fn resolve(
        &self,
        namespace: &str,
        job: JobId,
        step: StepIndex,
        node: NodeId,
        verdict: Resolution,
    ) -> Result<JobStateDoc, Refusal> {
        self.called(format!("resolve {namespace} {job} {step} {node} {verdict:?}"))?;
        Ok(JobStateDoc { id: job.to_string(), status: JobStatus::Running, note: None, may_have_run: Vec::new() })
    }

    async fn why(&self, namespace: &str, job: JobId) -> Result<WhyDoc, Refusal> {
        self.called(format!("why {namespace} {job}"))?;
        let why = "phase 1 waits for a person".to_owned();
        Ok(WhyDoc { id: job.to_string(), status: JobStatus::Running, why, may_have_run: Vec::new() })
    }

    async fn job(&self, namespace: &str, id: JobId, run: Option<u32>) -> Result<JobDoc, Refusal> {
        let of_run = run.map(|run| format!(" run {run}")).unwrap_or_default();
        self.called(format!("job {namespace} {id}{of_run}"))?;
        if id.to_string() == JOB {
            return Ok(job(JOB));
        }
        Err(Refusal::new(Code::NotFound, format!("no job {id}")))
    }

    async fn jobs(&self, namespace: &str, query: JobQuery) -> Result<ListDoc<JobDoc>, Refusal> {
        self.called(format!("jobs {namespace} {query:?}"))?;
        Ok(ListDoc { items: vec![job(JOB)], next: Some(JOB.to_owned()) })
    }

    async fn results(&self, namespace: &str, job: JobId, query: ResultQuery) -> Result<ListDoc<ResultRowDoc>, Refusal> {
        self.called(format!("results {namespace} {job} {query:?}"))?;
        let row = json!({"step": 0, "node": "web-01", "status": "timed_out", "attempts": 2, "duration": "2.3s"});
        Ok(ListDoc { items: vec![serde_json::from_value(row).unwrap()], next: Some("0:web-01".to_owned()) })
    }

    async fn output(
        &self,
        namespace: &str,
        job: JobId,
        step: StepIndex,
        node: NodeId,
        query: OutputQuery,
    ) -> Result<Output, Refusal> {
        self.called(format!("output {namespace} {job} {step} {node} {query:?}"))?;
        if node.as_str() == "silent" {
            return Err(Refusal::new(Code::NotFound, "no output of step 0 on silent"));
        }
        let (sender, pieces) = mpsc::channel(4);
        sender.send(Ok(Bytes::from_static(b"<b>\xff\x00"))).await.unwrap();
        sender.send(Ok(Bytes::from_static(b"tail"))).await.unwrap();
        if node.as_str() == "broken" {
            sender.send(Err(BrokenOff("its worker is gone".to_owned()))).await.unwrap();
        }
        Ok(Output { attempt: Attempt(2), total_bytes: Some(70_000), offset: 69_991, pieces })
    }

    async fn logs(&self, namespace: &str, job: JobId, query: LogQuery) -> Result<mpsc::Receiver<LogDoc>, Refusal> {
        self.called(format!("logs {namespace} {job} {query:?}"))?;
        let (sender, records) = mpsc::channel(4);
        let note = LogNote { step: 0, node: "web-01".into(), word: "away".into(), text: "web-01 is away".into() };
        sender.send(LogDoc::Note(note)).await.unwrap();
        sender.send(LogDoc::End { status: JobStatus::Completed }).await.unwrap();
        Ok(records)
    }

    async fn runs(
        &self,
        namespace: &str,
        job: JobId,
        before: Option<u32>,
        limit: u32,
    ) -> Result<ListDoc<RunDoc>, Refusal> {
        self.called(format!("runs {namespace} {job} {before:?} {limit}"))?;
        let run = json!({"run": 1, "kind": "submit", "status": "failed", "reason": null, "counts": {}});
        Ok(ListDoc { items: vec![serde_json::from_value(run).unwrap()], next: None })
    }

    async fn outputs(
        &self,
        namespace: &str,
        job: JobId,
        step: StepIndex,
        run: Option<u32>,
    ) -> Result<Vec<OutputGroupDoc>, Refusal> {
        let of_run = run.map(|run| format!(" run {run}")).unwrap_or_default();
        self.called(format!("outputs {namespace} {job} {step}{of_run}"))?;
        let nodes = vec!["web-01".to_owned(), "web-02".to_owned()];
        Ok(vec![OutputGroupDoc { count: 2, nodes, output: "ok\n".to_owned(), total_bytes: 3 }])
    }

    async fn backup(&self, stale: bool) -> Result<Backup, Refusal> {
        self.called(format!("backup {stale}"))?;
        let (pieces, taken) = mpsc::channel(4);
        for piece in [&b"GRID"[..], b"BKUP"] {
            pieces.send(piece.into()).await.unwrap();
        }
        let (blake3, taken_at) = ("ab".repeat(32), "2026-02-12T10:30:00.000Z".to_owned());
        Ok(Backup { bytes: 8, blake3, index: 812, leader_epoch: 4, jobs: 3, taken_at, stale, pieces: taken })
    }

    async fn listen(&self, filter: EventFilter, after: Option<u64>) -> Result<mpsc::Receiver<EventDoc>, Refusal> {
        self.called(format!("listen {filter:?} {after:?}"))?;
        let (events, listener) = mpsc::channel(4);
        for id in [8, 9] {
            events.send(event(id)).await.unwrap();
        }
        Ok(listener)
    }

    async fn events(&self, filter: EventFilter, query: EventQuery) -> Result<ListDoc<EventDoc>, Refusal> {
        self.called(format!("events {filter:?} {query:?}"))?;
        Ok(ListDoc { items: vec![event(9), event(8)], next: Some("8".to_owned()) })
    }

    async fn nodes(&self, limit: u32, after: Option<NodeId>) -> Result<ListDoc<NodeDoc>, Refusal> {
        self.called(format!("nodes {limit} {after:?}"))?;
        Ok(ListDoc { items: self.inner().nodes.clone(), next: Some("node-left".to_owned()) })
    }

    async fn node(&self, id: NodeId) -> Result<NodeDoc, Refusal> {
        self.called(format!("node {id}"))?;
        let found = self.inner().nodes.iter().find(|n| n.id == id.as_str()).cloned();
        found.ok_or_else(|| Refusal::new(Code::NotFound, format!("no node {id}")))
    }

    async fn poll_agent(&self, poll: AgentPoll, _stop: impl Future<Output = ()> + Send) -> Result<LeasesDoc, Refusal> {
        self.called(format!("poll_agent {poll:?}"))?;
        Ok(LeasesDoc { leader_epoch: EPOCH, ..LeasesDoc::default() })
    }

    async fn agent_result(&self, result: AgentResult) -> Result<RecordedDoc, Refusal> {
        self.called(format!("agent_result {result:?}"))?;
        Ok(RecordedDoc { lease_id: result.lease.to_string(), status: result.outcome, leader_epoch: EPOCH })
    }

    async fn order_drain(&self, id: NodeId, drain: bool) -> Result<NodeDoc, Refusal> {
        self.called(format!("order_drain {id} {drain}"))?;
        self.node(id).await
    }

    async fn remove_node(&self, id: NodeId, force: bool) -> Result<NodeStateDoc, Refusal> {
        self.called(format!("remove_node {id} {force}"))?;
        Ok(NodeStateDoc { id: id.into(), status: "removed".to_owned() })
    }

    async fn status(&self, hash: bool) -> Result<StatusDoc, Refusal> {
        self.called(format!("status {hash}"))?;
        Ok(StatusDoc {
            cluster_id: "c".to_owned(),
            version: "0.1.0".to_owned(),
            role: self.role(),
            nodes: BTreeMap::from([("ready".to_owned(), 3)]),
            jobs: BTreeMap::new(),
            applied_index: 9,
            superseded: None,
            state_hash: hash.then(|| "ab".to_owned()),
            snapshot_problem: None,
            dispatch_problem: None,
            refused: BTreeMap::new(),
        })
    }
}
