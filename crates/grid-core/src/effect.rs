//! Defines what the leader must do outside because of an entry. Effects are hints, state is the truth: a lost one is made good
//! by [`node_effects`] when the next message of the node arrives (W5).

use std::sync::Arc;

use grid_types::job::{JobSpec, Task};
use grid_types::{JobEpoch, JobId, LeaseKey, NodeOrd, SessionId};

use crate::state::{Job, Node, State};

/// Something that the leader does outside because of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// A lease is to be sent to its node.
    Offer(Offer),
    /// Nothing of this lease may run (any more).
    Revoke {
        /// The node that has it.
        node: NodeOrd,
        /// The lease.
        lease: LeaseKey,
    },
    /// W3: a worker may start this `once` lease; its time counts from now.
    Begun {
        /// The node that runs it.
        node: NodeOrd,
        /// The lease.
        lease: LeaseKey,
        /// How long it may run.
        timeout_ms: u64,
    },
    /// The job has ended: its settled leases may be forgotten.
    Forget {
        /// The job that has ended.
        job: JobId,
        /// In which it ended: leases of a later one belong to a run that was resumed since.
        epoch: JobEpoch,
        /// The nodes that took part.
        nodes: Vec<NodeOrd>,
    },
    /// The leader's own entry was refused: it is leader no more (E1).
    Deposed,
}

/// A lease as it goes to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The node that gets it.
    pub node: NodeOrd,
    /// The session under which it counts (W2).
    pub session: SessionId,
    /// The lease.
    pub lease: LeaseKey,
    /// Of a job from before a restore: its worker was asked what it knows, and it is decided here what may run (E2).
    pub restored: bool,
    /// The run of the job, from 1.
    pub run: u32,
    /// Shared, because a fan-out offers one task ten thousand times.
    pub spec: Arc<JobSpec>,
}

impl Offer {
    /// The task to run.
    #[must_use]
    pub fn task(&self) -> Option<&Task> {
        self.spec.steps().nth(usize::try_from(self.lease.step.0).ok()?).map(|(_, task)| task)
    }

    /// How long the task may run; 0 if the step does not exist.
    #[must_use]
    pub fn timeout_ms(&self) -> u64 {
        self.task().map_or(0, |task| task.timeout_ms)
    }
}

/// Everything a new leader has to do again.
#[must_use]
pub fn pending_effects(state: &State) -> Vec<Effect> {
    state.nodes.values().flat_map(|node| node_effects(state, node)).collect()
}

/// What should be out at one node: the leases it holds or should hold, and those it should let go of.
pub fn node_effects<'a>(state: &'a State, node: &'a Node) -> impl Iterator<Item = Effect> + 'a {
    node.leased_jobs.iter().filter_map(move |id| job_effect(state.jobs.get(id)?, node))
}

fn job_effect(job: &Job, node: &Node) -> Option<Effect> {
    let (lease, revoked) = job.lease_at(node.ord)?;
    Some(match revoked {
        Some(_) => Effect::Revoke { node: node.ord, lease },
        None => offer(job, node, lease),
    })
}

pub(crate) fn offer(job: &Job, node: &Node, lease: LeaseKey) -> Effect {
    let restored = job.head.restored.is_some();
    Effect::Offer(Offer {
        node: node.ord,
        session: node.session,
        lease,
        restored,
        run: job.head.run,
        spec: Arc::clone(&job.spec),
    })
}
