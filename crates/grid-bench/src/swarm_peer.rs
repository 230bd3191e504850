//! One session of a swarm: the protocol of a worker, without a worker's processes, journal and folder.
//!
//! It keeps the rules that a leader relies on: a lease runs once, its result is reported until it gets a final answer (W4), the
//! first message lists the outstanding leases and every heartbeat carries their digest (W5), a settled lease is remembered
//! until `Forget` (W2), a `once` lease runs when the leader has recorded its start (W3). It answers a lease at once instead of
//! running it: the controller is measured.
//! Not here: durability. A swarm that is killed forgets everything; its node ids start again with a new journal.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::anyhow;
use grid_client::{Client, Options, ServerUrl};
use grid_fabric::nats::{NatsBroker, Settings};
use grid_fabric::{Arrival, Broker, Dialer, Downlink, GrpcDialer, Link, LinkError, Uplink};
use grid_proto::{outstanding_digest, v1};
use grid_types::LeaseKey;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::args::SwarmArgs;
use crate::swarm_counts::Counters;

/// More slots than any benchmark has jobs.
const SLOTS: u32 = 1_024;
/// Pause between two tries to find a leader.
const PAUSE: Duration = Duration::from_millis(100);
/// Heartbeats until a message without an answer is repeated, as a worker does.
const PATIENT_HEARTBEATS: u32 = 6;
const OUTPUT: &[u8] = b"pong";

/// How a session finds its controller.
pub struct Directory {
    fixed: Option<String>,
    client: Option<Client>,
    /// Over NATS the sessions share these connections.
    brokers: Vec<NatsBroker>,
}

impl Directory {
    pub fn new(args: &SwarmArgs) -> anyhow::Result<Self> {
        let servers: Result<Vec<ServerUrl>, _> = args.api.iter().map(|url| url.parse()).collect();
        let servers = servers?;
        let options = Options { patience: Duration::from_secs(2) };
        let client = if servers.is_empty() { None } else { Some(Client::new(servers, options)?) };
        let connections = args.sessions.div_ceil(args.per_connection.max(1));
        let brokers = args.nats.iter().flat_map(|url| {
            let settings = Settings { urls: vec![url.clone()], name: String::new(), credentials: None, ca: None };
            (0..connections).map(move |_| NatsBroker::new(settings.clone()))
        });
        Ok(Self { fixed: args.grpc.clone(), client, brokers: brokers.collect() })
    }

    /// The connection of this session, over NATS.
    fn broker(&self, number: u32) -> Option<&NatsBroker> {
        let count = u32::try_from(self.brokers.len()).ok().filter(|count| *count > 0)?;
        self.brokers.get(usize::try_from(number % count).ok()?)
    }

    async fn leader(&self) -> anyhow::Result<String> {
        if let Some(fixed) = &self.fixed {
            return Ok(fixed.clone());
        }
        let client = self.client.as_ref().ok_or_else(|| anyhow!("no controller is named"))?;
        client.role().await?.leader_grpc.ok_or_else(|| anyhow!("no leader"))
    }
}

pub struct Peer {
    number: u32,
    node_id: String,
    identity: [u8; 16],
    counters: Arc<Counters>,
    directory: Arc<Directory>,
    turns: Arc<Semaphore>,
    /// Run, and not forgotten yet.
    ran: BTreeSet<LeaseKey>,
    /// Of these, those without a final answer.
    outstanding: BTreeSet<LeaseKey>,
    /// As of [`PATIENT_HEARTBEATS`] before.
    outstanding_before: Vec<LeaseKey>,
    /// To be reported.
    due: Vec<LeaseKey>,
    /// To be reported again with the next heartbeat.
    refused: Vec<LeaseKey>,
    /// Accepted, and not yet allowed to start (W3).
    asking: BTreeSet<LeaseKey>,
    /// Of these, those to ask for now, and with the next heartbeat.
    begins: Vec<LeaseKey>,
    ask_later: Vec<LeaseKey>,
}

impl Peer {
    pub fn new(number: u32, counters: Arc<Counters>, directory: Arc<Directory>, turns: Arc<Semaphore>) -> Self {
        let mut identity = [0; 16];
        // Without randomness the number still distinguishes the nodes of one swarm.
        let _ = getrandom::fill(&mut identity);
        identity[..4].copy_from_slice(&number.to_be_bytes());
        let node_id = format!("bench-{number:06}");
        Self {
            number,
            node_id,
            identity,
            counters,
            directory,
            turns,
            ran: BTreeSet::new(),
            outstanding: BTreeSet::new(),
            outstanding_before: Vec::new(),
            due: Vec::new(),
            refused: Vec::new(),
            asking: BTreeSet::new(),
            begins: Vec::new(),
            ask_later: Vec::new(),
        }
    }

