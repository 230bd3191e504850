//! Outputs of leases. One that fits into its result stays in memory; the rest is a file each, its last bytes in memory.
//!
//! ```text
//!   lease writes --> memory --short, ended--> journal and result --committed--> nowhere here: the controller has it
//!                       |                                        \--superseded--> file
//!                       '--long, or runs for a second--> file --committed and whole in the result--> removed
//!                                                          \--otherwise--> pruned
//! ```
//!
//! Making and removing a file costs a millisecond of CPU on ext4, many times what a short step costs. So a short output reaches the
//! disk with the record of its end in the journal, before which a repeatable step would run again anyway. A lease that has run for
//! `FILE_AFTER` gets a file: what a step printed before its worker was killed can then be shown.
//! Files are not synced: the result that counts carries the last bytes. At most [`OUTPUT_CAP_BYTES`] of a lease are kept, in total
//! `TOTAL_BYTES` for `KEEP_FOR`, oldest first. They never fill the disk: when it is short, old ones are removed, and then the rest
//! of those being written is not kept (`machine::space`). Either way the output itself says where it was cut.
//! Not here: sending outputs to a controller (`session::logs`).

mod files;
mod read;
mod sink;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use grid_types::LeaseKey;
use grid_types::limits::{OUTPUT_CAP_BYTES, OUTPUT_TAIL_BYTES};

use crate::machine::space::Space;
pub(crate) use read::{Look, Wanted};
pub(crate) use sink::Live;
pub use sink::{OutputEnd, Sink};

/// How long the output of a running lease may be in memory alone.
pub const FILE_AFTER: Duration = Duration::from_secs(1);
const KEEP_FOR: Duration = Duration::from_secs(7 * 24 * 3600);
const TOTAL_BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// What a leader may ask for at most; a record of the journal has room for it.
const MOST_TAIL_BYTES: usize = 4 * OUTPUT_TAIL_BYTES;

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
    /// Of leases that still write, and those that ended and are in memory only. As many as leases are outstanding.
    live: BTreeMap<LeaseKey, Arc<Live>>,
    /// How many read each.
    read: BTreeMap<LeaseKey, usize>,
}

impl Outputs {
    #[must_use]
    pub fn new(data_dir: &Path) -> Self {
        let shared = Shared { tail_bytes: OUTPUT_TAIL_BYTES, live: BTreeMap::new(), read: BTreeMap::new() };
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
        let bounded = usize::try_from(tail_bytes).unwrap_or(usize::MAX).min(MOST_TAIL_BYTES);
        if bounded > 0 {
            self.lock().tail_bytes = bounded;
        }
    }

    /// Starts the output of a lease; one of an earlier, interrupted run is dropped.
    pub fn open(self: &Arc<Self>, lease: LeaseKey, started_at_ms: u64) -> Sink {
        // Usually there is none.
        self.remove_files(&[lease]);
        let live = Live::new(files::run_of(started_at_ms));
        let mut shared = self.lock();
        shared.live.insert(lease, Arc::clone(&live));
        Sink::new(Arc::clone(self), lease, live, self.cap_bytes, shared.tail_bytes)
    }

    /// Takes the output of a lease that ended in an earlier process, from the journal. Nothing is taken if a file has it.
    pub fn restore(&self, lease: LeaseKey, started_at_ms: u64, bytes: Vec<u8>) {
        if files::find(&self.dir, &lease).is_ok_and(|found| !found.is_empty()) {
            return;
        }
        self.lock().live.insert(lease, Live::closed(files::run_of(started_at_ms), bytes));
    }

    /// The output of a lease if it still writes or is in memory only.
    pub(crate) fn live(&self, lease: &LeaseKey) -> Option<Arc<Live>> {
        self.lock().live.get(lease).cloned()
    }

