//! A running controller: opens the data folder and starts its parts.
//!
//! Not here: what the API asks of it (`requests`).

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use grid_core::{RestoredFrom, State};
use grid_plan::{Backstop, Liveness};
use grid_raft::{LogPosition, MachinePosition, Raft, Start};
use grid_store::StoreError;
use grid_tasks::{Cause, Tasks};
use grid_types::clock::Clock;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, watch};

use crate::agents::Seats;
use crate::backups::BackupDesk;
use crate::control::Control;
use crate::elapsed::Elapsed;
use crate::events::EventFeed;
use crate::gate::{Gate, LocalWorker};
use crate::hub::FabricHub;
use crate::logs::Readers;
use crate::machine::ControllerMachine;
use crate::output_desk::OutputDesk;
use crate::proposer::Proposer;
use crate::reads::Reads;
use crate::shared::{Settings, Shared, Soft};
use crate::{
    announce, cluster, dispatch, folder, gate, ground, hand_over, leader, levels, log_size, pruner, refused_folder,
    restore, snapshots, superseded, ticker,
};

const READY_POLL: Duration = Duration::from_millis(50);
/// Between the end of a task and the member's own reason for it.
const CAUSE_LIMIT: Duration = Duration::from_millis(300);

/// The times and sizes of replication.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub heartbeat_ms: u64,
    /// A follower stands for election after between one and two of these beyond its leader's lease, which is two.
    pub election_ms: u64,
    /// The log is cut behind a snapshot when it has grown by this.
    pub snapshot_after_bytes: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { heartbeat_ms: 100, election_ms: 300, snapshot_after_bytes: 64 * 1024 * 1024 }
    }
}

/// Where and how to start.
pub struct Opening {
    pub settings: Settings,
    pub data_dir: PathBuf,
    /// As other controllers reach this one.
    pub raft_addr: String,
    /// Where other controllers are answered, and how many connections they may have; none: it stays alone.
    pub peers: Option<(TcpListener, usize)>,
    pub start: Start,
    pub pace: Pace,
    /// E8: it gives nothing out before [`Controller::local_worker_gone`].
    pub hold_dispatch: bool,
    /// L2: the newest level that it knows; tests of upgrades set another one than the program's own.
    pub feature_level: u32,
    pub clock: Arc<dyn Clock>,
    /// Where the background tasks of the process are started and watched.
    pub tasks: Tasks,
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

impl OpenError {
    /// It was a member of a cluster, and is none any more.
    #[must_use]
    pub fn is_removal(&self) -> bool {
        matches!(self, Self::Raft(grid_raft::OpenError::Removed { .. }))
    }
}

/// A handle to a running controller; clones share it.
#[derive(Clone)]
pub struct Controller {
    pub(crate) shared: Arc<Shared>,
    pub(crate) tasks: Tasks,
    /// E9: the leader epoch that the request names for which this handle is.
    pub(crate) fence: Option<u64>,
}

impl Controller {
    pub async fn open(opening: Opening) -> Result<Self, OpenError> {
        let dir = &opening.data_dir;
        // Parameters of jobs are nobody else's to read.
        folder::enter(dir)?;
        folder::check(dir, &opening.settings.node_id, opening.start != Start::Existing)?;
        let (ground, store, stored) = ground::take(dir, raft_config(&opening), opening.start)?;
        let reader = store.reader();
        let state = State::from_parts(stored.parts).map_err(OpenError::Contradiction)?;
        let state = Arc::new(RwLock::new(state));
        let (outgoing, outgoing_out) = mpsc::unbounded_channel();
        let position = MachinePosition {
            applied: stored.applied.map(|at| LogPosition { term: at.term, index: at.index }),
            membership: stored.membership,
        };
        let (bell, bell_out) = watch::channel(0);
        let leading = Arc::new(AtomicU64::new(0));
        let machine = ControllerMachine::new(
            Arc::clone(&state),
            store,
            position,
            outgoing,
            bell,
            Arc::clone(&leading),
            opening.feature_level,
        );
        let progress = machine.progress();
        let raft = Raft::run(ground, machine, &opening.tasks).await.map_err(|e| ground::with_way_out(dir, e))?;
        let restored = restore::restored(dir)?.map(|restored| RestoredFrom {
            generation: restored.generation,
            backup: grid_store::time_text(restored.taken_wall_ms),
        });

        let (term, term_out) = watch::channel(None);
        let proposer = Proposer::start(raft.clone(), term_out.clone(), &opening.tasks);
        let soft = Soft { liveness: Liveness::new(opening.settings.thresholds), backstop: Backstop::default() };
        let shared = Arc::new(Shared {
            settings: opening.settings,
            feature_level: opening.feature_level,
            clock: opening.clock,
            state,
            events: EventFeed::start(reader.clone(), bell_out, &opening.tasks),
            reader,
            reads: Reads::default(),
            proposer,
            leadership: raft.leadership(),
            raft: raft.clone(),
            term: term_out,
            leading,
            elapsed: Elapsed::default(),
            progress,
            last_job: Mutex::default(),
            draining: AtomicBool::new(false),
            gate: Gate::new(opening.hold_dispatch),
            sessions: Mutex::default(),
            soft: Mutex::new(soft),
            agents: Seats::default(),
            output_desk: OutputDesk::default(),
            log_readers: Readers::default(),
            backups: BackupDesk::new(dir),
            restored,
            last_claim_mono_ms: std::sync::atomic::AtomicU64::new(0),
        });
        cluster::describe(&shared);
        let tasks = opening.tasks;
        if let Some((listener, most)) = opening.peers {
            let raft = raft.clone();
            tasks.start("raft-port", async move { raft.serve_peers(listener, most).await });
        }
        let deposed = Arc::new(Notify::new());
        tasks.start("dispatch", dispatch::dispatch(Arc::clone(&shared), outgoing_out, Arc::clone(&deposed)));
        tasks.start("leader", leader::follow(Arc::clone(&shared), raft.clone(), term, deposed));
        tasks.start("gate", gate::follow(Arc::clone(&shared)));
        tasks.start("refused-folder", refused_folder::hand_over_leadership(Arc::clone(&shared)));
        tasks.start("ticker", ticker::tick(Arc::clone(&shared)));
        tasks.start("superseded", superseded::follow_peers(Arc::clone(&shared)));
        tasks.start("announcements", announce::announce(Arc::clone(&shared)));
        tasks.start("feature-level", levels::raise(Arc::clone(&shared)));
        tasks.start("snapshot-reports", snapshots::follow(Arc::clone(&shared)));
        tasks.start("pruner", pruner::prune(Arc::clone(&shared)));
        tasks.start("log-size", log_size::keep_short(raft.clone(), opening.pace.snapshot_after_bytes));
        Ok(Self { shared, tasks, fence: None })
    }

