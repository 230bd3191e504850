//! The state machine on a bench: entries go in through their encoding, what comes out is kept as a store would keep it,
//! and the model walks along. A disagreement panics; the trace is printed with the seed that repeats it.

use std::collections::{BTreeMap, BTreeSet};

use grid_core::{
    Applied, BeginTerm, CellState, Command, Effect, EntryHead, History, Job, RegisterNode, Reply, ResultRow, Starts,
    State, apply, decode_entry, encode_command, encode_entry, pending_effects, violations,
};
use grid_types::node::{Capacity, NodeFacts};
use grid_types::{JobId, LeaseKey, NodeOrd, Outcome, Reason, StepIndex};

use crate::cluster::{Cluster, Lease, Seen};
use crate::dice::RARE;

pub struct Rig {
    pub state: State,
    pub model: Cluster,
    pub seed: u64,
    pub trace: Vec<String>,
    /// Rows of the current run, as the store would show them: newest result, or skip.
    pub rows: BTreeMap<(JobId, u32, u32), (Outcome, u32)>,
    /// Steps of the current run that were skipped because their node was offline.
    pub offline: BTreeSet<(JobId, u32, u32)>,
    /// Every result row ever written.
    pub results: Vec<ResultRow>,
    /// Every lease ever offered, as effects said it.
    pub sent: BTreeSet<Lease>,
    /// Jobs as they left the state.
    pub retired: BTreeMap<JobId, Job>,
    /// Jobs that were looked at after they had left: nothing moves them any more but a resume.
    closed: BTreeSet<JobId>,
    starts: Starts,
    entries: u64,
    pub boots: BTreeMap<u32, u64>,
    pub journals: BTreeMap<u32, u64>,
}

impl Drop for Rig {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let from = self.trace.len().saturating_sub(200);
            eprintln!("--- seed {}; run it alone with MODEL_SEED={} ---", self.seed, self.seed);
            for line in &self.trace[from..] {
                eprintln!("{line}");
            }
        }
    }
}

pub fn name_of(lease: (NodeOrd, LeaseKey)) -> Lease {
    let (node, key) = lease;
    (key.job, key.job_epoch.0, key.step.0, key.attempt.0, node.0)
}

impl Rig {
    pub fn new(seed: u64, slots: &[(u32, bool)], max_concurrent: u32) -> Self {
        let mut rig = Self {
            state: State::default(),
            model: Cluster { max_concurrent: max_concurrent as usize, ..Cluster::default() },
            seed,
            trace: Vec::new(),
            rows: BTreeMap::new(),
            offline: BTreeSet::new(),
            results: Vec::new(),
            sent: BTreeSet::new(),
            retired: BTreeMap::new(),
            closed: BTreeSet::new(),
            starts: Starts::default(),
            entries: 0,
            boots: BTreeMap::new(),
            journals: BTreeMap::new(),
        };
        rig.state.meta.quotas.max_concurrent = max_concurrent;
        rig.begin_term();
        for (slots, lacking) in slots {
            rig.join(*slots, *lacking);
        }
        rig
    }

    pub fn note(&mut self, line: String) {
        self.trace.push(line);
    }

    pub fn head(&self) -> EntryHead {
        let leadership = &self.state.meta.leadership;
        let (epoch, term, now_ms) = (leadership.epoch, leadership.term, self.model.now_ms);
        EntryHead { epoch, term, now_ms, wall_ms: 1_790_000_000_000 + now_ms, commands: 0 }
    }

    pub fn apply(&mut self, head: EntryHead, commands: &[Command]) -> Applied {
        let head = EntryHead { commands: u32::try_from(commands.len()).unwrap(), ..head };
        let encoded: Vec<_> = commands.iter().map(encode_command).collect();
        let entry = decode_entry(&encode_entry(head, &encoded)).unwrap();
        let before = self.offered();
        let applied = apply(&mut self.state, &entry);
        self.keep(&applied);
        let started = self.starts.violations(&self.state, &entry, &applied);
        assert!(started.is_empty(), "{started:#?}");
        let sent: Vec<Lease> = applied.effects.iter().filter_map(offer_of).collect();
        let after = self.offered();
        for lease in after.difference(&before) {
            assert_eq!(sent.iter().filter(|sent| *sent == lease).count(), 1, "{lease:?} is out, and was sent once");
        }
        for lease in &sent {
            assert!(after.contains(lease), "{lease:?} was sent, but is not out");
        }
        self.sent.extend(sent);
        // Every entry of every other test has them checked; here they would be most of the time spent.
        self.entries += 1;
        if self.entries.is_multiple_of(8) {
            let found = violations(&self.state);
            assert!(found.is_empty(), "{found:#?}");
        }
        applied
    }

