//! The book across restarts: from the journal's records and back, and how much of the past is kept.

use grid_types::decl::EffectClass;
use grid_types::{JobId, LeaseKey};

use super::entry::{Entry, Phase, Settled};
use super::offers::of_job;
use super::{Book, Interrupted, MAX_SETTLED, TOMBSTONE_MS, Tombstone};
use crate::journal::{Ended, Record, Status};

impl Book {
    /// Takes one record of an earlier process.
    pub fn replay(&mut self, record: Record) {
        match record {
            Record::Epoch(epoch) => self.epoch = self.epoch.max(epoch),
            Record::Started { lease, effect, at_ms } => {
                let mut entry = Entry::new(Phase::Running, effect);
                entry.started_at_ms = at_ms;
                self.leases.insert(lease, entry);
            }
            Record::Forked { lease, group } => {
                if let Some(entry) = self.leases.get_mut(&lease) {
                    entry.groups.push(group);
                }
            }
            Record::Ended { lease, ended } => {
                let entry = self.leases.entry(lease).or_insert_with(Entry::unseen);
                entry.finish(Some(ended), Vec::new());
                entry.tail = None;
            }
            Record::Revoked { lease } => {
                if let Some(settled) = self.settled.remove(&lease) {
                    self.leases.insert(lease, settled.reopen());
                }
                self.leases.entry(lease).or_insert_with(Entry::unseen).revoked = true;
            }
            Record::Unstarted { lease } => drop(self.leases.remove(&lease)),
            Record::Settled { lease, at_ms } => {
                // Without an entry it was reopened, which is not recorded, and settled again: what is known of it stays.
                let settled = match self.leases.remove(&lease) {
                    Some(entry) => Settled { ended: entry.ended, revoked: entry.revoked, at_ms },
                    None => match self.settled.remove(&lease) {
                        Some(known) => Settled { at_ms, ..known },
                        None => Settled { ended: None, revoked: true, at_ms },
                    },
                };
                self.settled.insert(lease, settled);
            }
            Record::Forgotten { job, epoch, at_ms } => {
                self.leases.retain(|lease, entry| lease.job != job || lease.job_epoch > epoch || !entry.is_over());
                let settled = self.settled.range(of_job(job)).map(|(lease, _)| *lease);
                let gone: Vec<LeaseKey> = settled.filter(|lease| lease.job_epoch <= epoch).collect();
                for lease in gone {
                    self.settled.remove(&lease);
                }
                self.bury(job, Tombstone { epoch, at_ms, since_mono_ms: None });
            }
            Record::Dropped { up_to } => self.dropped_to = self.dropped_to.max(up_to),
        }
    }

    /// Leases that were running when the earlier process ended. Their processes have to be gone before
    /// [`Book::recover`] is called.
    pub fn interrupted(&self) -> Vec<Interrupted> {
        let running = self.leases.iter().filter(|(_, entry)| matches!(entry.phase, Phase::Running));
        running.map(|(lease, entry)| Interrupted { lease: *lease, groups: entry.groups.clone() }).collect()
    }

    /// W3: `once` becomes unknown, what was being stopped is stopped now, and the rest is forgotten: the leader sees that
    /// it is not held and offers it again.
    pub fn recover(&mut self) {
        for Interrupted { lease, .. } in self.interrupted() {
            let Some(entry) = self.leases.get_mut(&lease) else { continue };
            let (status, error) = match (entry.revoked, entry.effect) {
                (true, _) => (Status::Cancelled, ""),
                (false, EffectClass::Once) => (Status::Unknown, "worker restarted while it ran"),
                (false, EffectClass::Pure | EffectClass::Idempotent) => {
                    self.interrupted.insert(lease, entry.started_at_ms);
                    self.leases.remove(&lease);
                    continue;
                }
            };
            let ended = Ended::without_run(status, error, entry.started_at_ms);
            self.over_at_once(lease, ended);
        }
        // What lies in the file may never have been synced by the process that wrote it: it counts as one more record,
        // and nothing is said before that is on disk.
        self.written += 1;
        let held: Vec<_> = self.leases.keys().copied().collect();
        for lease in held {
            self.after_sync(lease);
        }
    }

    /// The whole book as records, for compaction.
    pub fn snapshot(&self) -> impl Iterator<Item = Record> {
        let dropped = Some(self.dropped_to).filter(|job| job.0 > 0).map(|up_to| Record::Dropped { up_to });
        let epoch = std::iter::once(Record::Epoch(self.epoch)).chain(dropped);
        let tombstones = self.tombstones.iter().map(|(job, tombstone)| Record::Forgotten {
            job: *job,
            epoch: tombstone.epoch,
            at_ms: tombstone.at_ms,
        });
        let settled = self.settled.iter().flat_map(|(lease, settled)| {
            let settled_at = Record::Settled { lease: *lease, at_ms: settled.at_ms };
            past(*lease, settled.ended.as_ref(), settled.revoked).into_iter().chain([settled_at])
        });
        epoch.chain(tombstones).chain(settled).chain(self.leases.iter().flat_map(|(lease, entry)| held(*lease, entry)))
    }

    /// W2: tombstones last a day, a whole one again after a restart: only the monotonic clock is believed (W6), and it does
    /// not outlive the process. Their number is bounded anyway. Call now and then.
    pub fn expire(&mut self, mono_ms: u64) {
        let mut dropped = None;
        self.tombstones.retain(|job, tombstone| {
            let since = *tombstone.since_mono_ms.get_or_insert(mono_ms);
            let is_kept = mono_ms.saturating_sub(since) < TOMBSTONE_MS;
            dropped = dropped.max((!is_kept).then_some(*job));
            is_kept
        });
        self.note_dropped(dropped);
    }

    /// W2: after a restore a lease that is not in the journal counts as never run only above this mark.
    fn note_dropped(&mut self, job: Option<JobId>) {
        if let Some(up_to) = job.filter(|job| *job > self.dropped_to) {
            self.dropped_to = up_to;
            self.write(Record::Dropped { up_to });
        }
    }

    pub(super) fn bury(&mut self, job: JobId, tombstone: Tombstone) {
        let epoch = self.tombstones.get(&job).map_or(tombstone.epoch, |old| old.epoch.max(tombstone.epoch));
        self.tombstones.insert(job, Tombstone { epoch, ..tombstone });
    }

    pub(super) fn bound_memory(&mut self) {
        // Job ids rise with time, so the first keys are the oldest.
        let mut dropped = None;
        while self.settled.len() > MAX_SETTLED {
            dropped = dropped.max(self.settled.pop_first().map(|(lease, _)| lease.job));
        }
        while self.tombstones.len() > MAX_SETTLED {
            dropped = dropped.max(self.tombstones.pop_first().map(|(job, _)| job));
        }
        self.note_dropped(dropped);
    }
}

fn past(lease: LeaseKey, ended: Option<&Ended>, revoked: bool) -> Vec<Record> {
    let ended = ended.map(|ended| Record::Ended { lease, ended: ended.clone() });
    ended.into_iter().chain(revoked.then_some(Record::Revoked { lease })).collect()
}

fn held(lease: LeaseKey, entry: &Entry) -> Vec<Record> {
    let mut records = Vec::new();
    if matches!(entry.phase, Phase::Starting(_) | Phase::Asking(_) | Phase::Running) {
        records.push(Record::Started { lease, effect: entry.effect, at_ms: entry.started_at_ms });
        records.extend(entry.groups.iter().map(|group| Record::Forked { lease, group: *group }));
    }
    records.extend(past(lease, entry.ended.as_ref(), entry.revoked));
    records
}
