//! Carries one offer for many sessions (N2), and the way by which a fabric sends it with one message.
//!
//! ```text
//!   leader: OfferMany {offer, recipients} --+--> Broadcaster::publish: one message, the fabric delivers it to each recipient
//!                                           '--> otherwise into the outbox of each session
//! ```
//!
//! Sessions of workers that come through a broker ([`crate::Peer::Subject`]) hear broadcasts. A broadcast that is lost is made good like any
//! lost offer: per session, when the worker's list of leases shows that it is missing (W5).

use std::sync::{Arc, Mutex, PoisonError};

use grid_proto::v1;
use grid_types::{Name, NodeOrd, SessionId};

/// One offer for several sessions.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferMany {
    /// The epoch of the leader that decided it (W2).
    pub leader_epoch: u64,
    /// What each of them is offered; its `session` is 0.
    pub offer: v1::Offer,
    /// Who is offered it, and nobody else.
    pub recipients: Vec<Recipient>,
    /// Among which nodes the recipients are.
    pub audience: Audience,
}

/// A session that is offered a lease, with its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipient {
    /// The node.
    pub node: NodeOrd,
    /// Its session when this was decided. No session that began since is meant, even of the same node.
    pub session: SessionId,
}

/// The nodes that a broadcast reaches. Those among them that are no recipients ignore it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Audience {
    /// Every node.
    All,
    /// The nodes of a group.
    Group(Name),
}

impl OfferMany {
    /// The message for one of the recipients.
    #[must_use]
    pub fn message_for(&self, session: SessionId) -> v1::ToWorker {
        let offer = v1::Offer { session: session.0, ..self.offer.clone() };
        v1::ToWorker { leader_epoch: self.leader_epoch, offers: vec![offer], ..v1::ToWorker::default() }
    }
}

/// Sends an offer to all its recipients with one message.
pub trait Broadcaster: Send + Sync + 'static {
    /// Never waits.
    ///
    /// # Errors
    /// Nothing was sent, and each recipient gets the offer in its own session.
    fn publish(&self, offer: &OfferMany) -> Result<(), NotPublished>;
}

/// Why an offer cannot be broadcast now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotPublished {
    /// What is published already waits.
    #[error("too many broadcasts are waiting")]
    QueueFull,
    /// The list of recipients or the offer itself does not fit into one message.
    #[error("it does not fit into one message")]
    NoMessage,
    /// Nobody would hear it.
    #[error("the connection is down")]
    Disconnected,
}

/// The broadcaster of a controller, while a fabric with one is connected.
#[derive(Default)]
pub struct Broadcasts {
    current: Mutex<Option<Arc<dyn Broadcaster>>>,
}

impl Broadcasts {
    /// `None`: offers go to each session.
    pub fn set(&self, broadcaster: Option<Arc<dyn Broadcaster>>) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = broadcaster;
    }

    /// The broadcaster, if there is one at this moment.
    #[must_use]
    pub fn current(&self) -> Option<Arc<dyn Broadcaster>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
