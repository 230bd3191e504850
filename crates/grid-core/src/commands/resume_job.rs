//! `ResumeJob`: an ended job goes on under a new epoch and runs only what is not done: what failed, timed out, was
//! cancelled, skipped, is unknown, or was never reached.
//!
//! L8: of an ended job only a stub is here; the command carries what the leader read of it, and counts only if the job has
//! not moved since. A clean-up is never done for good: it is wanted again when the next run fails. Its nodes are those of the first run: a resumed job does not grow.

use std::collections::BTreeMap;
use std::sync::Arc;

use grid_types::job::JobSpec;
use grid_types::{JobEpoch, JobId, JobStatus, Name, NodeOrd, StepIndex};
use minicbor::{Decode, Encode};

use super::{Rejection, Reply};
use crate::apply::Turn;
use crate::state::{Bits, Job, JobHead};

#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct ResumeJob {
    #[n(0)]
    pub namespace: Name,
    #[n(1)]
    pub job: JobId,
    /// The epoch in which it ended.
    #[n(2)]
    pub epoch: JobEpoch,
    #[n(3)]
    pub spec: JobSpec,
    #[n(4)]
    pub expected: Vec<NodeOrd>,
    /// Per step, positions in `expected` that succeeded.
    #[n(5)]
    pub done: BTreeMap<StepIndex, Bits>,
    #[n(6)]
    pub created_wall_ms: u64,
}

impl ResumeJob {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        self.check(turn)?;
        let epoch = self.epoch.next();
        let state = &mut turn.state;
        let head = JobHead {
            created_wall_ms: self.created_wall_ms,
            done: self.done.clone(),
            ..JobHead::new(self.job, self.namespace.clone(), epoch, &state.meta)
        };
        let mut job = Job::new(head, Arc::new(self.spec.clone()));
        job.freeze(self.expected.clone());
        state.stubs.remove(&self.job);
        state.jobs.insert(self.job, job);
        state.pending.insert(self.job);
        turn.changes.jobs.insert(self.job);
        turn.changes.started.insert(self.job);
        turn.changes.submitted.insert(self.job);
        turn.record_event("JobResumed", self.job.to_string(), format!("job epoch {epoch}"));
        Ok(Reply::Moved { job: self.job, status: JobStatus::Pending })
    }

    fn check(&self, turn: &Turn<'_>) -> Result<(), Rejection> {
        let state = &turn.state;
        if let Some(job) = state.jobs.get(&self.job) {
            let what = format!("{} has not ended, it is {}; there is nothing to resume", self.job, job.head.status);
            return Err(Rejection::NotWaiting(what));
        }
        let stub = state.stubs.get(&self.job).ok_or(Rejection::NoJob(self.job))?;
        if stub.epoch != self.epoch {
            return Err(Rejection::NotWaiting(format!("{} has moved meanwhile; look again", self.job)));
        }
        if let Some(gone) = self.expected.iter().find(|node| !state.nodes.contains_key(node)) {
            return Err(Rejection::NoNode(*gone));
        }
        turn.check_queue()
    }
}

#[cfg(test)]
mod tests {
    use crate::commands::Rejection;
    use crate::world::{World, cleanup, leaf, pipeline};
    use grid_types::{JobStatus, Outcome};

    fn echo() -> grid_types::job::Phase {
        leaf("ping", "echo")
    }

    #[test]
    fn a_resumed_job_runs_only_what_is_missing() {
        let mut world = World::with_nodes(3);
        let job = world.submit("all", vec![pipeline(vec![echo(), echo()]), echo(), cleanup(vec![echo()])]);
        let first = world.offered();
        world.succeed(first[0]);
        world.fail(first[1]);
        world.finish_all();
        assert_eq!(world.status(job), JobStatus::Failed);
        world.resume(job).unwrap();
        let again: Vec<_> =
            world.offered().iter().map(|(node, lease)| (node.0, lease.step.0, lease.job_epoch.0)).collect();
        assert_eq!(again, [(2, 0, 2), (3, 1, 2)], "each goes on where it was, under a new epoch");
        world.finish_all();
        assert_eq!(world.status(job), JobStatus::Completed);
        let rows = world.rows_of(job);
        assert!((0..3).all(|step| (1..=3).all(|node| rows[&(step, node)] == Outcome::Success)), "{rows:?}");
        assert!((1..=3).all(|node| rows[&(3, node)] == Outcome::Skipped), "nothing failed in this run");
    }

