//! One leader, the state it leads and workers that follow a script, on one thread.

use std::collections::{BTreeMap, BTreeSet};

use grid_core::{
    BeginTerm, Command, Entry, EntryHead, Quotas, RegisterNode, Reply, RequestHash, SecretHash, State, SubmitJob, apply,
};
use grid_fabric::Peer;
use grid_plan::Thresholds;
use grid_proto::v1;
use grid_types::node::{Capacity, NodeFacts, NodeStatus};
use grid_types::{JobId, JobStatus, LeaseKey, NodeOrd, SessionId};
use serde_json::json;

use super::super::{AppliedBatch, Backlog, Leader, Mandate, NotProven, Now, Out, Proposal, answered};
use crate::reply::{NoReply, Replied};

pub struct World {
    pub state: State,
    leader: Option<Leader>,
    pub mandate: Mandate,
    pub batch: AppliedBatch,
    term: u64,
    mono_ms: u64,
    workers: BTreeMap<String, Worker>,
    /// Everything that was sent and closed, in order.
    pub trace: Vec<String>,
}

/// It runs what it is offered when the script says so.
#[derive(Default)]
struct Worker {
    session: SessionId,
    node: NodeOrd,
    boot: u64,
    /// Offered and not reported; whether it is `once`.
    running: BTreeMap<LeaseKey, bool>,
    granted: BTreeSet<LeaseKey>,
    /// Reported and not answered.
    unanswered: BTreeSet<LeaseKey>,
    starts: usize,
}

impl World {
    pub fn new(workers: &[&str]) -> Self {
        let mut world = Self {
            state: State::default(),
            leader: None,
            mandate: Mandate::Full,
            batch: AppliedBatch::default(),
            term: 0,
            mono_ms: 1_000,
            workers: BTreeMap::new(),
            trace: Vec::new(),
        };
        world.begin_term(1);
        for worker in workers {
            world.register(worker);
        }
        world
    }

    /// Another leader is elected: everything that the one before knew is gone.
    pub fn begin_term(&mut self, term: u64) {
        self.term = term;
        let begin = Command::BeginTerm(BeginTerm {
            term,
            leader: "c1".parse().unwrap(),
            api_url: String::new(),
            grpc_addr: String::new(),
            quotas: Quotas::default(),
            cluster_id: "c".to_owned(),
            restored: None,
            feature_level: grid_core::FEATURE_LEVEL,
        });
        self.leader = None;
        self.apply(&[begin]);
        self.batch = AppliedBatch::default();
        let epoch = self.state.meta.leadership.epoch;
        let thresholds = Thresholds { warning_ms: 15_000, unhealthy_ms: 30_000, dead_ms: 60_000 };
        self.leader = Some(Leader::new(term, epoch, thresholds, &self.now()));
    }

    pub fn secret(worker: &str) -> [u8; 16] {
        let mut secret = [0; 16];
        secret[..worker.len()].copy_from_slice(worker.as_bytes());
        secret
    }

    /// A worker registers and opens its stream; what it runs goes on.
    pub fn register(&mut self, id: &str) {
        let worker = self.workers.entry(id.to_owned()).or_default();
        worker.boot = worker.boot.max(1);
        let actions = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let command = RegisterNode {
            id: id.parse().unwrap(),
            facts: NodeFacts {
                backends: [("ping".to_owned(), actions(&["echo"])), ("test".to_owned(), actions(&["record"]))].into(),
                capacity: Capacity { slots: 4, ..Capacity::default() },
                groups: ["fleet".parse().unwrap()].into(),
                ..NodeFacts::default()
            },
            journal_id: id.as_bytes().to_vec(),
            boot: worker.boot,
            nonce: format!("{id} {} {}", worker.boot, self.term).into_bytes(),
            known_session_lives: false,
            agent: false,
            outstanding: worker.running.keys().copied().collect(),
            unstarted: Vec::new(),
            secret: Some(SecretHash::of(&Self::secret(id))),
        };
        let replies = self.apply(&[Command::RegisterNode(command)]);
        let Ok(Reply::Registered { node, session }) = replies[0] else { panic!("{replies:?}") };
        let worker = self.workers.get_mut(id).unwrap();
        (worker.node, worker.session) = (node, session);
        let outs = self.lead(|leader, now| leader.on_registered(now, node, session).1);
        self.deliver(outs);
        let outs = self.open(id, &Self::secret(id)).expect("its own session");
        self.deliver(outs);
        self.trace.push(format!("{id} is in session {session}"));
    }

    /// Its process ends and starts again: it knows nothing of what it ran.
    pub fn restart(&mut self, id: &str) {
        let worker = self.workers.get_mut(id).unwrap();
        *worker = Worker { boot: worker.boot + 1, starts: worker.starts, ..Worker::default() };
        self.register(id);
        self.say(id, |message| message.outstanding = Some(v1::OutstandingList::default()));
    }

