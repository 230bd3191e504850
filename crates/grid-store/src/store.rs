//! Writes what was applied: one connection, one transaction per applied batch.
//!
//! L3: `persist` returns after the commit of rows, history and position together. L6: a copy is installed by renaming
//! it over the store.
//! Not here: how a copy is made (`pinned`).
//! The rename is L6's switch: `replace_by` first shuts the readers out and closes every connection, which leaves the
//! old file whole and without a WAL, so that at any moment the one name refers to all of the old data or all of the
//! new. A second name and a pointer to it would say the same with two files to keep in step.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use grid_core::{Changes, FEATURE_LEVEL, Meta, State};
use rusqlite::{Connection, TransactionBehavior};

use crate::checkpoint::{Alarm, Checkpointer};
use crate::error::{Fault, StoreError};
use crate::files;
use crate::load::{self, Stored};
use crate::pinned::PinnedStore;
use crate::pool::Pool;
use crate::position::Position;
use crate::read::Reader;
use crate::schema;
use crate::seal;
use crate::write::Written;

pub struct Store {
    path: PathBuf,
    /// None only while the file is being replaced, or after that failed.
    open: Option<Open>,
    pool: Arc<Pool>,
    alarm: Alarm,
    /// Whether a seal may lie beside the file.
    sealed: bool,
    /// Whether the last write went through: only then does closing it seal it.
    sound: bool,
}

struct Open {
    // Its thread ends before the writer closes: the last connection to close takes the WAL away.
    checkpointer: Checkpointer,
    writer: Connection,
    written: Written,
}

impl Store {
    /// Throws away what is at `path` and makes an empty store, which the log has to fill again. A foreign or newer file
    /// is refused and stays as it is.
    pub fn open_anew(path: &Path) -> Result<(Self, Stored), StoreError> {
        if files::is_older(path) || files::recognise(path)? {
            // The old WAL goes first, for good: it must not be replayed into the new file.
            let gone = files::remove_companions(path).and_then(|()| files::sync_folder(path));
            let gone = gone.and_then(|()| seal::remove(path));
            let made = gone.and_then(|()| empty_meta()).and_then(|meta| files::make(path, &meta));
            made.map_err(|e| e.at(path, "rebuild"))?;
        }
        Self::open(path)
    }

    /// Opens the store at `path` as it is (see [`is_sealed`](crate::is_sealed)), or makes an empty one. A foreign or newer file is refused and stays as it is.
    pub fn open(path: &Path) -> Result<(Self, Stored), StoreError> {
        if !files::recognise(path)? {
            let made = seal::remove(path).and_then(|()| empty_meta()).and_then(|meta| files::make(path, &meta));
            made.map_err(|e| e.at(path, "create"))?;
        }
        files::remove_with_companions(&incoming(path)).map_err(|e| e.at(path, "open"))?;
        let alarm = Alarm::default();
        let (open, stored) = Open::at(path, &alarm).map_err(|e| e.at(path, "open"))?;
        let pool = Arc::new(Pool::new(path));
        let store = Self { path: path.to_owned(), open: Some(open), pool, alarm, sealed: true, sound: true };
        Ok((store, stored))
    }

    /// Calls `report` with the reason if the thread that moves the WAL into the database fails: the process must end (L2).
    pub fn on_checkpoint_failure(&self, report: impl FnOnce(String) + Send + 'static) {
        self.alarm.set(report);
    }

    /// One transaction for entries that were applied together: what they changed, as it now is in `state`, their
    /// history in order, the position of the last of them, and the membership if it changed.
    ///
    /// An error leaves the store unusable: the process must end (L2).
    pub fn persist(
        &mut self,
        state: &State,
        changes: &[Changes],
        at: Position,
        membership: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        self.sound = false;
        self.unseal()?;
        let open = self.open.as_mut().ok_or_else(|| closed(&self.path))?;
        open.persist(state, changes, at, membership).map_err(|e| e.at(&self.path, "write"))?;
        self.sound = true;
        Ok(())
    }

    /// Pins the current state: what is persisted later is not visible through it.
    pub fn pin(&mut self) -> Result<PinnedStore, StoreError> {
        if self.open.is_none() {
            return Err(closed(&self.path));
        }
        PinnedStore::take(&self.pool).map_err(|e| e.at(&self.path, "pin"))
    }

    /// Writes a consistent copy to `path`, where nothing may be, and fsyncs it with its folder.
    pub fn write_copy(&mut self, path: &Path) -> Result<(), StoreError> {
        self.pin()?.write_copy(path)
    }

