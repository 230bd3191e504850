//! A controller in memory: answers what a test put in, and records what it was asked.

mod jobs;
mod outputs;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use grid_controller::{
    AgentPoll, AgentResult, Agents, Backup, BackupScope, Caller, Cluster, EventFilter, EventQuery, Events, Introspect,
    MemberChange, NodeQuery, Nodes, Refusal, Removal, Standing, StateHash,
};
use grid_types::api::{
    ClusterDoc, EventDoc, HEADER_EPOCH, HEADER_NODE, HEADER_ROLE, JobDoc, JoinBody, JoinedDoc, LeasesDoc, ListDoc,
    NodeDoc, NodeStateDoc, RecordedDoc, Role, RoleDoc, StatusDoc,
};
use grid_types::job::JobSpec;
use grid_types::{Code, NodeId};
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

    /// A mutation: takes effect under the epoch that its caller names.
    fn changed(&self, caller: &Caller, call: String) -> Result<(), Refusal> {
        self.inner().fenced.extend(caller.epoch);
        self.called(call)
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

impl Introspect for Fake {
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

    fn epoch_claimed(&self, _: u64) {}

    async fn status(&self, _caller: &Caller, hash: StateHash) -> Result<StatusDoc, Refusal> {
        self.called(format!("status {hash:?}"))?;
        Ok(StatusDoc {
            cluster_id: "c".to_owned(),
            version: "0.1.0".to_owned(),
            role: self.role(),
            nodes: BTreeMap::from([("ready".to_owned(), 3)]),
            jobs: BTreeMap::new(),
            applied_index: 9,
            superseded: None,
            state_hash: (hash == StateHash::Compute).then(|| "ab".to_owned()),
            snapshot_problem: None,
            dispatch_problem: None,
            refused: BTreeMap::new(),
        })
    }
}

impl Cluster for Fake {
    async fn cluster(&self, _caller: &Caller) -> Result<ClusterDoc, Refusal> {
        self.called("cluster".to_owned())?;
        Ok(cluster())
    }

    async fn join(&self, caller: &Caller, body: JoinBody) -> Result<JoinedDoc, Refusal> {
        self.changed(caller, format!("join {} {} {}", body.node_id, body.raft_id, body.replace))?;
        Ok(JoinedDoc { cluster_id: "c".to_owned() })
    }

    async fn change_member(&self, caller: &Caller, id: &str, change: MemberChange) -> Result<ClusterDoc, Refusal> {
        self.changed(caller, format!("{change:?} {id}"))?;
        Ok(cluster())
    }

    async fn lift_superseded(&self, caller: &Caller) -> Result<ClusterDoc, Refusal> {
        self.changed(caller, "lift_superseded".to_owned())?;
        Ok(cluster())
    }

    async fn step_down(&self, caller: &Caller, to: Option<String>) -> Result<RoleDoc, Refusal> {
        self.changed(caller, format!("step_down {to:?}"))?;
        Ok(self.role())
    }

    async fn backup(&self, _caller: &Caller, scope: BackupScope) -> Result<Backup, Refusal> {
        let stale = scope == BackupScope::AppliedHere;
        self.called(format!("backup {scope:?}"))?;
        let (pieces, taken) = mpsc::channel(4);
        for piece in [&b"GRID"[..], b"BKUP"] {
            pieces.send(piece.into()).await.unwrap();
        }
        let (blake3, taken_at) = ("ab".repeat(32), "2026-02-12T10:30:00.000Z".to_owned());
        Ok(Backup { bytes: 8, blake3, index: 812, leader_epoch: 4, jobs: 3, taken_at, stale, pieces: taken })
    }
}

impl Events for Fake {
    async fn listen(
        &self,
        _caller: &Caller,
        filter: EventFilter,
        after: Option<u64>,
    ) -> Result<mpsc::Receiver<EventDoc>, Refusal> {
        self.called(format!("listen {filter:?} {after:?}"))?;
        let (events, listener) = mpsc::channel(4);
        for id in [8, 9] {
            events.send(event(id)).await.unwrap();
        }
        Ok(listener)
    }

    async fn events(
        &self,
        _caller: &Caller,
        filter: EventFilter,
        query: EventQuery,
    ) -> Result<ListDoc<EventDoc>, Refusal> {
        self.called(format!("events {filter:?} {query:?}"))?;
        Ok(ListDoc { items: vec![event(9), event(8)], next: Some("8".to_owned()) })
    }
}

impl Nodes for Fake {
    async fn nodes(&self, _caller: &Caller, query: NodeQuery) -> Result<ListDoc<NodeDoc>, Refusal> {
        let NodeQuery { limit, after, target } = query;
        let target = target.map(|target| format!(" {target}")).unwrap_or_default();
        self.called(format!("nodes {limit} {after:?}{target}"))?;
        Ok(ListDoc { items: self.inner().nodes.clone(), next: Some("node-left".to_owned()) })
    }

    async fn node(&self, _caller: &Caller, id: &NodeId) -> Result<NodeDoc, Refusal> {
        self.called(format!("node {id}"))?;
        let found = self.inner().nodes.iter().find(|n| n.id == id.as_str()).cloned();
        found.ok_or_else(|| Refusal::new(Code::NotFound, format!("no node {id}")))
    }

    async fn drain(&self, caller: &Caller, id: &NodeId) -> Result<NodeDoc, Refusal> {
        self.changed(caller, format!("drain {id}"))?;
        self.node(caller, id).await
    }

    async fn undrain(&self, caller: &Caller, id: &NodeId) -> Result<NodeDoc, Refusal> {
        self.changed(caller, format!("undrain {id}"))?;
        self.node(caller, id).await
    }

    async fn remove(&self, caller: &Caller, id: &NodeId, removal: Removal) -> Result<NodeStateDoc, Refusal> {
        self.changed(caller, format!("remove {id} {removal:?}"))?;
        Ok(NodeStateDoc { id: id.to_string(), status: "removed".to_owned() })
    }
}

impl Agents for Fake {
    async fn poll_agent(
        &self,
        caller: &Caller,
        poll: AgentPoll,
        _stop: impl Future<Output = ()> + Send,
    ) -> Result<LeasesDoc, Refusal> {
        self.changed(caller, format!("poll_agent {poll:?}"))?;
        Ok(LeasesDoc { leader_epoch: EPOCH, ..LeasesDoc::default() })
    }

    async fn agent_result(&self, caller: &Caller, result: AgentResult) -> Result<RecordedDoc, Refusal> {
        self.changed(caller, format!("agent_result {result:?}"))?;
        Ok(RecordedDoc { lease_id: result.lease.to_string(), status: result.outcome, leader_epoch: EPOCH })
    }
}