    #[test]
    fn interrupted_and_resumed_equals_one_uninterrupted_run() {
        for cut in 0..9 {
            let mut world = World::with_nodes(3);
            let job = world.submit("all", vec![echo(), pipeline(vec![echo(), echo()])]);
            for _ in 0..cut {
                let Some(lease) = world.offered().first().copied() else { break };
                world.succeed(lease);
            }
            if world.cancel(job).is_ok() {
                for lease in world.revoked() {
                    world.confirm_revoked(lease).unwrap();
                }
                world.resume(job).unwrap();
            }
            world.finish_all();
            assert_eq!(world.status(job), JobStatus::Completed, "cut at {cut}");
            let rows = world.rows_of(job);
            assert_eq!((rows.len(), rows.values().all(|o| *o == Outcome::Success)), (9, true), "cut at {cut}");
            let ran = world.results_of(job).iter().filter(|row| row.outcome == Outcome::Success).count();
            assert_eq!(ran, 9, "nothing that had succeeded ran again; cut at {cut}");
        }
    }

    #[test]
    fn only_an_ended_job_that_has_not_moved_is_resumed() {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![echo()]);
        assert!(matches!(world.resume(job), Err(Rejection::NotWaiting(_))), "it runs");
        world.fail(world.offered()[0]);
        let stale = world.resume_command(job);
        world.resume(job).unwrap();
        world.fail(world.offered()[0]);
        let replayed = world.apply(vec![stale]).replies.remove(0);
        assert!(matches!(replayed, Err(Rejection::NotWaiting(_))), "{replayed:?}");
        assert!(world.resume(job).is_ok());
        assert_eq!(world.job(job).head.epoch.0, 3);
    }

    #[test]
    fn a_resumed_job_waits_its_turn() {
        let mut world = World::with_nodes(1);
        world.set_quotas(1, 1);
        let job = world.submit("all", vec![echo()]);
        world.fail(world.offered()[0]);
        let other = world.submit("all", vec![echo()]);
        world.resume(job).unwrap();
        assert_eq!(world.status(job), JobStatus::Pending);
        let refused = world.submit_keyed("all", vec![echo()], None);
        assert!(matches!(refused, Err(Rejection::QueueFull { .. })));
        world.finish_all();
        assert_eq!((world.status(job), world.status(other)), (JobStatus::Completed, JobStatus::Completed));
    }

    #[test]
    fn i9_a_resumed_job_that_is_cancelled_while_it_waits_has_every_outcome() {
        let mut world = World::with_nodes(2);
        let job = world.submit("all", vec![echo(), echo()]);
        let first = world.offered();
        world.succeed(first[0]);
        world.fail(first[1]);
        world.set_quotas(0, 5);
        world.resume(job).unwrap();
        world.cancel(job).unwrap();
        let rows = world.rows_of(job);
        assert_eq!(rows.len(), 4, "{rows:?}");
        assert_eq!((rows[&(0, 1)], rows[&(0, 2)]), (Outcome::Success, Outcome::Skipped), "{rows:?}");
    }

    #[test]
    fn i3_an_unknown_of_the_second_run_is_not_settled_by_the_first() {
        let mut world = World::with_nodes(2);
        world.next_strategy_continue();
        let job = world.submit("all", vec![leaf("test", "record"), echo()]);
        let first = world.offered();
        world.report(first[0], Outcome::Unknown).unwrap();
        world.fail(first[1]);
        world.resume(job).unwrap();
        let second = world.offered();
        world.report(second[0], Outcome::Unknown).unwrap();
        let before = world.state.hash();
        world.report(first[0], Outcome::Success).unwrap();
        assert_eq!(world.state.hash(), before, "the same step, node and attempt, but another run");
    }

    #[test]
    fn i3_results_of_the_first_run_change_nothing_in_the_second() {
        let mut world = World::with_nodes(2);
        let job = world.submit("all", vec![echo()]);
        let first = world.offered();
        world.fail(first[0]);
        world.succeed(first[1]);
        world.resume(job).unwrap();
        let before = world.state.hash();
        world.report(first[0], Outcome::Success).unwrap();
        assert_eq!(world.state.hash(), before);
    }
}
