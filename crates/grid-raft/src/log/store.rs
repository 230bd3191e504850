//! Implements openraft's log storage over `raft-log`.
//!
//! L3: an append is reported only after its fdatasync. L5: votes, truncations
//! and purges are on disk before they are answered. The commit point rides
//! along with the next append: losing it costs a replay, never an entry.
//! How far the log was flushed is marked before anyone hears of it (`mark`).
//! L1: a replication read is cut off at `MAX_REQUEST_BYTES`.
//!
//! Not here: the layout of records (`record`), snapshots (`snapshots`).
//! [`LogStore::read_vote`] forgets that this member *led*, though not what it
//! voted for: openraft would otherwise resume a leadership of the previous
//! process in the same term, and E1 counts on one leadership per term.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::Duration;

use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{AnyError, Entry, LogId, LogState, OptionalSend, RaftLogReader, Vote};
use raft_log::api::raft_log_writer::RaftLogWriter;
use raft_log::codeq::OffsetSize;
use raft_log::{RaftLog, Segment};
use tokio::sync::oneshot;

use crate::config::{Config, MAX_REQUEST_BYTES};
use crate::data_dir::folder::FolderLock;
use crate::group::{Group, StorageError, StorageIoError, log_id_of};
use crate::log::mark::Mark;
use crate::log::record::{Flushed, HeardBy, LogTypes, Record, StoredVote, not_written};
use crate::machine::LogPosition;

#[derive(Clone)]
pub struct LogStore {
    shared: Arc<Shared>,
    /// The member whose former leadership is forgotten.
    raft_id: u64,
}

struct Shared {
    /// Dropped first: it writes what is buffered and joins its thread while
    /// the folder is still ours.
    log: RwLock<RaftLog<LogTypes>>,
    mark: Arc<Mark>,
    _lock: Arc<FolderLock>,
}

/// Reads the log's size and its end without keeping it open.
#[derive(Clone)]
pub struct LogSize(Weak<Shared>);

impl LogSize {
    pub fn bytes(&self) -> u64 {
        let shared = self.0.upgrade();
        shared.map_or(0, |shared| read(&shared.log).on_disk_size())
    }

    /// The last entry, from the moment on in which it is appended.
    pub fn last(&self) -> Option<LogPosition> {
        let shared = self.0.upgrade()?;
        let log = read(&shared.log);
        log.log_state().last().map(position)
    }
}

/// What the log knows before Raft runs.
#[derive(Debug, Clone, Copy)]
pub struct LogExtent {
    pub purged: Option<LogPosition>,
    pub last: Option<LogPosition>,
    /// Neither a vote nor an entry was ever written.
    pub is_pristine: bool,
}

impl LogStore {
    pub fn open(config: &Config, raft_id: u64, dir: &Path, lock: Arc<FolderLock>, mark: Mark) -> io::Result<Self> {
        let dir = dir.to_str().ok_or_else(|| io::Error::other("the path is not UTF-8"))?;
        let mut settings = raft_log::Config::new(dir);
        settings.wal.chunk_max_size = Some(config.log_chunk_bytes);
        settings.wal.read_buffer_size = Some(1 << 20);
        // openraft awaits each flush, so waiting for company only adds latency.
        settings.wal.flush_batch_wait = Some(Duration::ZERO);
        settings.log_cache_capacity = Some(config.log_cache_bytes);

        let log = RwLock::new(RaftLog::open(Arc::new(settings))?);
        let shared = Shared { log, mark: Arc::new(mark), _lock: lock };
        Ok(Self { shared: Arc::new(shared), raft_id })
    }

    pub fn size(&self) -> LogSize {
        LogSize(Arc::downgrade(&self.shared))
    }

    pub fn extent(&self) -> LogExtent {
        let log = self.read();
        let state = log.log_state();
        LogExtent {
            purged: state.purged().map(position),
            last: state.last().map(position),
            is_pristine: state.vote().is_none() && state.last().is_none(),
        }
    }

    /// The term of the entry at `index`, if the log still holds it.
    pub fn term_at(&self, index: u64) -> io::Result<Option<u64>> {
        let log = self.read();
        let entry = log.read(index, index.saturating_add(1)).next();
        entry.map(|entry| Ok(entry?.0.0)).transpose()
    }

    /// The first entry from `from` on whose payload `readable` does not take, and why.
    pub fn first_refused(
        &self,
        from: u64,
        readable: impl Fn(&[u8]) -> Result<(), String>,
    ) -> io::Result<Option<(LogPosition, String)>> {
        let LogExtent { purged, last, .. } = self.extent();
        let from = from.max(purged.map_or(0, |purged| purged.index.saturating_add(1)));
        let Some(last) = last.filter(|last| last.index >= from) else { return Ok(None) };
        for entry in self.read().read(from, last.index.saturating_add(1)) {
            let (id, record) = entry?;
            if let openraft::EntryPayload::Normal(proposal) = record.into_payload()?
                && let Err(reason) = readable(&proposal.payload)
            {
                return Ok(Some((position(&id), reason)));
            }
        }
        Ok(None)
    }

    /// What the log lacks between its purge point and its first entry.
    pub fn missing_at_begin(&self) -> io::Result<Option<String>> {
        let LogExtent { purged, last, .. } = self.extent();
        let first = purged.map_or(0, |purged| purged.index.saturating_add(1));
        if last.is_none_or(|last| last.index < first) || self.term_at(first)?.is_some() {
            return Ok(None);
        }
        Ok(Some(format!("raft-log lacks its first files: entry {first} is not there")))
    }

