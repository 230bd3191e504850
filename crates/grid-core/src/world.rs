//! A small world for tests: a state, a leader's clock, nodes that answer when told. Every apply is followed by the
//! invariants, so that each test also tests them.

use std::collections::{BTreeMap, BTreeSet};

use grid_types::decl::builtin;
use grid_types::job::{JobSpec, Phase, Strategy};
use grid_types::node::{Capacity, NodeFacts, NodeStatus};
use grid_types::{JobId, LeaseKey, NodeOrd, Outcome, SessionId};

use crate::apply::{Applied, apply};
use crate::changes::History;
use crate::commands::{
    BeginLease, BeginTerm, CancelJob, Command, ConfirmRevoke, DrainNode, ExpireLease, FireTimers, LeaveNode, MarkNode,
    OrderDrain, RecordResult, RegisterNode, Rejection, RemoveNode, Reply, RequestHash, RestoredFrom, SubmitJob,
};
use crate::effect::{Effect, pending_effects};
use crate::entry::{Entry, EntryHead, decode_entry, encode_command, encode_entry};
use crate::foreign_text::texts_of;
use crate::invariants::{Starts, violations};
use crate::plan::Planned;
use crate::state::{Job, Quotas, State};

mod agents;
mod people;
mod phases;
mod restores;
mod views;

pub(crate) use phases::{cleanup, confirmed, leaf, pipeline, retrying, rolling, when};

pub(crate) type Lease = (NodeOrd, LeaseKey);

pub(crate) struct World {
    pub state: State,
    pub history: Vec<History>,
    /// Every text that came in through an entry.
    pub foreign: BTreeSet<String>,
    pub retired: BTreeMap<JobId, Job>,
    starts: Starts,
    now_ms: u64,
    next_job: u64,
    strategy: Strategy,
    timeout: Option<grid_types::Span>,
    adjust: fn(&mut JobSpec),
    /// The leader's wall clock jumps years between entries.
    pub wild_wall: bool,
}

impl World {
    pub fn new() -> Self {
        let mut world = Self {
            state: State::default(),
            history: Vec::new(),
            foreign: BTreeSet::new(),
            retired: BTreeMap::new(),
            starts: Starts::default(),
            now_ms: 0,
            next_job: 100,
            strategy: Strategy::FailFast,
            timeout: None,
            adjust: |_| (),
            wild_wall: false,
        };
        world.begin_term(5).unwrap();
        world
    }

    /// `node-1` … with every built-in backend and four slots.
    pub fn with_nodes(count: u32) -> Self {
        let mut world = Self::new();
        world.add_nodes(count);
        world
    }

    pub fn add_nodes(&mut self, count: u32) {
        let first = self.state.meta.next_ord + 1;
        let commands = (first..first + count).map(|i| {
            let journal = format!("journal-{i}").into_bytes();
            Self::register_command(&format!("node-{i}"), &journal, 1, b"nonce", false, 4)
        });
        let commands: Vec<_> = commands.collect();
        for chunk in commands.chunks(512) {
            assert!(self.apply(chunk.to_vec()).replies.iter().all(Result::is_ok));
        }
    }

    pub fn apply(&mut self, commands: Vec<Command>) -> Applied {
        self.apply_raw(self.head(), commands)
    }

    /// Through the encoding, as a replica would read it.
    pub fn apply_raw(&mut self, head: EntryHead, commands: Vec<Command>) -> Applied {
        let head = EntryHead { commands: u32::try_from(commands.len()).unwrap(), ..head };
        let encoded: Vec<_> = commands.iter().map(encode_command).collect();
        let entry = decode_entry(&encode_entry(head, &encoded)).unwrap();
        assert_eq!(entry, Entry { head, commands });
        self.foreign.extend(entry.commands.iter().flat_map(texts_of));
        let foreseen = self.foreseen(&entry);
        let applied = apply(&mut self.state, &entry);
        if let (Some(answer), [Ok(reply)]) = (foreseen, &applied.replies[..]) {
            assert_eq!(*reply, answer, "the leader would have answered otherwise, without the log");
        }
        self.history.extend(applied.changes.history.iter().cloned());
        for job in &applied.changes.retired {
            self.retired.insert(job.head.id, job.clone());
        }
        let mut found = violations(&self.state);
        found.extend(self.starts.violations(&self.state, &entry, &applied));
        assert!(found.is_empty(), "{found:#?}");
        applied
    }

