//! Asks a worker to stop: once to drain, twice to stop what runs.

use tokio::sync::watch;

use crate::engine::Stop;

/// Tells a worker to end. Dropping it tells nothing.
#[derive(Debug)]
pub struct ShutdownHandle {
    stop: watch::Sender<Stop>,
}

impl ShutdownHandle {
    /// The first call drains, the second stops.
    pub fn signal(&self) {
        self.stop.send_modify(|stop| {
            *stop = match stop {
                Stop::No => Stop::Drain,
                Stop::Drain | Stop::Now => Stop::Now,
            }
        });
    }
}

/// What a worker listens to.
#[derive(Debug, Clone)]
pub struct Shutdown {
    stop: watch::Receiver<Stop>,
}

impl Shutdown {
    #[must_use]
    pub fn new() -> (ShutdownHandle, Self) {
        let (sender, stop) = watch::channel(Stop::No);
        (ShutdownHandle { stop: sender }, Self { stop })
    }

    /// The next, stronger word.
    pub(crate) async fn next(&mut self) -> Stop {
        match self.stop.changed().await {
            Ok(()) => *self.stop.borrow_and_update(),
            Err(_) => std::future::pending().await,
        }
    }
}
