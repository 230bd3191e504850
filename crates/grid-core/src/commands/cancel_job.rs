//! `CancelJob`: no new lease of the job, and what runs is taken back (W9).
//!
//! The job is `cancelled` at once; a step that runs becomes `cancelled` when its worker confirms, `unknown` if the
//! worker dies first. Until the last one is settled the job stays in `State`, outside admission.

use grid_types::{JobId, JobStatus, Name, Reason, Revoked, StepIndex};
use minicbor::{Decode, Encode};

use super::{Rejection, Reply};
use crate::state::Job;
use crate::turn::Turn;

/// Cancels a job; what runs of it is revoked (W9).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct CancelJob {
    /// The namespace of the job.
    #[n(0)]
    pub namespace: Name,
    /// The job to cancel.
    #[n(1)]
    pub job: JobId,
}

impl CancelJob {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let id = self.job;
        let job = turn.live_job(&self.namespace, id)?;
        let steps = StepIndex(u32::try_from(job.spec.step_count()).unwrap_or(u32::MAX));
        let is_running = job.head.status == JobStatus::Running;
        // Later phases first: they are all-pending, and one row says it for every node. So is one behind a gate.
        let begun = u32::from(job.head.gate.is_none());
        let from = job.spec.first_step(usize::try_from(job.head.phase + begun).unwrap_or(usize::MAX));
        if let Some(job) = turn.state.jobs.get_mut(&id) {
            // From here on no failure trips it: what is dropped below is dropped by the cancel.
            job.head.status = JobStatus::Cancelled;
        }
        if is_running {
            turn.skip_for_all(id, from, steps, &Reason::JobCancelled);
            turn.withdraw(id, Revoked::Cancel);
        } else {
            // One that was resumed or bound to a plan knows its nodes before it starts.
            turn.skip_for_all(id, StepIndex(0), steps, &Reason::JobCancelled);
        }
        turn.end_job(id, JobStatus::Cancelled, Some(Reason::CancelledByRequest));
        turn.settle_unreached(id);
        Ok(Reply::Cancelled { job: id, status: JobStatus::Cancelled })
    }
}

impl Turn<'_> {
    /// A job that has not ended, in its namespace.
    pub(crate) fn live_job(&self, namespace: &Name, id: JobId) -> Result<&Job, Rejection> {
        let Some(job) = self.state.jobs.get(&id).filter(|job| job.head.namespace == *namespace) else {
            return Err(match self.state.stubs.get(&id) {
                Some(stub) => Rejection::Ended { job: id, status: stub.status },
                None => Rejection::NoJob(id),
            });
        };
        let status = job.head.status;
        if status.is_ended() { Err(Rejection::Ended { job: id, status }) } else { Ok(job) }
    }
}

#[cfg(test)]
mod tests {
    use crate::commands::{Answer, Rejection, Reply, Stale};
    use crate::effect::Effect;
    use crate::world::{World, leaf, pipeline};
    use grid_types::{JobStatus, Outcome};

    #[test]
    fn a_pending_job_is_cancelled_and_never_starts() {
        let mut world = World::with_nodes(1);
        world.set_quotas(1, 5);
        let first = world.submit("all", vec![leaf("ping", "echo")]);
        let second = world.submit("all", vec![leaf("ping", "echo")]);
        assert_eq!(world.cancel(second), Ok(Reply::Cancelled { job: second, status: JobStatus::Cancelled }));
        world.succeed_all_offered();
        assert_eq!(world.status(first), JobStatus::Completed);
        assert_eq!(world.status(second), JobStatus::Cancelled);
        assert!(world.offered().is_empty());
    }

