//! `RecordResult`: a worker reports how one attempt ended.
//!
//! I3: a result whose session, job epoch or attempt is not current changes nothing. The one exception is W8: an
//! `unknown` may be settled once by the worker's journal while the job still runs.

use grid_types::limits::{MAX_ERROR_BYTES, OUTPUT_TAIL_BYTES};
use grid_types::{Detail, LeaseKey, NodeOrd, Outcome, Reason, SessionId};
use minicbor::{Decode, Encode};

use super::{Answer, Rejection, Reply, Stale};
use crate::jobs::{Report, cut};
use crate::state::{RanEnd, RanState, State};
use crate::turn::Turn;

/// Reports how a lease ended (W4).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RecordResult {
    /// The node that ran it.
    #[n(0)]
    pub node: NodeOrd,
    /// Its session. A report of another session changes nothing (I3).
    #[n(1)]
    pub session: SessionId,
    /// The lease that has ended.
    #[n(2)]
    pub lease: LeaseKey,
    /// How it ended.
    #[n(3)]
    pub outcome: Outcome,
    /// The error text of the task.
    #[n(4)]
    pub error: Option<String>,
    /// The last bytes of the output.
    #[n(5)]
    #[cbor(with = "minicbor::bytes")]
    pub output_tail: Vec<u8>,
    /// How many bytes of output there were in all.
    #[n(6)]
    pub output_bytes: u64,
    /// How long it ran.
    #[n(7)]
    pub duration_ms: u64,
    /// When it started, by the worker's wall clock.
    #[n(8)]
    pub started_wall_ms: u64,
    /// Some of the output is kept nowhere.
    #[n(9)]
    #[cbor(default)]
    pub output_truncated: bool,
    /// What else is known.
    #[n(10)]
    pub detail: Option<Detail>,
}

impl RecordResult {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let node = turn.state.nodes.get(&self.node).ok_or(Rejection::NoNode(self.node))?;
        if node.session != self.session {
            return Err(Rejection::StaleSession { current: node.session });
        }
        turn.node_spoke(self.node);
        let id = self.lease.job;
        let Some(job) = turn.state.jobs.get(&id) else {
            return Ok(Reply::Answered(Answer::Superseded(turn.state.stale_of_ended(self.lease))));
        };
        if job.settles_unknown(self.node, self.lease, self.outcome) {
            turn.settle_unknown(id, self.node, self.lease, self.report());
            return Ok(Reply::Answered(Answer::Committed));
        }
        let (epoch, may_come) = (job.head.epoch, job.may_come(self.node, self.lease));
        let position = job.awaits(self.node, self.lease).filter(|_| job.head.restored.is_some());
        if let Some(position) = position {
            turn.adopt(id, position, self.lease.job_epoch, self.lease.attempt);
        } else if may_come && self.is_noted(turn) {
            // The job gets there later. The worker keeps the output, which is not stored here.
            return Ok(Reply::Answered(Answer::Superseded(Stale::Settled)));
        } else if self.lease.job_epoch != epoch {
            return Ok(Reply::Answered(Answer::Superseded(Stale::Job)));
        }
        let Some(job) = turn.state.jobs.get(&id) else {
            return Ok(Reply::Answered(Answer::Superseded(Stale::Settled)));
        };
        match job.lease_at(self.node) {
            Some((current, None)) if current == self.lease => {
                if let Some(position) = job.position(self.node) {
                    turn.settle(id, position, self.report());
                }
                Ok(Reply::Answered(Answer::Committed))
            }
            Some((current, _)) if current.step == self.lease.step => {
                Ok(Reply::Answered(Answer::Superseded(Stale::Attempt)))
            }
            _ => Ok(Reply::Answered(Answer::Superseded(Stale::Settled))),
        }
    }

    /// E2: it is of a time after the backup, and recorded when the restored job gets there.
    fn is_noted(&self, turn: &mut Turn<'_>) -> bool {
        let Report { outcome, error, duration_ms, started_wall_ms, output_bytes, .. } = self.report();
        let end = RanEnd { outcome, error, duration_ms, started_wall_ms, output_bytes };
        let is_noted = turn.note_ran(self.node, self.lease, RanState::Ended(end));
        if let Some(position) = turn.state.jobs.get(&self.lease.job).and_then(|job| job.position(self.node)) {
            turn.ahead.insert((self.lease.job, position));
        }
        is_noted
    }

    fn report(&self) -> Report {
        // A worker may report less than it knows, never what only the controller decides.
        let outcome = match self.outcome {
            Outcome::Success | Outcome::Failed | Outcome::TimedOut | Outcome::Unknown => self.outcome,
            Outcome::Pending | Outcome::Running | Outcome::Cancelled | Outcome::Skipped => Outcome::Failed,
        };
        let error = self.error.clone().map(|error| cut(error, MAX_ERROR_BYTES));
        let tail_from = self.output_tail.len().saturating_sub(OUTPUT_TAIL_BYTES);
        Report {
            outcome,
            reason: self.output_truncated.then_some(Reason::OutputTruncated),
            error,
            duration_ms: self.duration_ms,
            started_wall_ms: self.started_wall_ms,
            output_tail: self.output_tail[tail_from..].to_vec(),
            output_bytes: self.output_bytes,
            detail: self.detail,
        }
    }
}

