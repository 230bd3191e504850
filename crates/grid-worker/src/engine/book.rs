//! Keeps the state of every lease of this worker and decides what to do next for each. Synchronous, no I/O.
//!
//! ```text
//!            offer                   on disk         granted (once)
//!   (none) --------> Queued --> Starting --> Asking --------> Running --> Over --final answer--> settled --Forget--> forgotten
//!      |                \           \          \                 |          ^
//!      '---- revoke -----+-----------+----------+--> Over        '-- stop --'
//! ```
//!
//! Each call changes the book and leaves [`Effects`]: records for the journal first, then leases to start and to stop, and
//! outputs that nobody needs here any more.
//! The caller writes the records before it does the rest, and reports each sync with [`Book::synced`].
//!
//! - W2 nothing runs that is stale, revoked or already known. A revoke counts for its lease, not for the whole (job,
//!   job_epoch): a timed-out job revokes leases and still runs its `on_failure` steps in the same epoch. A lease of an
//!   older epoch than the newest known of its job counts as revoked.
//! - W3 a `once` lease starts only when that is on disk and the leader has recorded it, and is reported only when its
//!   outcome is on disk.
//! - W7 one lease of a job at a time, `slots` leases in all; the rest wait in order.
//!
//! Not here: sessions and reconnecting (`engine`), running (`run`), files (`data_dir::journal`).
//! The book keeps a bounded memory: the outcomes of a forgotten job stay for 24 h, and beyond [`MAX_SETTLED`] the oldest
//! leases are dropped, forgotten ones first, then others even if their `Forget` never came, since it is a message that may be lost.

mod begin;
mod entry;
mod forgotten;
mod offers;
mod recall;
mod replay;
mod reports;
mod slots;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use grid_proto::v1;
use grid_types::decl::EffectClass;
use grid_types::{JobId, LeaderEpoch, LeaseKey, SessionId};

use crate::engine::record::{Ended, Group, Record, Status};
use entry::{Entry, Phase, Settled};
use forgotten::Forgotten;
pub use offers::Received;
pub use reports::Heartbeat;

/// Settled leases, forgotten or not, and tombstones of forgotten jobs.
pub const MAX_SETTLED: usize = 50_000;
/// W2: how long a forgotten job is still known.
pub const TOMBSTONE_MS: u64 = 24 * 3600 * 1000;

/// What a lease is to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    pub lease: LeaseKey,
    /// As it came; checked before it runs.
    pub offer: v1::Offer,
    pub started_at_ms: u64,
    /// W3: on the monotonic clock; after this it does not start but asks again.
    pub start_by_mono_ms: Option<u64>,
}

/// What happened to a lease that was started.
#[derive(Debug)]
pub enum LeaseEvent {
    Forked {
        lease: LeaseKey,
        group: Group,
    },
    /// It did not start: what allowed it to is too old (W3).
    Late {
        work: Work,
    },
    /// Nothing of it runs any more.
    Ended {
        lease: LeaseKey,
        ended: Ended,
        /// The last bytes of its output.
        tail: Vec<u8>,
    },
}

/// What the caller has to do, in this order.
#[derive(Debug, Default, PartialEq)]
pub struct Effects {
    pub records: Vec<Record>,
    /// The records matter to somebody who waits: sync, then call [`Book::synced`] with [`Book::written`].
    pub sync: bool,
    pub start: Vec<Work>,
    pub stop: Vec<LeaseKey>,
    /// Their outputs are stored whole by the leader and need not be kept.
    pub discard: Vec<LeaseKey>,
    /// Their outputs, if they are in memory only, are stored by nobody else.
    pub keep: Vec<LeaseKey>,
}

/// Both clocks, read once per event (W6).
#[derive(Debug, Clone, Copy, Default)]
pub struct Now {
    pub mono_ms: u64,
    pub wall_ms: u64,
}

/// A lease whose run was cut off by the end of an earlier process of this worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interrupted {
    pub lease: LeaseKey,
    pub groups: Vec<Group>,
}

