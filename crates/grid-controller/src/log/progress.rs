//! Tracks how far the store is behind the state: a batch is applied in memory first and stored a moment later.
//!
//! A reader of both reads the state first and then waits until the store has what the state had. Otherwise it could see
//! a step run whose predecessor has no result yet.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Batches, counted.
#[derive(Debug, Default)]
pub struct Progress {
    begun: AtomicU64,
    stored: AtomicU64,
    /// How many wait: without any, `stored` costs one look at this number.
    waiting: AtomicUsize,
    bell: Notify,
}

impl Progress {
    /// Before anything of it is in the state.
    pub fn begin(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    pub fn stored(&self) {
        self.stored.store(self.begun.load(Ordering::SeqCst), Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.bell.notify_waiters();
        }
    }

    /// Ask with the state in hand.
    pub fn mark(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    /// How many batches are in the state and in the store.
    pub fn both(&self) -> u64 {
        self.stored.load(Ordering::SeqCst)
    }

    /// A store that fails ends the process, and every wait with it (L2).
    pub async fn wait(&self, mark: u64) {
        let _waiter = Waiter::new(&self.waiting);
        loop {
            let mut rung = pin!(self.bell.notified());
            // Before looking, so that a batch that is stored meanwhile rings.
            rung.as_mut().enable();
            if self.stored.load(Ordering::SeqCst) >= mark {
                return;
            }
            rung.await;
        }
    }
}

/// Counts a wait, however it ends.
struct Waiter<'a>(&'a AtomicUsize);

impl<'a> Waiter<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::SeqCst);
        Self(waiting)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::Progress;

    #[tokio::test(start_paused = true)]
    async fn what_is_begun_is_waited_for_and_nothing_else() {
        let progress = Progress::default();
        progress.wait(progress.mark()).await;
        progress.begin();
        let mark = progress.mark();
        assert!(tokio::time::timeout(Duration::from_secs(9), progress.wait(mark)).await.is_err());
        assert_eq!(progress.waiting.load(Ordering::SeqCst), 0, "nobody waits any more");
        let mut waits = pin!(progress.wait(mark));
        assert!(tokio::time::timeout(Duration::from_secs(9), waits.as_mut()).await.is_err());
        progress.stored();
        waits.await;
        progress.wait(mark).await;
    }
}
