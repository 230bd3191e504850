//! Opens the data folder of a controller and starts its parts.
//!
//! Not here: what the API asks of it (`requests`).

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use grid_core::{RestoredFrom, State};
use grid_raft::{LogPosition, MachinePosition, Raft, Start};
use grid_store::Store;
use grid_tasks::{Cause, Tasks};
use grid_types::clock::Clock;
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot, watch};

use crate::control::Introspect;
use crate::controller::Controller;
use crate::data_dir::{self, OpenError};
use crate::fabric::FabricHub;
use crate::leadership::{self, hand_over, levels, superseded};
use crate::log::{ControllerMachine, Log, Mailbox, Progress, Proposer, ToLeader, Touched, keep_short};
use crate::reading::{Backups, EventFeed, Pulls, Readers, Reading, Reads};
use crate::shared::{Broker, Gate, Leading, LocalWorker, Settings, Shared, Tenure};
use crate::tasks;
use crate::term::{Elapsed, Term};

/// How often a controller that starts looks whether it serves: no signal says that a leader has contact.
const READY_POLL: Duration = Duration::from_millis(50);
/// Between the end of a task and the member's own reason for it.
const CAUSE_LIMIT: Duration = Duration::from_millis(300);

/// The times and sizes of replication.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub heartbeat_ms: u64,
    /// A follower becomes a candidate between one and two of these after its leader's lease, which is two.
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
    /// E8: it dispatches nothing before [`Controller::local_worker_gone`].
    pub starts_paused: bool,
    /// L2: the newest level that it knows; tests of upgrades set another one than the program's own.
    pub feature_level: u32,
    pub clock: Arc<dyn Clock>,
    /// Where the background tasks of the process are started and watched.
    pub tasks: Tasks,
}

impl Controller {
    pub async fn open(opening: Opening) -> Result<Self, OpenError> {
        let dir = &opening.data_dir;
        // No other user may read the parameters of jobs.
        data_dir::enter(dir)?;
        data_dir::check(dir, &opening.settings.node_id, opening.start)?;
        let (folder, store, stored) = data_dir::take(dir, raft_config(&opening), opening.start)?;
        let reader = store.reader();
        watch_checkpoints(&store, &opening.tasks);
        let state = State::from_parts(stored.parts).map_err(OpenError::Contradiction)?;
        let state = Arc::new(RwLock::new(state));
        let (mailbox, deposed) = (Arc::new(Mailbox::default()), Arc::new(Notify::new()));
        let position = MachinePosition {
            applied: stored.applied.map(|at| LogPosition { term: at.term, index: at.index }),
            membership: stored.membership,
        };
        let (bell, bell_out) = watch::channel(0);
        let progress = Arc::<Progress>::default();
        let touched = Arc::<Touched>::default();
        let leading = Arc::new(AtomicU64::new(0));
        let machine = ControllerMachine {
            state: Arc::clone(&state),
            store,
            position,
            to_leader: ToLeader {
                leading: Arc::clone(&leading),
                mailbox: Arc::clone(&mailbox),
                deposed: Arc::clone(&deposed),
            },
            bell,
            feature_level: opening.feature_level,
            progress: Arc::clone(&progress),
            touched: Arc::clone(&touched),
        };
        let raft = Raft::run(folder, machine, &opening.tasks).await.map_err(|e| data_dir::with_way_out(dir, e))?;
        let restored = data_dir::restored(dir)?.map(|restored| RestoredFrom {
            generation: restored.generation,
            backup: crate::time::time_text(restored.taken_wall_ms),
        });

        let (term, term_out) = watch::channel(None);
        let proposer = Proposer::start(raft.clone(), term_out.clone(), &opening.tasks);
        let leadership = raft.leadership();
        let shared = Arc::new(Shared {
            settings: opening.settings,
            clock: opening.clock,
            log: Log { state, proposer, raft, progress, touched, leading_term: leading, last_job: Mutex::default() },
            tenure: Tenure {
                leadership,
                term: term_out,
                elapsed: Elapsed::default(),
                draining: AtomicBool::new(false),
                gate: if opening.starts_paused { Gate::paused() } else { Gate::opened() },
                superseded: watch::Sender::new(false),
                broker: watch::Sender::new(Broker::None),
                broker_carries: AtomicUsize::new(usize::MAX),
                last_claim_mono_ms: AtomicU64::new(0),
                restored,
                feature_level: opening.feature_level,
            },
            leading: Leading::default(),
            reading: Reading {
                events: EventFeed::start(reader.clone(), bell_out, &opening.tasks),
                reader,
                reads: Reads::default(),
                pulls: Pulls::default(),
                log_readers: Readers::default(),
                backups: Backups::new(dir, opening.tasks.clone()),
            },
        });
        leadership::describe(&shared);
        let tasks = opening.tasks;
        if let Some((listener, most)) = opening.peers {
            let raft = shared.log.raft.clone();
            tasks.start("raft-port", async move { raft.serve_peers(listener, most).await });
        }
        start(&shared, &tasks, Started { term, deposed, mailbox });
        let limit_bytes = opening.pace.snapshot_after_bytes;
        tasks.start("log-size", keep_short(shared.log.raft.clone(), Arc::clone(&shared.log.progress), limit_bytes));
        Ok(Self { shared, tasks })
    }

