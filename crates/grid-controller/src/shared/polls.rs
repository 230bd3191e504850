//! Counts the open polls of agents, and wakes them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grid_types::{Code, LeaderEpoch, NodeOrd};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::Shared;
use crate::control::Refusal;

/// Open polls at once: each holds a connection of the API, and others need some, too.
const MOST_POLLS: usize = 4_096;

pub struct Polls {
    by_node: Mutex<BTreeMap<NodeOrd, Arc<Place>>>,
    places: Arc<Semaphore>,
    /// One registration at a time: many polls of a new agent are one agent.
    pub admission: tokio::sync::Mutex<()>,
}

/// Where the polls of one agent wait.
#[derive(Default)]
pub struct Place {
    /// Rings when something is offered or revoked.
    pub bell: Notify,
    /// One answer is made at a time, so that two polls do not get the same lease.
    pub answering: tokio::sync::Mutex<()>,
}

impl Default for Polls {
    fn default() -> Self {
        let (by_node, admission) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { by_node, places: Arc::new(Semaphore::new(MOST_POLLS)), admission }
    }
}

impl Polls {
    pub fn place(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let why = format!("{MOST_POLLS} agents are waiting for work here, the most at once; ask again in a while");
            Refusal::new(Code::QueueFull, why)
        })
    }

    pub fn of_node(&self, node: NodeOrd) -> Arc<Place> {
        Arc::clone(self.lock().entry(node).or_default())
    }

    pub fn ring(&self, node: NodeOrd) {
        if let Some(place) = self.lock().get(&node) {
            place.bell.notify_waiters();
        }
    }

    /// The term is over: polls that wait are answered for that reason.
    pub fn forget_all(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeOrd, Arc<Place>>> {
        self.by_node.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While it lives, the agent is there.
pub struct OpenPoll {
    shared: Arc<Shared>,
    node: NodeOrd,
    epoch: LeaderEpoch,
}

impl OpenPoll {
    /// The same poll goes on, perhaps under another leader.
    pub fn keep(shared: &Arc<Shared>, before: Option<Self>, node: NodeOrd, epoch: LeaderEpoch) -> Self {
        if let Some(before) = before.filter(|before| (before.node, before.epoch) == (node, epoch)) {
            return before;
        }
        shared.look(|leader, _| {
            if leader.epoch() == epoch {
                leader.on_agent_waits(node);
            }
        });
        Self { shared: Arc::clone(shared), node, epoch }
    }
}

impl Drop for OpenPoll {
    fn drop(&mut self) {
        self.shared.look(|leader, _| {
            if leader.epoch() == self.epoch {
                leader.on_agent_left(self.node);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_POLLS, Polls};

    #[test]
    fn open_polls_are_bounded() {
        let polls = Polls::default();
        let places: Vec<_> = (0..MOST_POLLS).map(|_| polls.place()).collect();
        assert!(places.iter().all(Result::is_ok) && polls.place().is_err());
        drop(places);
        assert!(polls.place().is_ok());
    }
}
