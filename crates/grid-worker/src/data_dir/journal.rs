//! Keeps the journal: what this worker must still know after a `kill -9` or a power cut.
//!
//! Append-only, one frame per record. Appending is a plain `write`, which survives the death of the process; a caller that
//! needs it to survive the machine requests a sync and continues when it is reported. Many leases share one fsync (group
//! commit), made by a thread of its own so that the worker keeps talking meanwhile.
//! A write or fsync that fails ends the worker: after that nobody knows what is on disk.
//! A journal that is not all that this worker last wrote counts as lost (W1): what is missing may be the start of a
//! `once` lease. Opening it says so ([`Damage`]); the caller takes a new `journal_id` and starts an empty one. Refusing to
//! start instead would protect nothing more, and leave the node away until an operator comes.
//! Compaction writes what still matters into a new file and renames it over the old one. It blocks the caller; it
//! happens each time the file has doubled, so its cost is spread over as many appends.
//! Not here: what records mean (`engine::book`).

mod extent;
mod frame;
mod sync;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use extent::{Extent, Written};
pub use frame::Damage;
use sync::SyncThread;

use crate::engine::record::Record;
use crate::machine::space::is_full;
use crate::seams::{Disk, Random, Survives};

/// Below this size compaction gains nothing worth an fsync.
const COMPACT_MIN_BYTES: u64 = 4 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("journal: {0}; without it nothing can be promised: see to the disk, then start the worker again")]
    Io(#[from] io::Error),
    #[error("journal: {0}; {WAY_OUT}")]
    Damaged(#[from] Damage),
    #[error("journal: a record at byte {offset} is of no kind this version knows ({problem}); {WAY_OUT}")]
    Foreign { offset: u64, problem: String },
}

const WAY_OUT: &str = "restore the data folder, or start once with --reset-journal: outstanding once-only steps of this node \
                       then count as unknown";

/// An open journal.
pub struct Journal {
    disk: Box<dyn Disk>,
    random: Arc<dyn Random>,
    machine_boot: u64,
    seed: u64,
    len_bytes: u64,
    /// Size right after the last compaction, or at the start.
    base_bytes: u64,
    sync: SyncThread,
}

impl Journal {
    /// Reads every record and opens the journal for appending; without one, makes an empty one. `synced` is called, from
    /// another thread, up to which number everything is on disk.
    pub fn open(
        mut disk: Box<dyn Disk>,
        random: Arc<dyn Random>,
        machine_boot: u64,
        synced: impl Fn(io::Result<u64>) + Send + 'static,
    ) -> Result<(Self, Vec<Record>), JournalError> {
        let Some(bytes) = disk.read()? else {
            let sync = SyncThread::start(synced)?;
            let mut journal = Self { disk, random, machine_boot, seed: 0, len_bytes: 0, base_bytes: 0, sync };
            journal.compact(std::iter::empty())?;
            return Ok((journal, Vec::new()));
        };
        let scan = frame::scan(&bytes)?;
        extent::check(&scan, bytes.len(), &disk.read_extent()?, machine_boot)?;
        let mut records = Vec::with_capacity(scan.payloads.len());
        for range in scan.payloads {
            let offset = range.start as u64;
            let decoded = minicbor::decode(&bytes[range]);
            records.push(decoded.map_err(|e| JournalError::Foreign { offset, problem: e.to_string() })?);
        }
        let len_bytes = scan.good_bytes as u64;
        if scan.good_bytes < bytes.len() {
            tracing::warn!(
                dropped = bytes.len() - scan.good_bytes,
                "the journal ends in a record that was never wholly written, which is dropped"
            );
            disk.truncate(len_bytes)?;
        }
        let sync = SyncThread::start(synced)?;
        let mut journal = Self { disk, random, machine_boot, seed: scan.seed, len_bytes, base_bytes: len_bytes, sync };
        journal.record_extent()?;
        Ok((journal, records))
    }

    /// What can still be read of a journal that is given up.
    pub fn salvage(disk: &mut dyn Disk) -> Vec<Record> {
        let bytes = disk.read().ok().flatten().unwrap_or_default();
        frame::readable(&bytes).into_iter().filter_map(|range| minicbor::decode(&bytes[range]).ok()).collect()
    }

    /// After this the records survive the process, not yet the machine.
    pub fn append(&mut self, records: &[Record]) -> Result<(), JournalError> {
        let mut bytes = Vec::with_capacity(records.len() * 64);
        for record in records {
            frame::encode(&mut bytes, self.seed, self.len_bytes, record);
        }
        self.disk.append(&bytes)?;
        self.len_bytes += bytes.len() as u64;
        self.record_extent()
    }

    /// Asks for everything appended so far to be put on disk; `number` comes back through `synced`.
    pub fn sync(&self, number: u64) -> Result<(), JournalError> {
        self.sync.request(number, self.disk.sync_file()?);
        Ok(())
    }

    pub fn wants_compaction(&self) -> bool {
        self.len_bytes >= COMPACT_MIN_BYTES && self.len_bytes >= 2 * self.base_bytes
    }

    /// Replaces everything by `records`; afterwards all of them are on disk. False: the disk is full, and everything is as it was.
    pub fn compact(&mut self, records: impl Iterator<Item = Record>) -> Result<bool, JournalError> {
        let seed = self.random.number()?;
        let mut bytes = frame::header(seed);
        for record in records {
            frame::encode(&mut bytes, seed, 0, &record);
        }
        let next = Written { seed, len_bytes: bytes.len() as u64 };
        let announced = Extent { machine_boot: self.machine_boot, current: self.written(), next };
        self.disk.write_extent(&announced.encode(), Survives::PowerCut)?;
        match self.disk.replace(&bytes) {
            // There is no room for a second one; the one that is there goes on until it has doubled again.
            Err(error) if self.len_bytes > 0 && is_full(&error) => {
                tracing::warn!(%error, "the journal is not compacted");
                self.base_bytes = self.len_bytes;
                return self.record_extent().map(|()| false);
            }
            replaced => replaced?,
        }
        self.seed = next.seed;
        self.len_bytes = next.len_bytes;
        self.base_bytes = self.len_bytes;
        self.record_extent().map(|()| true)
    }

    fn written(&self) -> Written {
        Written { seed: self.seed, len_bytes: self.len_bytes }
    }

    fn record_extent(&mut self) -> Result<(), JournalError> {
        let extent = Extent { machine_boot: self.machine_boot, current: self.written(), next: Written::default() };
        Ok(self.disk.write_extent(&extent.encode(), Survives::Kill)?)
    }
}
