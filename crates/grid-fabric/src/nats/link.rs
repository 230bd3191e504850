//! Connects a worker: one connection to NATS, through which its node's subjects reach the leader.
//!
//! ```text
//!   register --reply--> subscribe to down.<session> --> first message, a request --reply--> open
//!   open: messages go up, arrivals come down; the connection breaks --> dropped --> it is back --> Resumed
//! ```
//!
//! The subscription is sent before the first message, over the same connection: the leader cannot hear of the session before the
//! nats-server knows where it listens.
//! N5: nothing is kept for a connection that is down, and nothing of an earlier leader counts, whenever it arrives. A new leader announces
//! itself, so that its workers do not wait for their next heartbeat to be refused.
//! A worker that has heard nothing for a while asks for a reply to its heartbeat: a leader that is gone without a successor closes nothing,
//! and one that was superseded is not obeyed (N5), so only silence tells that the session is over.
//! Results go out in the pace of their answers: nothing else would hold back a worker that reports thousands.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::{Message, Subject};
use bytes::Bytes;
use grid_proto::v1;
use grid_types::{NodeId, SessionId};
use tokio::sync::{OnceCell, mpsc, watch};
use tokio::time::Instant;

use super::arrivals::{Arrivals, Incoming};
use super::client::{Client, RequestError, Settings};
use super::hearing::{Hearing, Registered};
use super::pace::Pace;
use super::result::{self, Sender};
use super::split;
use super::subjects::{self, Call};
use super::wire::{Reply, decoded, encoded};
use crate::MAX_MESSAGE_BYTES;
use crate::credential::Credential;
use crate::leave::Leave;
use crate::link::{Broker, Downlink, Link, LinkError, Uplink};

/// How long an attempt to register waits for the connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// A registration waits for a commit; without a majority the leader says so itself.
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// A heartbeat asks for a reply after so long a silence of the leader.
const ASK_AFTER: Duration = Duration::from_secs(10);

/// Connects a worker to NATS, once.
pub struct NatsBroker {
    settings: Settings,
    /// With the node whose name it has: its own, but where a benchmark lets several nodes share a connection.
    client: OnceCell<(NodeId, Client)>,
}

impl NatsBroker {
    /// `settings.name` is replaced by the name of the node.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, client: OnceCell::new() }
    }
}

impl Broker for NatsBroker {
    type Link = NatsLink;

    async fn attach(&self, node: &NodeId) -> Result<NatsLink, LinkError> {
        let settings = Settings { name: node.to_string(), ..self.settings.clone() };
        let connect = || async { Client::connect(&settings).await.map(|client| (node.clone(), client)) };
        let connected = self.client.get_or_try_init(connect).await;
        let (name, client) = connected.map_err(|error| LinkError::Unreachable(error.to_string()))?.clone();
        let mut connected = client.connected();
        let is_up = tokio::time::timeout(CONNECT_LIMIT, connected.wait_for(|is_up| *is_up)).await;
        if !is_up.is_ok_and(|is_up| is_up.is_ok()) {
            return Err(LinkError::Unreachable(format!("not connected to NATS at {}", self.settings.urls.join(","))));
        }
        Ok(NatsLink { client, node: node.clone(), has_own_name: name == *node, registered: Arc::default() })
    }
}

/// The subjects of one node.
#[derive(Debug, Clone)]
pub struct NatsLink {
    client: Client,
    node: NodeId,
    /// The inboxes of the connection are this node's.
    has_own_name: bool,
    /// The newest registration.
    registered: Arc<Mutex<Option<Registered>>>,
}

impl NatsLink {
    async fn call(&self, call: Call, body: Bytes) -> Result<Reply, LinkError> {
        let asked = self.ask(call.of(&self.node), body).await;
        match Reply::decode(&asked?) {
            Some(Reply::Refused(refusal)) => Err(LinkError::Refused(refusal)),
            Some(reply) => Ok(reply),
            None => Err(not_grid(call.word())),
        }
    }

