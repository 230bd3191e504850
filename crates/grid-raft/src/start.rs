//! Starting a member.
//!
//! ```text
//!   ground -> compare with machine -> install snapshot? -> run -> first membership? -> mark folder
//! ```
//!
//! L5: if the machine stands below the log's purge point, the newest snapshot
//! is installed before anything is replayed. Nothing is repaired by guessing: a
//! machine and a log that do not belong together are refused.
//! Not here: taking and checking the folder (`ground`), the running member (`raft`).
//! A lone voter is told to stand for election at once: with nobody to hear
//! from, waiting for a timeout only delays the start.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use openraft::SnapshotPolicy;
use openraft::error::{InitializeError, RaftError};
use tokio::sync::{Mutex, watch};

use crate::applier::Applier;
use crate::config::{Config, Start};
use crate::error::OpenError;
use crate::folder::{self, Folder};
use crate::ground::Ground;
use crate::group::{Group, Member};
use crate::log_store::{LogExtent, LogSize};
use crate::machine::{LogPosition, Machine};
use crate::network::Network;
use crate::peers::Peers;
use crate::persistence::Persistence;
use crate::rolled_back::{Comparison, Missing};
use crate::snapshots::Snapshots;
use crate::state_machine::{InstallError, StateMachine};

/// A member that runs.
pub struct Started {
    pub raft: openraft::Raft<Group>,
    pub log_size: LogSize,
    /// Closes when nothing of this member touches the folder any more.
    pub released: watch::Receiver<()>,
    pub snapshots: Snapshots,
    /// One snapshot at a time: openraft ignores a request during another.
    pub snapshot_turn: Mutex<()>,
    pub folder: Folder,
    pub peers: Peers,
    /// What membership should say of this member.
    pub record: Member,
    pub lease: Duration,
    /// One snapshot is received at a time.
    pub receiving: Mutex<()>,
    /// Changes of membership, one after the other.
    pub change_turn: Mutex<()>,
    pub handing_over: AtomicBool,
    /// The term whose reads may be confirmed.
    pub open_term: AtomicU64,
    pub closing: watch::Sender<bool>,
    pub persistence: Persistence,
    /// It has been a voter, or was started as one: it does not join any more.
    pub has_joined: AtomicBool,
    /// With whom the log was compared; `None` when that is over.
    pub comparison: std::sync::Mutex<Option<Comparison>>,
    /// It knows from others whether its log is whole, as far as they know: before that it does not vote.
    pub has_compared: watch::Sender<bool>,
    /// Its log lacks what it acknowledged.
    pub rolled_back: watch::Sender<Option<Missing>>,
    /// It is known that the group goes on without this member.
    pub removed: watch::Sender<bool>,
    about: RwLock<Option<About>>,
}

/// How the program around a member describes itself, now.
pub type About = Box<dyn Fn() -> Vec<u8> + Send + Sync>;

pub async fn start<M: Machine>(ground: Ground, machine: M) -> Result<Started, OpenError> {
    let settings = settings(&ground.config)?;
    let released = ground.lock.released();
    let root = ground.folder.root();
    let applier = Applier::start(machine, ground.lock.clone());
    let applier = applier.map_err(OpenError::io(root, "cannot start a thread"))?;
    let closing = watch::Sender::new(false);
    let persistence = Persistence::new(closing.subscribe());
    let state_machine = StateMachine { applier, snapshots: ground.snapshots.clone(), persistence: persistence.clone() };
    reconcile(&ground, &state_machine).await?;
    // From here on the start does without those that are damaged or older.
    ground.snapshots.tidy(&ground.sound).map_err(OpenError::io(root, "cannot tidy the snapshots in"))?;

    let Ground { config, start, card, folder, log, extent, snapshots, lock, .. } = ground;
    // It is freed with the log and the machine.
    drop(lock);
    let log_size = log.size();
    let peers = Peers::new(card);
    let me = peers.me().clone();
    let raft = openraft::Raft::new(me.raft_id, settings, Network(peers.clone()), log, state_machine)
        .await
        .map_err(|e| OpenError::Stopped(e.to_string()))?;
    peers.follow(raft.server_metrics(), raft.data_metrics());
    // `candidacy` decides from here on.
    raft.runtime_config().elect(false);
    let record = Member { folder_id: me.folder_id.clone(), ..config.member.clone() };
    let started = Started {
        raft,
        log_size,
        released,
        snapshots,
        snapshot_turn: Mutex::new(()),
        folder: folder.clone(),
        peers,
        record,
        lease: config.lease(),
        receiving: Mutex::new(()),
        change_turn: Mutex::new(()),
        handing_over: AtomicBool::new(false),
        open_term: AtomicU64::new(0),
        closing,
        persistence,
        has_joined: AtomicBool::new(!me.joining),
        comparison: std::sync::Mutex::new(Some(Comparison::begin())),
        has_compared: watch::Sender::new(false),
        rolled_back: watch::Sender::new(None),
        removed: watch::Sender::new(false),
        about: RwLock::default(),
    };
    let begun = match begin(&started, start, extent).await {
        Ok(()) => me.save(folder.root()),
        refused => refused,
    };
    if let Err(e) = begun {
        started.end().await;
        return Err(e);
    }
    Ok(started)
}

impl Started {
    /// What this program says of itself when other members ask.
    pub fn about(&self) -> Vec<u8> {
        let about = self.about.read().unwrap_or_else(PoisonError::into_inner);
        about.as_ref().map(|about| about()).unwrap_or_default()
    }

