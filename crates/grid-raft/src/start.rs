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
use std::sync::Arc;

use openraft::SnapshotPolicy;
use openraft::error::{InitializeError, RaftError};
use tokio::sync::{Mutex, watch};

use crate::applier::Applier;
use crate::config::Config;
use crate::error::OpenError;
use crate::folder::{self, Folder};
use crate::ground::Ground;
use crate::group::{Group, Member};
use crate::log_store::{LogExtent, LogSize};
use crate::machine::{LogPosition, Machine};
use crate::network::NoPeers;
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
}

pub async fn start<M: Machine>(ground: Ground, machine: M) -> Result<Started, OpenError> {
    let settings = settings(&ground.config)?;
    let released = ground.lock.released();
    let root = ground.folder.root();
    let applier = Applier::start(machine, ground.lock.clone());
    let applier = applier.map_err(OpenError::io(root, "cannot start a thread"))?;
    let state_machine = StateMachine { applier, snapshots: ground.snapshots.clone() };
    reconcile(&ground, &state_machine).await?;
    // From here on the start does without those that are damaged or older.
    ground.snapshots.tidy(&ground.sound).map_err(OpenError::io(root, "cannot tidy the snapshots in"))?;

    let Ground { config, folder, log, extent, snapshots, lock, .. } = ground;
    // It is freed with the log and the machine.
    drop(lock);
    let log_size = log.size();
    let raft = openraft::Raft::new(config.raft_id, settings, NoPeers, log, state_machine)
        .await
        .map_err(|e| OpenError::Stopped(e.to_string()))?;
    let started = Started { raft, log_size, released, snapshots, snapshot_turn: Mutex::new(()) };
    if let Err(e) = begin(&started.raft, &config, &folder, extent).await {
        started.end().await;
        return Err(e);
    }
    Ok(started)
}

impl Started {
    /// Returns when the folder is free again.
    pub async fn end(&self) {
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
async fn begin(
    raft: &openraft::Raft<Group>,
    config: &Config,
    folder: &Folder,
    extent: LogExtent,
) -> Result<(), OpenError> {
    let stopped = |e: &dyn std::fmt::Display| OpenError::Stopped(e.to_string());
    if extent.is_pristine {
        let me = Member { address: config.address.clone() };
        match raft.initialize(BTreeMap::from([(config.raft_id, me)])).await {
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => {}
            Err(e) => return Err(stopped(&e)),
        }
    }
    let raft_id = config.raft_id;
    let membership = raft
        .with_raft_state(|state| state.membership_state.effective().membership().clone())
        .await
        .map_err(|e| stopped(&e))?;
    if membership.get_node(&raft_id).is_none() {
        let reason = format!("member {raft_id} is not in the group it belongs to");
        return Err(OpenError::damaged(folder.root(), reason));
    }
    if !folder::is_initialised(folder.root()) {
        folder.mark_initialised(raft_id, None)?;
    }
    if !extent.is_pristine && membership.voter_ids().eq([raft_id]) {
        raft.trigger().elect().await.map_err(|e| stopped(&e))?;
    }
    Ok(())
}

fn shown(position: Option<LogPosition>) -> String {
    position.map_or("the beginning".into(), |position| position.to_string())
}
