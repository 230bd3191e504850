//! `FireTimers`: leader time has reached something that was waiting for it: a retry, a job's deadline, an old key.

use grid_types::limits::KEY_TTL_MS;
use grid_types::{JobId, NodeOrd};
use minicbor::{Decode, Encode};

use super::{Rejection, Reply};
use crate::state::{CellState, Timer};
use crate::turn::Turn;

/// Takes everything that is due at the leader time of the entry. It names nothing, because the state knows what is due.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct FireTimers {}

impl FireTimers {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let now = turn.now_ms();
        while let Some((at, timer)) = turn.state.timers.first().copied().filter(|(at, _)| *at <= now) {
            turn.drop_timer(at, timer);
            match timer {
                Timer::Retry(job, node) => retry(turn, job, node),
                Timer::JobDeadline(job) => job_deadline(turn, job),
            }
        }
        while let Some((at, key)) = turn.state.keys_by_age.first().cloned().filter(|(at, _)| at + KEY_TTL_MS <= now) {
            turn.state.keys_by_age.remove(&(at, key.clone()));
            turn.changes.keys_dropped.extend(turn.state.keys.remove(&key));
        }
        Ok(Reply::Done)
    }
}

fn job_deadline(turn: &mut Turn<'_>, id: JobId) {
    if let Some(job) = turn.state.jobs.get_mut(&id) {
        job.head.deadline_ms = None;
        turn.touch_job(id);
        turn.time_out(id);
    }
}

fn retry(turn: &mut Turn<'_>, id: JobId, node: NodeOrd) {
    let waits = turn.state.jobs.get(&id).and_then(|job| job.position(node)).filter(|position| {
        let cell = turn.state.jobs.get(&id).and_then(|job| job.cells.get(*position));
        matches!(cell.map(|c| &c.state), Some(CellState::Backoff { .. }))
    });
    if let Some(position) = waits {
        turn.queue(id, position);
    }
}

#[cfg(test)]
mod tests {
    use crate::effect::Effect;
    use crate::world::{World, cleanup, leaf, retrying};
    use grid_types::{JobStatus, Outcome};

    #[test]
    fn retries_run_only_where_it_failed_and_only_when_due() {
        let mut world = World::with_nodes(2);
        let job = world.submit("all", vec![retrying("test", "fail", 2)]);
        let leases = world.offered();
        world.fail(leases[0]);
        world.succeed(leases[1]);
        world.advance_ms(700);
        assert!(world.offered().is_empty(), "the backoff of 1 s is jittered by a fifth at most");
        world.advance_ms(600);
        let retry = world.offered();
        assert_eq!(retry.len(), 1);
        assert_eq!((retry[0].0, retry[0].1.attempt.0), (leases[0].0, 2));
        world.succeed(retry[0]);
        assert_eq!(world.status(job), JobStatus::Completed);
    }

    #[test]
    fn a_job_timeout_also_ends_what_still_runs_after_a_failure() {
        let mut world = World::with_nodes(2);
        world.next_timeout("10s");
        let job = world.submit("all", vec![leaf("ping", "echo"), cleanup(vec![leaf("test", "succeed")])]);
        let leases = world.offered();
        world.fail(leases[0]);
        let effects = world.advance_ms(10_000);
        assert!(effects.iter().any(|e| matches!(e, Effect::Revoke { node, .. } if *node == leases[1].0)));
        world.confirm_revoked(leases[1]).unwrap();
        assert_eq!(world.offered().len(), 2, "the clean-up is not cut short");
        world.finish_all();
        assert!(world.reason(job).contains("timeout"));
        assert_eq!(world.rows_of(job)[&(0, 2)], Outcome::TimedOut);
    }

    #[test]
    fn a_job_timeout_leaves_a_clean_up_alone() {
        let mut world = World::with_nodes(1);
        world.next_timeout("10s");
        let job = world.submit("all", vec![leaf("ping", "echo"), cleanup(vec![leaf("test", "succeed")])]);
        world.fail(world.offered()[0]);
        let effects = world.advance_ms(10_000);
        assert!(effects.is_empty(), "its tasks' own timeouts bound it");
        world.finish_all();
        assert!(world.reason(job).contains("timeout"));
    }

    #[test]
    fn a_job_timeout_revokes_what_runs_and_still_cleans_up() {
        let mut world = World::with_nodes(2);
        world.next_timeout("10s");
        let job = world
            .submit("all", vec![leaf("ping", "echo"), leaf("ping", "echo"), cleanup(vec![leaf("test", "succeed")])]);
        let leases = world.offered();
        world.succeed(leases[0]);
        let effects = world.advance_ms(10_000);
        assert!(effects.iter().any(|e| matches!(e, Effect::Revoke { node, .. } if *node == leases[1].0)));
        assert!(world.offered().is_empty(), "cleanup waits until the old process is gone");
        world.confirm_revoked(leases[1]).unwrap();
        let cleanup = world.offered();
        assert_eq!(cleanup.len(), 2, "on_failure still runs, on every reachable expected node");
        world.succeed_all_offered();
        assert_eq!(world.status(job), JobStatus::Failed);
        assert!(world.reason(job).contains("timeout"));
        let rows = world.rows_of(job);
        assert_eq!(rows[&(0, 2)], Outcome::TimedOut);
        assert_eq!(rows[&(1, 1)], Outcome::Skipped);
        assert_eq!(rows[&(2, 2)], Outcome::Success);
    }
}