impl State {
    /// What of a lease is out of date whose job has ended.
    pub(crate) fn stale_of_ended(&self, lease: LeaseKey) -> Stale {
        match self.stubs.get(&lease.job) {
            Some(stub) if stub.epoch != lease.job_epoch => Stale::Job,
            _ => Stale::Settled,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::commands::{Answer, Rejection, Reply, Stale};
    use crate::world::{World, leaf, retrying};
    use grid_types::node::NodeStatus;
    use grid_types::{JobStatus, LeaseKey, Outcome};

    const COMMITTED: Result<Reply, Rejection> = Ok(Reply::Answered(Answer::Committed));

    fn superseded(stale: Stale) -> Result<Reply, Rejection> {
        Ok(Reply::Answered(Answer::Superseded(stale)))
    }

    #[test]
    fn w4_a_result_counts_once() {
        let mut world = World::with_nodes(2);
        let job = world.submit("all", vec![leaf("ping", "echo")]);
        let lease = world.offered()[0];
        assert_eq!(world.report(lease, Outcome::Success), COMMITTED);
        assert_eq!(world.report(lease, Outcome::Failed), superseded(Stale::Settled));
        world.succeed_all_offered();
        assert_eq!(world.status(job), JobStatus::Completed);
        assert_eq!(world.report(lease, Outcome::Failed), superseded(Stale::Settled), "after the end, too");
    }

    #[test]
    fn i3_a_stale_attempt_epoch_or_session_changes_nothing() {
        let mut world = World::with_nodes(1);
        world.submit("all", vec![retrying("test", "fail", 1)]);
        let first = world.offered()[0];
        world.fail(first);
        world.advance_ms(60_000);
        let before = world.state.hash();
        assert_eq!(world.report(first, Outcome::Success), superseded(Stale::Attempt));
        let second = world.offered()[0];
        let wrong_epoch = LeaseKey { job_epoch: second.1.job_epoch.next(), ..second.1 };
        assert_eq!(world.report((second.0, wrong_epoch), Outcome::Success), superseded(Stale::Job));
        assert!(matches!(world.report_as(second, 99, Outcome::Success), Err(Rejection::StaleSession { .. })));
        assert_eq!(world.state.hash(), before);
    }

    #[test]
    fn w8_an_unknown_is_settled_once_by_the_journal_while_the_job_runs() {
        let mut world = World::with_nodes(2);
        world.next_strategy_continue();
        let job = world.submit("all", vec![leaf("test", "record"), leaf("ping", "echo")]);
        let lease = world.offered()[0];
        world.begin_all();
        world.mark_dead(1);
        assert_eq!(world.count(job, 0, Outcome::Unknown), 1);
        world.register("node-1", b"journal-1", 2, b"again", false).unwrap();
        assert_eq!(world.report(lease, Outcome::Success), COMMITTED, "excluded for ever, but known");
        assert_eq!(world.count(job, 0, Outcome::Unknown), 0);
        assert_eq!(world.count(job, 0, Outcome::Success), 1);
        assert_eq!(world.report(lease, Outcome::Failed), superseded(Stale::Settled), "once");
        world.finish_all();
        let rows = world.rows_of(job);
        assert_eq!(rows[&(0, 1)], Outcome::Success);
        assert_eq!(rows[&(1, 1)], Outcome::Skipped, "a node that was excluded once stays so");
    }

    #[test]
    fn a_node_that_reports_is_there() {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![leaf("ping", "echo"), leaf("ping", "echo")]);
        let lease = world.offered()[0];
        for (from, to) in [(NodeStatus::Ready, NodeStatus::Warning), (NodeStatus::Warning, NodeStatus::Unhealthy)] {
            world.mark(1, world.session(1), from, to).unwrap();
        }
        world.succeed(lease);
        world.finish_all();
        assert_eq!(world.status(job), JobStatus::Completed, "its next step is not skipped as offline");
    }

    #[test]
    fn durations_errors_and_attempts_are_kept() {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![retrying("test", "fail", 1)]);
        world.fail(world.offered()[0]);
        world.advance_ms(60_000);
        world.fail(world.offered()[0]);
        let attempts: Vec<_> =
            world.results_of(job).iter().map(|r| (r.attempt.0, r.duration_ms, r.error.clone())).collect();
        assert_eq!(attempts, [(1, 42, Some("boom".to_owned())), (2, 42, Some("boom".to_owned()))]);
    }
}
