//! `ReportJournal`: what a worker's journal knows about the jobs that a restore brought back (E2).
//!
//! The leader asks once per node and generation; a long answer comes in several commands. Only the last one opens the node
//! for `once` steps of restored jobs: until then they wait.

use grid_types::limits::MAX_ERROR_BYTES;
use grid_types::{JobEpoch, JobId, LeaseKey, NodeOrd, SessionId};
use minicbor::{Decode, Encode};

use super::{Rejection, Reply};
use crate::jobs::cut;
use crate::state::{RanEnd, RanState};
use crate::turn::Turn;

/// How far ahead of the clock a journal may move the ids of new jobs. Ids begin with the time and every restore moves them
/// on by a day; what lies further ahead is damaged or forged, and would use up the range for good.
const MOST_AHEAD_MS: u64 = 7 * 24 * 3_600 * 1_000;

/// One page of a worker's answer about restored jobs (E2).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ReportJournal {
    /// The node that answers.
    #[n(0)]
    pub node: NodeOrd,
    /// Its session.
    #[n(1)]
    pub session: SessionId,
    /// The highest job id of which the journal ever dropped anything; 0: of none.
    #[n(2)]
    pub dropped_to: JobId,
    /// The highest job id that the journal knows of.
    #[n(3)]
    pub newest: JobId,
    /// The jobs of this page.
    #[n(4)]
    pub jobs: Vec<JournalOfJob>,
    /// Whether this page completes the answer.
    #[n(5)]
    pub is_last: bool,
}

/// What a journal knows of one job.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct JournalOfJob {
    /// The job that was asked about.
    #[n(0)]
    pub job: JobId,
    /// Leases up to this epoch were dropped: those that are not named may have run.
    #[n(1)]
    pub forgotten: Option<JobEpoch>,
    /// The leases that it names, and how each ended; none: the worker still has it.
    #[n(2)]
    pub leases: Vec<(LeaseKey, Option<RanEnd>)>,
}

impl ReportJournal {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let generation = turn.state.meta.leadership.epoch.generation;
        let node = turn.state.nodes.get_mut(&self.node).ok_or(Rejection::NoNode(self.node))?;
        if node.session != self.session {
            return Err(Rejection::StaleSession { current: node.session });
        }
        if node.asked >= generation {
            return Ok(Reply::Done);
        }
        if self.is_last {
            node.asked = generation;
        }
        turn.changes.nodes.insert(self.node);
        let meta = &mut turn.state.meta;
        let newest_ms = self.newest.minted_ms().min(meta.wall_ms.saturating_add(MOST_AHEAD_MS));
        meta.job_ids_from_ms = meta.job_ids_from_ms.max(newest_ms.saturating_add(1));
        for of_job in &self.jobs {
            self.take(turn, of_job);
        }
        if self.is_last {
            turn.recall_all(self.node);
            turn.journal_turned(self.node);
        }
        Ok(Reply::Done)
    }

    fn take(&self, turn: &mut Turn<'_>, of_job: &JournalOfJob) {
        let Some(job) = turn.state.jobs.get(&of_job.job) else { return };
        if job.head.restored.is_none() || job.head.status.is_ended() {
            return;
        }
        let is_forgotten = of_job.forgotten.is_some_and(|epoch| epoch >= job.head.run_epoch);
        let is_dropped = of_job.job <= self.dropped_to;
        if let Some(node) = turn.state.nodes.get_mut(&self.node) {
            let past = node.past.entry(of_job.job).or_default();
            past.is_doubtful |= !node.is_continuous || is_forgotten || is_dropped;
            past.is_complete = !past.is_doubtful;
            if past.is_complete {
                past.ran.retain(|_, ran| ran.state != RanState::Outstanding);
            }
        }
        for (lease, end) in &of_job.leases {
            let Some(end) = end else {
                turn.note_ran(self.node, *lease, RanState::AtWorker);
                continue;
            };
            let mut end = end.clone();
            end.error = end.error.map(|error| cut(error, MAX_ERROR_BYTES));
            if !turn.corrects_unknown(self.node, *lease, &end) {
                turn.note_ran(self.node, *lease, RanState::Ended(end));
            }
        }
    }
}

impl Turn<'_> {
    /// W8: the step counts as unknown already, and now its journal says how it ended.
    fn corrects_unknown(&mut self, ord: NodeOrd, lease: LeaseKey, end: &RanEnd) -> bool {
        let settles = self.state.jobs.get(&lease.job).is_some_and(|job| job.settles_unknown(ord, lease, end.outcome));
        if settles {
            self.settle_unknown(lease.job, ord, lease, end.report());
        }
        settles
    }

    fn recall_all(&mut self, ord: NodeOrd) {
        let Some(node) = self.state.nodes.get(&ord) else { return };
        for id in node.past.keys() {
            if let Some(position) = self.state.jobs.get(id).and_then(|job| job.position(ord)) {
                self.ahead.insert((*id, position));
            }
        }
        self.wake.insert(ord);
    }
}

#[cfg(test)]
mod tests {
    use grid_types::{JobId, NodeOrd, Outcome, SessionId};

    use super::{MOST_AHEAD_MS, ReportJournal};
    use crate::commands::{Command, Rejection};
    use crate::world::{World, leaf};

    #[test]
    fn e2_a_journal_moves_job_ids_by_a_bounded_time_only() {
        let ids_from_ms = |ahead_ms: Option<u64>| {
            let mut world = World::with_nodes(1);
            world.submit("all", vec![leaf("test", "record")]);
            world.restore(1);
            world.come_back(1);
            let wall_ms = world.state.meta.wall_ms;
            let newest = ahead_ms.map_or(JobId(i64::MAX as u64), |ahead| JobId::mint(wall_ms + ahead, 0, None));
            let (node, session) = (NodeOrd(1), SessionId(world.session(1)));
            let report =
                ReportJournal { node, session, dropped_to: JobId(0), newest, jobs: Vec::new(), is_last: false };
            world.one(Command::ReportJournal(report)).unwrap();
            world.state.meta.job_ids_from_ms - world.state.meta.wall_ms
        };
        let days = |days: u64| days * 24 * 3_600 * 1_000;
        assert!((days(3)..days(3) + 10).contains(&ids_from_ms(Some(days(3)))), "beyond what the journal knows");
        assert!(ids_from_ms(Some(days(8))) <= MOST_AHEAD_MS + 1);
        assert!(ids_from_ms(None) <= MOST_AHEAD_MS + 1);
    }

    #[test]
    fn e2_only_the_current_session_answers_and_only_once_a_generation() {
        let mut world = World::with_nodes(1);
        let job = world.submit("all", vec![leaf("test", "record")]);
        world.restore(1);
        let old = world.session(1);
        world.come_back(1);
        let stale = world.report_journal_as(1, old, &[job], &[]);
        assert!(matches!(stale, Err(Rejection::StaleSession { .. })));
        world.report_journal(1, &[job], &[]).unwrap();
        let before = world.state.hash();
        world.report_journal(1, &[job], &[]).unwrap();
        assert_eq!(world.state.hash(), before, "a repeated answer changes nothing");
        world.confirm(job, None).unwrap();
        assert_eq!(world.offered().len(), 1, "it never ran");
        world.finish_all();
        assert_eq!(world.rows_of(job)[&(0, 1)], Outcome::Success);
    }
}
