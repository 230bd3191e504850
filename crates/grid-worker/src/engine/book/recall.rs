//! Reports to a restored controller what the journal has about jobs that its backup brought back (E2).
//!
//! Everything that is known of an asked job is named: leases that the worker has, leases that were settled, also those that
//! were forgotten since and are still kept, and up to which epoch some of them were dropped. A lease that was revoked before it started is not named, because nothing of it ran; nor is a `once` lease that
//! has not been granted (W3): named, it would count as running, and its `Begin` would be granted while its job is held. What was
//! dropped for good is behind the mark `dropped_to`.

use grid_proto::v1;
use grid_types::{JobId, LeaseKey};
use prost::Message;

use super::Book;
use super::entry::Settled;
use super::offers::of_job;

/// Of one message; a quarter of what a controller accepts.
const PAGE_BYTES: usize = 1024 * 1024;

impl Book {
    /// The next part of the answer, if anything was asked. Every asked job is in it, also one of which nothing is known.
    pub(super) fn recall(&mut self) -> Option<v1::JournalReport> {
        if self.asked_about.is_empty() {
            return None;
        }
        let mut report =
            v1::JournalReport { dropped_to: self.dropped_to.0, newest: self.newest_job().0, ..Default::default() };
        let mut bytes = 0;
        while let Some(job) = self.asked_about.pop_first() {
            let of_job = self.journal_of(job);
            bytes += of_job.encoded_len();
            report.jobs.push(of_job);
            if bytes >= PAGE_BYTES {
                break;
            }
        }
        report.is_last = self.asked_about.is_empty();
        Some(report)
    }

    fn journal_of(&self, job: JobId) -> v1::JobJournal {
        let outstanding = self
            .leases
            .range(of_job(job))
            .filter(|(_, entry)| !entry.must_ask())
            .map(|(lease, _)| v1::JournalLease { lease: Some((*lease).into()), ..Default::default() });
        let settled = self.settled.range(of_job(job)).chain(self.forgotten.leases_of(job));
        let settled = settled.filter_map(|(lease, settled)| ended(lease, settled));
        v1::JobJournal {
            job_id: job.0,
            forgotten_epoch: self.forgotten.dropped_epoch_of(job).0,
            leases: outstanding.chain(settled).collect(),
        }
    }

    fn newest_job(&self) -> JobId {
        let outstanding = self.leases.last_key_value().map(|(lease, _)| lease.job);
        let settled = self.settled.last_key_value().map(|(lease, _)| lease.job);
        outstanding.max(settled).max(self.forgotten.newest_job()).unwrap_or(JobId(0)).max(self.dropped_to)
    }
}

fn ended(lease: &LeaseKey, settled: &Settled) -> Option<v1::JournalLease> {
    let ended = settled.ended.as_ref()?;
    Some(v1::JournalLease {
        lease: Some((*lease).into()),
        ended: v1::LeaseStatus::from(ended.status).into(),
        error: ended.error.clone(),
        duration_ms: ended.duration_ms,
        started_at_ms: ended.started_at_ms,
        output_bytes: ended.output_bytes,
    })
}