    pub fn one(&mut self, command: Command) -> Result<Reply, Rejection> {
        self.apply(vec![command]).replies.remove(0)
    }

    pub fn begin_command(&self, term: u64) -> Command {
        Command::BeginTerm(BeginTerm {
            term,
            leader: "c1".parse().unwrap(),
            api_url: "http://127.0.0.1:1".to_owned(),
            grpc_addr: "127.0.0.1:2".to_owned(),
            quotas: self.state.meta.quotas,
            cluster_id: "cluster".to_owned(),
            restored: None,
            feature_level: crate::FEATURE_LEVEL,
        })
    }

    pub fn begin_term(&mut self, term: u64) -> Result<Reply, Rejection> {
        let head = EntryHead { term, ..self.head() };
        let command = self.begin_command(term);
        self.apply_raw(head, vec![command]).replies.remove(0)
    }

    /// The first term on a restored folder: of the state as it is, or as a backup had it.
    pub fn restore(&mut self, generation: u32) -> Vec<Effect> {
        let term = self.head().term + 1;
        let head = EntryHead { term, ..self.head() };
        let Command::BeginTerm(begin) = self.begin_command(term) else { unreachable!() };
        let restored = Some(RestoredFrom { generation, backup: "yesterday".to_owned() });
        self.apply_raw(head, vec![Command::BeginTerm(BeginTerm { restored, ..begin })]).effects
    }

    pub fn set_quotas(&mut self, max_concurrent: u32, max_pending: u32) {
        self.state.meta.quotas = Quotas { max_concurrent, max_pending, ..Quotas::default() };
    }

    pub fn next_strategy_continue(&mut self) {
        self.strategy = Strategy::Continue;
    }

    /// Changes the rules of the next job.
    pub fn next_job(&mut self, adjust: fn(&mut JobSpec)) {
        self.adjust = adjust;
    }

    /// Leases that are to be given back.
    pub fn revoked(&self) -> Vec<Lease> {
        let effects = pending_effects(&self.state).into_iter().filter_map(|effect| match effect {
            Effect::Revoke { node, lease } => Some((node, lease)),
            _ => None,
        });
        effects.collect()
    }

    pub fn next_timeout(&mut self, text: &str) {
        self.timeout = Some(text.parse().unwrap());
    }

    pub fn submit_keyed(&mut self, target: &str, phases: Vec<Phase>, key: Option<&str>) -> Result<Reply, Rejection> {
        let command = self.submit_command(target, phases, key);
        self.one(command)
    }

    pub fn submit_command(&mut self, target: &str, phases: Vec<Phase>, key: Option<&str>) -> Command {
        self.next_job += 1;
        let mut spec = JobSpec { timeout: self.timeout.take(), ..JobSpec::new(target.parse().unwrap(), phases) };
        spec.strategy = std::mem::take(&mut self.strategy);
        (std::mem::replace(&mut self.adjust, |_| ()))(&mut spec);
        Command::SubmitJob(SubmitJob {
            id: JobId(self.next_job),
            namespace: "default".parse().unwrap(),
            spec,
            key: key.map(str::to_owned),
            plan: None,
            request: RequestHash::default(),
        })
    }

    pub fn submit_planned(
        &mut self,
        spec: JobSpec,
        hash: [u8; 32],
        declarations: [u8; 32],
    ) -> Result<Reply, Rejection> {
        self.next_job += 1;
        let (id, namespace) = (JobId(self.next_job), "default".parse().unwrap());
        let plan = Some(Planned { hash, declarations });
        self.one(Command::SubmitJob(SubmitJob {
            id,
            namespace,
            spec,
            key: None,
            plan,
            request: RequestHash::default(),
        }))
    }

    pub fn submit(&mut self, target: &str, phases: Vec<Phase>) -> JobId {
        match self.submit_keyed(target, phases, None) {
            Ok(Reply::Submitted { job, .. }) => job,
            other => panic!("{other:?}"),
        }
    }

