//! Holds back the results of a worker until enough of the earlier ones are answered.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// Results without an answer; with outputs they are half of what the leader takes in for a session.
const MOST_UNANSWERED: usize = 512;
/// An answer may be lost: after this the worker goes on.
const PACE_LIMIT: Duration = Duration::from_secs(2);

/// Results that have no answer yet.
#[derive(Default)]
pub(super) struct Pace {
    unanswered: AtomicUsize,
    answered: Notify,
}

impl Pace {
    pub(super) async fn wait(&self) {
        let has_room = async {
            loop {
                let answered = self.answered.notified();
                if self.unanswered.load(Ordering::Relaxed) < MOST_UNANSWERED {
                    return;
                }
                answered.await;
            }
        };
        if tokio::time::timeout(PACE_LIMIT, has_room).await.is_err() {
            self.unanswered.store(0, Ordering::Relaxed);
        }
        self.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn answered(&self, answers: usize) {
        // Some answer what was said in another session, or again.
        let fewer = |unanswered: usize| Some(unanswered.saturating_sub(answers));
        let _ = self.unanswered.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
        self.answered.notify_waiters();
    }
}
