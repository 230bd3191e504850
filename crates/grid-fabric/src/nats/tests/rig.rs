//! A nats-server, a controller's end with a hub that records what it sees, and links of workers.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::Subscriber;
use grid_proto::v1;
use grid_tasks::Tasks;
use grid_testkit::{Nats, NatsOptions};
use grid_types::{Code, LeaderEpoch, NodeOrd, SessionId};
use prost::Message;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::StreamExt;

use super::super::{Client, NatsBroker, NatsLink, Settings, serve};
use crate::{Arrival, Broadcaster, Broker, CloseReason, Credential, Downlink, FabricRefusal, Hub, Leave, Outbox, Peer};

pub const SECRET: [u8; 16] = [7; 16];
pub const LIMIT: Duration = Duration::from_secs(60);
pub const EPOCH: u64 = 5;

#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    Opened(u64, String),
    /// Session, count of its heartbeat, results.
    Received(u64, u32, u32),
    Closed(u64),
    Chunk(u64),
}

pub struct FakeHub {
    seen: mpsc::UnboundedSender<Seen>,
    outboxes: Mutex<Vec<Outbox>>,
    epoch: watch::Sender<Option<LeaderEpoch>>,
    ups: Mutex<Vec<bool>>,
    results: Mutex<Vec<v1::LeaseResult>>,
    revokes_done: Mutex<usize>,
    closed: Mutex<Vec<u64>>,
    /// While it is set, nothing is answered and no message is taken.
    busy: watch::Sender<bool>,
    registrations: AtomicUsize,
    broadcaster: Mutex<Option<Arc<dyn Broadcaster>>>,
}

impl FakeHub {
    pub fn ups(&self) -> Vec<bool> {
        self.ups.lock().unwrap().clone()
    }

    pub fn set_busy(&self, busy: bool) {
        self.busy.send_replace(busy);
    }

    async fn idle(&self) {
        let _ = self.busy.subscribe().wait_for(|busy| !busy).await;
    }

    /// How many were asked for.
    pub fn registrations(&self) -> usize {
        self.registrations.load(Ordering::Relaxed)
    }

    pub fn revokes_done(&self) -> usize {
        *self.revokes_done.lock().unwrap()
    }
}

impl Hub for FakeHub {
    async fn register(
        &self,
        request: v1::RegisterNodeRequest,
        peer: Peer,
    ) -> Result<v1::RegisterNodeReply, FabricRefusal> {
        assert_eq!(peer, Peer::Subject(request.node_id.parse().unwrap()));
        self.registrations.fetch_add(1, Ordering::Relaxed);
        self.idle().await;
        if request.node_id == "again" && self.closed.lock().unwrap().contains(&7) {
            return Ok(v1::RegisterNodeReply { session: 8, leader_epoch: EPOCH, ..Default::default() });
        }
        // `n` and an ordinal: it is let in.
        if let Some(ordinal) = request.node_id.strip_prefix('n').and_then(|number| number.parse().ok()) {
            let session = u64::from(ordinal) + 100;
            return Ok(v1::RegisterNodeReply { session, ordinal, leader_epoch: EPOCH, ..Default::default() });
        }
        let leader_url = Some("http://other:8765".to_owned());
        Err(FabricRefusal { leader_url, ..FabricRefusal::new(Code::DuplicateNode, "clone is here already") })
    }

    async fn drain(&self, _: String, _: Credential) -> Result<(), FabricRefusal> {
        Ok(())
    }

    async fn leave(&self, _: String, _: Credential, leave: Leave) -> Result<(), FabricRefusal> {
        assert_eq!(leave, Leave::NothingOutstanding);
        Err(FabricRefusal::new(Code::NotFound, "no such node"))
    }

    fn opened(&self, credential: &Credential, peer: Peer, outbox: Outbox) -> Result<(), v1::Closing> {
        let Peer::Subject(node) = peer else { panic!("{peer}") };
        if credential.secret.value != SECRET {
            return Err(CloseReason::StaleSession.message(String::new()));
        }
        self.outboxes.lock().unwrap().push(outbox);
        self.seen.send(Seen::Opened(credential.session.0, node.to_string())).unwrap();
        Ok(())
    }