    pub fn cancel(&mut self, job: JobId) -> Result<Reply, Rejection> {
        self.one(Command::CancelJob(CancelJob { namespace: "default".parse().unwrap(), job }))
    }

    pub fn cancel_effects(&mut self, job: JobId) -> Vec<Effect> {
        self.apply(vec![Command::CancelJob(CancelJob { namespace: "default".parse().unwrap(), job })]).effects
    }

    pub fn register_command(id: &str, journal: &[u8], boot: u64, nonce: &[u8], lives: bool, slots: u32) -> Command {
        let backends = builtin().iter().map(|b| {
            let actions = b.actions.iter().map(|a| a.name.to_owned()).collect();
            (b.name.to_owned(), actions)
        });
        Command::RegisterNode(RegisterNode {
            id: id.parse().unwrap(),
            facts: NodeFacts {
                groups: ["web".parse().unwrap()].into(),
                backends: backends.collect(),
                capacity: Capacity { slots, ..Capacity::default() },
                ..NodeFacts::default()
            },
            journal_id: journal.to_vec(),
            boot,
            nonce: nonce.to_vec(),
            known_session_lives: lives,
            agent: false,
            held: Vec::new(),
            unstarted: Vec::new(),
            secret: None,
        })
    }

    pub fn register(
        &mut self,
        id: &str,
        journal: &[u8],
        boot: u64,
        nonce: &[u8],
        lives: bool,
    ) -> Result<Reply, Rejection> {
        self.one(Self::register_command(id, journal, boot, nonce, lives, 4))
    }

    /// A worker process registers with leases that it received and has not started.
    pub fn register_unstarted(&mut self, id: &str, nonce: &[u8], unstarted: &[Lease]) -> Result<Reply, Rejection> {
        self.register_with(id, nonce, unstarted, unstarted)
    }

    /// A worker process registers with the leases that its journal has.
    pub fn register_holding(&mut self, id: &str, nonce: &[u8], held: &[Lease]) -> Result<Reply, Rejection> {
        self.register_with(id, nonce, held, &[])
    }

    fn register_with(
        &mut self,
        id: &str,
        nonce: &[u8],
        held: &[Lease],
        unstarted: &[Lease],
    ) -> Result<Reply, Rejection> {
        let journal = id.replace("node", "journal").into_bytes();
        let Command::RegisterNode(worker) = Self::register_command(id, &journal, 2, nonce, false, 4) else {
            unreachable!()
        };
        let keys = |leases: &[Lease]| leases.iter().map(|(_, lease)| *lease).collect();
        let (held, unstarted) = (keys(held), keys(unstarted));
        self.one(Command::RegisterNode(RegisterNode { held, unstarted, ..worker }))
    }

    /// W3: the worker asks to start a lease.
    pub fn begin_as(&mut self, (node, lease): Lease, session: u64) -> Result<Reply, Rejection> {
        self.one(Command::BeginLease(BeginLease { node, session: SessionId(session), lease }))
    }

    pub fn begin(&mut self, lease: Lease) -> Result<Reply, Rejection> {
        self.begin_as(lease, self.session(lease.0.0))
    }

    /// Every `once` lease that is out has begun.
    pub fn begin_all(&mut self) {
        for lease in self.offered() {
            self.begin(lease).unwrap();
        }
    }

    pub fn register_with_slots(&mut self, id: &str, slots: u32) {
        self.one(Self::register_command(id, id.as_bytes(), 1, b"n", false, slots)).unwrap();
    }

    pub fn session(&self, node: u32) -> u64 {
        self.state.nodes[&NodeOrd(node)].session.0
    }

    pub fn mark(&mut self, node: u32, session: u64, from: NodeStatus, to: NodeStatus) -> Result<Reply, Rejection> {
        let (node, session) = (NodeOrd(node), SessionId(session));
        self.one(Command::MarkNode(MarkNode { node, session, from, to, cause: None }))
    }

    pub fn mark_dead(&mut self, node: u32) {
        let from = self.state.nodes[&NodeOrd(node)].status;
        self.mark(node, self.session(node), from, NodeStatus::Dead).unwrap();
    }

