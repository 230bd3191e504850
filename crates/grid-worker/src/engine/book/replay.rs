//! Rebuilds the book from the journal's records, writes them again for compaction, and limits how much of the past is kept.

use grid_types::decl::EffectClass;
use grid_types::{JobEpoch, JobId, LeaseKey};

use super::entry::{Entry, Phase, Settled, outcome};
use super::offers::of_job;
use super::{Book, Interrupted, MAX_SETTLED};
use crate::engine::record::{Ended, Record, Status};

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
            Record::Ended { lease, ended, output } => {
                let entry = self.leases.entry(lease).or_insert_with(Entry::unseen);
                let is_in_file = output.len() as u64 != ended.output_bytes;
                entry.finish(Some(ended), output);
                if is_in_file {
                    entry.tail = None;
                }
            }
            Record::Revoked { lease } => {
                if let Some(settled) = self.take_settled(&lease) {
                    self.leases.insert(lease, settled.reopen());
                }
                self.leases.entry(lease).or_insert_with(Entry::unseen).revoked = true;
            }
            Record::Unstarted { lease } => drop(self.leases.remove(&lease)),
            Record::Settled { lease, at_ms } => {
                // Without an entry it was reopened, which is not recorded, and settled again: what is known of it stays.
                let settled = match self.leases.remove(&lease) {
                    Some(entry) => entry.settled(at_ms),
                    None => match self.take_settled(&lease) {
                        Some(known) => Settled { at_ms, ..known },
                        None => Settled { ended: None, revoked: true, at_ms },
                    },
                };
                self.settled.insert(lease, settled);
            }
            Record::Forgotten { job, epoch, at_ms, leases_kept } => {
                let over = self.leases.range(of_job(job)).filter(|(_, entry)| entry.is_over()).map(|(lease, _)| *lease);
                let over: Vec<LeaseKey> = over.filter(|lease| lease.job_epoch <= epoch).collect();
                for lease in over {
                    let entry = self.leases.remove(&lease);
                    self.settled.extend(entry.map(|entry| (lease, entry.settled(at_ms))));
                }
                self.bury(job, epoch, at_ms);
                if !leases_kept {
                    self.forgotten.drop_leases(job, epoch);
                }
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
    /// it is not outstanding and offers it again.
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
        let outstanding: Vec<_> = self.leases.keys().copied().collect();
        for lease in outstanding {
            self.after_sync(lease);
        }
    }

    /// Outputs that no file has, with when their leases started.
    pub fn outputs(&self) -> impl Iterator<Item = (LeaseKey, u64, Vec<u8>)> {
        let output = |(lease, entry): (&LeaseKey, &Entry)| (*lease, entry.started_at_ms, entry.whole_output());
        self.leases.iter().map(output).filter(|(_, _, output)| !output.is_empty())
    }

    /// The whole book as records, for compaction.
    pub fn snapshot(&self) -> impl Iterator<Item = Record> {
        let dropped = Some(self.dropped_to).filter(|job| job.0 > 0).map(|up_to| Record::Dropped { up_to });
        let epoch = std::iter::once(Record::Epoch(self.epoch)).chain(dropped);
        let settled = self.settled.iter().flat_map(|(lease, settled)| settled.records(*lease));
        let outstanding = self.leases.iter().flat_map(|(lease, entry)| outstanding(*lease, entry));
        // What is settled after the `Forget` of its job, because the leader asked again, comes after it.
        epoch.chain(self.forgotten.records()).chain(settled).chain(outstanding)
    }

    /// W2: forgotten jobs last a day, and their number is bounded anyway. Call now and then.
    pub fn expire(&mut self, mono_ms: u64) {
        let dropped = self.forgotten.expire(mono_ms);
        self.note_dropped(dropped);
    }

    /// W2: after a restore a lease that is not in the journal counts as never run only above this mark.
    fn note_dropped(&mut self, job: Option<JobId>) {
        if let Some(up_to) = job.filter(|job| *job > self.dropped_to) {
            self.dropped_to = up_to;
            self.write(Record::Dropped { up_to });
        }
    }

    /// Moves what is settled of the job up to `epoch` to the forgotten leases.
    pub(super) fn bury(&mut self, job: JobId, epoch: JobEpoch, at_ms: u64) {
        let is_buried = |lease: &LeaseKey, _: &mut Settled| lease.job_epoch <= epoch;
        let leases = self.settled.extract_if(of_job(job), is_buried).collect();
        self.forgotten.bury(job, epoch, at_ms, leases);
    }

    pub(super) fn bound_memory(&mut self) {
        let mut dropped = None;
        while self.settled.len() + self.forgotten.lease_count() > MAX_SETTLED {
            if !self.forgotten.drop_oldest_lease() {
                // Job ids rise with time, so the first keys are the oldest.
                dropped = dropped.max(self.settled.pop_first().map(|(lease, _)| lease.job));
            }
        }
        dropped = dropped.max(self.forgotten.drop_jobs_beyond(MAX_SETTLED));
        self.note_dropped(dropped);
    }
}

fn outstanding(lease: LeaseKey, entry: &Entry) -> Vec<Record> {
    let mut records = Vec::new();
    if matches!(entry.phase, Phase::Starting(_) | Phase::Asking(_) | Phase::Running) {
        records.push(Record::Started { lease, effect: entry.effect, at_ms: entry.started_at_ms });
        records.extend(entry.groups.iter().map(|group| Record::Forked { lease, group: *group }));
    }
    records.extend(outcome(lease, entry.ended.as_ref(), entry.whole_output(), entry.revoked));
    records
}
