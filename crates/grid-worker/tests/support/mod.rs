//! A leader to test against: the real gRPC server, a `/role` endpoint, and a hub that does as it is told.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod worker;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use grid_fabric::{Credential, FabricRefusal, Hub, Leave, Outbox, Peer, serve};
use grid_proto::v1;
use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, NodeOrd, SessionId, StepIndex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Of every session.
const SECRET: [u8; 16] = [7; 16];
pub const LIMIT: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct Seen {
    pub epoch: u64,
    pub outbox: Option<Outbox>,
    pub session: u64,
    pub registrations: Vec<v1::RegisterNodeRequest>,
    /// First messages of streams.
    pub firsts: Vec<v1::FromWorker>,
    pub messages: Vec<v1::FromWorker>,
    pub results: Vec<v1::LeaseResult>,
    pub revokes_done: Vec<v1::RevokeDone>,
    pub accepted: Vec<LeaseKey>,
    pub chunks: Vec<v1::LogChunk>,
    pub drained: u32,
    pub left: u32,
    /// How results and finished revokes are answered; `None`: not at all.
    pub answer: Option<v1::AnswerKind>,
    pub refuse: Option<FabricRefusal>,
    pub heartbeat_ms: u64,
    pub cluster_id: String,
}

pub struct Leader {
    seen: Mutex<Seen>,
}

impl Leader {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }
}

impl Hub for Leader {
    async fn register(
        &self,
        request: v1::RegisterNodeRequest,
        _: Peer,
    ) -> Result<v1::RegisterNodeReply, FabricRefusal> {
        let mut seen = self.seen();
        seen.registrations.push(request);
        if let Some(refusal) = &seen.refuse {
            return Err(refusal.clone());
        }
        seen.session += 1;
        Ok(v1::RegisterNodeReply {
            session: seen.session,
            ordinal: 1,
            leader_epoch: seen.epoch,
            cluster_id: seen.cluster_id.clone(),
            heartbeat_ms: seen.heartbeat_ms,
            output_tail_bytes: 16 * 1024,
            ask_journal: Vec::new(),
            secret: Some(v1::Secret { value: SECRET.to_vec() }),
        })
    }

    async fn drain(&self, _: String, credential: Credential) -> Result<(), FabricRefusal> {
        assert_eq!(credential.secret.value, SECRET);
        self.seen().drained += 1;
        Ok(())
    }

    async fn leave(&self, _: String, credential: Credential, _: Leave) -> Result<(), FabricRefusal> {
        assert_eq!(credential.secret.value, SECRET);
        self.seen().left += 1;
        Ok(())
    }

    fn opened(&self, credential: &Credential, _: Peer, outbox: Outbox) -> Result<(), v1::Closing> {
        assert_eq!(credential.secret.value, SECRET);
        self.seen().outbox = Some(outbox);
        Ok(())
    }

    async fn received(&self, _: SessionId, message: v1::FromWorker) {
        let mut seen = self.seen();
        if message.outstanding.is_some() && seen.firsts.len() < usize::try_from(seen.session).unwrap() {
            seen.firsts.push(message.clone());
        }
        seen.accepted.extend(message.accepted.iter().map(|lease| LeaseKey::from(*lease)));
        seen.results.extend(message.results.clone());
        seen.revokes_done.extend(message.revokes_done.clone());
        let begun: Vec<_> = message.begins.iter().map(granted).collect();
        if let (Some(outbox), false) = (&seen.outbox, begun.is_empty()) {
            let _ = outbox.send(v1::ToWorker { leader_epoch: seen.epoch, begun, ..Default::default() });
        }
        if let Some(kind) = seen.answer {
            let results = message.results.iter().map(|result| result.lease);
            let leases = results.chain(message.revokes_done.iter().map(|done| done.lease));
            let answers: Vec<_> = leases.map(|lease| v1::Answer { lease, kind: kind.into() }).collect();
            let epoch = seen.epoch;
            if let (Some(outbox), false) = (&seen.outbox, answers.is_empty()) {
                let _ = outbox.send(v1::ToWorker { leader_epoch: epoch, answers, ..Default::default() });
            }
        }
        seen.messages.push(message);
    }

    fn closed(&self, _: SessionId) {
        let mut seen = self.seen();
        if seen.outbox.as_ref().is_some_and(Outbox::is_closed) {
            seen.outbox = None;
        }
    }

    fn log_sender(&self, credential: &Credential, _: &Peer) -> Result<NodeOrd, FabricRefusal> {
        assert_eq!(credential.secret.value, SECRET);
        Ok(NodeOrd(1))
    }

    async fn log_chunk(&self, _: NodeOrd, chunk: v1::LogChunk) -> bool {
        self.seen().chunks.push(chunk);
        true
    }
}

fn granted(begin: &v1::Begin) -> v1::BeginAnswer {
    v1::BeginAnswer { lease: begin.lease, kind: v1::BeginKind::Granted.into(), asked_ms: begin.asked_ms }
}

/// A leader that listens.
pub struct TestLeader {
    hub: Arc<Leader>,
    pub url: String,
}

