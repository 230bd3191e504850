//! Everything that reaches the worker from its own side: leases, the disk, and whoever tells it to end.

use std::io;

use tokio::sync::mpsc;

use crate::book::LeaseEvent;
use crate::engine::Stop;
use crate::shutdown::Shutdown;

pub(crate) enum Inner {
    Lease(LeaseEvent),
    Synced(io::Result<u64>),
    Stop(Stop),
}

pub(crate) struct Inbox {
    pub(crate) events: mpsc::Receiver<LeaseEvent>,
    /// Unbounded because a thread sends; there is never more than one report per fsync.
    pub(crate) synced: mpsc::UnboundedReceiver<io::Result<u64>>,
    pub(crate) shutdown: Shutdown,
}

impl Inbox {
    /// Loses nothing when it is dropped before it is ready.
    pub(crate) async fn next(&mut self) -> Inner {
        tokio::select! {
            Some(event) = self.events.recv() => Inner::Lease(event),
            Some(synced) = self.synced.recv() => Inner::Synced(synced),
            stop = self.shutdown.next() => Inner::Stop(stop),
        }
    }

    pub(crate) fn try_next(&mut self) -> Option<Inner> {
        let event = self.events.try_recv().map(Inner::Lease);
        event.or_else(|_| self.synced.try_recv().map(Inner::Synced)).ok()
    }
}
