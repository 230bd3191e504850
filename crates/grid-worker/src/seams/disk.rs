//! Defines the files under the journal as a seam: a test or a simulator uses a disk that loses what was not synced.

use std::io;
use std::sync::Arc;

/// What a write survives when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survives {
    /// The death of the process.
    Kill,
    PowerCut,
}

pub trait Disk: Send + 'static {
    /// Everything in the file; `None` if there is none.
    fn read(&mut self) -> io::Result<Option<Vec<u8>>>;
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn truncate(&mut self, len_bytes: u64) -> io::Result<()>;
    /// Replaces the file; after this the new content, and only that, survives a power cut.
    fn replace(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Syncs what was appended before this call, from any thread.
    fn sync_file(&self) -> io::Result<Arc<dyn SyncFile>>;
    /// The few bytes beside the file; empty if there are none.
    fn read_extent(&mut self) -> io::Result<Vec<u8>>;
    /// Written at once: the death of the process leaves the old or the new bytes. So does a power cut if it has to survive one, and it
    /// leaves the new ones.
    fn write_extent(&mut self, bytes: &[u8], survives: Survives) -> io::Result<()>;
    /// Moves the file out of the way, so that it can be inspected. Done when this returns, power cut or not.
    fn set_aside(&mut self) -> io::Result<()>;
}

pub trait SyncFile: Send + Sync {
    fn sync(&self) -> io::Result<()>;
}