impl TestLeader {
    pub async fn start() -> Self {
        let (answer, cluster_id) = (Some(v1::AnswerKind::Committed), "cluster".to_owned());
        let seen = Seen { epoch: 1, answer, heartbeat_ms: 100, cluster_id, ..Seen::default() };
        let hub = Arc::new(Leader { seen: Mutex::new(seen) });
        let fabric = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let grpc = fabric.local_addr().unwrap().to_string();
        tokio::spawn(serve(fabric, 64, Arc::clone(&hub), std::future::pending()));
        let api = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", api.local_addr().unwrap());
        tokio::spawn(answer_role(api, url.clone(), grpc));
        Self { hub, url }
    }

    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.hub.seen()
    }

    /// Waits until `look` finds what it looks for.
    pub async fn until<T>(&self, what: &str, mut look: impl FnMut(&mut Seen) -> Option<T>) -> T {
        let deadline = tokio::time::Instant::now() + LIMIT;
        loop {
            if let Some(found) = look(&mut self.seen()) {
                return found;
            }
            assert!(tokio::time::Instant::now() < deadline, "never happened: {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub async fn until_open(&self) {
        self.until("a session", |seen| seen.outbox.is_some().then_some(())).await;
    }

    pub fn say(&self, message: v1::ToWorker) {
        let seen = self.seen();
        let leader_epoch = if message.leader_epoch == 0 { seen.epoch } else { message.leader_epoch };
        seen.outbox.as_ref().expect("a session").send(v1::ToWorker { leader_epoch, ..message }).unwrap();
    }

    pub fn offer(&self, task: &Task) {
        let offers = vec![task.offer(self.seen().session)];
        self.say(v1::ToWorker { offers, ..Default::default() });
    }

    pub fn revoke(&self, lease: LeaseKey) {
        self.say(v1::ToWorker { revokes: vec![lease.into()], ..Default::default() });
    }

    pub fn answer(&self, lease: LeaseKey, kind: v1::AnswerKind) {
        let answers = vec![v1::Answer { lease: Some(lease.into()), kind: kind.into() }];
        self.say(v1::ToWorker { answers, ..Default::default() });
    }

    pub async fn result(&self, lease: LeaseKey) -> v1::LeaseResult {
        let find = |seen: &mut Seen| seen.results.iter().find(|result| of(result.lease, lease)).cloned();
        self.until(&format!("a result of {lease}"), find).await
    }

    pub async fn revoke_done(&self, lease: LeaseKey) -> v1::RevokeDone {
        let find = |seen: &mut Seen| seen.revokes_done.iter().find(|done| of(done.lease, lease)).cloned();
        self.until(&format!("the end of the revoke of {lease}"), find).await
    }

    pub fn results_of(&self, lease: LeaseKey) -> usize {
        self.seen().results.iter().filter(|result| of(result.lease, lease)).count()
    }

    /// Two heartbeats later: what had to happen has happened.
    pub async fn heartbeats(&self, count: usize) {
        let heartbeats = |seen: &Seen| seen.messages.iter().filter(|message| message.heartbeat.is_some()).count();
        let before = heartbeats(&self.seen());
        self.until("a heartbeat", |seen| (heartbeats(seen) >= before + count).then_some(())).await;
    }
}

pub fn of(wire: Option<v1::Lease>, lease: LeaseKey) -> bool {
    wire.map(LeaseKey::from) == Some(lease)
}

async fn answer_role(listener: TcpListener, url: String, grpc: String) {
    let body = format!(
        r#"{{"node_id":"ctl","role":"LEADER","leader_epoch":1,"leader_id":"ctl","leader_url":"{url}","leader_grpc":"{grpc}"}}"#
    );
    let answer = format!("HTTP/1.0 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).await;
        let _ = stream.write_all(answer.as_bytes()).await;
    }
}

/// One lease to be offered.
#[derive(Clone)]
pub struct Task {
    pub lease: LeaseKey,
    offer: v1::Offer,
}

impl Task {
    /// Of the backend `test` unless the action says otherwise: `"ping/echo"`.
    pub fn new(job: u64, action: &str) -> Self {
        let (backend, action) = action.split_once('/').unwrap_or(("test", action));
        let effect = if action == "record" { v1::EffectClass::Once } else { v1::EffectClass::Idempotent };
        let lease = LeaseKey { job: JobId(job), job_epoch: JobEpoch(1), step: StepIndex(0), attempt: Attempt(1) };
        let offer = v1::Offer {
            backend: backend.to_owned(),
            action: action.to_owned(),
            effect: effect.into(),
            timeout_ms: 60_000,
            params: std::collections::BTreeMap::new(),
            ..Default::default()
        };
        Self { lease, offer }
    }

    pub fn step(mut self, step: u32) -> Self {
        self.lease.step = StepIndex(step);
        self
    }

    pub fn text(self, name: &str, value: &str) -> Self {
        self.with(name, v1::value::Kind::Text(value.to_owned()))
    }

    pub fn integer(self, name: &str, value: i64) -> Self {
        self.with(name, v1::value::Kind::Integer(value))
    }

    pub fn duration(self, name: &str, ms: u64) -> Self {
        self.with(name, v1::value::Kind::DurationMs(ms))
    }

    pub fn timeout(mut self, ms: u64) -> Self {
        self.offer.timeout_ms = ms;
        self
    }

    fn with(mut self, name: &str, kind: v1::value::Kind) -> Self {
        self.offer.params.insert(name.to_owned(), v1::Value { kind: Some(kind) });
        self
    }

    pub fn offer(&self, session: u64) -> v1::Offer {
        v1::Offer { lease: Some(self.lease.into()), session, ..self.offer.clone() }
    }
}