    pub fn one(&mut self, command: Command) -> Result<Reply, grid_core::Rejection> {
        let head = self.head();
        self.apply(head, &[command]).replies.remove(0)
    }

    /// What must leave no trace at all.
    pub fn ignored(&mut self, head: EntryHead, command: Command) {
        let before = self.state.clone();
        let applied = self.apply(head, &[command]);
        assert!(!matches!(applied.replies[0], Ok(Reply::Answered(grid_core::Answer::Committed))), "taken");
        assert!(self.state == before, "I3: something stale changed the state: {:?}", applied.replies);
    }

    fn keep(&mut self, applied: &Applied) {
        for job in &applied.changes.retired {
            self.retired.insert(job.head.id, job.clone());
        }
        for row in &applied.changes.history {
            match row {
                History::Result(row) => {
                    self.results.push(row.clone());
                    let key = (row.job, row.step.0, row.node.0);
                    let before = self.rows.insert(key, (row.outcome, row.attempt.0));
                    let shown = before.map(|(outcome, _)| outcome);
                    assert_ne!(shown, Some(Outcome::Skipped), "I9: {key:?} was skipped and then ran");
                    assert_ne!(shown, Some(Outcome::Success), "I4: {key:?} had succeeded");
                }
                History::Skip(skip) => {
                    let nodes = skip.node.map_or_else(|| self.job(skip.job).expected.clone(), |node| vec![node]);
                    for node in nodes {
                        for step in skip.from.0..skip.to.0 {
                            if matches!(skip.reason, Reason::NodeOffline { .. }) {
                                self.offline.insert((skip.job, step, node.0));
                            }
                            let row = self.rows.entry((skip.job, step, node.0)).or_insert((Outcome::Skipped, 0));
                            assert!(skip.node.is_none() || row.0 == Outcome::Skipped || row.0 == Outcome::Success);
                        }
                    }
                }
                History::Event(_) => {}
            }
        }
    }

    /// The job, live or as it left.
    pub fn job(&self, id: JobId) -> &Job {
        self.state.jobs.get(&id).or_else(|| self.retired.get(&id)).expect("a job that was submitted")
    }

    pub fn offered(&self) -> BTreeSet<Lease> {
        pending_effects(&self.state).iter().filter_map(offer_of).collect()
    }

    pub fn begun(&self, node: NodeOrd, lease: LeaseKey) -> bool {
        self.state.jobs.get(&lease.job).is_some_and(|job| job.begun(node).is_some())
    }

    pub fn leases(&self, revoked: bool) -> Vec<(NodeOrd, LeaseKey)> {
        let leases = pending_effects(&self.state).into_iter().filter_map(|effect| match effect {
            Effect::Offer(offer) if !revoked => Some((offer.node, offer.lease)),
            Effect::Revoke { node, lease } if revoked => Some((node, lease)),
            _ => None,
        });
        leases.collect()
    }

    fn seen(&self) -> Seen {
        let mut seen = Seen {
            offered: self.offered(),
            revoked: self.leases(true).into_iter().map(name_of).collect(),
            offline: self.offline.clone(),
            failed: self.rows.iter().filter(|(_, row)| row.0.is_failure()).map(|(key, _)| *key).collect(),
            ..Seen::default()
        };
        for (id, job) in &self.state.jobs {
            if job.head.status == grid_types::JobStatus::Pending {
                seen.pending.insert(*id);
            }
            for (node, cell) in job.expected.iter().zip(&job.cells) {
                if cell.state != CellState::Idle {
                    seen.open.insert((*id, job.step_of(cell).0, node.0));
                }
                if cell.state == CellState::Parked {
                    seen.parked.insert((*id, node.0));
                }
                if matches!(cell.state, CellState::Backoff { .. }) {
                    seen.backoff.insert((*id, node.0));
                }
            }
        }
        seen
    }

