//! Decides whether a `once` lease may start (W3).
//!
//! ```text
//!   Asking --granted, within 10 s of asking--> Running --too late to start--.
//!     ^  \--refused--> Over, as if it had been revoked; withdrawn--> (none)  |
//!     '-----------------too late, no answer, leader unsure------------------'
//! ```
//!
//! An answer says what was true when the question was asked, so it counts for 10 s from there, on the monotonic clock: a
//! process that was stopped meanwhile asks again, and another may have taken its place. The answer carries the time of its
//! question, because an answer to an earlier one may come after a later one was asked.
//! A new session asks again, for the same reason (`begin_session`); the leader grants it to the same process again.

use grid_proto::v1;
use grid_types::LeaseKey;

use super::entry::Phase;
use super::{Book, Now, Work};
use crate::engine::record::Record;

/// How long after its question an answer counts; without an answer the question is asked again after this.
pub(super) const GRANT_MS: u64 = 10_000;
/// After which a leader that could not say is asked again.
const ASK_AGAIN_MS: u64 = 200;

impl Book {
    pub(super) fn begun(&mut self, lease: LeaseKey, kind: v1::BeginKind, asked_ms: u64, now: Now) {
        use v1::BeginKind::{AskAgain, Granted, Refused, Unspecified, Withdrawn};
        let Some(entry) = self.leases.get_mut(&lease) else { return };
        if !matches!(entry.phase, Phase::Asking(_)) {
            return;
        }
        match kind {
            Granted if now.mono_ms.checked_sub(asked_ms).is_some_and(|age_ms| age_ms <= GRANT_MS) => {
                if let Phase::Asking(mut work) = std::mem::replace(&mut entry.phase, Phase::Running) {
                    work.start_by_mono_ms = Some(asked_ms + GRANT_MS);
                    self.effects.start.push(*work);
                }
                self.due.remove(&lease);
                self.say_no_more(lease);
            }
            Granted => drop(self.due.insert(lease)),
            // It was revoked, superseded or given to another process: it never starts here.
            Refused => self.revoke(lease, now),
            Withdrawn => {
                self.remove(lease);
                self.write(Record::Unstarted { lease });
                self.leave_slot(lease, now);
            }
            AskAgain => self.say_again_at(lease, now.mono_ms + ASK_AGAIN_MS),
            Unspecified => tracing::warn!(%lease, "an answer of no known kind is ignored"),
        }
    }

    /// A lease that was to start did not: too much time had passed since it was granted.
    pub fn started_late(&mut self, work: Work, now: Now) {
        let lease = work.lease;
        let Some(entry) = self.leases.get_mut(&lease).filter(|entry| matches!(entry.phase, Phase::Running)) else {
            return;
        };
        if entry.revoked {
            entry.phase = Phase::Over;
            self.after_sync(lease);
            self.leave_slot(lease, now);
        } else if self.starts_nothing {
            self.give_up_unstarted(lease, now);
        } else {
            entry.phase = Phase::Asking(Box::new(work));
            self.say(lease);
        }
    }

    fn say_no_more(&mut self, lease: LeaseKey) {
        let Some(at_ms) = self.leases.get_mut(&lease).and_then(|entry| entry.again_at_ms.take()) else { return };
        self.again_at.remove(&(at_ms, lease));
    }
}