    /// Replaces everything by the copy at `path`, which stays as it is. A crash leaves either the old data or the new.
    pub fn replace_by(&mut self, path: &Path) -> Result<Stored, StoreError> {
        self.replace_by_level(path, FEATURE_LEVEL)
    }

    /// The same for a program that knows feature levels up to `known`; other copies are refused, and nothing changes (L2).
    pub fn replace_by_level(&mut self, path: &Path, known: u32) -> Result<Stored, StoreError> {
        if !files::recognise(path)? {
            let problem = "it is not there".to_owned();
            return Err(StoreError::Failed { path: path.to_owned(), doing: "install", problem });
        }
        let incoming = incoming(&self.path);
        // A damaged copy must not cost the data that is here: it is read once before the switch.
        let meta = bring(path, &incoming).map_err(|e| e.at(path, "install"))?;
        check_level(path, &meta, known)?;
        self.unseal()?;
        let gate = self.pool.shut();
        if let Some(open) = self.open.take() {
            open.close().map_err(|e| e.at(&self.path, "close"))?;
        }
        if fs::metadata(files::beside(&self.path, "-wal")).is_ok_and(|wal| wal.len() > 0) {
            let problem = "another process has it open".to_owned();
            return Err(StoreError::Failed { path: self.path.clone(), doing: "replace", problem });
        }
        files::publish(&incoming, &self.path).map_err(|e| e.at(&self.path, "replace"))?;
        let (open, stored) = Open::at(&self.path, &self.alarm).map_err(|e| e.at(&self.path, "open"))?;
        self.open = Some(open);
        drop(gate);
        Ok(stored)
    }

    /// A handle for reads; clones share a small pool of connections.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader::new(Arc::clone(&self.pool))
    }

    fn unseal(&mut self) -> Result<(), StoreError> {
        if std::mem::take(&mut self.sealed) {
            seal::remove(&self.path).map_err(|e| e.at(&self.path, "unseal"))?;
        }
        Ok(())
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Readers first: only a writer that closes last takes the WAL away.
        let _gate = self.pool.shut();
        let Some(open) = self.open.take().filter(|_| self.sound) else { return };
        if self.sealed {
            // Nothing was written: the seal that is there, if any, is still right.
            return drop(open);
        }
        if let Err(e) = open.close().and_then(|()| seal::put(&self.path)) {
            tracing::warn!("{}", e.at(&self.path, "seal"));
        }
    }
}

impl Open {
    fn at(path: &Path, alarm: &Alarm) -> Result<(Self, Stored), Fault> {
        let mut writer = schema::writer(path)?;
        let stored = load::load(&writer)?;
        let written = Written::load(&writer, &stored.parts)?;
        let checkpointer = Checkpointer::start(path, &mut writer, alarm)?;
        Ok((Self { checkpointer, writer, written }, stored))
    }

    fn persist(
        &mut self,
        state: &State,
        changes: &[Changes],
        at: Position,
        membership: Option<&[u8]>,
    ) -> Result<(), Fault> {
        let transaction = self.writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        self.written.batch(&transaction, state, changes, at, membership)?;
        transaction.commit()?;
        self.checkpointer.keep_cap(&self.writer)
    }

    fn close(self) -> Result<(), Fault> {
        drop(self.checkpointer);
        // By itself the last connection leaves the WAL where it is if that fails.
        self.writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        self.writer.close().map_err(|(_, e)| e.into())
    }
}

/// L2: whether a program that knows feature levels up to `known` takes a store with this `meta`. One in which no leader
/// has written yet has no level.
pub fn check_level(path: &Path, meta: &Meta, known: u32) -> Result<(), StoreError> {
    if meta.cluster_id.is_empty() {
        return Ok(());
    }
    let refused = |problem| StoreError::Level { path: path.to_owned(), problem };
    grid_core::check_level(meta.feature_level, known).map_err(refused)
}

fn bring(path: &Path, incoming: &Path) -> Result<Meta, Fault> {
    files::remove_with_companions(incoming)?;
    grid_folder::copy(path, incoming)?;
    let copy = schema::writer(incoming)?;
    let stored = load::load(&copy)?;
    copy.close().map_err(|(_, e)| e)?;
    Ok(stored.parts.meta)
}

/// Where a copy is brought before it takes the store's name; what is there after a crash is nothing yet.
fn incoming(path: &Path) -> PathBuf {
    files::beside(path, ".incoming")
}

fn empty_meta() -> Result<Vec<u8>, Fault> {
    minicbor::to_vec(Meta::default()).map_err(|e| Fault::Contradiction(e.to_string()))
}

fn closed(path: &Path) -> StoreError {
    let problem = "an earlier attempt to replace it failed".to_owned();
    StoreError::Failed { path: path.to_owned(), doing: "use", problem }
}