    pub fn set_about(&self, about: About) {
        *self.about.write().unwrap_or_else(PoisonError::into_inner) = Some(about);
    }

    /// Returns when the folder is free again.
    pub async fn end(&self) {
        self.closing.send_replace(true);
        if let Err(e) = self.raft.shutdown().await {
            tracing::error!("raft task: {e}");
        }
        let mut released = self.released.clone();
        while released.changed().await.is_ok() {}
    }
}

fn settings(config: &Config) -> Result<Arc<openraft::Config>, OpenError> {
    let settings = openraft::Config {
        cluster_name: "grid".into(),
        heartbeat_interval: config.heartbeat_ms,
        election_timeout_min: config.election_ms.0,
        election_timeout_max: config.election_ms.1,
        // Requests are bounded by bytes, in `LogStore`.
        max_payload_entries: 1024,
        snapshot_policy: SnapshotPolicy::Never,
        // `Raft::trigger_snapshot` purges: by itself openraft would leave only what is behind the newest snapshot.
        max_in_snapshot_log_to_keep: u64::MAX,
        ..openraft::Config::default()
    };
    let settings = settings.validate();
    Ok(Arc::new(settings.map_err(|e| OpenError::Settings(e.to_string()))?))
}

/// L5: brings the machine to where the log can take it further.
async fn reconcile(ground: &Ground, state_machine: &StateMachine) -> Result<(), OpenError> {
    let (folder, extent) = (&ground.folder, ground.extent);
    let damaged = |e: std::io::Error| OpenError::damaged(folder.root(), e);
    let position = state_machine.applier.position().await;
    let applied = position.map_err(OpenError::Machine)?.applied;
    let base = ground.base();
    let snapshot_at = base.and_then(|snapshot| snapshot.last);

    // A snapshot beyond the log was received just before a crash; a machine without anything is spared the replay.
    let is_behind = applied < extent.purged || (snapshot_at > extent.last && applied < snapshot_at);
    if is_behind || (applied.is_none() && base.is_some()) {
        let snapshot = base.ok_or_else(|| ground.no_base())?;
        tracing::warn!("the state stands at {}: installing the snapshot at {}", shown(applied), shown(snapshot.last));
        let installed = state_machine.install(snapshot).await;
        return installed.map_err(|e| match e {
            InstallError::Snapshot(e) => damaged(e),
            InstallError::Machine(e) => OpenError::Machine(e),
        });
    }
    let Some(machine) = applied else {
        return Ok(());
    };
    let mismatch = |reason: String| OpenError::Mismatch { folder: folder.root().to_path_buf(), machine, reason };
    // Entries are on disk before they are applied, so only an installed
    // snapshot can put a machine ahead of its log.
    if applied > extent.last && applied != snapshot_at {
        return Err(mismatch(format!("it ends at {}", shown(extent.last))));
    }
    match ground.log.term_at(machine.index).map_err(damaged)? {
        Some(term) if term != machine.term => Err(mismatch(format!("its entry {} has term {term}", machine.index))),
        _ => Ok(()),
    }
}

/// Forms the group if there is none yet, and speeds up the first election.
async fn begin(started: &Started, start: Start, extent: LogExtent) -> Result<(), OpenError> {
    let Started { raft, folder, peers, record, .. } = started;
    let stopped = |e: &dyn std::fmt::Display| OpenError::Stopped(e.to_string());
    let raft_id = peers.me().raft_id;
    if extent.is_pristine && start == Start::Bootstrap {
        match raft.initialize(BTreeMap::from([(raft_id, record.clone())])).await {
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => {}
            Err(e) => return Err(stopped(&e)),
        }
    }
    let is_removed = started.unlisted_at(raft_id).await.map_err(|e| stopped(&e))?.is_some();
    let membership = raft.with_raft_state(|state| state.membership_state.effective().membership().clone()).await;
    let membership = membership.map_err(|e| stopped(&e))?;
    if is_removed && !peers.me().joining {
        return Err(OpenError::Removed { folder: folder.root().to_path_buf(), raft_id });
    }
    // A member that joins has nothing yet; `mark_when_it_holds_something` comes later.
    let holds_something = !extent.is_pristine || start != Start::Join;
    if holds_something && !folder::is_initialised(folder.root()) {
        folder.mark_initialised(raft_id, &peers.me().folder_id, None)?;
    }
    if membership.voter_ids().eq([raft_id]) {
        raft.runtime_config().elect(true);
        if !extent.is_pristine {
            raft.trigger().elect().await.map_err(|e| stopped(&e))?;
        }
    }
    Ok(())
}

impl Started {
    /// A joining member's folder belongs to the group with the first entry or snapshot it has taken.
    pub async fn mark_when_it_holds_something(&self) {
        let mut metrics = self.raft.metrics();
        let holds = metrics.wait_for(|m| m.last_log_index.is_some() || m.running_state.is_err()).await;
        if holds.is_ok_and(|m| m.running_state.is_ok())
            && !folder::is_initialised(self.folder.root())
            && let Err(e) = self.folder.mark_initialised(self.peers.me().raft_id, &self.peers.me().folder_id, None)
        {
            tracing::error!("{e}");
        }
    }
}

fn shown(position: Option<LogPosition>) -> String {
    position.map_or("the beginning".into(), |position| position.to_string())
}
