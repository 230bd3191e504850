//! Queues what the leader sends to one session, until the session's stream takes it.
//!
//! ```text
//!   send --> [ message, message ] --> stream of the session
//!                 |  too much queued, or close()
//!                 '--> Closing, then nothing ever again
//! ```
//!
//! To wake a session and write a frame costs more than all that a frame carries: what nobody waits for is queued
//! without waking anyone (`send_with_next`).
//!
//! Bounded: a worker that does not read is closed instead of buffered for. Nothing is lost by that, because dispatch
//! is level-triggered (W5): the next session receives again what is still true.
//! Messages that wait are merged, so that a burst of offers and answers travels as one frame. Merging moves revokes
//! and forgets before offers; a worker reads a message in that order anyway.
//! A mutex and a waker instead of a channel: at 10,000 sessions an idle outbox has to cost a few hundred bytes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use grid_proto::v1;
use prost::Message;

use crate::closing::CloseReason;

/// Bytes queued for one session.
const MAX_QUEUED_BYTES: usize = 8 * 1024 * 1024;
/// A message is not merged beyond this; well below what a worker accepts.
const MERGE_BYTES: usize = 1024 * 1024;

/// The session is closed, or was closed just now because too much is queued for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the session is closed: its worker does not read, or is gone")]
pub struct Overflow;

/// The sending side of one session. Clones speak to the same session.
#[derive(Debug, Clone, Default)]
pub struct Outbox {
    shared: Arc<Mutex<Queue>>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Boxed: the places of a queue stay for as long as its session, and are empty for most of it.
    messages: VecDeque<Box<Queued>>,
    queued_bytes: usize,
    /// To be said last.
    closing: Option<v1::Closing>,
    closed: bool,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct Queued {
    message: v1::ToWorker,
    bytes: usize,
}

impl Outbox {
    #[must_use]
    pub fn new() -> Self {
        Self { shared: Arc::default() }
    }

    /// Queues a message. On `Err` the session is closed and everything queued for it is dropped.
    pub fn send(&self, message: v1::ToWorker) -> Result<(), Overflow> {
        let mut queue = self.lock();
        queue.take_in(message)?;
        queue.wake();
        Ok(())
    }

    /// Queues a message that may wait for the next one, or for [`Outbox::hurry`]; on `Err` as [`Outbox::send`].
    pub fn send_with_next(&self, message: v1::ToWorker) -> Result<(), Overflow> {
        self.lock().take_in(message)
    }

    /// What waits goes out now.
    pub fn hurry(&self) {
        let mut queue = self.lock();
        if !queue.messages.is_empty() {
            queue.wake();
        }
    }

    /// Whether messages wait that the worker has not received.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.lock().messages.is_empty()
    }

    /// Says why and ends the stream. What was queued is dropped.
    pub fn close(&self, closing: v1::Closing) {
        self.lock().close(closing);
    }

    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// The stream is gone: nothing can be said any more.
    pub(crate) fn detach(&self) {
        let mut queue = self.lock();
        *queue = Queue { closed: true, ..Queue::default() };
    }

