//! Manages the data folder of a controller: whose it is, how its log and its store are opened, how it is made from a backup.

mod folder;
mod opening;
mod restore;

use std::path::PathBuf;

use grid_store::StoreError;

pub use folder::{
    accept_join, check, cluster_id_without_record, enter, has_cluster, prepare_join, raft_config, raft_dir,
};
pub use opening::{take, with_way_out};
pub use restore::{RestoredFolder, Restoring, restore, restored};

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
    /// It was removed from its cluster.
    #[must_use]
    pub fn is_removal(&self) -> bool {
        matches!(self, Self::Raft(grid_raft::OpenError::Removed { .. }))
    }
}
