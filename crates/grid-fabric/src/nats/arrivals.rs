//! Receives what the leader sends to a worker's session over NATS: its messages, broadcasts, and the announcement of another leader.
//!
//! N5: nothing of an earlier leader counts, whenever it arrives, and an interruption of the connection does not end the session. A leader that
//! is gone without a successor closes nothing, so silence ends it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_nats::{Message, Subscriber};
use grid_proto::refusals::{Kind, Port, refuse};
use grid_proto::v1;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_stream::{Stream, StreamExt};

use super::client::Client;
use super::hearing::Hearing;
use super::pace::Pace;
use super::server::LEADER_EPOCH;
use super::wire::{Reply, decoded};
use crate::MAX_MESSAGE_BYTES;
use crate::closing::CloseReason;
use crate::link::{Arrival, LinkError};

/// The session is over after so long a silence.
const LOST_AFTER: Duration = Duration::from_secs(25);

/// What comes down, and what drives the way up: a worker that does not look at its session says nothing either.
pub(super) struct Incoming {
    pub(super) link: Client,
    pub(super) epoch: u64,
    pub(super) down: Subscriber,
    pub(super) leader: Subscriber,
    /// N2: what the leader says to many.
    pub(super) hearing: Hearing,
    pub(super) replies: Subscriber,
    /// When the leader of this session was last heard.
    pub(super) heard: Arc<watch::Sender<Instant>>,
    pub(super) ups: watch::Receiver<u64>,
    pub(super) saying: Pin<Box<dyn Future<Output = ()> + Send>>,
    pub(super) pace: Arc<Pace>,
    /// After the message that was just handed out.
    pub(super) resumed: bool,
}

impl Incoming {
    async fn next(&mut self) -> Result<Arrival, LinkError> {
        if std::mem::take(&mut self.resumed) {
            return Ok(Arrival::Resumed);
        }
        let ended = || LinkError::Unreachable("the connection to NATS has ended".to_owned());
        loop {
            let lost_at = *self.heard.borrow() + LOST_AFTER;
            tokio::select! {
                biased;
                message = self.down.next() => {
                    let Some(message) = self.message(&message.ok_or_else(ended)?) else { continue };
                    return Ok(Arrival::Message(Box::new(message)));
                }
                offered = self.hearing.next() => {
                    return Ok(Arrival::Message(Box::new(offered.ok_or_else(ended)?)));
                }
                announced = self.leader.next() => {
                    let Some(epoch) = announced_epoch(&announced.ok_or_else(ended)?) else { continue };
                    if epoch > self.epoch {
                        return Ok(Arrival::Message(Box::new(deposed(epoch))));
                    }
                }
                reply = self.replies.next() => {
                    // Not what the server says when nobody listens.
                    if matches!(Reply::decode(&reply.ok_or_else(ended)?), Some(Reply::Ok(_))) {
                        self.heard.send_replace(Instant::now());
                    }
                }
                changed = self.ups.changed() => {
                    changed.map_err(|_| ended())?;
                    self.heard.send_replace(Instant::now());
                    self.pace.answered(usize::MAX);
                    return Ok(Arrival::Resumed);
                }
                () = tokio::time::sleep_until(lost_at) => {
                    if self.link.is_connected() {
                        return Err(LinkError::Unreachable("the leader does not answer".to_owned()));
                    }
                    // N5: the session survives an interruption, however long it is.
                    self.heard.send_replace(Instant::now());
                }
                () = &mut self.saying => {}
            }
        }
    }

    /// `None`: it does not count.
    fn message(&mut self, message: &Message) -> Option<v1::ToWorker> {
        if message.payload.is_empty() {
            // The leader asks whether anybody listens (N4).
            return None;
        }
        let Some(said) = decoded::<v1::ToWorker>(&message.payload, MAX_MESSAGE_BYTES) else {
            refuse(Port::Nats, Kind::Malformed, format_args!("a message to this worker's session"));
            return None;
        };
        if said.leader_epoch < self.epoch {
            tracing::debug!(epoch = said.leader_epoch, "a message of an earlier leader is dropped");
            return None;
        }
        self.heard.send_replace(Instant::now());
        self.pace.answered(said.answers.len());
        // Leader and worker disagree about what is outstanding: something was lost, and perhaps not only that.
        self.resumed = said.ask_outstanding && said.closing.is_none();
        Some(said)
    }
}

fn announced_epoch(message: &Message) -> Option<u64> {
    message.headers.as_ref()?.get(LEADER_EPOCH)?.as_str().parse().ok()
}

/// As the earlier leader would have said it.
fn deposed(epoch: u64) -> v1::ToWorker {
    let closing = Some(CloseReason::NotLeader.message(String::new()));
    v1::ToWorker { leader_epoch: epoch, closing, ..Default::default() }
}

type Next = Pin<Box<dyn Future<Output = (Incoming, Result<Arrival, LinkError>)> + Send>>;

/// The stream of what [`Incoming::next`] returns; ends after an error.
pub(super) struct Arrivals {
    next: Option<Next>,
}

impl Arrivals {
    pub(super) fn new(incoming: Incoming) -> Self {
        Self { next: Some(after(incoming)) }
    }
}

fn after(mut incoming: Incoming) -> Next {
    Box::pin(async move {
        let arrival = incoming.next().await;
        (incoming, arrival)
    })
}

impl Stream for Arrivals {
    type Item = Result<Arrival, LinkError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(next) = &mut self.next else { return Poll::Ready(None) };
        match next.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready((incoming, arrival)) => {
                self.next = arrival.is_ok().then(|| after(incoming));
                Poll::Ready(Some(arrival))
            }
        }
    }
}
