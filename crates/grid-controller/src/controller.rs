//! A running controller: opens the data folder and starts its parts.
//!
//! Not here: what the API asks of it (`requests`).

use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock};

use grid_core::{RestoredFrom, State};
use grid_plan::{Backstop, Liveness};
use grid_raft::{LogPosition, MachinePosition, Raft, Start};
use grid_store::StoreError;
use grid_types::JobId;
use grid_types::api::{Role, RoleDoc};
use grid_types::clock::Clock;
use tokio::sync::{Notify, mpsc, watch};

use crate::backups::BackupDesk;
use crate::events::EventFeed;
use crate::hub::FabricHub;
use crate::machine::{ControllerMachine, Replies};
use crate::output_desk::OutputDesk;
use crate::proposer::Proposer;
use crate::shared::{Settings, Shared, Soft};
use crate::{dispatch, folder, ground, leader, log_size, pruner, restore, ticker};

/// Where and how to start.
pub struct Opening {
    pub settings: Settings,
    pub data_dir: PathBuf,
    /// As peers reach this member.
    pub raft_addr: String,
    pub bootstrap: bool,
    pub clock: Arc<dyn Clock>,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{}: cannot be used; name a folder that this user can read and write", .path.display())]
    Folder { path: PathBuf, source: std::io::Error },
    #[error("{}: {problem}", .path.display())]
    NotOurs { path: PathBuf, problem: String },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the stored state contradicts itself: {0}; restore a backup into an empty folder")]
    Contradiction(String),
    #[error("{}: {reason}; nothing was overwritten; {way_out}", .path.display())]
    Damaged { path: PathBuf, reason: String, way_out: String },
    #[error(transparent)]
    Raft(#[from] grid_raft::OpenError),
}

/// A handle to a running controller; clones share it.
#[derive(Clone)]
pub struct Controller {
    pub(crate) shared: Arc<Shared>,
    pub(crate) raft: Raft<Replies>,
    pub(crate) last_job: Arc<Mutex<Option<JobId>>>,
}

impl Controller {
    pub async fn open(opening: Opening) -> Result<Self, OpenError> {
        let dir = &opening.data_dir;
        std::fs::create_dir_all(dir).map_err(|source| OpenError::Folder { path: dir.clone(), source })?;
        folder::check(dir, &opening.settings.node_id, opening.bootstrap)?;
        let config = folder::raft_config(folder::raft_dir(dir), &opening.settings.node_id, &opening.raft_addr);
        let start = if opening.bootstrap { Start::Bootstrap } else { Start::Existing };
        let (ground, store, stored) = ground::take(dir, config, start)?;
        let reader = store.reader();
        let state = State::from_parts(stored.parts).map_err(OpenError::Contradiction)?;
        let state = Arc::new(RwLock::new(state));
        let (effects, effects_out) = mpsc::unbounded_channel();
        let position = MachinePosition {
            applied: stored.applied.map(|at| LogPosition { term: at.term, index: at.index }),
            membership: stored.membership,
        };
        let (bell, bell_out) = watch::channel(0);
        let machine = ControllerMachine::new(Arc::clone(&state), store, position, effects, bell);
        let raft = Raft::run(ground, machine).await.map_err(|e| ground::with_way_out(dir, e))?;
        let restored = restore::restored(dir)?.map(|restored| RestoredFrom {
            generation: restored.generation,
            backup: grid_store::time_text(restored.taken_wall_ms),
        });

        let (term, term_out) = watch::channel(None);
        let proposer = Proposer::start(raft.clone(), term_out.clone());
        let soft = Soft { liveness: Liveness::new(opening.settings.thresholds), backstop: Backstop::default() };
        let role = RoleDoc {
            node_id: opening.settings.node_id.to_string(),
            role: Role::Standby,
            leader_epoch: None,
            leader_id: None,
            leader_url: None,
            leader_grpc: None,
        };
        let shared = Arc::new(Shared {
            settings: opening.settings,
            clock: opening.clock,
            state,
            events: EventFeed::start(reader.clone(), bell_out),
            reader,
            proposer,
            term: term_out,
            role: Mutex::new(role),
            sessions: Mutex::default(),
            soft: Mutex::new(soft),
            output_desk: OutputDesk::default(),
            backups: BackupDesk::new(dir),
            restored,
        });
        shared.publish_role(false);
        let deposed = Arc::new(Notify::new());
        tokio::spawn(dispatch::dispatch(Arc::clone(&shared), effects_out, Arc::clone(&deposed)));
        tokio::spawn(leader::follow(Arc::clone(&shared), raft.clone(), term, deposed));
        tokio::spawn(ticker::tick(Arc::clone(&shared)));
        tokio::spawn(pruner::prune(Arc::clone(&shared)));
        tokio::spawn(log_size::keep_short(raft.clone()));
        Ok(Self { shared, raft, last_job: Arc::default() })
    }

    /// What the fabric asks.
    #[must_use]
    pub fn hub(&self) -> FabricHub {
        FabricHub::new(Arc::clone(&self.shared))
    }

    /// Resolves when this controller leads.
    pub async fn leads(&self) {
        let mut term = self.shared.term.clone();
        // An ended channel means that the member has stopped; `stopped` says why.
        let _ = term.wait_for(Option::is_some).await;
    }

    /// Resolves with the reason when the log or the store can go on no more; the process must end (L2).
    pub async fn stopped(&self) -> String {
        self.raft.stopped().await
    }

    pub async fn shutdown(&self) {
        self.shared.sessions().end_all(grid_fabric::closing::SHUTDOWN);
        self.raft.shutdown().await;
    }
}
