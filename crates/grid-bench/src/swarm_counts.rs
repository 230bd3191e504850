//! Counts what the sessions of a swarm have seen.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// The counts of all sessions so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub sessions: u64,
    /// Leases run: each once, however often it was offered.
    pub runs: u64,
    /// Results that the leader reported as committed.
    pub committed: u64,
    /// Results that the leader no longer needed.
    pub superseded: u64,
    /// Offers of leases that had run already.
    pub offered_again: u64,
}

#[derive(Debug, Default)]
pub struct Counters {
    pub sessions: AtomicU64,
    pub runs: AtomicU64,
    pub committed: AtomicU64,
    pub superseded: AtomicU64,
    pub offered_again: AtomicU64,
}

impl Counters {
    pub fn read(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            sessions: read(&self.sessions),
            runs: read(&self.runs),
            committed: read(&self.committed),
            superseded: read(&self.superseded),
            offered_again: read(&self.offered_again),
        }
    }
}
