//! A small world for tests: a state, a leader's clock, nodes that answer on request. Every apply is followed by the
//! invariants, so that each test also tests them.

use std::collections::{BTreeMap, BTreeSet};

use grid_types::job::{JobSpec, Phase, Strategy};
use grid_types::{JobId, LeaseKey, NodeOrd};

use crate::apply::{Applied, apply};
use crate::changes::History;
use crate::commands::{BeginTerm, CancelJob, Command, FireTimers, Rejection, Reply, RestoredFrom, SubmitJob};
use crate::effect::Effect;
use crate::entry::{Entry, EntryHead, decode_entry, encode_command, encode_entry};
use crate::foreign_text::texts_of;
use crate::invariants::{Starts, violations};
use crate::jobs::Planned;
use crate::state::{Job, Quotas, RequestHash, State};

mod agents;
mod leases;
mod nodes;
mod people;
mod phases;
mod restores;
mod views;

pub(crate) use phases::{cleanup, confirmed, first, leaf, pipeline, retrying, rolling, when};

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
            Self::register_command(&format!("node-{i}"), &journal, 1, b"nonce", 4)
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
