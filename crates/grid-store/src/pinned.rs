//! Copies the store as it was at one moment, while it goes on.
//!
//! A read transaction in WAL mode sees one commit, rows and position together, however many follow: snapshots and
//! backups are copied through one, and delay nobody. L5: a copy is fsynced, file and folder, before it is used.
//! Meanwhile the WAL cannot restart, so it grows by what is written during the copy; and the store is not replaced
//! before the copy is done (`pool`).

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::error::{Fault, StoreError};
use crate::files;
use crate::pool::{LongLoan, Pool};

/// A store pinned to one commit; see [`Store::pin`](crate::Store::pin).
pub struct PinnedStore {
    loan: LongLoan,
}

impl PinnedStore {
    pub(crate) fn take(pool: &Arc<Pool>) -> Result<Self, Fault> {
        let loan = pool.lend_long()?;
        // The transaction begins with its first read.
        loan.connection()?.execute_batch("BEGIN")?;
        loan.connection()?.query_row("SELECT log_index FROM meta", [], |_| Ok(()))?;
        Ok(Self { loan })
    }

    /// Writes a copy to `path`, where nothing may be, and fsyncs it with its folder.
    pub fn write_copy(self, path: &Path) -> Result<(), StoreError> {
        self.copy_to(path).map_err(|e| e.at(path, "write a copy of the store to"))
    }

    pub(crate) fn copy_to(self, path: &Path) -> Result<(), Fault> {
        // SQLite gives its companions the mode of the file.
        drop(grid_folder::create_new(path)?);
        let mut copy = Connection::open(path)?;
        // It is fsynced as a whole below; until then nobody relies on it.
        copy.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
        let step = Backup::new(self.loan.connection()?, &mut copy)?.step(-1)?;
        if step != StepResult::Done {
            return Err(Fault::Contradiction(format!("the copy of the store stopped at {step:?}")));
        }
        drop(self);
        copy.close().map_err(|(_, e)| e)?;
        File::open(path)?.sync_all()?;
        files::sync_folder(path)
    }
}
