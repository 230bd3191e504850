//! Publishes the offer of a step to all its nodes with one message (N2).
//!
//! The leader hands offers over while it holds its lock, so they are queued here and published by a task. What is queued when the
//! connection breaks is lost, and comes to each session as soon as its worker's list of leases shows it (W5).

use std::sync::Arc;

use tokio::sync::mpsc;

use super::client::{Client, PublishError};
use super::command::{self, Encoded};
use crate::offer_many::{Broadcaster, NotPublished, OfferMany};

/// Broadcasts that wait for the connection: more than a leader has jobs at once that begin a step at the same moment.
const QUEUE: usize = 256;

/// Publishes while the connection is up.
pub struct NatsBroadcaster {
    cluster_id: String,
    client: Client,
    queue: mpsc::Sender<Encoded>,
}

impl NatsBroadcaster {
    /// The broadcaster, and the task that publishes what it queues; the task ends with the last reference to the broadcaster.
    pub fn new(client: Client, cluster_id: String) -> (Arc<Self>, impl Future<Output = ()> + Send) {
        let (queue, queued) = mpsc::channel(QUEUE);
        let publishing = publish_all(client.clone(), queued);
        (Arc::new(Self { cluster_id, client, queue }), publishing)
    }
}

impl Broadcaster for NatsBroadcaster {
    fn publish(&self, offer: &OfferMany) -> Result<(), NotPublished> {
        if !self.client.is_connected() {
            return Err(NotPublished::Disconnected);
        }
        let encoded = command::encode(offer, &self.cluster_id).map_err(|_| NotPublished::NoMessage)?;
        if encoded.payload.len() > self.client.split_bytes() {
            return Err(NotPublished::NoMessage);
        }
        self.queue.try_send(encoded).map_err(|_| NotPublished::QueueFull)
    }
}

async fn publish_all(client: Client, mut queued: mpsc::Receiver<Encoded>) {
    while let Some(Encoded { subject, headers, payload }) = queued.recv().await {
        match client.publish(subject, Some(headers), payload).await {
            Ok(()) => {}
            Err(PublishError::Disconnected) => tracing::debug!("a broadcast was dropped: the connection is down"),
            Err(error) => tracing::warn!("a broadcast was dropped, and its nodes are offered the lease again: {error}"),
        }
    }
}
