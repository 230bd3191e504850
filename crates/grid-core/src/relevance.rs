//! Tells, without changing anything, which reports of a worker can change the state.
//!
//! A worker may name any lease. What is neither out to it nor wanted from it is answered by the leader at once, as `apply` would
//! answer it, and stays out of the log: however much a worker invents, it costs no entry and no memory.
//! The answer may be given from the state that is applied here: a lease reaches a worker only after the entry that grants it is
//! applied, and what a worker holds from an earlier leader was committed before this leader's term. What a report settles cannot
//! become open again under the same key, but for leases that return to their queue (E8), which are offered again.

use grid_types::{LeaseKey, NodeOrd};

use crate::commands::{BeginLease, ConfirmRevoke, RecordResult, Reply, Stale};
use crate::state::{CellState, State};

impl State {
    /// Whether `node` has, or may have had, the lease of which it reports the result; otherwise the answer.
    pub fn concerns_result(&self, result: &RecordResult) -> Result<(), Stale> {
        let (node, lease) = (result.node, result.lease);
        let Some(job) = self.jobs.get(&lease.job) else { return Err(self.stale_of_ended(lease)) };
        let wanted = job.head.restored.is_some() && (job.awaits(node, lease).is_some() || job.may_come(node, lease));
        if wanted || job.settles_unknown(node, lease, result.outcome) {
            return Ok(());
        }
        if lease.job_epoch != job.head.epoch {
            return Err(Stale::Job);
        }
        match job.lease_at(node) {
            Some((current, None)) if current == lease => Ok(()),
            Some((current, _)) if current.step == lease.step => Err(Stale::Attempt),
            _ => Err(Stale::Settled),
        }
    }

    /// The same for the end of a revoke.
    pub fn concerns_revoke(&self, done: &ConfirmRevoke) -> Result<(), Stale> {
        let restored = self.meta.leadership.epoch.generation > 0;
        match self.jobs.get(&done.lease.job).and_then(|job| job.lease_at(done.node)) {
            Some((lease, revoked)) if lease == done.lease && (revoked.is_some() || restored) => Ok(()),
            _ => Err(Stale::Settled),
        }
    }

    /// The same for a lease that a worker asks to start (W3).
    pub fn concerns_begin(&self, begin: &BeginLease) -> Result<(), Reply> {
        let Some(job) = self.jobs.get(&begin.lease.job) else { return Err(Reply::Begun { granted: false }) };
        if job.lease_at(begin.node).is_some_and(|(lease, _)| lease == begin.lease) {
            return Ok(());
        }
        Err(if job.may_come(begin.node, begin.lease) { Reply::Withdrawn } else { Reply::Begun { granted: false } })
    }

    /// Whether the lease is out to the node.
    #[must_use]
    pub fn is_out(&self, node: NodeOrd, lease: LeaseKey) -> bool {
        self.jobs.get(&lease.job).and_then(|job| job.lease_at(node)).is_some_and(|(out, _)| out == lease)
    }

    /// Whether no leader can have granted this lease to the node. After a restore that cannot be decided (E2).
    #[must_use]
    pub fn is_invented(&self, node: NodeOrd, lease: LeaseKey) -> bool {
        if self.meta.leadership.epoch.generation > 0 {
            return false;
        }
        let Some(job) = self.jobs.get(&lease.job) else { return !self.stubs.contains_key(&lease.job) };
        let Some(cell) = job.position(node).and_then(|position| job.cells.get(position)) else { return true };
        let newest = if cell.state == CellState::Idle {
            // How far it came in this phase is not kept: any lease of the phase may have been its own.
            let steps = job.current_phase().map_or(0, |phase| phase.tasks.len());
            (job.head.epoch, job.first_step().0.saturating_add(u32::try_from(steps).unwrap_or(u32::MAX)), 0)
        } else {
            (job.head.epoch, job.step_of(cell).0, cell.attempt)
        };
        let is_ahead = (lease.job_epoch, lease.step.0, lease.attempt.0) > newest;
        is_ahead || !job.has_step(lease)
    }
}

#[cfg(test)]
mod tests {
    use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, NodeOrd, StepIndex};

    use crate::world::{World, leaf};

    #[test]
    fn issue14_5_only_what_is_out_or_was_out_is_not_invented() {
        let mut world = World::with_nodes(2);
        let job = world.submit("node:node-1", vec![leaf("ping", "echo")]);
        let (node, lease) = world.offered()[0];
        let state = &world.state;
        assert!(state.is_out(node, lease) && !state.is_invented(node, lease));
        let others = [
            LeaseKey { attempt: Attempt(2), ..lease },
            LeaseKey { step: StepIndex(1), ..lease },
            LeaseKey { job_epoch: JobEpoch(2), ..lease },
            LeaseKey { job: JobId(99), ..lease },
        ];
        for other in others {
            assert!(!state.is_out(node, other) && state.is_invented(node, other), "{other}");
        }
        assert!(state.is_invented(NodeOrd(2), lease), "it is another node's");
        world.succeed((node, lease));
        assert!(!world.state.is_out(node, lease) && !world.state.is_invented(node, lease), "{job} has ended");
    }

    /// Its answer was lost, or the report arrived twice.
    #[test]
    fn a_report_that_is_repeated_while_other_nodes_still_run_is_not_invented() {
        let mut world = World::with_nodes(2);
        world.submit("all", vec![leaf("ping", "echo"), leaf("ping", "echo")]);
        let (node, lease) = world.offered()[0];
        world.succeed((node, lease));
        assert!(!world.state.is_out(node, lease) && !world.state.is_invented(node, lease));
        let next = LeaseKey { step: StepIndex(1), ..lease };
        assert!(world.state.is_invented(node, next), "its barrier is still open");
    }

    #[test]
    fn issue14_5_a_restored_job_believes_no_lease_far_beyond_its_own() {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![leaf("test", "record")]);
        let (_, lease) = world.offered()[0];
        world.restore(1);
        world.come_back(1);
        let restored = &world.state.jobs[&job];
        assert!(restored.is_plausible(LeaseKey { job_epoch: lease.job_epoch.next(), ..lease }));
        for forged in [
            LeaseKey { job_epoch: JobEpoch(u32::MAX), ..lease },
            LeaseKey { attempt: Attempt(u32::MAX), ..lease },
            LeaseKey { step: StepIndex(1), ..lease },
        ] {
            assert!(!restored.is_plausible(forged) && !restored.may_come(NodeOrd(1), forged), "{forged}");
        }
    }
}
