//! Makes a data folder from a backup: a one-member cluster that goes on behind it, under the same cluster id.
//!
//! ```text
//!   restoring/  unpack and check -> log and snapshot -> raft.json   --node-id--rename-->   raft/
//! ```
//!
//! Nothing counts before the rename: a crash leaves a folder into which the same restore can be made again, a bad backup
//! leaves none at all. E2: the folder remembers for good that its generation is above the backup's, and
//! above that of a cluster which superseded it ([`restored`]).
//! Not here: raising the generation and holding the jobs (`BeginTerm`).
//! There is no `state.sqlite` in the new folder: the first start makes it from the snapshot, as it does after any loss.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use grid_raft::{LogPosition, Restored};
use grid_store::{BackupInfo, StoreError};
use grid_types::Name;

use super::OpenError;
use super::folder::{self, raft_config, raft_dir, unreadable};
use super::opening::newest_state;
use grid_core::FEATURE_LEVEL;

const UNFINISHED: &str = "restoring";

/// Where to restore what to.
#[derive(Debug, Clone)]
pub struct Restoring {
    /// Empty or not there yet.
    pub data_dir: PathBuf,
    pub node_id: Name,
    /// As peers reach this member.
    pub raft_addr: String,
    /// A backup; or a snapshot or `state.sqlite` of a damaged folder; or that folder itself.
    pub source: PathBuf,
}

/// What a restore brought.
#[derive(Debug, Clone)]
pub struct RestoredFolder {
    pub info: BackupInfo,
    pub restored: Restored,
}

/// Makes the folder. `None`: it holds this node's own data already, and was left as it is. After an error nothing was
/// created.
pub async fn restore(restoring: &Restoring) -> Result<Option<RestoredFolder>, OpenError> {
    let dir = &restoring.data_dir;
    let is_new = !dir.exists();
    folder::enter(dir)?;
    let made = make(restoring).await;
    if made.is_err() && is_new {
        // Only if it is empty: the first error is the one to report.
        let _ = fs::remove_dir(dir);
    }
    made
}

/// What the folder was restored from, if it was: its first term must begin with at least that generation (E2).
pub fn restored(data_dir: &Path) -> Result<Option<Restored>, OpenError> {
    Ok(grid_raft::identity(&raft_dir(data_dir))?.and_then(|identity| identity.restored))
}

async fn make(restoring: &Restoring) -> Result<Option<RestoredFolder>, OpenError> {
    let dir = &restoring.data_dir;
    let io = |e: std::io::Error| unreadable(dir, e);
    let is_own = folder::owned_by(dir, &restoring.node_id)?;
    if is_own && raft_dir(dir).exists() {
        return Ok(None);
    }
    folder::refuse_content(dir, &["node-id", "node-id.new", UNFINISHED])?;
    let unfinished = dir.join(UNFINISHED);
    remove(&unfinished).map_err(io)?;
    grid_folder::make_dir(&unfinished).map_err(io)?;
    let founded = found(restoring, &unfinished).await;
    let Ok(founded) = founded else {
        remove(&unfinished).map_err(io)?;
        return founded.map(Some);
    };
    if !is_own {
        folder::write_owner(dir, &restoring.node_id).map_err(io)?;
    }
    fs::rename(raft_dir(&unfinished), raft_dir(dir)).map_err(io)?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(io)?;
    remove(&unfinished).map_err(io)?;
    Ok(Some(founded))
}

async fn found(restoring: &Restoring, unfinished: &Path) -> Result<RestoredFolder, OpenError> {
    let mut config = raft_config(raft_dir(unfinished), &restoring.node_id, &restoring.raft_addr, FEATURE_LEVEL);
    config.raft_id = Some(grid_raft::new_member_id()?);
    let copy = unfinished.join("copy.sqlite");
    let (source, unpack_to, for_config) = (restoring.source.clone(), copy.clone(), config.clone());
    let unpacking = tokio::task::spawn_blocking(move || {
        let mut membership = Ok(Vec::new());
        let info = unpack(&source, &unpack_to, |info| {
            membership = grid_raft::lone_membership(&for_config, position(info));
            membership.as_ref().map_or_else(|_| Vec::new(), Clone::clone)
        })?;
        membership?;
        Ok::<_, OpenError>(info)
    });
    let info = unpacking.await.map_err(|e| unreadable(&restoring.data_dir, std::io::Error::other(e)))??;
    let restored = Restored {
        generation: info.newest_generation.saturating_add(1),
        taken_wall_ms: info.taken_wall_ms,
        index: info.applied.index,
    };
    // Its first start cannot ask the state, which is not unpacked yet.
    config.cluster_id = Some(info.cluster_id.clone());
    grid_raft::create_from_copy(&config, &copy, position(&info), restored.clone()).await?;
    Ok(RestoredFolder { info, restored })
}

/// Of a folder: the newest state in it that is sound.
fn unpack(source: &Path, to: &Path, membership: impl FnOnce(&BackupInfo) -> Vec<u8>) -> Result<BackupInfo, OpenError> {
    let source = if source.is_dir() { newest_in(source)? } else { source.to_path_buf() };
    if source.extension().is_some_and(|extension| extension == "snap") {
        grid_raft::check_snapshot(&source)?;
    }
    Ok(grid_store::unpack(&source, to, membership)?)
}

fn newest_in(dir: &Path) -> Result<PathBuf, OpenError> {
    newest_state(dir).map(|(_, path)| path).ok_or_else(|| {
        let problem = "there is neither a sound snapshot nor a sound state.sqlite in it; take a backup".to_owned();
        OpenError::Store(StoreError::BadBackup { path: dir.to_path_buf(), problem })
    })
}

fn position(info: &BackupInfo) -> LogPosition {
    LogPosition { term: info.applied.term, index: info.applied.index }
}

fn remove(dir: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
