//! `ConfirmRevoke`: a worker says that nothing of a revoked lease runs, or ever will (W9).

use grid_types::limits::{MAX_ERROR_BYTES, OUTPUT_TAIL_BYTES};
use grid_types::{LeaseKey, NodeOrd, Outcome, Reason, SessionId};
use minicbor::{Decode, Encode};

use super::{Answer, Rejection, Reply, Stale};
use crate::jobs::{Facts, Report, cut};
use crate::turn::Turn;

/// Says that nothing of a revoked lease runs any more (W9).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ConfirmRevoke {
    /// The node that confirms.
    #[n(0)]
    pub node: NodeOrd,
    /// Its session.
    #[n(1)]
    pub session: SessionId,
    /// The lease that was revoked.
    #[n(2)]
    pub lease: LeaseKey,
    /// How it ended: `Cancelled` by the revoke, otherwise before it; none if it never started.
    #[n(3)]
    pub ended: Option<Outcome>,
    /// How long it ran.
    #[n(4)]
    pub duration_ms: u64,
    /// When it started, by the worker's wall clock.
    #[n(5)]
    pub started_wall_ms: u64,
    /// The last bytes of its output.
    #[n(6)]
    #[cbor(with = "minicbor::bytes")]
    pub output_tail: Vec<u8>,
    /// How many bytes of output there were in all.
    #[n(7)]
    pub output_bytes: u64,
    /// Of one that had failed or timed out before.
    #[n(8)]
    pub error: Option<String>,
}

impl ConfirmRevoke {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let node = turn.state.nodes.get(&self.node).ok_or(Rejection::NoNode(self.node))?;
        if node.session != self.session {
            return Err(Rejection::StaleSession { current: node.session });
        }
        let is_agent = node.agent;
        let found = turn.state.jobs.get(&self.lease.job).and_then(|job| {
            let (lease, revoked) = job.lease_at(self.node)?;
            Some((job.position(self.node)?, revoked)).filter(|_| lease == self.lease)
        });
        let restored = turn.state.meta.leadership.epoch.generation > 0;
        match found {
            Some((position, Some(why))) => {
                let report = if is_agent { Report::revoked_at_agent } else { Report::revoked };
                turn.settle(self.lease.job, position, report(why, self.ended, self.facts()));
            }
            // E2: it was revoked in a time that the backup knows nothing of. The worker will never run it.
            Some((position, None)) if restored => {
                turn.lose_lease(self.lease.job, position, Reason::RevokedAfterBackup);
            }
            _ => return Ok(Reply::Answered(Answer::Superseded(Stale::Settled))),
        }
        Ok(Reply::Answered(Answer::Committed))
    }

    fn facts(&self) -> Facts {
        let tail_from = self.output_tail.len().saturating_sub(OUTPUT_TAIL_BYTES);
        Facts {
            duration_ms: self.duration_ms,
            started_wall_ms: self.started_wall_ms,
            output_tail: self.output_tail[tail_from..].to_vec(),
            output_bytes: self.output_bytes,
            error: self.error.clone().map(|error| cut(error, MAX_ERROR_BYTES)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::commands::{Answer, Reply, Stale};
    use crate::world::{World, leaf};
    use grid_types::{JobStatus, Outcome};

    #[test]
    fn w9_a_lease_whose_worker_died_is_unknown_however_it_was_revoked() {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![leaf("test", "record")]);
        let lease = world.offered()[0];
        world.cancel(job).unwrap();
        world.confirm_ended(lease, Some(Outcome::Unknown)).unwrap();
        assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Unknown);
    }

    #[test]
    fn w9_only_the_revoked_lease_can_be_confirmed() {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![leaf("ping", "echo")]);
        let lease = world.offered()[0];
        let early = world.confirm_revoked(lease);
        assert_eq!(early, Ok(Reply::Answered(Answer::Superseded(Stale::Settled))));
        assert_eq!(world.total(job, Outcome::Running), 1);
        world.cancel(job).unwrap();
        assert_eq!(world.confirm_revoked(lease), Ok(Reply::Answered(Answer::Committed)));
        assert_eq!(world.confirm_revoked(lease), Ok(Reply::Answered(Answer::Superseded(Stale::Settled))));
    }

    #[test]
    fn w9_a_definite_outcome_from_before_the_revoke_is_kept() {
        for ended in [Outcome::Success, Outcome::Failed, Outcome::TimedOut] {
            let mut world = World::with_nodes(1);
            let job = world.submit("all", vec![leaf("test", "record"), leaf("ping", "echo")]);
            let lease = world.offered()[0];
            world.cancel(job).unwrap();
            world.confirm_ended(lease, Some(ended)).unwrap();
            assert_eq!(world.rows_of(job)[&(0, 1)], ended, "cancelled after it had ended");
            assert_eq!(world.status(job), JobStatus::Cancelled);
        }
        let mut world = World::with_nodes(2);
        world.next_timeout("1m");
        let job = world.submit("all", vec![leaf("test", "record")]);
        let leases = world.offered();
        world.advance_ms(60_000);
        world.confirm_ended(leases[0], Some(Outcome::Success)).unwrap();
        world.confirm_revoked(leases[1]).unwrap();
        assert_eq!((world.rows_of(job)[&(0, 1)], world.rows_of(job)[&(0, 2)]), (Outcome::Success, Outcome::TimedOut));
        assert_eq!(world.status(job), JobStatus::Failed, "its time was over");
    }

    #[test]
    fn w9_what_had_succeeded_before_the_cancel_is_not_run_again_by_resume() {
        let mut world = World::with_nodes(2);
        let job = world.submit("all", vec![leaf("test", "record")]);
        let leases = world.offered();
        world.cancel(job).unwrap();
        world.confirm_ended(leases[0], Some(Outcome::Success)).unwrap();
        world.confirm_revoked(leases[1]).unwrap();
        world.resume(job).unwrap();
        let again: Vec<_> = world.offered().into_iter().map(|(node, _)| node.0).collect();
        assert_eq!(again, [2]);
    }
}
