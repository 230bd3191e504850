//! Chooses the leases that start next (W7): one lease of a job at a time, `slots` leases in all, oldest first.

use grid_types::LeaseKey;
use grid_types::decl::EffectClass;

use super::entry::Phase;
use super::{Book, Now};
use crate::engine::record::{Ended, Record, Status};

impl Book {
    /// Ends everything at once: what runs is stopped, what waits fails without having run.
    pub fn stop_all(&mut self, now: Now) {
        self.accepts_offers = false;
        self.starts_nothing = true;
        self.queue.clear();
        let mut unstarted = Vec::new();
        for (lease, entry) in &self.leases {
            match entry.phase {
                Phase::Running => self.effects.stop.push(*lease),
                Phase::Queued(_) | Phase::Starting(_) | Phase::Asking(_) => unstarted.push(*lease),
                Phase::Over => {}
            }
        }
        for lease in unstarted {
            self.give_up_unstarted(lease, now);
        }
    }

    /// It did not start, and will not.
    pub(super) fn give_up_unstarted(&mut self, lease: LeaseKey, now: Now) {
        let error = "the worker was stopped before it started";
        self.over_at_once(lease, Ended::without_run(Status::Failed, error, now.wall_ms));
        self.leave_slot(lease, now);
    }

    pub(super) fn leave_slot(&mut self, lease: LeaseKey, now: Now) {
        if self.active.get(&lease.job) == Some(&lease) {
            self.active.remove(&lease.job);
        }
        self.fill_slots(now);
    }

    /// W7: starts what may start, oldest first.
    pub(super) fn fill_slots(&mut self, now: Now) {
        let mut at = 0;
        while at < self.queue.len() && self.active.len() < self.slots {
            let lease = self.queue[at];
            if self.active.contains_key(&lease.job) {
                at += 1;
                continue;
            }
            self.queue.remove(at);
            self.start(lease, now);
        }
    }

    fn start(&mut self, lease: LeaseKey, now: Now) {
        let Some(entry) = self.leases.get_mut(&lease) else { return };
        let Phase::Queued(mut work) = std::mem::replace(&mut entry.phase, Phase::Running) else { return };
        let effect = entry.effect;
        work.started_at_ms = now.wall_ms;
        entry.started_at_ms = now.wall_ms;
        self.active.insert(lease.job, lease);
        if effect == EffectClass::Once {
            entry.phase = Phase::Starting(work);
            self.write(Record::Started { lease, effect, at_ms: now.wall_ms });
            self.after_sync(lease);
        } else {
            self.write(Record::Started { lease, effect, at_ms: now.wall_ms });
            self.effects.start.push(*work);
        }
    }
}