    pub fn open(&mut self, id: &str, secret: &[u8]) -> Result<Vec<Out>, NotProven> {
        let session = self.session(id);
        let now = Now { state: &self.state, mono_ms: self.mono_ms, wall_ms: 0, mandate: self.mandate };
        self.leader.as_mut().unwrap().on_opened(&now, session, secret, &Peer::Connection(None))
    }

    /// The same worker comes through a broker.
    pub fn open_by_subject(&mut self, id: &str) {
        let (session, secret) = (self.session(id), Self::secret(id));
        let now = Now { state: &self.state, mono_ms: self.mono_ms, wall_ms: 0, mandate: self.mandate };
        let opened =
            self.leader.as_mut().unwrap().on_opened(&now, session, &secret, &Peer::Subject(id.parse().unwrap()));
        assert!(opened.is_ok());
        // Its first message has its list.
        self.say(id, |message| message.outstanding = Some(v1::OutstandingList::default()));
    }

    /// Nobody says anything for a while; the leader's ticks go on.
    pub fn pass_silently(&mut self, ms: u64) {
        for _ in 0..ms / 1_000 {
            self.pass(1_000);
            self.tick();
            self.settle();
        }
    }

    pub fn submit(&mut self, id: u64, steps: &[(&str, &str)]) -> JobId {
        let task = |(backend, action): &(&str, &str)| {
            let params = if *action == "record" { json!({"path": "/x"}) } else { json!({}) };
            json!({"backend": backend, "action": action, "params": params})
        };
        self.submit_body(id, &json!({"target": "all", "tasks": steps.iter().map(task).collect::<Vec<_>>()}))
    }

    pub fn submit_body(&mut self, id: u64, body: &serde_json::Value) -> JobId {
        let spec = grid_types::job::parse_job(body).unwrap();
        let (id, namespace) = (JobId(id), "default".parse().unwrap());
        let request = RequestHash::default();
        let submit = SubmitJob { id, namespace, spec, key: None, plan: None, request };
        let replies = self.apply(&[Command::SubmitJob(submit)]);
        assert!(replies[0].is_ok(), "{replies:?}");
        id
    }

    /// What was applied goes to the leader.
    pub fn applied(&mut self) -> Vec<Out> {
        let batch = std::mem::take(&mut self.batch);
        if self.leader.is_none() { Vec::new() } else { self.lead(|leader, now| leader.on_applied(now, batch)) }
    }

    pub fn settle(&mut self) {
        let outs = self.applied();
        self.deliver(outs);
    }

    /// Starts and ends everything that the worker was offered, `once` leases after they were granted.
    pub fn work(&mut self, id: &str) {
        let worker = &self.workers[id];
        let begins = worker.running.iter().filter(|(lease, once)| **once && !worker.granted.contains(lease));
        let begins: Vec<_> = begins.map(|(lease, _)| v1::Begin { lease: Some((*lease).into()), asked_ms: 5 }).collect();
        if !begins.is_empty() {
            self.say(id, |message| message.begins = begins);
        }
        let outs = self.report(id);
        self.deliver(outs);
    }

    /// The worker's results go through the log; what the leader says to that.
    pub fn report(&mut self, id: &str) -> Vec<Out> {
        let outs = self.result(id);
        self.workers.get_mut(id).unwrap().finish();
        self.carry_out(outs)
    }

    /// A message with the results of everything that may run.
    pub fn result(&mut self, id: &str) -> Vec<Out> {
        let worker = &self.workers[id];
        let ends = worker.running.iter().filter(|(lease, once)| !**once || worker.granted.contains(lease));
        let result = |lease: &LeaseKey| v1::LeaseResult {
            lease: Some((*lease).into()),
            status: v1::LeaseStatus::Success.into(),
            ..v1::LeaseResult::default()
        };
        let results = ends.map(|(lease, _)| result(lease)).collect();
        let message = v1::FromWorker { results, ..self.message() };
        let session = worker.session;
        self.lead(|leader, now| leader.on_message(now, session, message, Backlog::Empty))
    }

    /// A worker says something, and hears what that leads to.
    pub fn say(&mut self, id: &str, what: impl FnOnce(&mut v1::FromWorker)) {
        let outs = self.heard(id, what);
        self.deliver(outs);
    }

    /// What the leader says when a worker has said something.
    pub fn heard(&mut self, id: &str, what: impl FnOnce(&mut v1::FromWorker)) -> Vec<Out> {
        let mut message = self.message();
        what(&mut message);
        let session = self.session(id);
        let outs = self.lead(|leader, now| leader.on_message(now, session, message, Backlog::Empty));
        self.carry_out(outs)
    }

    pub fn pass(&mut self, ms: u64) {
        self.mono_ms += ms;
    }

    /// Time has passed; returns what that leads to, beside proposals.
    pub fn tick(&mut self) -> Vec<Out> {
        let leader_ms = self.mono_ms;
        let outs = self.lead(|leader, now| leader.on_tick(now, leader_ms));
        self.carry_out(outs)
    }