    async fn received(&self, session: SessionId, message: v1::FromWorker) {
        self.idle().await;
        assert_eq!((message.session, message.leader_epoch), (session.0, EPOCH));
        let count = message.heartbeat.map_or(0, |heartbeat| heartbeat.outstanding_count);
        let results = u32::try_from(message.results.len()).unwrap();
        *self.revokes_done.lock().unwrap() += message.revokes_done.len();
        self.results.lock().unwrap().extend(message.results);
        let _ = self.seen.send(Seen::Received(session.0, count, results));
    }

    fn closed(&self, session: SessionId) {
        self.closed.lock().unwrap().push(session.0);
        let _ = self.seen.send(Seen::Closed(session.0));
    }

    fn log_sender(&self, credential: &Credential, _: &Peer) -> Result<NodeOrd, FabricRefusal> {
        let is_known = credential.secret.value == SECRET;
        is_known.then_some(NodeOrd(1)).ok_or_else(|| FabricRefusal::new(Code::Forbidden, "not its secret"))
    }

    async fn log_chunk(&self, _: NodeOrd, chunk: v1::LogChunk) -> bool {
        assert_eq!(chunk.secret, None, "it goes no further");
        self.seen.send(Seen::Chunk(chunk.offset)).unwrap();
        chunk.offset < 2
    }

    async fn next_epoch(&self, known: Option<LeaderEpoch>) -> Option<LeaderEpoch> {
        *self.epoch.subscribe().wait_for(|epoch| *epoch != known).await.unwrap()
    }

    fn broker_is_up(&self, is_up: bool) {
        self.ups.lock().unwrap().push(is_up);
    }

    fn broadcast_by(&self, broadcaster: Option<Arc<dyn Broadcaster>>) {
        *self.broadcaster.lock().unwrap() = broadcaster;
    }
}

pub struct Rig {
    pub server: Nats,
    pub hub: Arc<FakeHub>,
    seen: mpsc::UnboundedReceiver<Seen>,
    client: Client,
    pub stop: Option<oneshot::Sender<()>>,
    pub serving: tokio::task::JoinHandle<()>,
}

impl Rig {
    /// Leads epoch [`EPOCH`], and is subscribed.
    pub async fn start() -> Self {
        Self::on(Nats::start()).await
    }