    /// A new one, of this node (N6).
    fn inbox(&self) -> String {
        match self.has_own_name {
            true => self.client.nats().new_inbox(),
            false => self.client.inbox_of(&self.node),
        }
    }

    async fn ask(&self, subject: String, body: Bytes) -> Result<Message, LinkError> {
        let asked = match self.has_own_name {
            true => self.client.request(subject, body, CALL_LIMIT).await,
            false => self.client.request_at(self.inbox(), subject, body, CALL_LIMIT).await,
        };
        asked.map_err(unreachable)
    }

    async fn call_of_session(&self, call: Call, credential: Credential, leave: Leave) -> Result<(), LinkError> {
        let request = v1::NodeSession {
            node_id: self.node.to_string(),
            session: credential.session.0,
            secret: Some(credential.secret),
            nothing_outstanding: leave == Leave::NothingOutstanding,
        };
        self.call(call, encoded(&request)).await.map(drop)
    }
}

impl Link for NatsLink {
    async fn register(&self, mut request: v1::RegisterNodeRequest) -> Result<v1::RegisterNodeReply, LinkError> {
        // How the nats-server sees this machine: the leader sees no address.
        let own = self.client.nats().try_server_info().map(|info| info.client_ip).unwrap_or_default();
        if let Some(facts) = request.facts.as_mut().filter(|facts| facts.address.is_empty()) {
            facts.address = own;
        }
        let Reply::Ok(body) = self.call(Call::Register, encoded(&request)).await? else {
            return Err(not_grid(Call::Register.word()));
        };
        let reply: v1::RegisterNodeReply =
            decoded(&body, MAX_MESSAGE_BYTES).ok_or_else(|| not_grid(Call::Register.word()))?;
        let groups = request.facts.map(|facts| facts.groups).unwrap_or_default();
        *self.registered.lock().unwrap_or_else(PoisonError::into_inner) = Some(Registered::new(&reply, &groups));
        Ok(reply)
    }

    async fn open(&self, first: v1::FromWorker) -> Result<(Uplink, Downlink), LinkError> {
        let failed = |why: super::client::PublishError| LinkError::Unreachable(why.to_string());
        let (session, epoch) = (SessionId(first.session), first.leader_epoch);
        // Before the subscriptions: an interruption between them and the first look is noticed.
        let mut ups = self.client.ups();
        ups.mark_unchanged();
        let down = self.client.subscribe(subjects::down(&self.node, session)).await.map_err(failed)?;
        let leader = self.client.subscribe(subjects::LEADER).await.map_err(failed)?;
        let registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let registered = registered.filter(|registered| registered.is_of(session));
        let hearing = Hearing::start(&self.client, registered).await.map_err(failed)?;
        let inbox = Subject::from(self.inbox());
        let replies = self.client.subscribe(inbox.clone()).await.map_err(failed)?;
        let heard = Arc::new(watch::Sender::new(Instant::now()));
        let mut sayer = Sayer { link: self.clone(), pace: Arc::default(), inbox, heard: Arc::clone(&heard) };
        sayer.open(first).await?;
        let pace = Arc::clone(&sayer.pace);
        let (uplink, queue) = Uplink::new();
        let saying = Box::pin(sayer.keep_saying(queue));
        let arrivals = Arrivals::new(Incoming {
            link: self.client.clone(),
            epoch,
            down,
            leader,
            hearing,
            replies,
            heard,
            ups,
            saying,
            pace,
            resumed: false,
        });
        Ok((uplink, Downlink::new(arrivals)))
    }

    async fn drain(&self, _: String, credential: Credential) -> Result<(), LinkError> {
        self.call_of_session(Call::Drain, credential, Leave::LeasesOutstanding).await
    }

    async fn leave(&self, _: String, credential: Credential, leave: Leave) -> Result<(), LinkError> {
        self.call_of_session(Call::Leave, credential, leave).await
    }

