//! Keeps the outcomes of jobs for which the leader has sent `Forget` (W2).
//!
//! A controller that is restored from an older backup asks about such jobs again (E2), so their leases stay for 24 h after the
//! `Forget`. Each job has a tombstone, which is how far it was forgotten; the leases are beside it as long as there is room.
//! The tombstone says up to which epoch leases were dropped, and only those may have run without being named.
//! Not here: the bound on all settled leases (`Book::bound_memory`), the mark that is left when a tombstone goes
//! (`Book::note_dropped`).

use std::collections::BTreeMap;

use grid_types::{JobEpoch, JobId, LeaseKey};

use super::TOMBSTONE_MS;
use super::entry::Settled;
use super::offers::of_job;
use crate::engine::record::{Ended, Record};

/// Of the error text of a kept lease. The leader has stored all of it; this is for a leader that lost it.
const KEPT_ERROR_BYTES: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Forgotten {
    tombstones: BTreeMap<JobId, Tombstone>,
    /// All of them are covered by the tombstone of their job.
    leases: BTreeMap<LeaseKey, Settled>,
}

#[derive(Debug, Clone, Copy)]
struct Tombstone {
    /// The leases up to this epoch are forgotten.
    epoch: JobEpoch,
    /// Of leases up to this epoch some were dropped; 0: of none.
    dropped_epoch: JobEpoch,
    /// By the wall clock, for a reader of the journal; nothing depends on it.
    at_ms: u64,
    /// When this process first counted it.
    since_mono_ms: Option<u64>,
}

impl Forgotten {
    /// The job is forgotten up to `epoch`, and `leases` are what is known of it.
    pub(super) fn bury(&mut self, job: JobId, epoch: JobEpoch, at_ms: u64, leases: Vec<(LeaseKey, Settled)>) {
        let new = Tombstone { epoch, dropped_epoch: JobEpoch(0), at_ms, since_mono_ms: None };
        let tombstone = self.tombstones.entry(job).or_insert(new);
        let (epoch, dropped_epoch) = (tombstone.epoch.max(epoch), tombstone.dropped_epoch);
        *tombstone = Tombstone { epoch, dropped_epoch, ..new };
        self.leases.extend(leases.into_iter().map(|(lease, settled)| (lease, shortened(settled))));
    }

    /// Drops what is kept of the job's leases up to `epoch`.
    pub(super) fn drop_leases(&mut self, job: JobId, epoch: JobEpoch) {
        self.leases.extract_if(of_job(job), |lease, _| lease.job_epoch <= epoch).for_each(drop);
        self.note_dropped(job, epoch);
    }

    pub(super) fn covers(&self, lease: &LeaseKey) -> bool {
        self.epoch_of(lease.job) >= Some(lease.job_epoch)
    }

    /// Up to which epoch the job is forgotten.
    pub(super) fn epoch_of(&self, job: JobId) -> Option<JobEpoch> {
        self.tombstones.get(&job).map(|tombstone| tombstone.epoch)
    }

    /// Up to which epoch leases of the job may have run without being kept; 0: all are kept.
    pub(super) fn dropped_epoch_of(&self, job: JobId) -> JobEpoch {
        self.tombstones.get(&job).map_or(JobEpoch(0), |tombstone| tombstone.dropped_epoch)
    }

    pub(super) fn leases_of(&self, job: JobId) -> impl Iterator<Item = (&LeaseKey, &Settled)> {
        self.leases.range(of_job(job))
    }

    pub(super) fn take(&mut self, lease: &LeaseKey) -> Option<Settled> {
        self.leases.remove(lease)
    }

    pub(super) fn newest_job(&self) -> Option<JobId> {
        self.tombstones.last_key_value().map(|(job, _)| *job)
    }

    pub(super) fn lease_count(&self) -> usize {
        self.leases.len()
    }

    #[cfg(test)]
    pub(super) fn job_count(&self) -> usize {
        self.tombstones.len()
    }

    /// Drops the oldest lease; its job keeps the tombstone. Job ids rise with time, so the first key is the oldest.
    pub(super) fn drop_oldest_lease(&mut self) -> bool {
        let Some((lease, _)) = self.leases.pop_first() else { return false };
        self.note_dropped(lease.job, lease.job_epoch);
        true
    }

    /// Drops the oldest jobs beyond `most`. Returns the newest dropped one.
    pub(super) fn drop_jobs_beyond(&mut self, most: usize) -> Option<JobId> {
        let mut dropped = None;
        while self.tombstones.len() > most {
            let Some((job, _)) = self.tombstones.pop_first() else { break };
            self.drop_leases(job, JobEpoch(u32::MAX));
            dropped = Some(job);
        }
        dropped
    }

    /// Drops jobs whose day is over, a whole one again after a restart: only the monotonic clock is believed (W6), and it
    /// does not outlive the process. Returns the newest dropped one.
    pub(super) fn expire(&mut self, mono_ms: u64) -> Option<JobId> {
        let mut expired = Vec::new();
        self.tombstones.retain(|job, tombstone| {
            let since = *tombstone.since_mono_ms.get_or_insert(mono_ms);
            let is_kept = mono_ms.saturating_sub(since) < TOMBSTONE_MS;
            expired.extend((!is_kept).then_some(*job));
            is_kept
        });
        for job in &expired {
            self.drop_leases(*job, JobEpoch(u32::MAX));
        }
        expired.last().copied()
    }

    /// What has to be replayed for this, in order.
    pub(super) fn records(&self) -> impl Iterator<Item = Record> {
        let forgotten = |job, epoch, at_ms, leases_kept| Record::Forgotten { job, epoch, at_ms, leases_kept };
        self.tombstones.iter().flat_map(move |(job, tombstone)| {
            let (dropped_epoch, at_ms) = (tombstone.dropped_epoch, tombstone.at_ms);
            // Before the leases that are kept, because it drops those that are replayed earlier.
            let dropped = (dropped_epoch.0 > 0).then(|| forgotten(*job, dropped_epoch, at_ms, false));
            let leases = self.leases_of(*job).flat_map(|(lease, settled)| settled.records(*lease));
            dropped.into_iter().chain(leases).chain([forgotten(*job, tombstone.epoch, at_ms, true)])
        })
    }

    fn note_dropped(&mut self, job: JobId, epoch: JobEpoch) {
        if let Some(tombstone) = self.tombstones.get_mut(&job) {
            tombstone.dropped_epoch = tombstone.dropped_epoch.max(epoch);
        }
    }
}

fn shortened(settled: Settled) -> Settled {
    let ended = settled.ended.map(|ended| {
        let cut = ended.error.floor_char_boundary(KEPT_ERROR_BYTES);
        let error = ended.error[..cut].to_owned();
        Ended { error, ..ended }
    });
    Settled { ended, ..settled }
}
