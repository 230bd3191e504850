//! How far the store is behind the state: a batch is applied in memory first and stored a moment later.
//!
//! Whoever looks at both, the state first, waits in between until the store has what the state had; otherwise it would see
//! a step run whose predecessor has no result yet.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const POLL: Duration = Duration::from_millis(2);

/// Batches, counted.
#[derive(Debug, Default)]
pub struct Progress {
    begun: AtomicU64,
    stored: AtomicU64,
}

impl Progress {
    /// Before anything of it is in the state.
    pub fn begin(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    pub fn stored(&self) {
        self.stored.store(self.begun.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Ask with the state in hand.
    pub fn mark(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    /// A store that fails ends the process, and every wait with it (L2).
    pub async fn wait(&self, mark: u64) {
        while self.stored.load(Ordering::SeqCst) < mark {
            tokio::time::sleep(POLL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Progress;

    #[tokio::test(start_paused = true)]
    async fn what_is_begun_is_waited_for_and_nothing_else() {
        let progress = Progress::default();
        progress.wait(progress.mark()).await;
        progress.begin();
        let mark = progress.mark();
        assert!(tokio::time::timeout(Duration::from_secs(9), progress.wait(mark)).await.is_err());
        progress.stored();
        progress.wait(mark).await;
    }
}
