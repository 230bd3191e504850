//! Asks workers what their journals know about jobs that a restore brought back (E2).
//!
//! The question goes out with the registration, so that the answer is in the worker's first message, before it asks to
//! start anything. It is asked again while no answer was recorded: it may have been lost with a stream or a leader.
//! A long answer comes in pages, and the last one completes it. After a page that could not be recorded the rest is
//! dropped, with the last page; the next question gets a whole answer.
//! Not here: what the answer means (`grid-core`).

use std::collections::{BTreeMap, BTreeSet};

use grid_core::{Job, JournalOfJob, Node, RanEnd, ReportJournal, State};
use grid_proto::v1;
use grid_types::{JobEpoch, JobId, LeaseKey, NodeOrd, Outcome, SessionId};

use super::sessions::Session;
use super::wire::error_of;

const ASK_AGAIN_MS: u64 = 5_000;
/// Pages of one session. A journal of 50,000 leases with long errors has about 200 of them.
const MAX_PAGES: u32 = 1_000;

/// The jobs to ask about now; none while an earlier question is being answered.
pub fn to_ask(state: &State, node: &Node, session: &mut Session, now_mono_ms: u64) -> Vec<u64> {
    let is_new = |asked: u64| now_mono_ms.saturating_sub(asked) < ASK_AGAIN_MS;
    // Without a restore there is nothing to ask, and every message comes by here.
    if node.asked >= state.meta.leadership.epoch.generation || session.asked_journal_mono_ms.is_some_and(is_new) {
        return Vec::new();
    }
    let jobs: Vec<u64> = state.to_ask(node).into_iter().map(|JobId(job)| job).collect();
    if !jobs.is_empty() {
        session.asked_journal_mono_ms = Some(now_mono_ms);
    }
    jobs
}

/// The place of a page in the answer of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    Further,
    Last,
}

impl Page {
    pub fn of(report: &v1::JournalReport) -> Self {
        if report.is_last { Self::Last } else { Self::Further }
    }
}

/// Whether a page of an answer counts. A session has a bounded number of them. A dropped answer ends with its last page, whatever was asked in the meantime: the
/// pages of one answer arrive in order.
pub fn takes_page(session: &mut Session, page: Page) -> bool {
    session.journal_pages = session.journal_pages.saturating_add(1);
    let is_dropped = session.journal_gap || session.journal_pages > MAX_PAGES;
    if is_dropped && page == Page::Last {
        session.journal_gap = false;
        session.asked_journal_mono_ms = None;
    }
    !is_dropped
}

/// A page could not be recorded.
pub fn lost_page(session: &mut Session, page: Page) {
    session.journal_gap = page == Page::Further;
}

/// An answer as the log carries it: what concerns the jobs that this node is asked about, each lease once. None: it is not asked.
pub fn command(state: &State, node: NodeOrd, session: SessionId, report: v1::JournalReport) -> Option<ReportJournal> {
    let known = state.nodes.get(&node)?;
    let asked: BTreeSet<JobId> = state.to_ask(known).into_iter().collect();
    if known.asked >= state.meta.leadership.epoch.generation || asked.is_empty() {
        return None;
    }
    let mut of_jobs: BTreeMap<JobId, JournalOfJob> = BTreeMap::new();
    for of_job in report.jobs {
        let job = state.jobs.get(&JobId(of_job.job_id)).filter(|job| asked.contains(&job.head.id));
        if let Some(job) = job {
            of_jobs.insert(job.head.id, journal_of(job, of_job));
        }
    }
    Some(ReportJournal {
        node,
        session,
        dropped_to: JobId(report.dropped_to),
        newest: JobId(report.newest),
        jobs: of_jobs.into_values().collect(),
        is_last: report.is_last,
    })
}

fn journal_of(job: &Job, of_job: v1::JobJournal) -> JournalOfJob {
    let mut leases: BTreeMap<LeaseKey, Option<RanEnd>> = BTreeMap::new();
    for named in of_job.leases {
        let lease = named.lease.map(LeaseKey::from);
        let Some(lease) = lease.filter(|lease| lease.job == job.head.id && job.is_plausible(*lease)) else { continue };
        let end = named.ended().outcome().map(|outcome: Outcome| RanEnd {
            outcome,
            duration_ms: named.duration_ms,
            started_wall_ms: named.started_at_ms,
            output_bytes: named.output_bytes,
            error: error_of(named.error),
        });
        leases.insert(lease, end);
    }
    JournalOfJob {
        job: job.head.id,
        forgotten: Some(of_job.forgotten_epoch).filter(|epoch| *epoch > 0).map(JobEpoch),
        leases: leases.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use grid_types::NodeOrd;

    use super::super::sessions::Session;
    use super::{Page, lost_page, takes_page};

    #[test]
    fn e2_after_a_lost_page_the_rest_of_the_answer_is_dropped_and_asked_for_again() {
        let session = &mut Session::new(NodeOrd(1), 0, 0);
        session.asked_journal_mono_ms = Some(7);
        assert!(takes_page(session, Page::Further));
        lost_page(session, Page::Further);
        assert!(!takes_page(session, Page::Further));
        assert_eq!(session.asked_journal_mono_ms, Some(7), "the worker is still answering");
        assert!(!takes_page(session, Page::Last), "it would complete an answer that has a gap");
        assert_eq!(session.asked_journal_mono_ms, None, "asked again with the next message");
        assert!(takes_page(session, Page::Further) && takes_page(session, Page::Last));
        lost_page(session, Page::Last);
        assert!(takes_page(session, Page::Further), "nothing of that answer is left to drop");
    }
}
