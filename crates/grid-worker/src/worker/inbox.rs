//! Collects everything that reaches the worker from its own side: leases, the disk, and requests to stop.

use std::io;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::engine::Stop;
use crate::engine::book::LeaseEvent;
use crate::shutdown::Shutdown;

pub(crate) enum Inner {
    Lease(LeaseEvent),
    Synced(u64),
    SyncFailed(Arc<io::Error>),
    Stop(Stop),
}

/// Up to which record everything is on disk; after an error nothing more is.
pub(crate) type SyncReport = Result<u64, Arc<io::Error>>;

pub(crate) struct Inbox {
    pub(crate) events: mpsc::Receiver<LeaseEvent>,
    /// From the thread that syncs: only the newest report counts.
    pub(crate) synced: watch::Receiver<SyncReport>,
    pub(crate) shutdown: Shutdown,
}

impl Inbox {
    /// Loses nothing when it is dropped before it is ready.
    pub(crate) async fn next(&mut self) -> Inner {
        tokio::select! {
            Some(event) = self.events.recv() => Inner::Lease(event),
            changed = self.synced.changed() => match changed {
                Ok(()) => self.report(),
                // Without it nothing that waits for the disk would ever go on.
                Err(_) => Inner::SyncFailed(Arc::new(io::Error::other("the thread that syncs it has ended"))),
            },
            stop = self.shutdown.next() => Inner::Stop(stop),
        }
    }

    pub(crate) fn try_next(&mut self) -> Option<Inner> {
        if let Ok(event) = self.events.try_recv() {
            return Some(Inner::Lease(event));
        }
        self.synced.has_changed().is_ok_and(|changed| changed).then(|| self.report())
    }

    fn report(&mut self) -> Inner {
        match &*self.synced.borrow_and_update() {
            Ok(up_to) => Inner::Synced(*up_to),
            Err(error) => Inner::SyncFailed(Arc::clone(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use tokio::sync::{mpsc, watch};

    use super::{Inbox, Inner, SyncReport};
    use crate::shutdown::Shutdown;

    fn inbox() -> (watch::Sender<SyncReport>, Inbox) {
        let (sender, synced) = watch::channel(Ok(0));
        (sender, Inbox { events: mpsc::channel(1).1, synced, shutdown: Shutdown::new().1 })
    }

    #[tokio::test]
    async fn issue15_3_the_end_of_the_thread_that_syncs_is_noticed() {
        let (sender, mut inbox) = inbox();
        sender.send(Ok(3)).unwrap();
        sender.send(Ok(4)).unwrap();
        drop(sender);
        assert!(matches!(inbox.next().await, Inner::Synced(4)), "the newest report first");
        let Inner::SyncFailed(error) = inbox.next().await else { panic!("it is waited for") };
        assert!(error.to_string().contains("has ended"), "{error}");
    }

    #[tokio::test]
    async fn a_failed_sync_is_reported_although_its_thread_has_ended() {
        let (sender, mut inbox) = inbox();
        sender.send(Err(Arc::new(io::Error::other("no disk")))).unwrap();
        drop(sender);
        let Inner::SyncFailed(error) = inbox.next().await else { panic!("it is lost") };
        assert_eq!(error.to_string(), "no disk");
    }
}
