//! What the leader remembers of agents between two questions: soft state, gone with the term.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grid_types::{Code, LeaderEpoch, LeaseKey, NodeOrd};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::control::Refusal;

/// Open questions at once: each holds a connection of the API, and others need some, too.
const MOST_POLLS: usize = 4_096;

pub struct Seats {
    by_node: Mutex<HashMap<NodeOrd, Arc<Seat>>>,
    places: Arc<Semaphore>,
    /// One registration at a time: many questions of a new agent are one agent.
    pub admission: tokio::sync::Mutex<()>,
}

/// One agent.
pub struct Seat {
    epoch: LeaderEpoch,
    /// Rings when something is offered or revoked.
    pub bell: Notify,
    /// One answer is made at a time, so that two questions do not get the same lease.
    pub answering: tokio::sync::Mutex<()>,
    open: AtomicU32,
    heard_mono_ms: AtomicU64,
    told: Mutex<Told>,
}

/// When it was told what, in this term.
#[derive(Default)]
pub struct Told {
    pub given_mono_ms: BTreeMap<LeaseKey, u64>,
    pub revoked_mono_ms: BTreeMap<LeaseKey, u64>,
}

/// While it lives, the agent is there.
pub struct Sitting(Arc<Seat>);

impl Default for Seats {
    fn default() -> Self {
        let (by_node, admission) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { by_node, places: Arc::new(Semaphore::new(MOST_POLLS)), admission }
    }
}

impl Seats {
    pub fn place(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let why = format!("{MOST_POLLS} agents are waiting for work here, the most at once; ask again in a while");
            Refusal::new(Code::QueueFull, why)
        })
    }

    /// Of the term: a new one begins with nothing told.
    pub fn seat(&self, node: NodeOrd, epoch: LeaderEpoch) -> Arc<Seat> {
        let mut seats = self.lock();
        match seats.get(&node) {
            Some(seat) if seat.epoch == epoch => Arc::clone(seat),
            _ => {
                let fresh = Arc::new(Seat::new(epoch));
                seats.insert(node, Arc::clone(&fresh));
                fresh
            }
        }
    }

    pub fn ring(&self, nodes: impl Iterator<Item = NodeOrd>) {
        let seats = self.lock();
        if seats.is_empty() {
            return;
        }
        for seat in nodes.filter_map(|node| seats.get(&node)) {
            seat.bell.notify_waiters();
        }
    }

    /// W1: whether an agent asks now, or did not long ago.
    pub fn lives(&self, node: NodeOrd, now_mono_ms: u64, silent_limit_ms: u64) -> bool {
        self.lock().get(&node).is_some_and(|seat| {
            let silent_ms = now_mono_ms.saturating_sub(seat.heard_mono_ms.load(Ordering::Acquire));
            seat.open.load(Ordering::Acquire) > 0 || silent_ms < silent_limit_ms
        })
    }

    pub fn forget_all(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NodeOrd, Arc<Seat>>> {
        self.by_node.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    fn new(epoch: LeaderEpoch) -> Self {
        Self {
            epoch,
            bell: Notify::new(),
            answering: tokio::sync::Mutex::default(),
            open: AtomicU32::new(0),
            heard_mono_ms: AtomicU64::new(0),
            told: Mutex::default(),
        }
    }

    pub fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn heard(&self, mono_ms: u64) {
        self.heard_mono_ms.fetch_max(mono_ms, Ordering::AcqRel);
    }

    /// The same question goes on, perhaps on the seat of another term.
    pub fn sit(self: &Arc<Self>, before: Option<Sitting>) -> Sitting {
        match before {
            Some(sitting) if Arc::ptr_eq(&sitting.0, self) => sitting,
            _ => {
                self.open.fetch_add(1, Ordering::AcqRel);
                Sitting(Arc::clone(self))
            }
        }
    }
}

impl Drop for Sitting {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use grid_types::{LeaderEpoch, NodeOrd};

    use super::{MOST_POLLS, Seats};

    const EPOCH: LeaderEpoch = LeaderEpoch { generation: 0, n: 4 };

    #[test]
    fn w1_an_agent_lives_while_it_asks_and_a_while_after() {
        let seats = Seats::default();
        assert!(!seats.lives(NodeOrd(1), 0, 15_000));
        let seat = seats.seat(NodeOrd(1), EPOCH);
        seat.heard(1_000);
        let sitting = seat.sit(None);
        assert!(seats.lives(NodeOrd(1), 99_000, 15_000), "its question is open");
        let sitting = seat.sit(Some(sitting));
        drop(sitting);
        assert!(seats.lives(NodeOrd(1), 15_999, 15_000));
        assert!(!seats.lives(NodeOrd(1), 16_000, 15_000));
    }

    #[test]
    fn what_was_told_is_gone_with_the_term() {
        let seats = Seats::default();
        let lease = grid_types::LeaseKey::FIRST;
        seats.seat(NodeOrd(1), EPOCH).told().given_mono_ms.insert(lease, 5);
        assert!(seats.seat(NodeOrd(1), EPOCH).told().given_mono_ms.contains_key(&lease));
        assert!(seats.seat(NodeOrd(1), EPOCH.next()).told().given_mono_ms.is_empty());
    }

    #[test]
    fn questions_are_bounded() {
        let seats = Seats::default();
        let places: Vec<_> = (0..MOST_POLLS).map(|_| seats.place()).collect();
        assert!(places.iter().all(Result::is_ok) && seats.place().is_err());
        drop(places);
        assert!(seats.place().is_ok());
    }
}