    /// Makes an empty log go on behind `position`, of which there is a snapshot.
    pub async fn begin_after(&self, position: LogPosition, vote: Vote<u64>) -> io::Result<()> {
        self.write_through(|log| {
            log.save_vote(StoredVote(vote))?;
            log.purge((position.term, position.index))
        })
        .await
    }

    fn read(&self) -> RwLockReadGuard<'_, RaftLog<LogTypes>> {
        read(&self.shared.log)
    }

    fn write(&self) -> RwLockWriteGuard<'_, RaftLog<LogTypes>> {
        // `raft-log` checks a record before it changes anything, so a panic
        // elsewhere leaves nothing half-written.
        let log = &self.shared.log;
        log.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `change` and returns when it is on disk.
    async fn write_through(
        &self,
        change: impl FnOnce(&mut RaftLog<LogTypes>) -> io::Result<Segment>,
    ) -> io::Result<()> {
        let (tx, rx) = oneshot::channel();
        {
            let mut log = self.write();
            let upto = change(&mut log)?.end().0;
            log.flush(true, Some(self.flushed(upto, HeardBy::Waiting(tx))))?;
        }
        rx.await.unwrap_or_else(|_| Err(io::Error::other("the log's writer has ended")))
    }

    fn flushed(&self, upto: u64, heard_by: HeardBy) -> Flushed {
        Flushed { mark: self.shared.mark.clone(), upto, heard_by }
    }

    fn entries(&self, from: u64, to: u64, max_bytes: usize) -> io::Result<Vec<Entry<Group>>> {
        let mut entries = Vec::new();
        let mut bytes = 0;
        if from >= to {
            return Ok(entries);
        }
        for entry in self.read().read(from, to) {
            let (id, record) = entry?;
            bytes += record.len();
            if bytes > max_bytes && !entries.is_empty() {
                break;
            }
            entries.push(Entry { log_id: log_id(&id), payload: record.into_payload()? });
        }
        Ok(entries)
    }
}

impl RaftLogReader<Group> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry<Group>>, StorageError> {
        let from = match range.start_bound() {
            Bound::Included(from) => *from,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(to) => *to,
            Bound::Unbounded => u64::MAX,
        };
        self.entries(from, to, usize::MAX).map_err(read_failed)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry<Group>>, StorageError> {
        self.entries(start, end, MAX_REQUEST_BYTES).map_err(read_failed)
    }
}

impl RaftLogStorage<Group> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Group>, StorageError> {
        let log = self.read();
        let state = log.log_state();
        Ok(LogState { last_purged_log_id: state.purged().map(log_id), last_log_id: state.last().map(log_id) })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> Result<(), StorageError> {
        let vote = StoredVote(*vote);
        self.write_through(|log| log.save_vote(vote))
            .await
            .map_err(|e| StorageIoError::write_vote(AnyError::error(e)).into())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<u64>>, StorageError> {
        let mut vote = self.read().log_state().vote().map(|vote| vote.0);
        if let Some(vote) = &mut vote
            && vote.leader_id.voted_for == Some(self.raft_id)
        {
            vote.committed = false;
        }
        Ok(vote)
    }

    async fn save_committed(&mut self, committed: Option<LogId<u64>>) -> Result<(), StorageError> {
        let Some(committed) = committed.as_ref().map(stored_id) else {
            return Ok(());
        };
        let mut log = self.write();
        let state = log.log_state();
        // A hint for the next start; one that the log cannot back is dropped.
        if Some(&committed) > state.committed() && Some(&committed) <= state.last() {
            log.commit(committed).map_err(write_failed)?;
        }
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId<u64>>, StorageError> {
        Ok(self.read().log_state().committed().map(log_id))
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<Group>) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry<Group>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut log = self.write();
        let purged = log.log_state().purged().map(|id| id.1);
        // An empty append tells where the log ends.
        let mut end = log.append([]).map_err(write_failed)?;
        for entry in entries {
            // A leader may send again what a snapshot already covers here.
            if Some(entry.log_id.index) <= purged {
                continue;
            }
            let record = Record::from_payload(&entry.payload).map_err(write_failed)?;
            if let openraft::EntryPayload::Normal(proposal) = &entry.payload {
                proposal.mark_appended();
            }
            end = log.append([(stored_id(&entry.log_id), record)]).map_err(write_failed)?;
        }
        log.flush(true, Some(self.flushed(end.end().0, HeardBy::Append(callback)))).map_err(write_failed)
    }

    async fn truncate(&mut self, since: LogId<u64>) -> Result<(), StorageError> {
        self.write_through(|log| log.truncate(since.index)).await.map_err(write_failed)
    }

    async fn purge(&mut self, upto: LogId<u64>) -> Result<(), StorageError> {
        self.write_through(|log| log.purge(stored_id(&upto))).await.map_err(write_failed)
    }
}

fn read(log: &RwLock<RaftLog<LogTypes>>) -> RwLockReadGuard<'_, RaftLog<LogTypes>> {
    log.read().unwrap_or_else(PoisonError::into_inner)
}

fn position(id: &(u64, u64)) -> LogPosition {
    LogPosition { term: id.0, index: id.1 }
}

fn log_id(id: &(u64, u64)) -> LogId<u64> {
    log_id_of(position(id))
}

fn stored_id(id: &LogId<u64>) -> (u64, u64) {
    (id.leader_id.term, id.index)
}

fn read_failed(e: io::Error) -> StorageError {
    StorageIoError::read_logs(AnyError::error(e)).into()
}

fn write_failed(e: io::Error) -> StorageError {
    StorageIoError::write_logs(AnyError::error(not_written(e))).into()
}
