//! Outputs of leases: one file each under `output/<job>/<step>-<attempt>-e<epoch>`, its last bytes in memory.
//!
//! A file is made with the first byte, since most actions say little or nothing. It is not synced: the result that
//! counts carries the last bytes. When the leader has stored those and they are all there is, the file is removed: most
//! outputs are short, and a file per lease would soon be most of the data folder. Of the rest at most [`OUTPUT_CAP_BYTES`]
//! of a lease are kept, in total [`TOTAL_BYTES`] for [`KEEP_FOR`], oldest first.
//! Outputs never fill the disk: when it is short, old ones are removed, and then the rest of those being written is not kept
//! (`space`). Either way the output itself says where it was cut.
//! Not here: sending outputs to a controller (`logs`).

mod sink;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use grid_types::LeaseKey;
use grid_types::limits::{OUTPUT_CAP_BYTES, OUTPUT_TAIL_BYTES};

use crate::space::Space;
pub use sink::Sink;

const KEEP_FOR: Duration = Duration::from_secs(7 * 24 * 3600);
const TOTAL_BYTES: u64 = 2 * 1024 * 1024 * 1024;

#[derive(Debug)]
pub struct Outputs {
    dir: PathBuf,
    cap_bytes: u64,
    total_bytes: u64,
    space: Space,
    shared: Mutex<Shared>,
}

#[derive(Debug)]
struct Shared {
    tail_bytes: usize,
    /// Leases that still write.
    open: BTreeSet<LeaseKey>,
    /// How many read each.
    read: BTreeMap<LeaseKey, usize>,
}

impl Outputs {
    #[must_use]
    pub fn new(data_dir: &Path) -> Self {
        let shared = Shared { tail_bytes: OUTPUT_TAIL_BYTES, open: BTreeSet::new(), read: BTreeMap::new() };
        Self {
            dir: data_dir.join("output"),
            cap_bytes: OUTPUT_CAP_BYTES,
            total_bytes: TOTAL_BYTES,
            space: Space::of(data_dir),
            shared: Mutex::new(shared),
        }
    }

    /// As the leader asked for at registration.
    pub fn set_tail_bytes(&self, tail_bytes: u32) {
        let bounded = usize::try_from(tail_bytes).unwrap_or(usize::MAX).min(4 * OUTPUT_TAIL_BYTES);
        if bounded > 0 {
            self.lock().tail_bytes = bounded;
        }
    }

    /// Starts the output of a lease; one of an earlier, interrupted run is dropped.
    pub fn open(self: &Arc<Self>, lease: LeaseKey) -> Sink {
        let path = self.path(&lease);
        // Usually there is none.
        let _ = fs::remove_file(&path);
        let mut shared = self.lock();
        shared.open.insert(lease);
        Sink::new(Arc::clone(self), lease, path, self.cap_bytes, shared.tail_bytes)
    }

    /// Whether more may still come.
    #[must_use]
    pub fn is_open(&self, lease: &LeaseKey) -> bool {
        self.lock().open.contains(lease)
    }

    /// The last bytes of an output, from its file; empty if it is gone.
    #[must_use]
    pub fn tail(&self, lease: &LeaseKey) -> Vec<u8> {
        let tail_bytes = self.lock().tail_bytes as u64;
        let read = || -> io::Result<Vec<u8>> {
            let mut file = grid_folder::open(&self.path(lease))?;
            let len = file.metadata()?.len();
            file.seek(SeekFrom::Start(len.saturating_sub(tail_bytes)))?;
            let mut bytes = Vec::new();
            file.take(tail_bytes).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        read().unwrap_or_default()
    }

    #[must_use]
    pub fn path(&self, lease: &LeaseKey) -> PathBuf {
        let LeaseKey { job, job_epoch, step, attempt } = lease;
        self.dir.join(job.to_string()).join(format!("{step}-{attempt}-e{job_epoch}"))
    }

    /// While this is held the output is not discarded.
    #[must_use]
    pub fn reading(self: &Arc<Self>, lease: LeaseKey) -> Reading {
        *self.lock().read.entry(lease).or_default() += 1;
        Reading { outputs: Arc::clone(self), lease }
    }

    /// Removes the outputs of leases that are over; one that is just being read stays until it is pruned. Blocks; call it
    /// from a thread for that.
    pub fn discard(&self, leases: &[LeaseKey]) {
        for lease in leases {
            if self.lock().read.contains_key(lease) {
                continue;
            }
            let path = self.path(lease);
            if let Err(error) = self.remove(&path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(%lease, %error, "an output that is stored elsewhere could not be removed");
            }
        }
    }

    /// Removes what is too old or too much, also for the disk. Blocks; call it from a thread for that.
    pub fn prune(&self, now: SystemTime) -> io::Result<()> {
        self.prune_for(now, 0)
    }

    #[must_use]
    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    /// Whether `bytes` more may be written, if need be instead of older outputs.
    fn has_room_for(&self, bytes: u64) -> bool {
        if self.space.has_room_for(bytes) {
            return true;
        }
        if let Err(error) = self.prune_for(SystemTime::now(), bytes) {
            tracing::warn!(%error, "old outputs could not be removed");
        }
        self.space.has_room_for(bytes)
    }

    fn prune_for(&self, now: SystemTime, bytes: u64) -> io::Result<()> {
        let mut files = self.files()?;
        files.sort_by_key(|file| file.modified);
        let mut total: u64 = files.iter().map(|file| file.bytes).sum();
        let open: BTreeSet<PathBuf> = self.lock().open.iter().map(|lease| self.path(lease)).collect();
        for file in files.iter().filter(|file| !open.contains(&file.path)) {
            let age = now.duration_since(file.modified).unwrap_or_default();
            if age < KEEP_FOR && total <= self.total_bytes && self.space.has_room_for(bytes) {
                break;
            }
            match self.remove(&file.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => total -= file.bytes,
            }
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)?;
        if let Some(job_dir) = path.parent() {
            // Nobody may create a file in it meanwhile.
            let _shared = self.lock();
            // Fails while other outputs of the job are there.
            let _ = fs::remove_dir(job_dir);
        }
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        let _shared = self.lock();
        if let Some(job_dir) = path.parent() {
            grid_folder::make_dir(job_dir)?;
        }
        grid_folder::create(path)
    }

    fn files(&self) -> io::Result<Vec<Kept>> {
        let Some(jobs) = if_there(fs::read_dir(&self.dir))? else { return Ok(Vec::new()) };
        let mut files = Vec::new();
        for job in jobs {
            let job = job?;
            if !job.file_type()?.is_dir() {
                continue;
            }
            // What is discarded meanwhile is not there any more.
            let Some(outputs) = if_there(fs::read_dir(job.path()))? else { continue };
            for output in outputs {
                let output = output?;
                let Some(metadata) = if_there(output.metadata())? else { continue };
                files.push(Kept { path: output.path(), bytes: metadata.len(), modified: metadata.modified()? });
            }
        }
        Ok(files)
    }

    fn close(&self, lease: &LeaseKey) {
        self.lock().open.remove(lease);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody reads an output, or waits for more of it.
#[derive(Debug)]
pub struct Reading {
    outputs: Arc<Outputs>,
    lease: LeaseKey,
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut shared = self.outputs.lock();
        if let Some(count) = shared.read.get_mut(&self.lease) {
            *count -= 1;
            if *count == 0 {
                shared.read.remove(&self.lease);
            }
        }
    }
}

fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

struct Kept {
    path: PathBuf,
    bytes: u64,
    modified: SystemTime,
}
