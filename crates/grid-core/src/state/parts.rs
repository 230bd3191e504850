//! Rebuilds the state from its stored parts.

use std::sync::Arc;

use grid_types::job::JobSpec;
use grid_types::{JobId, JobStatus, NodeOrd};
use minicbor::{Decode, Encode};

use super::{Cell, CellState, IdempotencyKey, Job, JobHead, Meta, Node, RequestHash, Scope, State, Stub, Timer};

/// Everything a store keeps of the live state.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parts {
    /// Leadership, clocks, limits.
    pub meta: Meta,
    /// Every node.
    pub nodes: Vec<Node>,
    /// Every job in memory.
    pub jobs: Vec<JobParts>,
    /// What is left of ended jobs, by their id.
    pub stubs: Vec<(JobId, Stub)>,
    /// Idempotency keys.
    pub keys: Vec<KeyRow>,
}

/// What a store keeps of one job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobParts {
    /// Its changing facts.
    pub head: JobHead,
    /// What it does.
    pub spec: JobSpec,
    /// Its nodes.
    pub expected: Vec<NodeOrd>,
    /// What its run covers.
    pub scope: Scope,
    /// By position in `expected`; missing ones are idle.
    pub cells: Vec<(u32, Cell)>,
}

/// One remembered idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct KeyRow {
    /// The namespace and the key.
    #[n(0)]
    pub key: IdempotencyKey,
    /// The job that the key stands for.
    #[n(1)]
    pub job: JobId,
    /// When it was first used, in leader time.
    #[n(2)]
    pub at_ms: u64,
    /// Of the request that it came with (J12).
    #[n(3)]
    #[cbor(default)]
    pub request: RequestHash,
}

impl State {
    /// Rebuilds the state. An error means that the stored parts contradict each other.
    pub fn from_parts(parts: Parts) -> Result<Self, String> {
        let mut state = Self { meta: parts.meta, ..Self::default() };
        for mut node in parts.nodes {
            node.leased_jobs.clear();
            node.waiting.clear();
            state.node_ids.insert(node.id.clone(), node.ord);
            state.removed_nodes += usize::from(node.status == grid_types::node::NodeStatus::Removed);
            state.extra_facts_bytes += node.extra_facts_bytes();
            state.nodes.insert(node.ord, node);
        }
        for (job, stub) in parts.stubs {
            state.stubs.insert(job, stub);
        }
        for row in parts.keys {
            state.remember(row);
        }
        for job in parts.jobs {
            state.adopt(job)?;
        }
        Ok(state)
    }

    pub(crate) fn remember(&mut self, row: KeyRow) {
        self.keys_by_age.insert((row.at_ms, row.key.clone()));
        self.keys.insert(row.key.clone(), row);
    }

    fn adopt(&mut self, parts: JobParts) -> Result<(), String> {
        let id = parts.head.id;
        let mut cells = vec![Cell::default(); parts.expected.len()];
        for (position, cell) in parts.cells {
            let slot = usize::try_from(position).ok().and_then(|p| cells.get_mut(p));
            *slot.ok_or_else(|| format!("{id} has a cell at {position}, beyond its expected nodes"))? = cell;
        }
        if let (JobStatus::Running, Some(deadline)) = (parts.head.status, parts.head.deadline_ms) {
            self.timers.insert((deadline, Timer::JobDeadline(id)));
        }
        let mut job = Job::new(parts.head, Arc::new(parts.spec));
        for ((position, node), cell) in (0..).zip(&parts.expected).zip(&cells) {
            let known = self.nodes.get_mut(node).ok_or_else(|| format!("{id} expects unknown node number {node}"))?;
            match cell.state {
                CellState::Idle => continue,
                CellState::Parked => {
                    let away = job.waits_for(known);
                    job.park_at(usize::try_from(position).unwrap_or(usize::MAX), away);
                }
                CellState::Unresolved => job.unresolved += 1,
                CellState::Queued => {
                    known.waiting.insert(id);
                    job.blocked += u32::from(job.waits_for(known));
                }
                CellState::Leased { .. } => drop(known.leased_jobs.insert(id)),
                CellState::Backoff { until_ms } => drop(self.timers.insert((until_ms, Timer::Retry(id, *node)))),
            }
            job.open += u32::from(cell.is_open());
        }
        (job.expected, job.scope, job.cells) = (parts.expected, parts.scope, cells);
        match job.head.status {
            JobStatus::Pending if job.head.held.is_none() => drop(self.pending.insert(id)),
            JobStatus::Running if !job.is_stalled() => drop(self.running.insert(id)),
            // Waiting for an operator or a node; or ended, but a worker has yet to confirm that nothing of it runs.
            JobStatus::Pending
            | JobStatus::Running
            | JobStatus::Completed
            | JobStatus::Failed
            | JobStatus::Cancelled => {}
        }
        self.jobs.insert(id, job);
        Ok(())
    }

    /// The stored parts of this state, as a store would give them back.
    #[must_use]
    pub fn to_parts(&self) -> Parts {
        let jobs = self.jobs.values().map(|job| JobParts {
            head: job.head.clone(),
            spec: JobSpec::clone(&job.spec),
            expected: job.expected.clone(),
            scope: job.scope.clone(),
            cells: (0..).zip(job.cells.iter().cloned()).collect(),
        });
        Parts {
            meta: self.meta.clone(),
            nodes: self.nodes.values().cloned().collect(),
            jobs: jobs.collect(),
            stubs: self.stubs.iter().map(|(id, stub)| (*id, *stub)).collect(),
            keys: self.keys.values().cloned().collect(),
        }
    }
}
