//! The SQLite store: what `apply` changed, one transaction per applied batch, and every read that the API needs.
//!
//! ```text
//!   State + Changes --Store::persist--> live tables | history | applied position      (one transaction, L3)
//!   Store::open ------------------> Parts, position  (State::from_parts rebuilds the rest, I13)
//!   Reader (a pool) --------------> rows (`rows`)
//! ```
//!
//! The log is the durability (L3) and this file a cache of it: one that was not closed in order is rebuilt from the
//! newest snapshot and the log (`seal`). Any write error is fatal to the process (L2): nothing here retries.
//! Not here: what changes (`grid-core`), when a snapshot is due and where it is (`grid-raft`), pruning of history.

mod backup;
mod cells;
mod checkpoint;
mod codec;
mod error;
mod files;
mod load;
mod noted;
mod outputs;
mod pinned;
mod pool;
mod position;
mod read;
mod restorable;
mod rows;
mod runs;
mod schema;
mod seal;
mod store;
mod write;

pub use backup::{BACKUP_VERSION, BackupInfo, Written as WrittenBackup};
pub use error::StoreError;
pub use load::Stored;
pub use pinned::PinnedStore;
pub use position::Position;
pub use read::{
    EventFilter, JobFilter, LogFilter, LogPage, LogPlace, LogRow, Reader, RerunOn, ResultFilter, Resumable,
    StoredOutput, Totals, fresh_job,
};
pub use restorable::{peek, unpack};
pub use rows::{EventRow, JobRow, NodeRow, Note, OutputGroup, Page, ResultPage, ResultRow, RunRow, StepResult};
pub use seal::is_sealed;
pub use store::{Store, check_level};