    /// The last bytes of an output, from its file; empty if it is gone.
    #[must_use]
    pub fn tail(&self, lease: &LeaseKey) -> Vec<u8> {
        let tail_bytes = self.lock().tail_bytes as u64;
        let read = || -> io::Result<Vec<u8>> {
            let (mut file, _) = self.open_file(lease)?;
            let len = file.metadata()?.len();
            file.seek(SeekFrom::Start(len.saturating_sub(tail_bytes)))?;
            let mut bytes = Vec::new();
            file.take(tail_bytes).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        read().unwrap_or_default()
    }

    /// The newest file of a lease and its run.
    pub(crate) fn open_file(&self, lease: &LeaseKey) -> io::Result<(File, u64)> {
        let (path, run) = files::find(&self.dir, lease)?.into_iter().next().ok_or(io::ErrorKind::NotFound)?;
        Ok((grid_folder::open(&path)?, run))
    }

    /// While this is held the output is not discarded.
    #[must_use]
    pub fn reading(self: &Arc<Self>, lease: LeaseKey) -> Reading {
        *self.lock().read.entry(lease).or_default() += 1;
        Reading { outputs: Arc::clone(self), lease }
    }

    /// Drops outputs of leases that are over from memory. Returns those that may have files ([`Self::remove_files`]): one that is
    /// just being read stays until it is pruned.
    #[must_use]
    pub fn discard(&self, leases: &[LeaseKey]) -> Vec<LeaseKey> {
        let mut shared = self.lock();
        let Shared { live, read, .. } = &mut *shared;
        let mut dropped = Vec::with_capacity(leases.len());
        for lease in leases {
            dropped.push((*lease, live.remove(lease), read.contains_key(lease)));
        }
        drop(shared);
        let has_file = |live: Option<Arc<Live>>| live.is_none_or(|live| live.has_file());
        let left = dropped.into_iter().filter(|(_, _, is_read)| !is_read);
        left.filter_map(|(lease, live, _)| has_file(live).then_some(lease)).collect()
    }

    /// Blocks; call it from a thread for that.
    pub fn remove_files(&self, leases: &[LeaseKey]) {
        for lease in leases {
            let removed = files::find(&self.dir, lease)
                .and_then(|found| found.iter().try_for_each(|(path, _)| self.remove(path)));
            if let Err(error) = removed
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(%lease, %error, "an output that is not needed could not be removed");
            }
        }
    }

    /// Moves an output that only this worker has from memory into a file. Blocks; call it from a thread for that.
    pub fn keep(&self, lease: &LeaseKey) {
        let Some(live) = self.live(lease) else { return };
        if let Some(bytes) = live.whole().map(Cursor::into_inner)
            && !live.has_file()
            && self.has_room_for(bytes.len() as u64)
            && let Err(error) = self.create(lease, live.run()).and_then(|mut file| file.write_all(&bytes))
        {
            tracing::warn!(%lease, %error, "the output of this lease is not kept");
        }
        // Only now: a reader finds it in one of the two.
        self.lock().live.remove(lease);
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
        let mut files = files::all(&self.dir)?;
        files.sort_by_key(|file| file.modified);
        let mut total: u64 = files.iter().map(|file| file.bytes).sum();
        let live: Vec<PathBuf> =
            self.lock().live.iter().map(|(lease, live)| files::path(&self.dir, lease, live.run())).collect();
        for file in files.iter().filter(|file| !live.contains(&file.path)) {
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

    fn create(&self, lease: &LeaseKey, run: u64) -> io::Result<File> {
        let _shared = self.lock();
        grid_folder::make_dir(&files::job_dir(&self.dir, lease))?;
        grid_folder::create(&files::path(&self.dir, lease, run))
    }

    /// Its lease writes no more.
    fn closed(&self, lease: &LeaseKey, live: &Arc<Live>) {
        if live.is_kept_in_memory() {
            return;
        }
        let mut shared = self.lock();
        if shared.live.get(lease).is_some_and(|known| Arc::ptr_eq(known, live)) {
            shared.live.remove(lease);
        }
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
