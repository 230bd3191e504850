//! Defines what the controller answers to its workers.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use grid_proto::v1;
use grid_types::{LeaderEpoch, NodeId, NodeOrd, SessionId};

use crate::credential::Credential;
use crate::leave::Leave;
use crate::offer_many::Broadcaster;
use crate::outbox::Outbox;
use crate::refusal::FabricRefusal;

/// Who calls, as far as the transport knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// A connection of its own, from there if that is known.
    Connection(Option<SocketAddr>),
    /// A broker's subject, which is this node's alone: what is said on it counts for no other node.
    Subject(NodeId),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(Some(address)) => address.fmt(f),
            Self::Connection(None) => f.write_str("unknown"),
            Self::Subject(node) => write!(f, "the subjects of node {node}"),
        }
    }
}

/// The controller's side of the border.
pub trait Hub: Send + Sync + 'static {
    fn register(
        &self,
        request: v1::RegisterNodeRequest,
        peer: Peer,
    ) -> impl Future<Output = Result<v1::RegisterNodeReply, FabricRefusal>> + Send;

    fn drain(&self, node: String, credential: Credential) -> impl Future<Output = Result<(), FabricRefusal>> + Send;

    fn leave(
        &self,
        node: String,
        credential: Credential,
        leave: Leave,
    ) -> impl Future<Output = Result<(), FabricRefusal>> + Send;

    /// A session's stream is open; what the leader says goes into `outbox`. Refused: the stream answers `Closing` and ends.
    /// The credential is checked here and never again: all messages of the stream come from the client that opened it.
    fn opened(&self, credential: &Credential, peer: Peer, outbox: Outbox) -> Result<(), v1::Closing>;

    /// Awaited before the next message of that session is read: this is the back-pressure.
    fn received(&self, session: SessionId, message: v1::FromWorker) -> impl Future<Output = ()> + Send;

    /// Called exactly once after each successful `opened`, however the stream ended. By then the outbox of that stream
    /// answers `is_closed`, which distinguishes it from a newer stream of the same session.
    fn closed(&self, session: SessionId);

    /// The node that sends outputs, by the first chunk of a stream.
    fn log_sender(&self, credential: &Credential, peer: &Peer) -> Result<NodeOrd, FabricRefusal>;

    /// `false`: no reader is left; the worker is asked to stop.
    fn log_chunk(&self, node: NodeOrd, chunk: v1::LogChunk) -> impl Future<Output = bool> + Send;

    // Of a broker only; the defaults are those of a hub that serves connections alone.

    /// Resolves when this controller leads in another epoch than `known`, or leads no more; never after the controller has ended.
    fn next_epoch(&self, _known: Option<LeaderEpoch>) -> impl Future<Output = Option<LeaderEpoch>> + Send {
        std::future::pending()
    }

    /// Whether this controller reaches the broker: what its sessions are silent about while it does not is not their silence (N5).
    fn broker_is_up(&self, _is_up: bool) {}

    fn cluster_id(&self) -> String {
        String::new()
    }

    /// E2: another controller announced that it leads a cluster of this id.
    fn announced(&self, _cluster_id: &str, _epoch: LeaderEpoch) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// N8: the size of the largest message that the broker carries.
    fn broker_carries(&self, _most_bytes: usize) {}

    /// How offers are broadcast from now on; `None` as soon as they cannot be. A hub without broadcasts ignores it.
    fn broadcast_by(&self, _broadcaster: Option<Arc<dyn Broadcaster>>) {}
}
