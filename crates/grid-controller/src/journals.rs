//! Asks workers what their journals know about jobs that a restore brought back (E2).
//!
//! The question goes out with the registration, so that the answer is in the worker's first message, before it asks to
//! start anything. It is asked again while no answer was recorded: it may have been lost with a stream or a leader.
//! Not here: what the answer means (`grid-core`).

use grid_core::{JournalOfJob, Node, RanEnd, ReportJournal, State};
use grid_proto::v1;
use grid_types::{JobEpoch, JobId, NodeOrd, Outcome, SessionId};

use crate::sessions::Session;

const ASK_AGAIN_MS: u64 = 5_000;

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

/// An answer as the log carries it.
pub fn command(node: NodeOrd, session: SessionId, report: v1::JournalReport) -> ReportJournal {
    ReportJournal {
        node,
        session,
        dropped_to: JobId(report.dropped_to),
        newest: JobId(report.newest),
        jobs: report.jobs.into_iter().map(of_job).collect(),
        is_last: report.is_last,
    }
}

fn of_job(of_job: v1::JobJournal) -> JournalOfJob {
    let leases = of_job.leases.into_iter().filter_map(|named| {
        let end = named.ended().outcome().map(|outcome: Outcome| RanEnd {
            outcome,
            error: (!named.error.is_empty()).then(|| named.error.clone()),
            duration_ms: named.duration_ms,
            started_wall_ms: named.started_at_ms,
            output_bytes: named.output_bytes,
        });
        Some((named.lease?.into(), end))
    });
    JournalOfJob {
        job: JobId(of_job.job_id),
        forgotten: Some(of_job.forgotten_epoch).filter(|epoch| *epoch > 0).map(JobEpoch),
        leases: leases.collect(),
    }
}