    pub fn drain(&mut self, node: u32) {
        let session = SessionId(self.session(node));
        self.one(Command::DrainNode(DrainNode { node: NodeOrd(node), session })).unwrap();
    }

    pub fn order_drain(&mut self, node: u32, drain: bool) -> Result<Reply, Rejection> {
        self.one(Command::OrderDrain(OrderDrain { node: NodeOrd(node), drain }))
    }

    pub fn remove(&mut self, node: u32, force: bool) -> Result<Reply, Rejection> {
        self.one(Command::RemoveNode(RemoveNode { node: NodeOrd(node), force, lapsed: false }))
    }

    pub fn leave(&mut self, node: u32) {
        self.leave_with(node, true);
    }

    pub fn leave_holding(&mut self, node: u32) {
        self.leave_with(node, false);
    }

    fn leave_with(&mut self, node: u32, holds_nothing: bool) {
        let session = SessionId(self.session(node));
        self.one(Command::LeaveNode(LeaveNode { node: NodeOrd(node), session, holds_nothing })).unwrap();
    }

    /// Leases that are out and not revoked, by node.
    pub fn offered(&self) -> Vec<Lease> {
        let offers = pending_effects(&self.state).into_iter().filter_map(|effect| match effect {
            Effect::Offer(offer) => Some((offer.node, offer.lease)),
            _ => None,
        });
        offers.collect()
    }

    pub fn result_command(&self, (node, lease): Lease, session: u64, outcome: Outcome) -> Command {
        Command::RecordResult(RecordResult {
            node,
            session: SessionId(session),
            lease,
            outcome,
            error: outcome.is_failure().then(|| "boom".to_owned()),
            output_tail: b"out".to_vec(),
            output_bytes: 3,
            output_truncated: false,
            duration_ms: 42,
            started_wall_ms: 7,
        })
    }

    pub fn report_as(&mut self, lease: Lease, session: u64, outcome: Outcome) -> Result<Reply, Rejection> {
        let command = self.result_command(lease, session, outcome);
        self.one(command)
    }

    pub fn report(&mut self, lease: Lease, outcome: Outcome) -> Result<Reply, Rejection> {
        self.report_as(lease, self.session(lease.0.0), outcome)
    }

    pub fn succeed(&mut self, lease: Lease) {
        self.report(lease, Outcome::Success).unwrap();
    }

    pub fn fail(&mut self, lease: Lease) {
        self.report(lease, Outcome::Failed).unwrap();
    }

    pub fn succeed_all_offered(&mut self) {
        for lease in self.offered() {
            self.succeed(lease);
        }
    }

    /// Succeeds whatever is offered until nothing is.
    pub fn finish_all(&mut self) {
        for _ in 0..10_000 {
            if self.offered().is_empty() {
                return;
            }
            self.succeed_all_offered();
        }
        panic!("it never ends");
    }

    pub fn confirm_revoked(&mut self, lease: Lease) -> Result<Reply, Rejection> {
        self.confirm_ended(lease, Some(Outcome::Cancelled))
    }

    pub fn confirm_ended(&mut self, (node, lease): Lease, ended: Option<Outcome>) -> Result<Reply, Rejection> {
        let session = SessionId(self.session(node.0));
        self.one(Command::ConfirmRevoke(ConfirmRevoke {
            node,
            session,
            lease,
            ended,
            duration_ms: 1,
            started_wall_ms: 2,
            output_tail: Vec::new(),
            output_bytes: 0,
            error: None,
        }))
    }

    pub fn expire(&mut self, (node, lease): Lease) -> Vec<Effect> {
        let begun = self.state.jobs.get(&lease.job).is_some_and(|job| job.begun(node).is_some());
        self.apply(vec![Command::ExpireLease(ExpireLease { node, lease, begun })]).effects
    }

    pub fn advance_ms(&mut self, ms: u64) -> Vec<Effect> {
        self.now_ms += ms;
        self.apply(vec![Command::FireTimers(FireTimers {})]).effects
    }

    /// Leader time is part of the state: puts it back to compare everything else.
    pub fn rewind_clock(&mut self) {
        self.now_ms = 0;
        (self.state.meta.now_ms, self.state.meta.wall_ms) = (self.head().now_ms, self.head().wall_ms);
    }
}
