//! Starts a member.
//!
//! ```text
//!   checked folder -> compare with machine -> install snapshot? -> run -> first membership? -> mark folder
//! ```
//!
//! L5: if the machine is below the log's purge point, the newest snapshot
//! is installed before anything is replayed. Nothing is repaired by guessing: a
//! machine and a log that do not belong together are refused.
//! Not here: locking and checking the folder (`checked_folder`), what a member does while it runs (`member`).
//! A lone voter starts an election at once: no other member can answer, so
//! waiting for a timeout would only delay the start.

pub mod checked_folder;
pub mod restored;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, RwLock};

use openraft::SnapshotPolicy;
use openraft::error::{InitializeError, RaftError};
use tokio::sync::{Mutex, watch};

use crate::config::{Config, Start};
use crate::data_dir::folder;
use crate::error::OpenError;
use crate::group::Member;
use crate::log::store::LogExtent;
use crate::machine::{LogPosition, Machine};
use crate::member::RunningMember;
use crate::member::rolled_back::Comparison;
use crate::peers::Peers;
use crate::peers::network::Network;
use crate::snapshots::persistence::Persistence;
use crate::start::checked_folder::CheckedFolder;
use crate::state_machine::applier::Applier;
use crate::state_machine::{InstallError, StateMachine};

pub async fn start<M: Machine>(checked: CheckedFolder, machine: M) -> Result<RunningMember, OpenError> {
    let settings = settings(&checked.config)?;
    let released = checked.lock.released();
    let root = checked.folder.root();
    let applier = Applier::start(machine, checked.lock.clone());
    let applier = applier.map_err(OpenError::io(root, "cannot start a thread"))?;
    let closing = watch::Sender::new(false);
    let persistence = Persistence::new(closing.subscribe());
    let state_machine =
        StateMachine { applier, snapshots: checked.snapshots.clone(), persistence: persistence.clone() };
    reconcile(&checked, &state_machine).await?;
    // From here on the start does without those that are damaged or older.
    checked.snapshots.tidy(&checked.sound).map_err(OpenError::io(root, "cannot tidy the snapshots in"))?;

    let CheckedFolder { config, start, local, folder, log, extent, snapshots, lock, .. } = checked;
    // It is freed with the log and the machine.
    drop(lock);
    let log_size = log.size();
    let peers = Peers::new(local);
    let me = peers.me().clone();
    let raft = openraft::Raft::new(me.raft_id, settings, Network(peers.clone()), log, state_machine)
        .await
        .map_err(|e| OpenError::Stopped(e.to_string()))?;
    peers.follow(raft.server_metrics(), raft.data_metrics());
    // `candidacy` decides from here on.
    raft.runtime_config().elect(false);
    let record = Member { folder_id: me.folder_id.clone(), ..config.member.clone() };
    let started = RunningMember {
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
async fn reconcile(checked: &CheckedFolder, state_machine: &StateMachine) -> Result<(), OpenError> {
    let (folder, extent) = (&checked.folder, checked.extent);
    let damaged = |e: std::io::Error| OpenError::damaged(folder.root(), e);
    let position = state_machine.applier.position().await;
    let applied = position.map_err(OpenError::Machine)?.applied;
    let base = checked.base();
    let snapshot_at = base.and_then(|snapshot| snapshot.last);

    // A snapshot beyond the log was received just before a crash; a machine without anything is spared the replay.
    let is_behind = applied < extent.purged || (snapshot_at > extent.last && applied < snapshot_at);
    if is_behind || (applied.is_none() && base.is_some()) {
        let snapshot = base.ok_or_else(|| checked.no_base())?;
        tracing::warn!("the state is at {}: installing the snapshot at {}", shown(applied), shown(snapshot.last));
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
    match checked.log.term_at(machine.index).map_err(damaged)? {
        Some(term) if term != machine.term => Err(mismatch(format!("its entry {} has term {term}", machine.index))),
        _ => Ok(()),
    }
}

/// Forms the group if there is none yet, and speeds up the first election.
async fn begin(started: &RunningMember, start: Start, extent: LogExtent) -> Result<(), OpenError> {
    let RunningMember { raft, folder, peers, record, .. } = started;
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

fn shown(position: Option<LogPosition>) -> String {
    position.map_or("the beginning".into(), |position| position.to_string())
}
