//! Makes and removes the working folders of leases: `work/<job>-e<epoch>-<step>-<attempt>`, mode 0700, removed after the lease has ended.
//!
//! ```text
//!   first program of a lease --> made --> outcome reported --> queued --> removed by a thread of its own
//!                                                                 \--worker ended first--> removed after the next start
//! ```
//!
//! Made before the first program of a lease starts, since most actions run none. No outcome waits for a removal: a large tree, or a
//! mount that hangs, takes as long as it takes (W3, W9). The thread is not the runtime's: the end of a runtime waits for those.
//! What a killed worker left is renamed at the next start, after what it left running was ended, so that a lease that runs again
//! gets a new folder; then it is removed like the others.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use grid_folder::{TASKS, make_dir, remove_tree};
use grid_tasks::Tasks;
use grid_types::LeaseKey;
use tokio::sync::watch;

use crate::machine::space::with_reserve;

/// Folders that wait for their removal; what is more is left to the next start.
const WAITING: usize = 4096;
/// How names of folders begin that an earlier process left.
const LEFT: &str = "left-";

/// Where the working folders of a worker are.
#[derive(Debug)]
pub struct WorkFolders {
    data_dir: PathBuf,
    /// To the thread that removes them; none if it could not be started.
    queue: Option<(SyncSender<Vec<PathBuf>>, JoinHandle<()>)>,
    waiting: watch::Sender<usize>,
    /// Its sender goes with the thread.
    ended: watch::Receiver<()>,
}

impl WorkFolders {
    /// In `data_dir`. Programs get absolute paths: they are started elsewhere.
    #[must_use]
    pub fn new(data_dir: &Path) -> Self {
        Self::with(data_dir, remove_tree)
    }

    pub(crate) fn with(data_dir: &Path, remove: impl Fn(&Path) -> io::Result<()> + Send + 'static) -> Self {
        let (queue, folders) = sync_channel(WAITING);
        let waiting = watch::Sender::new(0);
        let counted = waiting.clone();
        let (alive, ended) = watch::channel(());
        let thread = std::thread::Builder::new().name("grid-removal".to_owned());
        let run = move || {
            let _alive = alive;
            remove_each(&folders, &counted, remove);
        };
        let queue = match thread.spawn(run) {
            Ok(thread) => Some((queue, thread)),
            Err(error) => {
                tracing::warn!(%error, "working folders are not removed before the next start: no thread can be started");
                None
            }
        };
        let data_dir = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned());
        Self { data_dir, queue, waiting, ended }
    }

    /// The end of the thread that removes them is the end of the worker.
    pub fn watched_by(&self, tasks: &Tasks) {
        let mut ended = self.ended.clone();
        if self.queue.is_some() {
            tasks.start("folder-removal", async move {
                // Nothing is ever sent: its end closes the channel.
                let _ = ended.changed().await;
            });
        }
    }

    /// Removes what an earlier process left, in the background.
    pub fn clear(&self) -> io::Result<()> {
        let entries = match fs::read_dir(self.data_dir.join(TASKS)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        let (mut left, mut number) = (Vec::new(), 0);
        for entry in entries.collect::<io::Result<Vec<_>>>()? {
            let path = entry.path();
            if entry.file_name().to_string_lossy().starts_with(LEFT) {
                left.push(path);
                continue;
            }
            let aside = self.unused_name(&mut number);
            match fs::rename(&path, &aside) {
                Ok(()) => left.push(aside),
                Err(error) => not_removed(&path, &error),
            }
        }
        if !left.is_empty() {
            self.queue(left);
        }
        Ok(())
    }

    /// Returns when nothing waits for its removal any more, or after `limit`.
    pub async fn removed_within(&self, limit: Duration) {
        // What is left by then is removed after the next start.
        let _ = tokio::time::timeout(limit, self.waiting.subscribe().wait_for(|waiting| *waiting == 0)).await;
    }

    /// Makes the one of a lease. On a full disk the journal's reserve is given up for it: what frees the disk may be a task.
    pub(crate) fn make(&self, lease: &LeaseKey) -> io::Result<PathBuf> {
        let path = self.path(lease);
        with_reserve(&self.data_dir, || make_dir(&path))?;
        Ok(path)
    }

    /// Removes the one of a lease with everything in it, in the background.
    pub(crate) fn remove(&self, lease: &LeaseKey) {
        self.queue(vec![self.path(lease)]);
    }

    fn queue(&self, folders: Vec<PathBuf>) {
        let Some((queue, _)) = &self.queue else { return };
        self.waiting.send_modify(|waiting| *waiting += 1);
        if queue.try_send(folders).is_err() {
            self.waiting.send_modify(|waiting| *waiting -= 1);
            tracing::warn!(
                "{WAITING} working folders wait for their removal; further ones are removed after the next start: look for a \
                 mount that hangs"
            );
        }
    }

    fn unused_name(&self, number: &mut u64) -> PathBuf {
        loop {
            let path = self.data_dir.join(TASKS).join(format!("{LEFT}{number}"));
            *number += 1;
            if fs::symlink_metadata(&path).is_err() {
                return path;
            }
        }
    }

    fn path(&self, lease: &LeaseKey) -> PathBuf {
        let LeaseKey { job, job_epoch, step, attempt } = lease;
        self.data_dir.join(TASKS).join(format!("{job}-e{job_epoch}-{step}-{attempt}"))
    }
}

fn remove_each(
    queue: &Receiver<Vec<PathBuf>>,
    waiting: &watch::Sender<usize>,
    remove: impl Fn(&Path) -> io::Result<()>,
) {
    for folders in queue {
        for folder in folders {
            if let Err(error) = remove(&folder) {
                not_removed(&folder, &error);
            }
        }
        waiting.send_modify(|waiting| *waiting -= 1);
    }
}

fn not_removed(folder: &Path, error: &io::Error) {
    tracing::warn!(folder = %folder.display(), %error, "a working folder is not removed; the next start tries again");
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, StepIndex};

    use super::WorkFolders;

    #[tokio::test]
    async fn what_was_left_does_not_meet_a_lease_that_runs_again() {
        let dir = tempfile::tempdir().unwrap();
        let lease = LeaseKey { job: JobId(1), job_epoch: JobEpoch(1), step: StepIndex(0), attempt: Attempt(1) };
        let left = WorkFolders::new(dir.path()).make(&lease).unwrap();
        std::fs::write(left.join("file"), "left").unwrap();
        let (go, gate) = channel::<()>();
        let gate = Mutex::new(gate);
        // The removal of an earlier start did not come to its end either.
        std::fs::create_dir(dir.path().join("work/left-0")).unwrap();
        let work = WorkFolders::with(dir.path(), move |folder: &Path| {
            let _ = gate.lock().unwrap().recv();
            grid_folder::remove_tree(folder)
        });
        work.clear().unwrap();
        let again = work.make(&lease).unwrap();
        assert_eq!((&again, std::fs::read_dir(&again).unwrap().count()), (&left, 0));
        drop(go);
        work.removed_within(Duration::from_secs(30)).await;
        assert_eq!(std::fs::read_dir(dir.path().join("work")).unwrap().count(), 1);
        assert!(again.exists());
    }
}
