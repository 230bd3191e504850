//! Runs one session on the controller's side: a bounded queue of what its worker says, and one task that hands it to the hub in order and
//! publishes what the leader says.
//!
//! ```text
//!   up, result --> Inlet --full--> Closing OVERFLOW
//!                    '--> hub.received, one after the other
//!   Outbox ----> node.<id>.down.<session>, until its Closing is published
//! ```
//!
//! The outbox outlives everything else: a term that ends closes it, and its last message still goes out. `hub.closed` is called once,
//! when the task ends or when the session is found to be dead (N4), whichever comes first.
//! N5: every message carries a leader epoch, `Closing` included: one that is late is recognized by it.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_nats::Subject;
use bytes::Bytes;
use grid_proto::refusals::{Kind, Port, refuse};
use grid_proto::v1;
use grid_types::{JobId, LeaderEpoch, NodeId, SessionId, StepIndex};
use prost::Message;
use tokio::sync::mpsc;

use super::client::{Client, PublishError};
use super::{result, split, subjects, wire};
use crate::hub::Hub;
use crate::outbox::Outbox;

/// Messages of one worker that wait for the hub. A worker waits for answers long before.
const MAX_QUEUED: usize = 16 * 1024;
const MAX_QUEUED_BYTES: usize = 16 << 20;
/// Messages that are taken together, so that their results are one.
const BATCH: usize = 256;

/// What a worker said.
pub(super) enum Inbound {
    Message(Box<v1::FromWorker>),
    Result { job: JobId, step: StepIndex, body: Bytes },
}

impl Inbound {
    fn bytes(&self) -> usize {
        match self {
            Self::Message(message) => message.encoded_len(),
            Self::Result { body, .. } => body.len(),
        }
    }
}

/// More waits for a session than it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

/// The end of the queue that takes in.
#[derive(Clone)]
pub(super) struct Inlet {
    queue: mpsc::Sender<(usize, Inbound)>,
    queued_bytes: Arc<AtomicUsize>,
}

impl Inlet {
    pub(super) fn push(&self, inbound: Inbound) -> Result<(), Full> {
        let bytes = inbound.bytes();
        if self.queued_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > MAX_QUEUED_BYTES {
            self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Full);
        }
        match self.queue.try_send((bytes, inbound)) {
            // One that has ended takes nothing, and its worker will be told so.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => Err(Full),
        }
    }
}

/// A session that the hub has opened.
pub(super) struct Opened<H: Hub> {
    pub(super) hub: Arc<H>,
    pub(super) session: SessionId,
    pub(super) outbox: Outbox,
    has_ended: AtomicBool,
}

impl<H: Hub> Opened<H> {
    pub(super) fn new(hub: Arc<H>, session: SessionId, outbox: Outbox) -> Self {
        Self { hub, session, outbox, has_ended: AtomicBool::new(false) }
    }

    /// Nothing is said in it any more.
    pub(super) fn end(&self) {
        if !self.has_ended.swap(true, Ordering::AcqRel) {
            self.outbox.detach();
            self.hub.closed(self.session);
        }
    }
}

/// The task of one session.
pub(super) struct Session<H: Hub> {
    pub(super) opened: Arc<Opened<H>>,
    pub(super) client: Client,
    pub(super) node: NodeId,
    pub(super) epoch: LeaderEpoch,
    queue: mpsc::Receiver<(usize, Inbound)>,
    queued_bytes: Arc<AtomicUsize>,
}

impl<H: Hub> Session<H> {
    pub(super) fn new(opened: Arc<Opened<H>>, client: Client, node: NodeId, epoch: LeaderEpoch) -> (Inlet, Self) {
        let (sender, queue) = mpsc::channel(MAX_QUEUED);
        let queued_bytes = Arc::new(AtomicUsize::new(0));
        let inlet = Inlet { queue: sender, queued_bytes: Arc::clone(&queued_bytes) };
        (inlet, Self { opened, client, node, epoch, queue, queued_bytes })
    }

    /// Runs until the outbox is closed and its last message is published.
    pub(super) async fn run(self) {
        let Self { opened, client, node, epoch, queue, queued_bytes } = self;
        let _end = EndOnDrop(Arc::clone(&opened));
        let reading = read(&opened, queue, &queued_bytes);
        let writing = write(&opened.outbox, &client, subjects::down(&node, opened.session).into(), epoch);
        tokio::select! {
            () = reading => {}
            () = writing => {}
        }
    }
}

/// However the task ends.
struct EndOnDrop<H: Hub>(Arc<Opened<H>>);