    /// The next message; `None`: the last one was taken.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<v1::ToWorker>> {
        let mut queue = self.lock();
        if let Some(next) = queue.messages.pop_front() {
            queue.queued_bytes -= next.bytes;
            return Poll::Ready(Some(next.message));
        }
        if let Some(closing) = queue.closing.take() {
            return Poll::Ready(Some(v1::ToWorker { closing: Some(closing), ..Default::default() }));
        }
        if queue.closed {
            return Poll::Ready(None);
        }
        match &mut queue.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // No code panics while it holds the lock, and a half-done merge would still be a valid queue.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn take_in(&mut self, message: v1::ToWorker) -> Result<(), Overflow> {
        if self.closed {
            return Err(Overflow);
        }
        let bytes = message.encoded_len();
        if self.queued_bytes + bytes > MAX_QUEUED_BYTES {
            self.close(CloseReason::Overflow.message(String::new()));
            return Err(Overflow);
        }
        self.push(message, bytes);
        Ok(())
    }

    fn push(&mut self, message: v1::ToWorker, bytes: usize) {
        self.queued_bytes += bytes;
        match self.messages.back_mut() {
            Some(last) if last.bytes + bytes <= MERGE_BYTES && can_merge(&last.message, &message) => {
                merge(&mut last.message, message);
                last.bytes += bytes;
            }
            _ => self.messages.push_back(Box::new(Queued { message, bytes })),
        }
    }

    fn close(&mut self, closing: v1::Closing) {
        if self.closed {
            return;
        }
        self.closed = true;
        self.messages = VecDeque::new();
        self.queued_bytes = 0;
        self.closing = Some(closing);
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Facts of two terms never share a message: each is fenced by the epoch it carries.
fn can_merge(last: &v1::ToWorker, next: &v1::ToWorker) -> bool {
    last.leader_epoch == next.leader_epoch
        && last.closing.is_none()
        && next.closing.is_none()
        && (last.log_request.is_none() || next.log_request.is_none())
}

fn merge(last: &mut v1::ToWorker, next: v1::ToWorker) {
    last.offers.extend(next.offers);
    last.revokes.extend(next.revokes);
    last.answers.extend(next.answers);
    last.forgets.extend(next.forgets);
    last.begun.extend(next.begun);
    last.ask_outstanding |= next.ask_outstanding;
    last.ask_journal.extend(next.ask_journal);
    last.log_request = last.log_request.take().or(next.log_request);
    if !next.controllers.is_empty() {
        last.controllers = next.controllers;
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_QUEUED_BYTES, MERGE_BYTES, Outbox, Overflow};
    use grid_proto::v1;
    use prost::Message;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    fn take(outbox: &Outbox) -> Poll<Option<v1::ToWorker>> {
        outbox.poll_next(&mut Context::from_waker(Waker::noop()))
    }

    fn answer(epoch: u64, job_id: u64) -> v1::ToWorker {
        let lease = v1::Lease { job_id, ..Default::default() };
        let answers = vec![v1::Answer { lease: Some(lease), kind: v1::AnswerKind::Committed.into() }];
        v1::ToWorker { leader_epoch: epoch, answers, ..Default::default() }
    }

    fn big_offer() -> v1::ToWorker {
        let offer = v1::Offer { action: "x".repeat(MERGE_BYTES - 100), ..Default::default() };
        v1::ToWorker { leader_epoch: 1, offers: vec![offer], ..Default::default() }
    }

    #[test]
    fn what_waits_is_merged_within_one_term() {
        let outbox = Outbox::new();
        outbox.send(answer(1, 1)).unwrap();
        outbox.send(answer(1, 2)).unwrap();
        outbox.send(v1::ToWorker { leader_epoch: 1, ask_outstanding: true, ..Default::default() }).unwrap();
        outbox.send(answer(2, 3)).unwrap();
        let Poll::Ready(Some(first)) = take(&outbox) else { panic!("nothing queued") };
        assert_eq!((first.leader_epoch, first.answers.len(), first.ask_outstanding), (1, 2, true));
        let Poll::Ready(Some(second)) = take(&outbox) else { panic!("one is missing") };
        assert_eq!((second.leader_epoch, second.answers.len()), (2, 1));
        assert!(take(&outbox).is_pending());
    }

    #[test]
    fn what_may_wait_wakes_nobody_until_it_is_hurried_or_something_follows() {
        struct Rung(AtomicUsize);
        impl Wake for Rung {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let bell = Arc::new(Rung(AtomicUsize::new(0)));
        let rung = || bell.0.load(Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&bell));
        let outbox = Outbox::new();
        let next = || outbox.poll_next(&mut Context::from_waker(&waker));
        assert!(next().is_pending());
        outbox.hurry();
        outbox.send_with_next(answer(1, 1)).unwrap();
        assert_eq!((rung(), outbox.is_waiting()), (0, true));
        outbox.send(answer(1, 2)).unwrap();
        assert_eq!(rung(), 1);
        let Poll::Ready(Some(both)) = next() else { panic!("nothing queued") };
        assert_eq!((both.answers.len(), outbox.is_waiting()), (2, false));
        assert!(next().is_pending());
        outbox.send_with_next(answer(1, 3)).unwrap();
        outbox.hurry();
        assert_eq!(rung(), 2);
    }

    #[test]
    fn two_log_requests_are_never_merged_into_one() {
        let request = |id: &str| v1::ToWorker {
            log_request: Some(v1::LogRequest { request_id: id.to_owned(), ..Default::default() }),
            ..Default::default()
        };
        let outbox = Outbox::new();
        outbox.send(request("a")).unwrap();
        outbox.send(request("b")).unwrap();
        for id in ["a", "b"] {
            let Poll::Ready(Some(message)) = take(&outbox) else { panic!("{id} is missing") };
            assert_eq!(message.log_request.unwrap().request_id, id);
        }
    }

    #[test]
    fn a_worker_that_does_not_read_is_closed_and_messages_stay_small() {
        let outbox = Outbox::new();
        let sent = (0..100).take_while(|_| outbox.send(big_offer()).is_ok()).count();
        assert_eq!(sent, MAX_QUEUED_BYTES / big_offer().encoded_len());
        assert!(outbox.is_closed());
        assert_eq!(outbox.send(answer(1, 1)), Err(Overflow));
        let Poll::Ready(Some(last)) = take(&outbox) else { panic!("no closing") };
        assert_eq!(last.closing.unwrap().reason, "OVERFLOW");
        assert!(matches!(take(&outbox), Poll::Ready(None)));
    }
}