#[derive(Debug)]
pub struct Book {
    slots: usize,
    session: SessionId,
    /// Highest ever obeyed.
    epoch: LeaderEpoch,
    accepts_offers: bool,
    /// Asked to stop at once.
    starts_nothing: bool,
    /// Outstanding leases (W5).
    leases: BTreeMap<LeaseKey, Entry>,
    settled: BTreeMap<LeaseKey, Settled>,
    forgotten: Forgotten,
    /// Ran when the earlier process ended, and not outstanding any more; with when they had started.
    interrupted: BTreeMap<LeaseKey, u64>,
    /// Wait for a slot or for another lease of their job.
    queue: VecDeque<LeaseKey>,
    /// Starting or running.
    active: BTreeMap<JobId, LeaseKey>,
    /// Wait for the disk, in order of their record.
    awaiting_sync: VecDeque<(u64, LeaseKey)>,
    written: u64,
    on_disk: u64,
    due: BTreeSet<LeaseKey>,
    /// Reported but not answered, or answered with Retry.
    again_at: BTreeSet<(u64, LeaseKey)>,
    accepted: BTreeSet<LeaseKey>,
    list_asked: bool,
    /// Its first message is still to come.
    session_is_new: bool,
    /// The highest job of which anything was ever dropped (W2).
    dropped_to: JobId,
    /// Restored jobs about which the leader wants to know (E2).
    asked_about: BTreeSet<JobId>,
    effects: Effects,
}

impl Book {
    #[must_use]
    pub fn new(slots: u32) -> Self {
        Self {
            slots: usize::try_from(slots).unwrap_or(usize::MAX).max(1),
            session: SessionId(0),
            epoch: LeaderEpoch::default(),
            accepts_offers: true,
            starts_nothing: false,
            leases: BTreeMap::new(),
            settled: BTreeMap::new(),
            forgotten: Forgotten::default(),
            interrupted: BTreeMap::new(),
            queue: VecDeque::new(),
            active: BTreeMap::new(),
            awaiting_sync: VecDeque::new(),
            written: 0,
            on_disk: 0,
            due: BTreeSet::new(),
            again_at: BTreeSet::new(),
            accepted: BTreeSet::new(),
            list_asked: false,
            session_is_new: false,
            dropped_to: JobId(0),
            asked_about: BTreeSet::new(),
            effects: Effects::default(),
        }
    }

    /// What has to be done now. Call until it is empty.
    pub fn take_effects(&mut self) -> Effects {
        std::mem::take(&mut self.effects)
    }

    /// How many records were ever handed out.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    #[must_use]
    pub fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    #[must_use]
    pub fn outstanding_count(&self) -> usize {
        self.leases.len()
    }

    /// Leases that run; others may still wait for a leader's permission to start.
    #[must_use]
    pub fn running_count(&self) -> usize {
        self.leases.values().filter(|entry| matches!(entry.phase, Phase::Running)).count()
    }

    /// Leases of which something runs, or is about to.
    #[must_use]
    pub fn active_count(&self) -> usize {
        self.active.len()
    }

    /// What the journal and the queue have, for the registration (W1).
    pub fn outstanding(&self) -> impl Iterator<Item = LeaseKey> {
        self.leases.keys().copied()
    }

    /// Of those outstanding, what this process has not started: if one of them has begun, another process began it (W3).
    pub fn unstarted(&self) -> impl Iterator<Item = LeaseKey> {
        let unstarted = |entry: &Entry| matches!(entry.phase, Phase::Queued(_) | Phase::Starting(_) | Phase::Asking(_));
        self.leases.iter().filter(move |(_, entry)| unstarted(entry)).map(|(lease, _)| *lease)
    }

    /// Whether the journal knows that the lease has ended: what it left running, it left on purpose.
    #[must_use]
    pub fn has_ended(&self, lease: &LeaseKey) -> bool {
        match self.leases.get(lease) {
            Some(entry) => entry.ended.is_some(),
            None => self.settled.contains_key(lease) || self.forgotten.covers(lease) || lease.job <= self.dropped_to,
        }
    }

    #[must_use]
    pub fn holds(&self, lease: &LeaseKey) -> bool {
        self.leases.contains_key(lease)
    }

    /// Registered again: everything unanswered is reported again, under the epoch of this session. `false`: this leader
    /// is older than one this worker has already obeyed.
    #[must_use]
    pub fn begin_session(&mut self, session: SessionId, epoch: LeaderEpoch) -> bool {
        if !self.obey(epoch) {
            return false;
        }
        self.session = session;
        self.again_at.clear();
        self.accepted.clear();
        self.due.clear();
        for (lease, entry) in &mut self.leases {
            entry.again_at_ms = None;
            if entry.has_news() && entry.waits_for <= self.on_disk {
                self.due.insert(*lease);
            }
        }
        self.list_asked = true;
        self.session_is_new = true;
        self.asked_about.clear();
        true
    }

    /// E2: the leader was restored from a backup and asks what the journal knows about these jobs.
    pub fn ask_about(&mut self, jobs: &[u64]) {
        self.asked_about.extend(jobs.iter().map(|job| JobId(*job)));
    }

    /// From now on offers are ignored; what is outstanding goes on.
    pub fn refuse_offers(&mut self) {
        self.accepts_offers = false;
    }