    /// What the fabric asks.
    #[must_use]
    pub fn hub(&self) -> FabricHub {
        FabricHub::new(Arc::clone(&self.shared))
    }

    /// Resolves when this controller leads, or follows a leader with a vote of its own.
    pub async fn serves(&self) {
        let mut leadership = self.shared.log.raft.leadership();
        loop {
            let me = self.shared.log.raft.local_member().raft_id;
            let is_voter =
                self.shared.log.raft.roster().members.iter().any(|listed| listed.raft_id == me && listed.is_voter);
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

    /// Calls `notify` with whether this controller leads, now and at every change, until it ends.
    pub async fn follow_leading(&self, mut notify: impl FnMut(bool)) {
        let mut term = self.shared.tenure.term.clone();
        loop {
            notify(term.borrow_and_update().is_some());
            if term.changed().await.is_err() {
                return;
            }
        }
    }

    /// E8: a worker is about to start on this machine, or may run there for all that is known (`problem`). Dispatch is paused when
    /// this returns.
    pub fn pause_dispatch(&self, problem: Option<String>) {
        self.shared.tenure.gate.pause(problem);
    }

    /// E8: no worker runs on this machine; a leader resumes dispatch as soon as the log says so, too.
    pub fn local_worker_gone(&self, gone: LocalWorker) {
        self.shared.tenure.gate.release(gone);
    }

    /// Hands leadership over before an orderly end, if this controller leads and another voter exists.
    pub async fn leave_leadership(&self) {
        let voters = self.shared.log.raft.roster().members.iter().filter(|listed| listed.is_voter).count();
        if voters < 2 || self.shared.open_term().is_none() {
            return;
        }
        if let Err(e) = hand_over(&self.shared, None).await {
            tracing::warn!("leadership was not handed over: {e}");
        }
    }

    /// Resolves with the reason when the log or the store can go on no more, or a background task has failed; the process must
    /// end (L2).
    pub async fn stopped(&self) -> String {
        let failed = tokio::select! {
            biased;
            why = self.shared.log.raft.stopped() => return why,
            failed = self.tasks.failed() => failed,
        };
        if let Cause::Panicked(_) = failed.cause {
            return failed.to_string();
        }
        // Tasks end when the member has ended, or another task has panicked: that is the cause, and reported a moment later.
        match tokio::time::timeout(CAUSE_LIMIT, self.shared.log.raft.stopped()).await {
            Ok(why) => why,
            Err(_) => self.tasks.failed().await.to_string(),
        }
    }

    /// Resolves when it is certain that this controller was removed from its cluster, which does not contact it any more.
    pub async fn removed(&self) {
        self.shared.log.raft.removed().await;
    }

    /// Resolves with the reason when it is certain that this controller's log was rolled back: it must not vote with it.
    pub async fn rolled_back(&self) -> String {
        self.shared.log.raft.rolled_back().await
    }

    pub async fn shutdown(&self) {
        self.tasks.stopping();
        self.shared.close_streams(grid_fabric::CloseReason::Shutdown);
        self.shared.log.raft.shutdown().await;
    }
}

/// The thread is the store's own; this task ends with the reason when it fails, and the process with it.
fn watch_checkpoints(store: &Store, tasks: &Tasks) {
    let (failed, failure) = oneshot::channel();
    store.on_checkpoint_failure(move |why| drop(failed.send(why)));
    tasks.start("store-checkpoint", async move {
        match failure.await {
            Ok(why) => Err::<(), String>(why),
            // The store is closed: the member has ended.
            Err(_) => std::future::pending().await,
        }
    });
}

/// What only one task has.
struct Started {
    term: watch::Sender<Option<Term>>,
    deposed: Arc<Notify>,
    mailbox: Arc<Mailbox>,
}

/// Starts the background tasks of a controller.
fn start(shared: &Arc<Shared>, tasks: &Tasks, Started { term, deposed, mailbox }: Started) {
    let shared = || Arc::clone(shared);
    tasks.start("dispatch", tasks::dispatch(shared(), mailbox));
    tasks.start("leader", leadership::follow(shared(), term, deposed));
    tasks.start("gate", leadership::follow_local_worker(shared()));
    tasks.start("unable-leader", leadership::hand_over_leadership(shared()));
    tasks.start("ticker", tasks::tick(shared()));
    tasks.start("superseded", superseded::follow_peers(shared()));
    tasks.start("announcements", tasks::announce(shared()));
    tasks.start("feature-level", levels::raise(shared()));
    tasks.start("snapshot-reports", tasks::report_snapshots(shared()));
    tasks.start("pruner", tasks::prune(shared()));
}

fn raft_config(opening: &Opening) -> grid_raft::Config {
    let dir = data_dir::raft_dir(&opening.data_dir);
    let mut config = data_dir::raft_config(dir, &opening.settings.node_id, &opening.raft_addr, opening.feature_level);
    config.cluster_id = data_dir::cluster_id_without_record(&opening.data_dir);
    config.member.api_url.clone_from(&opening.settings.api_url);
    config.member.grpc_addr.clone_from(&opening.settings.grpc_addr);
    config.heartbeat_ms = opening.pace.heartbeat_ms;
    config.election_ms = (opening.pace.election_ms, opening.pace.election_ms * 2);
    config
}