impl<H: Hub> Drop for EndOnDrop<H> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Never returns: that nobody can say anything more does not end a session.
async fn read<H: Hub>(opened: &Opened<H>, mut queue: mpsc::Receiver<(usize, Inbound)>, queued_bytes: &AtomicUsize) {
    let mut batch = Vec::new();
    while queue.recv_many(&mut batch, BATCH).await > 0 {
        let bytes = batch.iter().map(|(bytes, _)| bytes).sum();
        let messages = merged(opened.session, batch.drain(..).map(|(_, inbound)| inbound));
        for message in messages {
            opened.hub.received(opened.session, message).await;
        }
        // Only now: what the hub works on still takes its place.
        queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
    pending::<()>().await;
}

/// The messages in their order; results that follow each other are one.
fn merged(session: SessionId, batch: impl Iterator<Item = Inbound>) -> Vec<v1::FromWorker> {
    let mut messages: Vec<v1::FromWorker> = Vec::new();
    let mut last_is_results = false;
    for inbound in batch {
        match inbound {
            Inbound::Message(message) => {
                messages.push(*message);
                last_is_results = false;
            }
            Inbound::Result { job, step, body } => {
                let Some((sender, result)) = result::decode(job, step, &body) else {
                    refuse(Port::Nats, Kind::Malformed, format_args!("a result of session {session}"));
                    continue;
                };
                // Sent in an earlier session of the same worker, which reports it again in this one.
                if sender.session != session.0 {
                    continue;
                }
                match messages.last_mut() {
                    Some(last) if last_is_results && last.leader_epoch == sender.leader_epoch => {
                        last.results.push(result);
                    }
                    _ => messages.push(v1::FromWorker {
                        session: session.0,
                        leader_epoch: sender.leader_epoch,
                        results: vec![result],
                        ..Default::default()
                    }),
                }
                last_is_results = true;
            }
        }
    }
    messages
}

async fn write(outbox: &Outbox, client: &Client, subject: Subject, epoch: LeaderEpoch) {
    while let Some(message) = poll_fn(|cx| outbox.poll_next(cx)).await {
        for part in split::to_worker(message, client.split_bytes()) {
            publish(client, &subject, part, epoch).await;
        }
    }
}

/// What cannot be published is lost: it is said again when the worker's list shows that it lacks it (W5).
async fn publish(client: &Client, subject: &Subject, mut message: v1::ToWorker, epoch: LeaderEpoch) {
    if message.leader_epoch == 0 {
        message.leader_epoch = epoch.wire();
    }
    match client.publish(subject.clone(), None, wire::encoded(&message)).await {
        Ok(()) => {}
        Err(why @ PublishError::TooLarge { .. }) => {
            refuse(Port::Nats, Kind::TooLarge, format_args!("on {subject}: {why}"));
        }
        Err(why) => tracing::debug!(%subject, "a message was not published: {why}"),
    }
}

/// Ends a session that is not open here, so that its worker registers again.
pub(super) async fn close_unknown(
    client: &Client,
    node: &NodeId,
    session: SessionId,
    closing: v1::Closing,
    epoch: LeaderEpoch,
) {
    let message = v1::ToWorker { closing: Some(closing), ..Default::default() };
    publish(client, &subjects::down(node, session).into(), message, epoch).await;
}

#[cfg(test)]
mod tests {
    use grid_proto::v1;
    use grid_types::{JobId, NodeId, SessionId, StepIndex};

    use super::super::result::{self, Sender};
    use super::{Inbound, merged};

    fn result(session: u64, leader_epoch: u64, attempt: u32) -> Inbound {
        let node: NodeId = "a".parse().unwrap();
        let lease = Some(v1::Lease { job_id: 1, job_epoch: 1, step: 0, attempt });
        let ended = v1::LeaseResult { lease, status: v1::LeaseStatus::Success.into(), ..Default::default() };
        let body = result::encode(&node, Sender { session, leader_epoch }, &ended).unwrap();
        Inbound::Result { job: JobId(1), step: StepIndex(0), body }
    }

    fn heartbeat() -> Inbound {
        let heartbeat = Some(v1::Heartbeat::default());
        Inbound::Message(Box::new(v1::FromWorker { session: 7, heartbeat, ..Default::default() }))
    }

    #[test]
    fn results_that_follow_each_other_are_one_message_and_the_order_stays() {
        let batch = [result(7, 3, 1), result(7, 3, 2), heartbeat(), result(7, 3, 3), result(7, 4, 4)];
        let counts: Vec<_> =
            merged(SessionId(7), batch.into_iter()).iter().map(|m| (m.leader_epoch, m.results.len())).collect();
        assert_eq!(counts, [(3, 2), (0, 0), (3, 1), (4, 1)]);
    }

    #[test]
    fn a_result_of_another_session_or_without_sense_is_left_out() {
        let garbage = Inbound::Result { job: JobId(1), step: StepIndex(0), body: "{}".into() };
        assert!(merged(SessionId(7), [result(6, 3, 1), garbage].into_iter()).is_empty());
    }
}