    /// What the fabric asks.
    #[must_use]
    pub fn hub(&self) -> FabricHub {
        FabricHub::new(Arc::clone(&self.shared))
    }

    /// Resolves when this controller leads, or follows a leader with a vote of its own.
    pub async fn serves(&self) {
        let mut leadership = self.shared.raft.leadership();
        loop {
            let me = self.shared.raft.card().raft_id;
            let is_voter =
                self.shared.raft.roster().members.iter().any(|listed| listed.raft_id == me && listed.is_voter);
            if is_voter && self.is_ready() {
                return;
            }
            // An ended channel means that the member has stopped; `stopped` says why.
            if leadership.has_changed().is_err() {
                std::future::pending::<()>().await;
            }
            let _ = tokio::time::timeout(READY_POLL, leadership.changed()).await;
        }
    }

    /// Calls `told` with whether this controller leads, now and at every change, until it ends.
    pub async fn follow_leading(&self, mut told: impl FnMut(bool)) {
        let mut term = self.shared.term.clone();
        loop {
            told(term.borrow_and_update().is_some());
            if term.changed().await.is_err() {
                return;
            }
        }
    }

    /// E8: a worker is about to start on this machine, or may live there for all that is known (`problem`). Dispatch is paused from
    /// here on.
    pub fn hold_dispatch(&self, problem: Option<String>) {
        self.shared.gate.hold(problem);
    }

    /// E8: no worker lives on this machine; a leader gives work out as soon as the log says so, too.
    pub fn local_worker_gone(&self, gone: LocalWorker) {
        self.shared.gate.release(gone);
    }

    /// Hands leadership over, if this controller has it and there is somebody to take it: before an orderly end.
    pub async fn leave_leadership(&self) {
        let voters = self.shared.raft.roster().members.iter().filter(|listed| listed.is_voter).count();
        if voters < 2 || self.shared.open_term().is_none() {
            return;
        }
        if let Err(e) = hand_over::hand_over(&self.shared, None).await {
            tracing::warn!("leadership was not handed over: {e}");
        }
    }

    /// Resolves with the reason when the log or the store can go on no more, or a background task has failed; the process must
    /// end (L2).
    pub async fn stopped(&self) -> String {
        let failed = tokio::select! {
            biased;
            why = self.shared.raft.stopped() => return why,
            failed = self.tasks.failed() => failed,
        };
        if let Cause::Panicked(_) = failed.cause {
            return failed.to_string();
        }
        // Tasks end when the member has ended, or another task has panicked: that is the cause, and reported a moment later.
        match tokio::time::timeout(CAUSE_LIMIT, self.shared.raft.stopped()).await {
            Ok(why) => why,
            Err(_) => self.tasks.failed().await.to_string(),
        }
    }

    /// Resolves when it is certain that this controller was removed from its cluster: it never hears of it again.
    pub async fn removed(&self) {
        self.shared.raft.removed().await;
    }

    /// Resolves with the reason when it is certain that this controller's log was rolled back: it must not vote with it.
    pub async fn rolled_back(&self) -> String {
        self.shared.raft.rolled_back().await
    }

    pub async fn shutdown(&self) {
        self.tasks.stopping();
        self.shared.sessions().end_all(grid_fabric::closing::SHUTDOWN);
        self.shared.raft.shutdown().await;
    }
}

fn raft_config(opening: &Opening) -> grid_raft::Config {
    let dir = folder::raft_dir(&opening.data_dir);
    let mut config = folder::raft_config(dir, &opening.settings.node_id, &opening.raft_addr, opening.feature_level);
    config.cluster_id = folder::cluster_id_without_card(&opening.data_dir);
    config.member.api_url.clone_from(&opening.settings.api_url);
    config.member.grpc_addr.clone_from(&opening.settings.grpc_addr);
    config.heartbeat_ms = opening.pace.heartbeat_ms;
    config.election_ms = (opening.pace.election_ms, opening.pace.election_ms * 2);
    config
}
