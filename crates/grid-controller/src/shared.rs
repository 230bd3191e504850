//! Holds what the parts of a controller share, and computes its role.
//!
//! E5: the role is computed for every request: a leader whom no majority has answered within one election
//! timeout is a STANDBY from that request on, whatever Raft reported last.

mod broker;
mod gate;
mod leading;
mod locks;
mod many;
mod polls;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLockReadGuard};

use grid_core::{Quotas, RestoredFrom, State};
use grid_plan::Thresholds;
use grid_raft::Leadership;
use grid_types::Name;
use grid_types::api::{Role, RoleDoc};
use grid_types::clock::Clock;
use tokio::sync::watch;

use crate::control::Standing;
use crate::log::Log;
use crate::reading::Reading;
use crate::term::{Elapsed, Term};
use locks::{Locked, Rank};

pub use broker::Broker;
pub use gate::{Gate, LocalWorker, Wish};
pub use leading::{Leading, NotOpened, Stream};
pub use polls::{OpenPoll, Place};

/// How a controller is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    pub node_id: Name,
    /// As clients reach it: `http://host:port`.
    pub api_url: String,
    /// As workers reach it: `host:port`.
    pub grpc_addr: String,
    pub quotas: Quotas,
    pub thresholds: Thresholds,
    pub heartbeat_ms: u64,
    /// How long ended jobs are remembered.
    pub history_ms: u64,
}

/// What the parts of a controller share.
pub struct Shared {
    pub settings: Settings,
    pub clock: Arc<dyn Clock>,
    pub log: Log,
    pub tenure: Tenure,
    pub leading: Leading,
    pub reading: Reading,
}

/// Whether this controller leads, and what keeps it from it.
pub struct Tenure {
    /// As Raft says it.
    pub leadership: watch::Receiver<Leadership>,
    /// Set while this controller leads and its `BeginTerm` is applied. Ask [`Shared::current_term`].
    pub term: watch::Receiver<Option<Term>>,
    /// W6: leader time that no entry has recorded yet.
    pub elapsed: Elapsed,
    /// E7: leadership is being handed over.
    pub draining: AtomicBool,
    /// E8: whether offers go out.
    pub gate: Gate,
    /// E2: whether the log says that this cluster was restored elsewhere; looked at every second.
    pub superseded: watch::Sender<bool>,
    /// N5: whether workers that come through a broker can be reached.
    pub broker: watch::Sender<Broker>,
    /// The largest message to a worker.
    pub broker_carries: AtomicUsize,
    /// When a client's epoch of a higher generation was last recorded; 0: never.
    pub last_claim_mono_ms: AtomicU64,
    /// What the data folder was made from; every term says it (E2).
    pub restored: Option<RestoredFrom>,
    /// L2: the newest level that this controller knows.
    pub feature_level: u32,
}

impl Shared {
    pub fn state(&self) -> Locked<RwLockReadGuard<'_, State>> {
        Locked::lock(Rank::State, || self.log.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Of this cluster (E2).
    pub fn generation(&self) -> u32 {
        self.state().meta.leadership.epoch.generation
    }

    /// The term of this leader, as long as a majority is behind it (E5); also while it hands over (E7).
    pub fn current_term(&self) -> Option<Term> {
        let term = self.tenure.term.borrow().clone()?;
        (self.is_draining() || self.log.raft.has_majority()).then_some(term)
    }

    /// The term in which new work is accepted and dispatched.
    pub fn open_term(&self) -> Option<Term> {
        self.current_term().filter(|_| !self.is_draining())
    }

    /// Resolves when this controller leads no more, at once if it does not.
    pub async fn led(&self) {
        // An ended channel is a controller that has stopped.
        let _ = self.tenure.term.clone().wait_for(Option::is_none).await;
    }

    pub fn is_draining(&self) -> bool {
        self.tenure.draining.load(Ordering::Acquire)
    }

    /// E8, for an operator.
    pub fn pause_reason(&self) -> String {
        let leader = &self.settings.node_id;
        match self.tenure.gate.problem() {
            None => format!("dispatch is paused until the worker on leader {leader} has stopped"),
            Some(problem) => format!(
                "dispatch is paused: whether a worker still runs on leader {leader} is not known, because its data folder is \
                 refused: {problem}"
            ),
        }
    }

    /// Why this controller could not dispatch as leader, for an operator.
    pub fn dispatch_problem(&self) -> Option<String> {
        if self.tenure.gate.problem().is_some() {
            return Some(self.pause_reason());
        }
        let is_down = *self.tenure.broker.borrow() == Broker::Down;
        is_down.then(|| format!("the connection of controller {} to NATS is down", self.settings.node_id))
    }

    /// Raft says that this controller leads, and no majority answers it.
    pub fn is_cut_off(&self) -> bool {
        self.tenure.leadership.borrow().is_leader && !self.is_draining() && !self.log.raft.has_majority()
    }

    /// It looks at the state: never call it with a lock in hand.
    pub fn standing(&self) -> Standing {
        let leader_epoch = {
            let leadership = &self.state().meta.leadership;
            leadership.leader.is_some().then(|| leadership.epoch.wire())
        };
        let role = match self.current_term() {
            Some(_) if self.is_draining() => Role::Draining,
            Some(_) => Role::Leader,
            None => Role::Standby,
        };
        Standing { node_id: self.settings.node_id.clone(), role, leader_epoch }
    }

    /// API URLs of all members that have said theirs.
    pub fn controllers(&self) -> Vec<String> {
        let urls = self.log.raft.roster().members.into_iter().map(|listed| listed.member.api_url);
        urls.filter(|url| !url.is_empty()).collect()
    }

    /// What `/role` says; as [`Self::standing`], with what it takes to reach others.
    pub fn role(&self) -> RoleDoc {
        let Standing { node_id, role, leader_epoch } = self.standing();
        let mut doc = RoleDoc {
            node_id: node_id.to_string(),
            role,
            leader_epoch,
            leader_id: None,
            leader_url: None,
            leader_grpc: None,
            controllers: self.controllers(),
        };
        if role == Role::Leader {
            doc.leader_id = Some(doc.node_id.clone());
            doc.leader_url = Some(self.settings.api_url.clone());
            doc.leader_grpc = Some(self.settings.grpc_addr.clone()).filter(|addr| !addr.is_empty());
        } else if role == Role::Standby {
            // A leader whose term has not begun yet does not count, nor does one that is cut off or no longer heard.
            let leadership = self.tenure.leadership.borrow().clone();
            let is_there = !leadership.is_leader && self.log.raft.hears_leader();
            let other = leadership.leader.filter(|_| is_there).map(|leader| leader.member);
            if let Some(other) = other.filter(|other| !other.node_id.is_empty()) {
                doc.leader_id = Some(other.node_id);
                doc.leader_url = Some(other.api_url).filter(|url| !url.is_empty());
                doc.leader_grpc = Some(other.grpc_addr).filter(|addr| !addr.is_empty());
            }
        }
        doc
    }
}