    /// The model follows, and every job stands as it says.
    pub fn agree(&mut self) {
        let seen = self.seen();
        self.model.settle(&seen);
        for (id, model) in self.model.jobs.iter().filter(|(id, _)| !self.closed.contains(id)) {
            let job = self.job(*id);
            assert_eq!(job.head.status, model.status, "{id}: status ({:?})", job.head.reason);
            assert_eq!(job.head.epoch.0, model.epoch, "{id}: epoch");
            if job.head.status == grid_types::JobStatus::Pending {
                continue;
            }
            assert_eq!(job.expected.iter().map(|n| n.0).collect::<Vec<_>>(), model.expected, "J6: {id}");
            for ((step, node), row) in &model.rows {
                let shown = self.rows.get(&(*id, *step, *node));
                assert_eq!(shown, Some(row), "{id} step {step} on node {node}: (outcome, attempts)");
            }
            for (step, tally) in (0u32..).zip(&job.head.tallies) {
                let counts = Outcome::ALL.map(|outcome| tally.count(outcome));
                assert_eq!(counts, model.counts(step), "{id} step {step}: rows by outcome, of {:?}", Outcome::ALL);
            }
            let lives = self.state.jobs.contains_key(id);
            assert_eq!(lives, !model.status.is_ended() || model.has_leases(), "{id} lives on");
            assert_eq!(job.head.gate.is_some(), model.gate, "{id} waits at a gate");
            let asks = job.head.first.as_ref().is_some_and(|first| first.through);
            assert_eq!(asks, model.asks, "J13: {id} waits for a person to let the others follow");
            let skipped = usize::try_from(job.head.skipped_offline.count()).unwrap();
            assert_eq!(skipped, model.skipped_offline.len(), "J11: {id}: nodes that were offline and skipped");
        }
        let gone = self.model.jobs.keys().filter(|id| !self.state.jobs.contains_key(id));
        self.closed = gone.copied().collect();
    }

    pub fn begin_term(&mut self) {
        let term = self.state.meta.leadership.term + 1;
        let head = EntryHead { term, ..self.head() };
        let command = Command::BeginTerm(BeginTerm {
            term,
            leader: "c1".parse().unwrap(),
            api_url: "http://127.0.0.1:1".to_owned(),
            grpc_addr: "127.0.0.1:2".to_owned(),
            quotas: self.state.meta.quotas,
            cluster_id: "cluster".to_owned(),
            restored: None,
            feature_level: grid_core::FEATURE_LEVEL,
        });
        self.apply(head, &[command]).replies.remove(0).unwrap();
    }

    pub fn register_command(&mut self, node: u32, slots: u32, lacking: bool, outstanding: Vec<LeaseKey>) -> Command {
        let actions = if lacking { &["echo"][..] } else { &["echo", RARE] };
        let boot = self.boots.entry(node).or_default();
        *boot += 1;
        Command::RegisterNode(RegisterNode {
            id: format!("node-{node}").parse().unwrap(),
            facts: NodeFacts {
                backends: [("ping".to_owned(), actions.iter().map(ToString::to_string).collect())].into(),
                capacity: Capacity { slots, ..Capacity::default() },
                ..NodeFacts::default()
            },
            journal_id: self.journals.entry(node).or_default().to_be_bytes().to_vec(),
            boot: *boot,
            nonce: boot.to_be_bytes().to_vec(),
            known_session_lives: false,
            agent: false,
            outstanding,
            unstarted: Vec::new(),
            secret: None,
        })
    }

    /// A further node.
    pub fn join(&mut self, slots: u32, lacking: bool) {
        let node = self.state.meta.next_ord + 1;
        let command = self.register_command(node, slots, lacking, Vec::new());
        self.one(command).unwrap();
        let slots = slots as usize;
        self.model
            .nodes
            .insert(node, crate::cluster::Node { status: grid_types::node::NodeStatus::Ready, slots, lacking });
    }

    /// Rows of the next run: what is done stays, the rest is open again.
    pub fn forget_rows(&mut self, id: JobId) {
        self.closed.remove(&id);
        self.offline.retain(|(job, ..)| *job != id);
        let spec = std::sync::Arc::clone(&self.job(id).spec);
        let keeps = |step: u32, row: &(Outcome, u32)| row.0 == Outcome::Success && !spec.is_cleanup(StepIndex(step));
        self.rows.retain(|(job, step, _), row| *job != id || keeps(*step, row));
    }
}

fn offer_of(effect: &Effect) -> Option<Lease> {
    match effect {
        Effect::Offer(offer) => Some(name_of((offer.node, offer.lease))),
        _ => None,
    }
}