    async fn send_logs(&self, mut chunks: mpsc::Receiver<v1::LogChunk>) -> Result<(), LinkError> {
        while let Some(chunk) = chunks.recv().await {
            if self.call(Call::Log, encoded(&chunk)).await? == Reply::Stop {
                break;
            }
        }
        Ok(())
    }
}

/// Publishes what the worker says.
struct Sayer {
    link: NatsLink,
    pace: Arc<Pace>,
    /// For the replies to heartbeats.
    inbox: Subject,
    heard: Arc<watch::Sender<Instant>>,
}

impl Sayer {
    /// The first message of a session: answered when the leader has opened it.
    async fn open(&mut self, mut first: v1::FromWorker) -> Result<(), LinkError> {
        let (session, leader_epoch, secret) = (first.session, first.leader_epoch, first.secret.take());
        let mut split = split::from_worker(first, self.link.client.split_bytes());
        let parts = if split.before.is_empty() { &mut split.after } else { &mut split.before };
        let envelope = v1::FromWorker { session, leader_epoch, ..Default::default() };
        let opening = if parts.is_empty() { envelope } else { parts.remove(0) };
        let body = encoded(&v1::FromWorker { secret, ..opening });
        let asked = self.link.ask(subjects::up(&self.link.node), body).await;
        match Reply::decode(&asked?) {
            Some(Reply::Ok(_)) => {}
            Some(Reply::Refused(refusal)) => return Err(LinkError::Refused(refusal)),
            Some(Reply::Stop) | None => return Err(not_grid("up")),
        }
        self.say_parts(split, Sender { session, leader_epoch }).await;
        Ok(())
    }

    async fn keep_saying(mut self, mut queue: mpsc::Receiver<v1::FromWorker>) {
        while let Some(message) = queue.recv().await {
            let sender = Sender { session: message.session, leader_epoch: message.leader_epoch };
            let split = split::from_worker(message, self.link.client.split_bytes());
            self.say_parts(split, sender).await;
        }
        std::future::pending::<()>().await;
    }

    async fn say_parts(&mut self, split: split::Split, sender: Sender) {
        let up = subjects::up(&self.link.node);
        for message in split.before {
            self.publish(up.clone(), encoded(&message)).await;
        }
        for result in split.results {
            self.say_result(sender, result).await;
        }
        for message in split.after {
            if message.heartbeat.is_some() && self.heard.borrow().elapsed() >= ASK_AFTER {
                self.link.client.publish_asking(up.clone(), self.inbox.clone(), encoded(&message)).await;
            } else {
                self.publish(up.clone(), encoded(&message)).await;
            }
        }
    }

    async fn say_result(&mut self, sender: Sender, mut result: v1::LeaseResult) {
        let Some(lease) = result.lease.map(grid_types::LeaseKey::from) else { return };
        let node = &self.link.node;
        let mut body = result::encode(node, sender, &result);
        // Only where the server takes less than an output's end: its beginning goes first, as everywhere.
        while body.as_ref().is_some_and(|body| body.len() > self.link.client.max_payload())
            && !result.output_tail.is_empty()
        {
            result.output_tail = result.output_tail.split_off(result.output_tail.len().div_ceil(2));
            body = result::encode(node, sender, &result);
        }
        let subject = subjects::result(lease.job, lease.step, node);
        if let Some(body) = body {
            self.pace.wait().await;
            self.publish(subject, body).await;
        }
    }

    /// What is lost is said again: the session that resumes asks for it.
    async fn publish(&self, subject: String, body: Bytes) {
        let subject = Subject::from(subject);
        if let Err(why) = self.link.client.publish(subject.clone(), None, body).await {
            tracing::debug!(%subject, "a message was not published: {why}");
        }
    }
}

fn unreachable(error: RequestError) -> LinkError {
    LinkError::Unreachable(match error {
        RequestError::NoResponders(_) => "no controller leads, or none that does is connected to NATS".to_owned(),
        other => other.to_string(),
    })
}

fn not_grid(word: &str) -> LinkError {
    LinkError::Unreachable(format!("what replied to `{word}` is no Grid controller"))
}