    /// Takes what happened to a lease that was started.
    pub fn happened(&mut self, event: LeaseEvent, now: Now) {
        match event {
            LeaseEvent::Forked { lease, group } => self.forked(lease, group),
            LeaseEvent::Ended { lease, ended, tail } => self.ended(lease, ended, tail, now),
            LeaseEvent::Late { work } => self.started_late(work, now),
        }
    }

    pub fn forked(&mut self, lease: LeaseKey, group: Group) {
        if let Some(entry) = self.leases.get_mut(&lease) {
            entry.groups.push(group);
            self.write(Record::Forked { lease, group });
        }
    }

    /// Nothing of the lease runs any more. Cancelled without a revoke: the worker itself was asked to stop.
    pub fn ended(&mut self, lease: LeaseKey, mut ended: Ended, tail: Vec<u8>, now: Now) {
        let running = self.leases.get_mut(&lease).filter(|entry| matches!(entry.phase, Phase::Running));
        let Some(entry) = running else { return };
        if ended.status == Status::Cancelled && !entry.revoked {
            // A killed `once` step may have done half of its work: never retried by itself (W8).
            let once = entry.effect == EffectClass::Once;
            ended.status = if once { Status::Unknown } else { Status::Failed };
            "the worker was stopped while it ran".clone_into(&mut ended.error);
        }
        entry.finish(Some(ended.clone()), tail);
        let durable = entry.effect == EffectClass::Once || entry.revoked;
        let output = entry.whole_output();
        self.write(Record::Ended { lease, ended, output });
        if durable {
            self.after_sync(lease);
        } else {
            self.say(lease);
        }
        self.leave_slot(lease, now);
    }

    /// Everything up to record `number` is on disk.
    pub fn synced(&mut self, number: u64) {
        self.on_disk = self.on_disk.max(number);
        while let Some((_, lease)) = self.awaiting_sync.pop_front_if(|(waits_for, _)| *waits_for <= number) {
            let ready = self.leases.get_mut(&lease).filter(|entry| entry.waits_for <= number);
            let Some(entry) = ready else { continue };
            match std::mem::replace(&mut entry.phase, Phase::Over) {
                Phase::Starting(work) => {
                    entry.phase = Phase::Asking(work);
                    self.due.insert(lease);
                }
                Phase::Over => {
                    self.due.insert(lease);
                }
                other @ (Phase::Queued(_) | Phase::Asking(_) | Phase::Running) => entry.phase = other,
            }
        }
    }

    fn write(&mut self, record: Record) {
        self.written += 1;
        self.effects.records.push(record);
    }

    /// The lease goes on when everything written so far is on disk.
    fn after_sync(&mut self, lease: LeaseKey) {
        self.effects.sync = true;
        self.due.remove(&lease);
        if let Some(entry) = self.leases.get_mut(&lease) {
            entry.waits_for = self.written;
            self.awaiting_sync.push_back((self.written, lease));
        }
    }

    /// Said as soon as there is a session, or when the disk is ready.
    fn say(&mut self, lease: LeaseKey) {
        let Some(entry) = self.leases.get(&lease) else { return };
        if entry.has_news() && entry.waits_for <= self.on_disk {
            self.due.insert(lease);
        }
    }

    fn say_again_at(&mut self, lease: LeaseKey, at_ms: u64) {
        let Some(entry) = self.leases.get_mut(&lease) else { return };
        if let Some(before) = entry.again_at_ms.replace(at_ms) {
            self.again_at.remove(&(before, lease));
        }
        self.again_at.insert((at_ms, lease));
    }

    /// Takes a lease out of everything that refers to it.
    fn remove(&mut self, lease: LeaseKey) -> Option<Entry> {
        let entry = self.leases.remove(&lease)?;
        self.due.remove(&lease);
        self.accepted.remove(&lease);
        if let Some(at_ms) = entry.again_at_ms {
            self.again_at.remove(&(at_ms, lease));
        }
        Some(entry)
    }

    /// Over without having run.
    fn over_at_once(&mut self, lease: LeaseKey, ended: Ended) {
        let entry = self.leases.entry(lease).or_insert_with(Entry::unseen);
        entry.finish(Some(ended.clone()), Vec::new());
        self.write(Record::Ended { lease, ended, output: Vec::new() });
        self.after_sync(lease);
    }

    /// W2: epochs rise. `false`: from a deposed leader.
    fn obey(&mut self, epoch: LeaderEpoch) -> bool {
        if epoch > self.epoch {
            self.epoch = epoch;
            self.write(Record::Epoch(epoch));
        }
        epoch == self.epoch
    }
}
