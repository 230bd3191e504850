//! What readers need: SQL off the async threads, events as they come, outputs of workers, backups. Each is bounded.
//!
//! Not here: the queries (`grid-store`), streams of outputs (`outputs`).

mod backups;
mod events;
mod places;
mod pulls;
mod readers;

use std::sync::Arc;

use grid_store::{Reader, StoreError};

pub use backups::Backups;
pub use events::EventFeed;
pub use places::Reads;
pub use pulls::{NotPulled, Pull, Pulled, Pulls};
pub use readers::Readers;

pub struct Reading {
    pub reader: Reader,
    pub reads: Reads,
    pub events: Arc<EventFeed>,
    pub pulls: Pulls,
    pub log_readers: Readers,
    pub backups: Backups,
}

impl Reading {
    /// SQL, off the async threads.
    pub async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, String> {
        let reader = self.reader.clone();
        let place = self.reads.place().await;
        // The place is given back when the read is done, also if nobody waits for it any more.
        let work = move || {
            let _place = place;
            query(&reader)
        };
        let read = tokio::task::spawn_blocking(work).await;
        read.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
    }
}
