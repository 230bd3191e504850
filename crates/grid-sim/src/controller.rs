//! Simulates the controllers as one: the replicated state, the leader of the current term, and what it has proposed.
//!
//! A proposal waits in a queue until its entry is committed. When the leader changes, a part of the queue, from its front, is still
//! committed, and the rest is lost with the leader: nobody learns what became of either.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use grid_controller::leader::{AppliedBatch, Leader, Mandate, Now, Origin, Out, answered};
use grid_controller::reply::{NoReply, Replied};
use grid_core::{
    Applied, BeginTerm, Command, Entry, EntryHead, History, Quotas, RegisterNode, SecretHash, Starts, State, apply,
    violations,
};
use grid_fabric::FabricRefusal;
use grid_plan::Thresholds;
use grid_proto::v1;
use grid_types::node::NodeFacts;
use grid_types::{Code, LeaderEpoch, LeaseKey, NodeOrd, SessionId};

pub const THRESHOLDS: Thresholds = Thresholds { warning_ms: 15_000, unhealthy_ms: 30_000, dead_ms: 60_000 };

pub struct Controller {
    pub state: State,
    pub mandate: Mandate,
    /// The machine at the other end of each open stream.
    pub streams: BTreeMap<SessionId, usize>,
    pub history: Vec<History>,
    /// What an entry broke.
    pub violations: Vec<String>,
    leader: Option<Leader>,
    term: u64,
    queue: VecDeque<Pending>,
    starts: Starts,
}

/// Commands that are proposed together.
pub struct Pending {
    pub commands: Vec<Command>,
    pub then: Then,
}

/// What is done with the replies.
#[derive(Debug)]
pub enum Then {
    Nothing,
    Leader { term: u64, origin: Origin },
    Register { machine: usize, process: u64, secret: [u8; 16] },
}

/// What a committed entry leads to.
pub struct Committed {
    pub replies: Vec<(Then, Vec<Replied>)>,
    pub batch: AppliedBatch,
}

impl Default for Controller {
    fn default() -> Self {
        Self {
            state: State::default(),
            mandate: Mandate::Full,
            streams: BTreeMap::new(),
            history: Vec::new(),
            violations: Vec::new(),
            leader: None,
            term: 0,
            queue: VecDeque::new(),
            starts: Starts::default(),
        }
    }
}

impl Controller {
    pub fn leads(&self) -> bool {
        self.leader.is_some()
    }

    pub fn epoch(&self) -> LeaderEpoch {
        self.state.meta.leadership.epoch
    }

