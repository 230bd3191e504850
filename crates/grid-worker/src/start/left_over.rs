//! Ends what a worker that has ended left on its machine, for its supervisor (E8).
//!
//! A worker that was killed leaves the processes of its leases behind; the next one ends them when it starts. Under
//! `grid node` there may be no next one for a long time, and the machine must be quiet before its controller dispatches work.
//! Not here: ending a worker that lives.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use grid_folder::{Kind, LockError};

use super::open_journal;
use crate::data_dir::folder::{Folder, KnownJournal};
use crate::engine::book::Book;
use crate::error::WorkerError;
use crate::machine::host;

/// How a worker's folder was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftOver {
    /// A worker lives in it.
    InUse,
    /// The folder is refused: whether a worker or its processes are left is not known.
    NotKnown { problem: String },
    /// None does, and none of its processes.
    Gone {
        /// Nothing in its journal waits for a leader's answer.
        nothing_outstanding: bool,
    },
}

/// Ends what an earlier worker left running.
///
/// # Errors
/// No worker lives there, and its journal cannot be read.
pub async fn end_left_over(data_dir: &Path) -> Result<LeftOver, WorkerError> {
    let lacks =
        |name: &str| matches!(fs::symlink_metadata(data_dir.join(name)), Err(e) if e.kind() == ErrorKind::NotFound);
    let has_identity = !lacks("identity");
    if !has_identity && lacks("lock") {
        return Ok(LeftOver::Gone { nothing_outstanding: lacks("journal") });
    }
    // The lock decides whether a worker lives there, so it comes before everything that can be refused.
    let lock = match grid_folder::lock(&data_dir.join("lock")) {
        Ok(lock) => lock,
        Err(LockError::Held { .. }) => return Ok(LeftOver::InUse),
        Err(LockError::Io(error)) => return Ok(LeftOver::NotKnown { problem: error.to_string() }),
    };
    if let Err(refused) = grid_folder::enter(data_dir, Kind::WORKER) {
        return Ok(LeftOver::NotKnown { problem: refused.to_string() });
    }
    if !has_identity {
        return Ok(LeftOver::Gone { nothing_outstanding: lacks("journal") });
    }
    let host = host();
    let mut folder = Folder::locked(data_dir, lock, None, KnownJournal::Keep, &*host.random)?;
    let is_given_up = |folder: &Folder| folder.replaced_journal_id().is_some();
    let (was_given_up, id) = (is_given_up(&folder), folder.journal_id().to_owned());
    let mut book = Book::new(1);
    open_journal(&mut folder, &mut book, &host, |_| {}).await?;
    book.recover();
    // What a journal knew that is lost may have run.
    let knows_all = !was_given_up && folder.journal_id() == id;
    Ok(LeftOver::Gone { nothing_outstanding: knows_all && book.outstanding_count() == 0 })
}
