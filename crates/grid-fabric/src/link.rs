//! Defines the worker's side of the border, as a seam: the worker's logic knows these traits, not tonic.

use std::future::Future;
use std::pin::Pin;

use grid_proto::v1;
use grid_types::NodeId;
use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt};

use crate::credential::Credential;
use crate::leave::Leave;
use crate::refusal::FabricRefusal;

/// Why the leader did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// A controller answered, and said no.
    #[error("{0}")]
    Refused(FabricRefusal),
    /// Nobody answered, or something that is no controller.
    #[error("no answer from the controller: {0}")]
    Unreachable(String),
}

/// Makes links.
pub trait Dialer: Send + Sync + 'static {
    type Link: Link;

    /// `address`: host and port of a controller's fabric.
    fn dial(&self, address: &str) -> impl Future<Output = Result<Self::Link, LinkError>> + Send;
}

/// Makes links that reach the leader wherever it is.
pub trait Broker: Send + Sync + 'static {
    type Link: Link;

    /// `node`: whose subjects the link uses.
    fn attach(&self, node: &NodeId) -> impl Future<Output = Result<Self::Link, LinkError>> + Send;
}

/// One connection to one controller. Clones share it.
pub trait Link: Clone + Send + Sync + 'static {
    fn register(
        &self,
        request: v1::RegisterNodeRequest,
    ) -> impl Future<Output = Result<v1::RegisterNodeReply, LinkError>> + Send;

    /// Opens the session's stream with its first message, which carries the session's secret.
    fn open(&self, first: v1::FromWorker) -> impl Future<Output = Result<(Uplink, Downlink), LinkError>> + Send;

    fn drain(&self, node: String, credential: Credential) -> impl Future<Output = Result<(), LinkError>> + Send;

    fn leave(
        &self,
        node: String,
        credential: Credential,
        leave: Leave,
    ) -> impl Future<Output = Result<(), LinkError>> + Send;

    /// Ends when the chunks end, or earlier when nobody listens any more.
    fn send_logs(&self, chunks: mpsc::Receiver<v1::LogChunk>) -> impl Future<Output = Result<(), LinkError>> + Send;
}

/// What the worker says. Tiny on purpose: what is not sent yet waits where it can still be merged.
#[derive(Debug)]
pub struct Uplink {
    messages: mpsc::Sender<v1::FromWorker>,
}

impl Uplink {
    /// A sender and the queue that a link empties.
    #[must_use]
    pub fn new() -> (Self, mpsc::Receiver<v1::FromWorker>) {
        let (messages, queue) = mpsc::channel(1);
        (Self { messages }, queue)
    }

    /// Waits until a message can go out; it is made only then, so that what became ready in the meantime travels along.
    /// `None`: the stream is broken.
    pub async fn reserve(&self) -> Option<Slot<'_>> {
        self.messages.reserve().await.ok().map(|permit| Slot { permit })
    }

    /// Sends where [`Self::reserve`] has found room. Without room, or when the stream is broken, the message is lost.
    pub fn send(&self, message: v1::FromWorker) {
        let _ = self.messages.try_send(message);
    }
}

/// The right to send one message.
pub struct Slot<'a> {
    permit: mpsc::Permit<'a, v1::FromWorker>,
}

impl Slot<'_> {
    pub fn send(self, message: v1::FromWorker) {
        self.permit.send(message);
    }
}

/// What comes down to a worker.
#[derive(Debug, PartialEq)]
pub enum Arrival {
    Message(Box<v1::ToWorker>),
    /// The session goes on, and messages of either side may have been lost.
    Resumed,
}

/// What the leader says.
pub struct Downlink {
    messages: Pin<Box<dyn Stream<Item = Result<Arrival, LinkError>> + Send>>,
}

impl Downlink {
    pub fn new(messages: impl Stream<Item = Result<Arrival, LinkError>> + Send + 'static) -> Self {
        Self { messages: Box::pin(messages) }
    }

    /// The next message, for a worker that says again what stays unanswered.
    pub async fn next_message(&mut self) -> Option<Result<v1::ToWorker, LinkError>> {
        loop {
            match self.next().await? {
                Ok(Arrival::Message(message)) => return Some(Ok(*message)),
                Ok(Arrival::Resumed) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// `None`: the leader ended the stream.
    pub async fn next(&mut self) -> Option<Result<Arrival, LinkError>> {
        self.messages.next().await
    }
}