    /// Nothing happens without a leader.
    pub fn lead<T: Default>(&mut self, now_ms: u64, input: impl FnOnce(&mut Leader, &Now<'_>) -> T) -> T {
        let now = Now { state: &self.state, mono_ms: now_ms, wall_ms: now_ms, mandate: self.mandate };
        self.leader.as_mut().map(|leader| input(leader, &now)).unwrap_or_default()
    }

    pub fn propose(&mut self, commands: Vec<Command>, then: Then) {
        self.queue.push_back(Pending { commands, then });
    }

    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Commits the first `count` proposals as one entry.
    pub fn commit(&mut self, now_ms: u64, count: usize) -> Committed {
        let count = count.min(self.queue.len());
        let taken: Vec<Pending> = self.queue.drain(..count).collect();
        let commands: Vec<Command> = taken.iter().flat_map(|pending| pending.commands.clone()).collect();
        let applied = self.apply(now_ms, self.term, self.epoch(), &commands);
        let answers = commands.iter().zip(&applied.replies);
        let answers = answers.filter_map(|(command, reply)| answered(command, reply.as_ref().ok()?)).collect();
        let batch = AppliedBatch { term: self.term, effects: applied.effects, answers, overflowed: false };
        let mut all = applied.replies.into_iter().map(|reply| reply.map_err(NoReply::Rejected));
        let mut replies = Vec::new();
        for Pending { commands, then } in taken {
            replies.push((then, all.by_ref().take(commands.len()).collect()));
        }
        Committed { replies, batch }
    }

    /// The leader is gone. `committed` of what it proposed are committed all the same; nobody learns of it.
    pub fn depose(&mut self, now_ms: u64, committed: usize) -> Vec<(SessionId, usize)> {
        self.leader = None;
        if committed > 0 {
            self.commit(now_ms, committed);
        }
        let lost: Vec<Command> = self.queue.drain(..).flat_map(|pending| pending.commands).collect();
        let (term, epoch) = (self.term, self.epoch());
        self.begin_term(now_ms);
        // E1: an entry of the term before that comes later changes nothing.
        if !lost.is_empty() {
            let applied = self.apply(now_ms, term, epoch, &lost);
            if applied.replies.iter().any(Result::is_ok) {
                self.violations.push(format!("E1: an entry of term {term} counts in term {}", self.term));
            }
        }
        std::mem::take(&mut self.streams).into_iter().collect()
    }

    fn begin_term(&mut self, now_ms: u64) {
        self.term += 1;
        let begin = Command::BeginTerm(BeginTerm {
            term: self.term,
            leader: "c1".parse().unwrap_or_else(|_| unreachable!("a name")),
            api_url: String::new(),
            grpc_addr: String::new(),
            quotas: Quotas::default(),
            cluster_id: "simulated".to_owned(),
            restored: None,
            feature_level: grid_core::FEATURE_LEVEL,
        });
        self.apply(now_ms, self.term, self.epoch(), &[begin]);
    }

    /// The term that has begun gets its leader.
    pub fn open_term(&mut self, now_ms: u64) {
        self.mandate = Mandate::Full;
        let now = Now { state: &self.state, mono_ms: now_ms, wall_ms: now_ms, mandate: self.mandate };
        self.leader = Some(Leader::new(self.term, self.epoch(), THRESHOLDS, &now));
    }

    /// What the shell around a leader does with a registration: the command, or why it is refused.
    pub fn registration(
        &mut self,
        now_ms: u64,
        request: v1::RegisterNodeRequest,
        secret: &[u8; 16],
    ) -> Result<Command, FabricRefusal> {
        if !self.leads() {
            return Err(FabricRefusal::new(Code::NotLeader, "this controller is not the leader"));
        }
        let bad = |why: String| FabricRefusal::new(Code::Invalid, why);
        let facts = request.facts.ok_or_else(|| bad("no facts".to_owned()))?;
        let id = request.node_id.parse().map_err(|error| bad(format!("{error}")))?;
        let node = self.state.node_by_id(&id).map(|node| node.ord);
        let known_session_lives = node.is_some_and(|node| self.lead(now_ms, |leader, now| leader.lives(now, node)));
        let is_out = |lease: &LeaseKey| node.is_some_and(|node| self.state.is_out(node, *lease));
        let known = |leases: Vec<v1::Lease>| -> Vec<LeaseKey> {
            let leases: BTreeSet<LeaseKey> = leases.into_iter().map(LeaseKey::from).filter(is_out).collect();
            leases.into_iter().collect()
        };
        let command = RegisterNode {
            id,
            facts: NodeFacts::try_from(facts).map_err(|error| bad(error.to_string()))?,
            journal_id: request.journal_id,
            boot: request.boot,
            nonce: request.nonce,
            known_session_lives,
            agent: false,
            outstanding: known(request.outstanding),
            unstarted: known(request.unstarted),
            secret: Some(SecretHash::of(secret)),
        };
        match command.refused_by(&self.state) {
            None => Ok(Command::RegisterNode(command)),
            Some(rejection) => {
                let refusal = FabricRefusal::new(Code::DuplicateNode, rejection.to_string());
                Err(FabricRefusal { passes_within_ms: Some(THRESHOLDS.warning_ms + 1_000), ..refusal })
            }
        }
    }

    /// A registration was committed: the answer for the worker, and what ends with the session before.
    pub fn registered(
        &mut self,
        now_ms: u64,
        node: NodeOrd,
        session: SessionId,
        secret: [u8; 16],
    ) -> (v1::RegisterNodeReply, Vec<Out>) {
        let (ask_journal, outs) = self.lead(now_ms, |leader, now| leader.on_registered(now, node, session));
        let reply = v1::RegisterNodeReply {
            session: session.0,
            ordinal: node.0,
            leader_epoch: self.epoch().wire(),
            cluster_id: self.state.meta.cluster_id.clone(),
            heartbeat_ms: 5_000,
            output_tail_bytes: 16 << 10,
            ask_journal,
            secret: Some(v1::Secret { value: secret.to_vec() }),
        };
        (reply, outs)
    }

    fn apply(&mut self, now_ms: u64, term: u64, epoch: LeaderEpoch, commands: &[Command]) -> Applied {
        let count = u32::try_from(commands.len()).unwrap_or(u32::MAX);
        let head = EntryHead { epoch, term, now_ms, wall_ms: now_ms, commands: count };
        let entry = Entry { head, commands: commands.to_vec() };
        let mut applied = apply(&mut self.state, &entry);
        self.violations.extend(self.starts.violations(&self.state, &entry, &applied));
        self.violations.extend(violations(&self.state));
        self.history.append(&mut applied.changes.history);
        applied
    }
}
