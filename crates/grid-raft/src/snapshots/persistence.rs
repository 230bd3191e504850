//! Repeats what concerns snapshots until it works: a snapshot that is late costs a longer log, and nothing else.
//!
//! openraft takes any error of a snapshot for a broken disk and ends the member. A disk that is full for a while, or too many
//! open files, must not do that (L2): the log and the state are whole, and only they are worth the end of the process.
//! Not here: what is repeated (`state_machine`).

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What every snapshot of a member shares. Clones are the same.
#[derive(Debug, Clone)]
pub struct Persistence {
    /// Why the last one failed, until one works.
    trouble: Arc<watch::Sender<Option<String>>>,
    closing: watch::Receiver<bool>,
}

impl Persistence {
    /// `closing`: turns true when the member ends.
    pub fn new(closing: watch::Receiver<bool>) -> Self {
        Self { trouble: Arc::default(), closing }
    }

    /// Why the last snapshot failed; none if it did not.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.borrow().clone()
    }

    /// Does `work` until it succeeds. The error of the last time only if the member ends meanwhile.
    pub async fn until_done<T, F: Future<Output = io::Result<T>>>(
        &self,
        what: &str,
        work: impl Fn() -> F,
    ) -> io::Result<T> {
        let mut pause = FIRST_PAUSE;
        let mut closing = self.closing.clone();
        loop {
            let error = match work().await {
                Ok(done) => {
                    if self.trouble.send_replace(None).is_some() {
                        tracing::info!("snapshots work again");
                    }
                    return Ok(done);
                }
                Err(error) => error,
            };
            if *closing.borrow() {
                return Err(error);
            }
            tracing::error!("{what}: {error}; trying again in {pause:?}");
            self.trouble.send_replace(Some(format!("{what}: {error}")));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // Closed or true: the member ends.
                _ = closing.wait_for(|closing| *closing) => return Err(error),
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::watch;

    use super::Persistence;

    #[tokio::test(start_paused = true)]
    async fn issue13_a_snapshot_that_fails_is_tried_again_and_shown_meanwhile() {
        let (_open, closing) = watch::channel(false);
        let persistence = Persistence::new(closing);
        let tries = AtomicU32::new(0);
        let work = || async {
            match tries.fetch_add(1, Ordering::Relaxed) {
                0 => Err(io::Error::other("too many open files")),
                1 => {
                    let trouble = persistence.trouble().expect("shown");
                    assert!(trouble.contains("no snapshot") && trouble.contains("too many open files"), "{trouble}");
                    Err(io::Error::other("still"))
                }
                _ => Ok(7),
            }
        };
        assert_eq!(persistence.until_done("no snapshot can be taken", work).await.expect("done"), 7);
        assert_eq!((tries.load(Ordering::Relaxed), persistence.trouble()), (3, None));
    }

    #[tokio::test]
    async fn issue13_a_member_that_ends_does_not_wait_for_its_snapshot() {
        let (open, closing) = watch::channel(false);
        let persistence = Persistence::new(closing);
        open.send_replace(true);
        let failed = persistence.until_done("x", || async { Err::<(), _>(io::Error::other("y")) }).await;
        assert!(failed.is_err());
    }
}
