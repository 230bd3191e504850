//! One session on the controller's side: what is polled to send also reads.
//!
//! ```text
//!   first message --> opened --> received, received, … --> closed
//!                        \-- refused: Closing, end
//! ```
//!
//! There is no task per session: the response stream polls the inbound stream, hands each message to the hub and waits
//! for it before it reads the next. `closed` is called from a guard's Drop, so that it also comes when the peer vanishes
//! and tonic drops the stream.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use grid_proto::v1;
use grid_types::SessionId;
use tokio_stream::Stream;
use tonic::{Status, Streaming};

use crate::closing::CloseReason;
use crate::credential::Credential;
use crate::hub::{Hub, Peer};
use crate::outbox::Outbox;

/// Messages read in one poll before other sessions get their turn.
const READS_PER_POLL: usize = 32;

type Received = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The response stream of a Heartbeat call.
pub(super) struct SessionStream<H: Hub> {
    session: SessionId,
    inbound: Streaming<v1::FromWorker>,
    /// The hub is busy with a message of this session.
    received: Option<Received>,
    outbox: Outbox,
    /// `None`: the hub refused this session.
    opened: Option<Opened<H>>,
}

struct Opened<H: Hub> {
    hub: Arc<H>,
    session: SessionId,
    outbox: Outbox,
}

impl<H: Hub> Drop for Opened<H> {
    fn drop(&mut self) {
        self.outbox.detach();
        self.hub.closed(self.session);
    }
}

impl<H: Hub> SessionStream<H> {
    pub(super) fn new(hub: &Arc<H>, mut first: v1::FromWorker, peer: Peer, inbound: Streaming<v1::FromWorker>) -> Self {
        let credential = Credential::new(first.session, first.secret.take());
        let session = credential.session;
        let outbox = Outbox::new();
        let mut stream = Self { session, inbound, received: None, outbox: outbox.clone(), opened: None };
        match hub.opened(&credential, peer, outbox.clone()) {
            Ok(()) => {
                stream.opened = Some(Opened { hub: Arc::clone(hub), session, outbox });
                stream.hand_over(first);
            }
            Err(closing) => outbox.close(closing),
        }
        stream
    }

    /// Whether the hub accepted it.
    pub(super) fn is_opened(&self) -> bool {
        self.opened.is_some()
    }

    pub(super) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    fn hand_over(&mut self, message: v1::FromWorker) {
        let Some(opened) = &self.opened else { return };
        if message.session != self.session.0 {
            self.outbox.close(CloseReason::StaleSession.message(String::new()));
            return;
        }
        let (hub, session) = (Arc::clone(&opened.hub), self.session);
        self.received = Some(Box::pin(async move { hub.received(session, message).await }));
    }

    /// Ready: the worker ended the stream, or it broke.
    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..READS_PER_POLL {
            if let Some(received) = &mut self.received {
                if received.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.received = None;
            }
            match Pin::new(&mut self.inbound).poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(message))) => self.hand_over(message),
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<H: Hub> Stream for SessionStream<H> {
    type Item = Result<v1::ToWorker, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.opened.is_some() && !self.outbox.is_closed() && self.poll_inbound(cx).is_ready() {
            self.opened = None;
            return Poll::Ready(None);
        }
        match self.outbox.poll_next(cx) {
            Poll::Ready(Some(message)) => Poll::Ready(Some(Ok(message))),
            Poll::Ready(None) => {
                self.opened = None;
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}
