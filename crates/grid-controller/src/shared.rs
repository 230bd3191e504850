//! What the parts of a controller share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use grid_core::{Quotas, RestoredFrom, State};
use grid_plan::{Backstop, Liveness, Thresholds};
use grid_store::Reader;
use grid_types::Name;
use grid_types::api::{Role, RoleDoc};
use grid_types::clock::Clock;
use tokio::sync::watch;

use crate::backups::BackupDesk;
use crate::events::EventFeed;
use crate::output_desk::OutputDesk;
use crate::proposer::Proposer;
use crate::sessions::Sessions;
use crate::term::Term;

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

pub struct Shared {
    pub settings: Settings,
    pub clock: Arc<dyn Clock>,
    pub state: Arc<RwLock<State>>,
    pub reader: Reader,
    pub events: Arc<EventFeed>,
    pub proposer: Proposer,
    /// Set while this controller leads and its `BeginTerm` is applied.
    pub term: watch::Receiver<Option<Term>>,
    pub role: Mutex<RoleDoc>,
    pub sessions: Mutex<Sessions>,
    pub soft: Mutex<Soft>,
    pub output_desk: OutputDesk,
    pub backups: BackupDesk,
    /// What the data folder was made from; every term says it (E2).
    pub restored: Option<RestoredFrom>,
}

/// What the planners remember between ticks; gone with the term.
pub struct Soft {
    pub liveness: Liveness,
    pub backstop: Backstop,
}

impl Shared {
    pub fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn soft(&self) -> MutexGuard<'_, Soft> {
        self.soft.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn role(&self) -> RoleDoc {
        self.role.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn current_term(&self) -> Option<Term> {
        self.term.borrow().clone()
    }

    /// Recomputes what `/role` says, from the state and from whether this controller leads.
    pub fn publish_role(&self, leads: bool) {
        let leadership = self.state().meta.leadership.clone();
        let known = leadership.leader.is_some();
        let text = |text: &String| (known && !text.is_empty()).then(|| text.clone());
        let doc = RoleDoc {
            node_id: self.settings.node_id.to_string(),
            role: if leads { Role::Leader } else { Role::Standby },
            leader_epoch: known.then(|| leadership.epoch.wire()),
            leader_id: if leads { leadership.leader.as_ref().map(ToString::to_string) } else { None },
            leader_url: if leads { text(&leadership.api_url) } else { None },
            leader_grpc: if leads { text(&leadership.grpc_addr) } else { None },
        };
        *self.role.lock().unwrap_or_else(PoisonError::into_inner) = doc;
    }
}
