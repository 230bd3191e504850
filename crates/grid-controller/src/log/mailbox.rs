//! Holds what was applied until the leader takes it. It merges, so `apply` never waits for the leader.
//!
//! Bounded (`AppliedBatch::merge`): beyond the bound what waits is dropped, and the leader works from the state instead.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::leader::AppliedBatch;

/// What was applied and the leader has not taken yet.
#[derive(Default)]
pub struct Mailbox {
    waiting: Mutex<AppliedBatch>,
    bell: Notify,
}

impl Mailbox {
    pub fn put(&self, batch: AppliedBatch) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).merge(batch);
        self.bell.notify_one();
    }

    /// Resolves when there is something.
    pub async fn take(&self) -> AppliedBatch {
        loop {
            let batch = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            if !batch.is_empty() {
                return batch;
            }
            self.bell.notified().await;
        }
    }
}