    #[test]
    fn w9_after_a_cancel_no_new_lease_and_every_running_one_is_revoked() {
        let mut world = World::with_nodes(2);
        let job =
            world.submit("all", vec![pipeline(vec![leaf("ping", "echo"), leaf("ping", "echo")]), leaf("ping", "echo")]);
        let leases = world.offered();
        world.succeed(leases[0]);
        let running = world.offered();
        let effects = world.cancel_effects(job);
        let revoked = effects.iter().filter(|e| matches!(e, Effect::Revoke { .. })).count();
        assert_eq!(revoked, 2);
        assert!(!effects.iter().any(|e| matches!(e, Effect::Offer(_))));
        assert_eq!(world.status(job), JobStatus::Cancelled);
        assert_eq!(world.total(job, Outcome::Running), 2, "cancelled only when the worker confirms");
        assert_eq!(world.report(running[0], Outcome::Success), Ok(Reply::Answered(Answer::Superseded(Stale::Job))));
        assert_eq!(world.total(job, Outcome::Running), 2, "I3: a stale job epoch changes nothing");
        world.confirm_revoked(running[0]).unwrap();
        world.confirm_revoked(running[1]).unwrap();
        assert!(!world.state.jobs.contains_key(&job), "settled: only the stub is left");
        let rows = world.rows_of(job);
        assert_eq!(rows.values().filter(|o| **o == Outcome::Cancelled).count(), 2);
        assert_eq!(rows.values().filter(|o| **o == Outcome::Success).count(), 1);
        assert_eq!(rows.len(), 6, "I9: one outcome for each step and node");
    }

    #[test]
    fn w9_a_worker_that_dies_before_it_confirms_leaves_unknown() {
        let mut world = World::with_nodes(3);
        let job = world.submit("node:node-1", vec![leaf("ping", "echo")]);
        world.cancel(job).unwrap();
        world.mark_dead(1);
        assert_eq!(world.rows_of(job).values().copied().collect::<Vec<_>>(), [Outcome::Unknown]);
        assert!(!world.state.jobs.contains_key(&job));
    }

    #[test]
    fn an_ended_or_unknown_job_cannot_be_cancelled() {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![leaf("ping", "echo")]);
        world.succeed_all_offered();
        assert_eq!(world.cancel(job), Err(Rejection::Ended { job, status: JobStatus::Completed }));
        let unknown = grid_types::JobId(7);
        assert_eq!(world.cancel(unknown), Err(Rejection::NoJob(unknown)));
    }

    /// What a cancel drops is dropped by the cancel, and no failure that the job reacted to.
    #[test]
    fn issue13_3_a_cancel_is_no_trip() {
        let kinds = |world: &World, job| {
            let rows = world.history.iter().filter_map(|row| match row {
                crate::changes::History::Event(row) if row.job == Some(job) => Some(row.event.kind()),
                _ => None,
            });
            rows.collect::<Vec<_>>()
        };
        let mut world = World::with_nodes(2);
        let held = world.submit("all", vec![pipeline(vec![leaf("test", "record"), leaf("ping", "echo")])]);
        world.restore(1);
        world.cancel(held).unwrap();
        assert_eq!(world.rows_of(held)[&(0, 1)], Outcome::Unknown, "it was outstanding in the backup");
        let mut world_of_retries = World::with_nodes(1);
        let retried = world_of_retries.submit("all", vec![crate::world::retrying("test", "fail", 3)]);
        world_of_retries.fail(world_of_retries.offered()[0]);
        world_of_retries.cancel(retried).unwrap();
        for (world, job) in [(&world, held), (&world_of_retries, retried)] {
            assert_eq!(world.status(job), JobStatus::Cancelled);
            assert!(!kinds(world, job).contains(&"JobTripped"), "{:?}", kinds(world, job));
        }
    }

    #[test]
    fn a_retry_that_waits_is_dropped_and_its_failure_stands() {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![crate::world::retrying("test", "fail", 3)]);
        world.fail(world.offered()[0]);
        world.cancel(job).unwrap();
        assert_eq!(world.rows_of(job).values().copied().collect::<Vec<_>>(), [Outcome::Failed]);
        world.advance_ms(60_000);
        assert!(world.offered().is_empty());
    }
}