    /// On a server with this in its configuration.
    pub async fn with_config(text: &str) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("jetstream {{}}\n{text}\n")).unwrap();
        Self::on(NatsOptions::new().config(file.path()).start()).await
    }

    async fn on(server: Nats) -> Self {
        let (sender, seen) = mpsc::unbounded_channel();
        let hub = Arc::new(FakeHub {
            seen: sender,
            outboxes: Mutex::default(),
            epoch: watch::Sender::new(Some(LeaderEpoch::from_wire(EPOCH))),
            ups: Mutex::default(),
            results: Mutex::default(),
            revokes_done: Mutex::default(),
            closed: Mutex::default(),
            busy: watch::Sender::new(false),
            registrations: AtomicUsize::new(0),
            broadcaster: Mutex::default(),
        });
        let client = Client::connect(&settings(&server, "c1")).await.unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(serve(client.clone(), Arc::clone(&hub), Tasks::default(), async {
            let _ = stopped.await;
        }));
        let rig = Self { server, hub, seen, client, stop: Some(stop), serving };
        rig.subscribed().await;
        rig
    }

    pub async fn subscribed(&self) {
        let is_so = || self.subscriptions().iter().filter(|subject| subject.starts_with("node.*")).count() == 5;
        self.wait_for("its subscriptions", is_so).await;
    }

    /// Another connection, as a worker process has it.
    pub async fn link(&self, node: &str) -> NatsLink {
        let broker = NatsBroker::new(settings(&self.server, ""));
        broker.attach(&node.parse().unwrap()).await.unwrap()
    }

    /// Leads in this epoch from now on; 0: no more.
    pub fn lead(&self, epoch: u64) {
        self.hub.epoch.send_replace((epoch > 0).then(|| LeaderEpoch::from_wire(epoch)));
    }

    pub fn broadcaster(&self) -> Option<Arc<dyn Broadcaster>> {
        self.hub.broadcaster.lock().unwrap().clone()
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn nats(&self) -> &async_nats::Client {
        self.client.nats()
    }

    pub fn outbox(&self) -> Outbox {
        self.hub.outboxes.lock().unwrap().last().unwrap().clone()
    }

    pub fn last_result(&self) -> v1::LeaseResult {
        self.hub.results.lock().unwrap().last().unwrap().clone()
    }

    pub async fn next_seen(&mut self) -> Seen {
        tokio::time::timeout(LIMIT, self.seen.recv()).await.expect("the hub sees nothing").unwrap()
    }

    /// While the worker looks at its session, which also sends.
    pub async fn next_seen_with(&mut self, downlink: &mut Downlink) -> Seen {
        let seen =
            async { tokio::time::timeout(LIMIT, self.seen.recv()).await.expect("the hub sees nothing").unwrap() };
        looking(downlink, seen).await
    }

    pub async fn with<T>(&self, downlink: &mut Downlink, what: impl Future<Output = T>) -> T {
        looking(downlink, what).await
    }

    pub async fn heard(&self, downlink: &mut Downlink) -> Arrival {
        tokio::time::timeout(LIMIT, downlink.next()).await.expect("the leader is silent").unwrap().unwrap()
    }

    /// Of all connections, as the server lists them.
    pub fn subscriptions(&self) -> Vec<String> {
        let connections = self.server.monitor("/connz?subs=1");
        let listed = connections["connections"].as_array().cloned().unwrap_or_default();
        let subjects = listed.iter().filter_map(|connection| connection["subscriptions_list"].as_array());
        subjects.flatten().filter_map(|subject| subject.as_str().map(str::to_owned)).collect()
    }

    pub async fn wait_for(&self, what: &str, is_so: impl Fn() -> bool) {
        let begun = tokio::time::Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < LIMIT, "waited too long for {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// What comes down meanwhile does not matter.
async fn looking<T>(downlink: &mut Downlink, what: impl Future<Output = T>) -> T {
    let looking = async {
        loop {
            downlink.next().await.expect("the stream ended").unwrap();
        }
    };
    tokio::select! {
        done = what => done,
        () = looking => unreachable!("it never ends"),
    }
}

fn settings(server: &Nats, name: &str) -> Settings {
    Settings { urls: vec![server.url()], name: name.to_owned(), credentials: None, ca: None }
}

/// With the session's secret, which only a first message needs.
pub fn heartbeat(session: u64, outstanding_count: u32) -> v1::FromWorker {
    let heartbeat = Some(v1::Heartbeat { outstanding_digest: 0, outstanding_count });
    let secret = (outstanding_count < 2).then(|| v1::Secret { value: SECRET.to_vec() });
    v1::FromWorker { session, leader_epoch: EPOCH, heartbeat, secret, ..Default::default() }
}

pub fn lease(attempt: u32) -> v1::Lease {
    v1::Lease { job_id: 1, job_epoch: 1, step: 0, attempt }
}

pub fn result(attempt: u32, output: &[u8]) -> v1::LeaseResult {
    let status = v1::LeaseStatus::Success.into();
    v1::LeaseResult { lease: Some(lease(attempt)), status, output_tail: output.to_vec(), ..Default::default() }
}

pub async fn closing_of(down: &mut Subscriber) -> v1::Closing {
    let message = tokio::time::timeout(LIMIT, down.next()).await.expect("nothing is said").unwrap();
    v1::ToWorker::decode(message.payload).unwrap().closing.expect("no closing")
}
