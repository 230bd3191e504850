//! What a worker that has ended left on its machine, for whoever supervises it (E8).
//!
//! A worker that was killed leaves the processes of its leases behind; the next one ends them when it starts. Under
//! `grid node` there may be no next one for a long time, and the machine must be quiet before its controller gives out work.
//! Not here: ending a worker that lives.

use std::path::Path;
use std::sync::Arc;

use grid_folder::{Kind, LockError};

use crate::book::Book;
use crate::config::WorkerError;
use crate::folder::Folder;
use crate::process::{Processes, SystemProcesses};
use crate::start::open_journal;

/// How a worker's folder was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOver {
    /// A worker lives in it.
    InUse,
    /// None does, and none of its processes.
    Gone {
        /// Nothing in its journal waits for a leader's answer.
        holds_nothing: bool,
    },
}

/// Ends what an earlier worker left running.
pub async fn end_left_over(data_dir: &Path) -> Result<LeftOver, WorkerError> {
    if !data_dir.join("identity").exists() {
        return Ok(LeftOver::Gone { holds_nothing: true });
    }
    let fault = |problem: String| WorkerError::Folder { path: data_dir.to_owned(), problem };
    grid_folder::enter(data_dir, Kind::WORKER).map_err(|refused| fault(refused.to_string()))?;
    match grid_folder::lock(&data_dir.join("lock")) {
        // Taken again, for good, below.
        Ok(_) => {}
        Err(LockError::Held { .. }) => return Ok(LeftOver::InUse),
        Err(LockError::Io(error)) => return Err(fault(error.to_string())),
    }
    let mut folder = Folder::open(data_dir, None, false)?;
    let is_given_up = |folder: &Folder| folder.replaced_journal_id().is_some();
    let (was_given_up, id) = (is_given_up(&folder), folder.journal_id().to_owned());
    let processes: Arc<dyn Processes> = Arc::new(SystemProcesses::new());
    let mut book = Book::new(1);
    open_journal(&mut folder, &mut book, &processes, |_| {}).await?;
    book.recover();
    // What a journal knew that is lost may have run.
    let knows_all = !was_given_up && folder.journal_id() == id;
    Ok(LeftOver::Gone { holds_nothing: knows_all && book.held_count() == 0 })
}