    pub fn lead(&mut self, input: impl FnOnce(&mut Leader, &Now<'_>) -> Vec<Out>) -> Vec<Out> {
        let now = Now { state: &self.state, mono_ms: self.mono_ms, wall_ms: self.mono_ms, mandate: self.mandate };
        input(self.leader.as_mut().unwrap(), &now)
    }

    /// Applies what is proposed, in order, until nothing is; returns the rest.
    fn carry_out(&mut self, outs: Vec<Out>) -> Vec<Out> {
        let (mut left, mut todo) = (Vec::new(), std::collections::VecDeque::from(outs));
        while let Some(out) = todo.pop_front() {
            let Out::Propose(Proposal { term, commands, origin }) = out else {
                left.push(out);
                continue;
            };
            let replies = self.apply(&commands);
            if origin.needs(&replies) {
                let more = self.lead(|leader, now| leader.on_replied(now, term, origin, &replies));
                todo.extend(more);
            }
            todo.extend(self.applied());
        }
        left
    }

    pub fn deliver(&mut self, outs: Vec<Out>) {
        for out in outs {
            self.trace.push(format!("{out:?}"));
            let messages = match out {
                Out::Send { session, message, .. } => vec![(session, message)],
                Out::OfferMany(many) => {
                    many.recipients.iter().map(|to| (to.session, many.message_for(to.session))).collect()
                }
                _ => continue,
            };
            for (session, message) in messages {
                assert_eq!(message.leader_epoch, self.epoch(), "W2");
                if let Some(worker) = self.workers.values_mut().find(|worker| worker.session == session) {
                    worker.receive(message);
                }
            }
        }
    }

    fn message(&self) -> v1::FromWorker {
        v1::FromWorker { leader_epoch: self.epoch(), ..v1::FromWorker::default() }
    }

    fn apply(&mut self, commands: &[Command]) -> Vec<Replied> {
        let epoch = self.state.meta.leadership.epoch;
        let count = u32::try_from(commands.len()).unwrap();
        let head = EntryHead { epoch, term: self.term, now_ms: self.mono_ms, wall_ms: 0, commands: count };
        let applied = apply(&mut self.state, &Entry { head, commands: commands.to_vec() });
        let answers = commands.iter().zip(&applied.replies);
        let answers = answers.filter_map(|(command, reply)| answered(command, reply.as_ref().ok()?)).collect();
        self.batch.merge(AppliedBatch { term: self.term, effects: applied.effects, answers, overflowed: false });
        applied.replies.into_iter().map(|reply| reply.map_err(NoReply::Rejected)).collect()
    }

    fn now(&self) -> Now<'_> {
        Now { state: &self.state, mono_ms: self.mono_ms, wall_ms: self.mono_ms, mandate: self.mandate }
    }

    pub fn node(&self, id: &str) -> NodeOrd {
        self.workers[id].node
    }

    pub fn session(&self, id: &str) -> SessionId {
        self.workers[id].session
    }

    pub fn epoch(&self) -> u64 {
        self.state.meta.leadership.epoch.wire()
    }

    pub fn running(&self, id: &str) -> usize {
        self.workers[id].running.len()
    }

    pub fn starts(&self) -> usize {
        self.workers.values().map(|worker| worker.starts).sum()
    }

    pub fn status(&self, id: &str) -> NodeStatus {
        self.state.nodes[&self.workers[id].node].status
    }

    /// None: it has not ended.
    pub fn ended(&self, job: JobId) -> Option<JobStatus> {
        match self.state.jobs.get(&job) {
            Some(job) => Some(job.head.status).filter(|status| status.is_ended()),
            None => self.state.stubs.get(&job).map(|stub| stub.status),
        }
    }
}

impl Worker {
    fn receive(&mut self, message: v1::ToWorker) {
        for offer in message.offers {
            let once = offer.effect() == v1::EffectClass::Once;
            let lease = LeaseKey::from(offer.lease.expect("a lease"));
            // What it has reported it answers from its journal.
            if !self.unanswered.contains(&lease) && self.running.insert(lease, once).is_none() {
                self.starts += 1;
            }
        }
        for answer in message.answers {
            self.unanswered.remove(&LeaseKey::from(answer.lease.expect("a lease")));
        }
        for begun in message.begun {
            assert_eq!(begun.kind(), v1::BeginKind::Granted);
            self.granted.insert(begun.lease.expect("a lease").into());
        }
    }

    /// What may run has ended.
    fn finish(&mut self) {
        let granted = &self.granted;
        let ended: Vec<LeaseKey> = self
            .running
            .iter()
            .filter(|(lease, once)| !**once || granted.contains(lease))
            .map(|(lease, _)| *lease)
            .collect();
        for lease in ended {
            self.running.remove(&lease);
            self.unanswered.insert(lease);
        }
    }
}
