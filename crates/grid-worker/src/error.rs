//! Defines why a worker ended without being asked to.

use std::io;
use std::sync::Arc;

use grid_tasks::Failed;

use crate::data_dir::FolderError;
use crate::data_dir::journal::JournalError;

/// Why a worker ended without being asked to.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    #[error("{0}")]
    Config(String),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(
        "journal: cannot be synced: {0}; nothing can be promised any more: see to the disk, then start the worker again"
    )]
    Sync(Arc<io::Error>),
    /// A part of the worker is gone; the rest of it would do half of its work.
    #[error("{0}")]
    Task(Failed),
    /// The leader's own words.
    #[error("the controller refuses this worker: {0}")]
    Refused(String),
    #[error("this node was removed from the cluster; a worker that is started again registers as a new node")]
    Removed,
}
