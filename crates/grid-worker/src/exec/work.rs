//! Working folders of leases: `work/<job>-e<epoch>-<step>-<attempt>`, mode 0700, gone when the lease is over.
//!
//! Made before the first program of a lease starts, since most actions run none. What a killed worker left is removed at the
//! next start, after what it left running was ended.
//! Removal follows no link: a task may have put any in its folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use grid_folder::{TASKS, make_dir};
use grid_types::LeaseKey;

use crate::space::with_reserve;

/// Where the working folders of a worker are.
#[derive(Debug, Clone)]
pub struct WorkFolders {
    data_dir: PathBuf,
}

impl WorkFolders {
    /// In `data_dir`. Programs get absolute paths: they are started elsewhere.
    #[must_use]
    pub fn new(data_dir: &Path) -> Self {
        Self { data_dir: std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned()) }
    }

    /// Removes what an earlier process left. Blocks.
    pub fn clear(&self) -> io::Result<()> {
        removed(&self.data_dir.join(TASKS))
    }

    /// Makes the one of a lease. On a full disk the journal's reserve is given up for it: what frees the disk may be a task.
    pub(super) fn make(&self, lease: &LeaseKey) -> io::Result<PathBuf> {
        let path = self.path(lease);
        with_reserve(&self.data_dir, || make_dir(&path))?;
        Ok(path)
    }

    /// Removes the one of a lease with everything in it. Blocks, for long if there is much.
    pub(super) fn remove(&self, lease: &LeaseKey) -> io::Result<()> {
        removed(&self.path(lease))
    }

    fn path(&self, lease: &LeaseKey) -> PathBuf {
        let LeaseKey { job, job_epoch, step, attempt } = lease;
        self.data_dir.join(TASKS).join(format!("{job}-e{job_epoch}-{step}-{attempt}"))
    }
}

fn removed(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