    /// Runs forever; reports once that its first session is open.
    pub async fn live(mut self, opened: mpsc::UnboundedSender<()>) {
        let mut opened = Some(opened);
        loop {
            match self.open().await {
                Ok((session, uplink, downlink)) => {
                    if let Some(opened) = opened.take() {
                        let _ = opened.send(());
                    }
                    self.counters.sessions.fetch_add(1, Ordering::Relaxed);
                    self.talk(&session, uplink, downlink).await;
                    self.counters.sessions.fetch_sub(1, Ordering::Relaxed);
                }
                Err(error) => {
                    if self.node_id.ends_with("000") {
                        crate::say::err(format_args!("{}: {error:#}", self.node_id));
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn open(&mut self) -> anyhow::Result<(v1::RegisterNodeReply, Uplink, Downlink)> {
        // Never closed.
        let _turn = Arc::clone(&self.turns).acquire_owned().await?;
        let directory = Arc::clone(&self.directory);
        match directory.broker(self.number) {
            Some(broker) => {
                let link = broker.attach(&self.node_id.parse()?).await?;
                self.open_by(link).await
            }
            None => {
                let leader = directory.leader().await?;
                let link = GrpcDialer.dial(&leader).await?;
                self.open_by(link).await
            }
        }
    }

    async fn open_by(&mut self, link: impl Link) -> anyhow::Result<(v1::RegisterNodeReply, Uplink, Downlink)> {
        let session = link.register(self.registration()).await?;
        self.due = self.outstanding.difference(&self.asking).copied().collect();
        self.begins = self.asking.iter().copied().collect();
        let first = v1::FromWorker { secret: session.secret.clone(), ..self.message(&session, true, true) };
        let (uplink, downlink) = link.open(first).await?;
        Ok((session, uplink, downlink))
    }

    fn registration(&self) -> v1::RegisterNodeRequest {
        let backends = [("ping", "echo"), ("test", "record")]
            .map(|(name, action)| v1::BackendFacts { name: name.to_owned(), actions: vec![action.to_owned()] });
        let facts = v1::NodeFacts {
            hostname: self.node_id.clone(),
            groups: vec!["bench".to_owned()],
            backends: backends.to_vec(),
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            capacity: Some(v1::Capacity { slots: SLOTS, ..v1::Capacity::default() }),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..v1::NodeFacts::default()
        };
        v1::RegisterNodeRequest {
            node_id: self.node_id.clone(),
            facts: Some(facts),
            journal_id: self.identity.to_vec(),
            boot: 1,
            nonce: self.identity.to_vec(),
            cluster_id: String::new(),
            outstanding: self.outstanding.iter().copied().map(v1::Lease::from).collect(),
            leader_epoch: 0,
            unstarted: Vec::new(),
        }
    }

    async fn talk(&mut self, session: &v1::RegisterNodeReply, uplink: Uplink, mut downlink: Downlink) {
        let every = Duration::from_millis(session.heartbeat_ms.max(50));
        // Spread over one interval, like the workers of a fleet.
        let own = u32::from_be_bytes([self.identity[4], self.identity[5], self.identity[6], self.identity[7]]);
        let offset = every.mul_f64(f64::from(own) / f64::from(u32::MAX));
        let mut heartbeats = interval_at(Instant::now() + offset, every);
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut heartbeat_due, mut asked, mut heartbeat_number, mut last_heartbeat) =
            (false, false, 0u32, Instant::now());
        loop {
            tokio::select! {
                heard = downlink.next() => match heard {
                    Some(Ok(Arrival::Message(message))) if message.closing.is_none() => {
                        asked |= message.ask_outstanding;
                        self.hear(&message);
                    }
                    Some(Ok(Arrival::Resumed)) => asked = true,
                    ended => return self.told_why(&ended),
                },
                slot = uplink.reserve(), if heartbeat_due || asked || !self.due.is_empty() || !self.begins.is_empty() => {
                    let Some(slot) = slot else { return };
                    // As a worker does: a message that is sent anyway counts as the next heartbeat.
                    let heartbeat = heartbeat_due || last_heartbeat.elapsed() >= every / 2;
                    slot.send(self.message(session, heartbeat, asked));
                    if heartbeat {
                        (heartbeat_due, last_heartbeat) = (false, Instant::now());
                        heartbeats.reset();
                        self.due.append(&mut self.refused);
                        self.begins.append(&mut self.ask_later);
                        heartbeat_number = heartbeat_number.wrapping_add(1);
                        if heartbeat_number.is_multiple_of(PATIENT_HEARTBEATS) {
                            self.say_again();
                        }
                    }
                    asked = false;
                }
                _ = heartbeats.tick() => heartbeat_due = true,
            }
        }
    }

    /// Not answered for a long time.
    fn say_again(&mut self) {
        let again = self.outstanding_before.iter().filter(|lease| self.outstanding.contains(lease)).copied();
        let (asked, due): (Vec<_>, Vec<_>) = again.partition(|lease| self.asking.contains(lease));
        self.begins.extend(asked);
        self.due.extend(due);
        self.outstanding_before = self.outstanding.iter().copied().collect();
    }

    fn told_why(&self, ended: &Option<Result<Arrival, LinkError>>) {
        if self.node_id.ends_with("000") {
            crate::say::err(format_args!("{}: the session ended: {ended:?}", self.node_id));
        }
    }

    fn hear(&mut self, message: &v1::ToWorker) {
        for forget in &message.forgets {
            self.ran.retain(|lease| lease.job.0 != forget.job_id);
            self.outstanding.retain(|lease| lease.job.0 != forget.job_id);
        }
        for answer in &message.answers {
            let Some(lease) = answer.lease.map(LeaseKey::from) else { continue };
            match answer.kind() {
                v1::AnswerKind::Retry | v1::AnswerKind::Unspecified => {
                    self.refused.push(lease);
                    continue;
                }
                v1::AnswerKind::Committed => self.counters.committed.fetch_add(1, Ordering::Relaxed),
                v1::AnswerKind::SupersededJob
                | v1::AnswerKind::SupersededAttempt
                | v1::AnswerKind::SupersededSettled => self.counters.superseded.fetch_add(1, Ordering::Relaxed),
            };
            self.outstanding.remove(&lease);
        }
        for answer in &message.begun {
            let Some(lease) = answer.lease.map(LeaseKey::from).filter(|lease| self.asking.contains(lease)) else {
                continue;
            };
            match answer.kind() {
                v1::BeginKind::Granted => {
                    self.asking.remove(&lease);
                    self.run(lease);
                }
                v1::BeginKind::Refused | v1::BeginKind::Withdrawn => {
                    self.asking.remove(&lease);
                    self.outstanding.remove(&lease);
                }
                v1::BeginKind::AskAgain | v1::BeginKind::Unspecified => self.ask_later.push(lease),
            }
        }
        for offer in &message.offers {
            let Some(lease) = offer.lease.map(LeaseKey::from) else { continue };
            if offer.effect() != v1::EffectClass::Once || self.ran.contains(&lease) {
                self.run(lease);
            } else if self.asking.insert(lease) {
                self.outstanding.insert(lease);
                self.begins.push(lease);
            }
        }
    }

    fn run(&mut self, lease: LeaseKey) {
        let first = self.ran.insert(lease);
        let counter = if first { &self.counters.runs } else { &self.counters.offered_again };
        counter.fetch_add(1, Ordering::Relaxed);
        self.outstanding.insert(lease);
        self.due.push(lease);
    }

    fn message(&mut self, session: &v1::RegisterNodeReply, heartbeat: bool, list: bool) -> v1::FromWorker {
        let heartbeat = heartbeat.then(|| v1::Heartbeat {
            outstanding_digest: outstanding_digest(&self.outstanding),
            outstanding_count: u32::try_from(self.outstanding.len()).unwrap_or(u32::MAX),
        });
        let outstanding = list.then(|| v1::OutstandingList {
            leases: self.outstanding.iter().copied().map(v1::Lease::from).collect(),
            settled_jobs: self.ran.iter().map(|lease| lease.job.0).collect::<BTreeSet<_>>().into_iter().collect(),
        });
        let results = self.due.drain(..).map(result_of).collect();
        let begin = |lease: LeaseKey| v1::Begin { lease: Some(lease.into()), asked_ms: 0 };
        let begins = self.begins.drain(..).map(begin).collect();
        let (session, leader_epoch) = (session.session, session.leader_epoch);
        v1::FromWorker { session, leader_epoch, heartbeat, results, outstanding, begins, ..v1::FromWorker::default() }
    }
}

fn result_of(lease: LeaseKey) -> v1::LeaseResult {
    v1::LeaseResult {
        lease: Some(lease.into()),
        status: v1::LeaseStatus::Success.into(),
        output_tail: OUTPUT.to_vec(),
        output_bytes: OUTPUT.len() as u64,
        duration_ms: 1,
        started_at_ms: grid_types::clock::Clock::wall_ms(&grid_types::clock::SystemClock::new()),
        ..v1::LeaseResult::default()
    }
}
