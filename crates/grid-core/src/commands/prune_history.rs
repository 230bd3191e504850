//! `PruneHistory`: jobs that ended long ago are forgotten, with everything that is stored of them (L6).
//!
//! The leader names them, at most [`MAX_PRUNED`] a command, so that no entry takes long to apply; whether each has really
//! ended before the time is asked again here. What history's hash has rolled over stays in it (L7): it tells what was, not
//! what is kept. L8: idempotency keys stay for their 24 h; a submit under one of a forgotten job is answered so.

use grid_types::{Event, JobId};
use minicbor::{Decode, Encode};

use super::{Rejection, Reply};
use crate::turn::Turn;

/// Jobs of one command.
pub const MAX_PRUNED: usize = 500;

/// Removes ended jobs and events that are older than history is kept (L6).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PruneHistory {
    /// Leader time (W6): a wall clock that jumps must not cost anybody their history.
    #[n(0)]
    pub ended_before_ms: u64,
    /// None of them: only what is left of earlier ones goes.
    #[n(1)]
    pub jobs: Vec<JobId>,
    /// Events of nodes and terms, which belong to no job, go if they are older than this, in leader time.
    #[n(2)]
    #[cbor(default)]
    pub events_before_ms: u64,
}

impl PruneHistory {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let mut forgotten = 0u32;
        for id in self.jobs.iter().take(MAX_PRUNED) {
            let stubs = &mut turn.state.stubs;
            if stubs.get(id).is_some_and(|stub| stub.ended_ms < self.ended_before_ms) {
                stubs.remove(id);
                turn.changes.pruned.push(*id);
                forgotten += 1;
            }
        }
        if self.events_before_ms > 0 {
            turn.changes.events_before_ms = turn.changes.events_before_ms.max(Some(self.events_before_ms));
        }
        if forgotten > 0 {
            turn.record_event(Event::HistoryPruned { jobs: forgotten });
        }
        Ok(Reply::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_PRUNED, PruneHistory};
    use crate::commands::{Command, Rejection, Reply};
    use crate::world::{World, leaf};
    use grid_types::JobId;

    fn prune(world: &mut World, jobs: Vec<JobId>, ended_before_ms: u64) -> Vec<JobId> {
        world
            .apply(vec![Command::PruneHistory(PruneHistory { ended_before_ms, jobs, events_before_ms: 0 })])
            .changes
            .pruned
    }

    #[test]
    fn l6_only_what_ended_before_the_time_is_forgotten() {
        let mut world = World::with_nodes(1);
        let old = world.submit("all", vec![leaf("ping", "echo")]);
        world.finish_all();
        world.advance_ms(1_000);
        let young = world.submit("all", vec![leaf("ping", "echo")]);
        world.finish_all();
        let runs = world.submit("all", vec![leaf("ping", "echo")]);
        let limit = world.state.stubs[&young].ended_ms;
        assert_eq!(prune(&mut world, vec![JobId(7), old, young, runs, old], limit), [old]);
        assert_eq!(world.state.stubs.keys().copied().collect::<Vec<_>>(), [young]);
        assert!(world.state.jobs.contains_key(&runs));
        assert_eq!(world.cancel(old), Err(Rejection::NoJob(old)), "as if it had never been");
        assert_eq!(prune(&mut world, vec![old], u64::MAX), [], "once");
    }

    #[test]
    fn l8_a_key_outlives_its_job_and_says_so() {
        let mut world = World::with_nodes(1);
        let first = world.submit_keyed("all", vec![leaf("ping", "echo")], Some("k"));
        let Ok(Reply::Submitted { job, .. }) = first else { panic!("{first:?}") };
        world.finish_all();
        assert_eq!(prune(&mut world, vec![job], u64::MAX), [job]);
        let again = world.submit_keyed("all", vec![leaf("ping", "echo")], Some("k"));
        assert_eq!(again, Err(Rejection::Forgotten(job)), "never run twice, never a job that is not there");
        world.advance_ms(grid_types::limits::KEY_TTL_MS);
        let later = world.submit_keyed("all", vec![leaf("ping", "echo")], Some("k"));
        assert!(matches!(later, Ok(Reply::Submitted { repeated: false, .. })), "{later:?}");
    }

    #[test]
    fn a_late_result_of_a_forgotten_job_is_answered_for_good() {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![leaf("ping", "echo")]);
        let lease = world.offered()[0];
        world.succeed(lease);
        prune(&mut world, vec![job], u64::MAX);
        let before = world.state.hash();
        assert!(matches!(world.report(lease, grid_types::Outcome::Success), Ok(Reply::Answered(_))));
        assert_eq!(world.state.hash(), before);
    }

    #[test]
    fn one_command_forgets_only_so_many() {
        let mut world = World::with_nodes(1);
        let many = (0..=MAX_PRUNED).map(|_| {
            let job = world.submit("all", vec![leaf("ping", "echo")]);
            world.cancel(job).unwrap();
            world.leave(1);
            world.register("node-1", b"journal-1", job.0, &job.0.to_le_bytes(), false).unwrap();
            job
        });
        let many: Vec<_> = many.collect();
        assert_eq!(prune(&mut world, many, u64::MAX).len(), MAX_PRUNED);
        assert_eq!(world.state.stubs.len(), 1);
    }
}
