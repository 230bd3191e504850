//! Keeps what a worker needs across restarts in its data folder: its identity, the journal, outputs, working folders.
//!
//! ARCHITECTURE.md lists the files. Not here: the real files under the journal (`machine::disk`), what its records mean
//! (`engine::book`).

pub(crate) mod folder;
pub mod journal;
pub mod output;
mod work;

pub use folder::FolderError;
pub use work::WorkFolders;
