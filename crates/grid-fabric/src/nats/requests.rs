//! Consumes the stream `requests`: submits the jobs that clients publish on `request.job`, and answers them (N3, N6).
//!
//! ```text
//!   request.job --> stream `requests` --pull--> submit --> accepted (committed): acked      answer on `Grid-Reply-To`
//!                        ^                          \----> invalid, conflict: terminated    answer on `Grid-Reply-To`
//!                        '--- again after a while ---\---> no leader, no quorum, full: not acked, no answer
//! ```
//!
//! Only the leader runs this, from a won term to its end. A message whose leader dies before the ack is delivered again; its idempotency
//! key makes that harmless: `Nats-Msg-Id`, or the time at which the stream was created and the message's number in it.
//! The client's own reply subject belongs to JetStream, which acknowledges that the request is stored. Hence the header.
//! While the queue of jobs is full nothing is pulled: requests wait in the stream, and other clients' jobs in the queue.

mod answer;

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::{AckKind, Context, Message};
use bytes::Bytes;
use grid_types::Code;
use grid_types::limits::{MAX_BODY_BYTES, MAX_KEY_BYTES};
use tokio::task::JoinSet;
use tokio_stream::StreamExt;

use super::client::Client;
use super::{streams, subjects};
use crate::intake::{Intake, JobRefusal, JobRequest};

const CONSUMER: &str = "grid";
/// The client's idempotency key; JetStream's header for duplicates.
const KEY: &str = "Nats-Msg-Id";
/// Requests that are submitted together, so that the log merges them.
const TOGETHER: usize = 64;
/// A request that is neither acked nor refused within this is delivered again.
const ACK_WAIT: Duration = Duration::from_secs(60);
/// How long the server holds a pull without messages. Short enough that a pull that a cluster lost is repeated soon.
const PULL: Duration = Duration::from_secs(10);
/// Before a request that could not be accepted now is delivered again.
const AGAIN: Duration = Duration::from_secs(1);
/// The same after a failure inside of the controller.
const AGAIN_LATER: Duration = Duration::from_secs(30);

/// Why consuming stopped; it is begun again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot consume the stream `requests`: {0}")]
pub struct RequestsError(String);

impl RequestsError {
    fn of(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// Runs until JetStream fails; the caller drops it when the term ends.
pub async fn consume<I: Intake>(client: &Client, intake: Arc<I>) -> Result<(), RequestsError> {
    let jetstream = async_nats::jetstream::new(client.nats().clone());
    let stream = jetstream.get_stream(streams::REQUESTS).await.map_err(RequestsError::of)?;
    let created_ns = stream.cached_info().created.unix_timestamp_nanos();
    let consumer = stream.create_consumer(config()).await.map_err(RequestsError::of)?;
    let submitting = Arc::new(Submitting { client: client.clone(), jetstream, intake, created_ns });
    loop {
        let mut handled = JoinSet::new();
        for message in pull(&consumer).await? {
            let submitting = Arc::clone(&submitting);
            handled.spawn(async move { submitting.handle(message).await });
        }
        let mut is_full = false;
        while let Some(handled) = handled.join_next().await {
            is_full |= handled.map_err(RequestsError::of)? == Handled::QueueFull;
        }
        if is_full {
            submitting.intake.room().await;
        }
    }
}

fn config() -> pull::Config {
    pull::Config {
        durable_name: Some(CONSUMER.to_owned()),
        description: Some("the leader of the Grid cluster".to_owned()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_ack_pending: 1_024,
        ..pull::Config::default()
    }
}

/// Waits for a request, then takes those that are there. No pull is open when this returns, so that nothing is delivered to a leader that
/// waits for room.
async fn pull(consumer: &PullConsumer) -> Result<Vec<Message>, RequestsError> {
    let first = consumer.batch().max_messages(1).expires(PULL).messages().await.map_err(RequestsError::of)?;
    let mut messages = collect(first).await?;
    if !messages.is_empty() {
        let more = consumer.fetch().max_messages(TOGETHER - 1).messages().await.map_err(RequestsError::of)?;
        messages.extend(collect(more).await?);
    }
    Ok(messages)
}

async fn collect(mut batch: pull::Batch) -> Result<Vec<Message>, RequestsError> {
    let mut messages = Vec::new();
    let reading = async {
        while let Some(message) = batch.next().await {
            messages.push(message.map_err(RequestsError::of)?);
        }
        Ok(())
    };
    // A broken connection says nothing.
    let limit = PULL + Duration::from_secs(10);
    tokio::time::timeout(limit, reading).await.map_err(|_| RequestsError("JetStream does not answer".to_owned()))??;
    Ok(messages)
}

/// What became of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handled {
    Done,
    QueueFull,
}

/// What handling a request needs.
struct Submitting<I> {
    client: Client,
    jetstream: Context,
    intake: Arc<I>,
    /// When the stream was created: its numbers begin again if it is deleted.
    created_ns: i128,
}

impl<I: Intake> Submitting<I> {
    async fn handle(&self, message: Message) -> Handled {
        let request = match self.request(&message) {
            Ok(request) => request,
            Err(refusal) => {
                self.refuse(&message, &refusal).await;
                return Handled::Done;
            }
        };
        match self.intake.submit(request).await {
            Ok(document) => {
                // Answered after the ack: a client that has an answer never sees the request again.
                if let Err(error) = message.double_ack().await {
                    tracing::warn!(
                        "a request was accepted, but could not be acknowledged; its key keeps it from running twice: {error}"
                    );
                }
                self.answer(&message, answer::accepted(&document, self.client.split_bytes())).await;
                Handled::Done
            }
            Err(refusal) => self.refused(&message, &refusal).await,
        }
    }

    fn request(&self, message: &Message) -> Result<JobRequest, JobRefusal> {
        let refused = |code, why: String| answer::refusal(code, why);
        if message.subject.as_str() != subjects::REQUEST_JOB {
            let why = format!("there is no request {}; jobs go to {}", message.subject.as_str(), subjects::REQUEST_JOB);
            return Err(refused(Code::NotFound, why));
        }
        if let Some(to) = header(message, answer::REPLY_TO).filter(|to| !subjects::is_reply(to)) {
            let why = format!("{} {to:?} is not a subject that answers may go to", answer::REPLY_TO);
            return Err(refused(Code::Invalid, why));
        }
        if message.payload.len() > MAX_BODY_BYTES {
            let why = format!("the body has more than {MAX_BODY_BYTES} bytes; split the work into several jobs");
            return Err(refused(Code::TooLarge, why));
        }
        let key = match header(message, KEY) {
            Some(key) if is_key(key) => key.to_owned(),
            Some(_) => {
                let why = format!("{KEY} must have 1 to {MAX_KEY_BYTES} visible ASCII characters");
                return Err(refused(Code::Invalid, why));
            }
            None => {
                let info = message.info().map_err(|error| refused(Code::Invalid, error.to_string()))?;
                format!("nats-{}-{}", self.created_ns, info.stream_sequence)
            }
        };
        Ok(JobRequest { key, body: message.payload.to_vec() })
    }

    /// What the controller refused: for good, or for now.
    async fn refused(&self, message: &Message, refusal: &JobRefusal) -> Handled {
        let again = match refusal.code {
            Code::NotLeader | Code::NoQuorum | Code::OutcomeUnknown | Code::QueueFull | Code::Superseded => AGAIN,
            Code::Internal => AGAIN_LATER,
            _ => {
                self.refuse(message, refusal).await;
                return Handled::Done;
            }
        };
        tracing::debug!("a request waits: {}", refusal.message);
        if let Err(error) = message.ack_with(AckKind::Nak(Some(again))).await {
            tracing::debug!("it is delivered again after {ACK_WAIT:?}: {error}");
        }
        if refusal.code == Code::QueueFull { Handled::QueueFull } else { Handled::Done }
    }

    /// Never delivered again; JetStream tells its listeners why.
    async fn refuse(&self, message: &Message, refusal: &JobRefusal) {
        tracing::info!("a request was refused: {}: {}", refusal.code.word(), refusal.message);
        if let Some(ack) = message.reply.clone() {
            let line: String =
                refusal.message.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
            let term = format!("+TERM {}: {line}", refusal.code.word());
            if let Err(error) = self.jetstream.client().publish(ack, Bytes::from(term)).await {
                tracing::debug!("it is delivered again after {ACK_WAIT:?}: {error}");
            }
        }
        self.answer(message, answer::refused(refusal)).await;
    }

    async fn answer(&self, message: &Message, answer: answer::Answer) {
        let Some(to) = header(message, answer::REPLY_TO).filter(|to| subjects::is_reply(to)) else { return };
        let (headers, body) = answer;
        if let Err(error) = self.client.publish(to.to_owned(), Some(headers), body).await {
            tracing::debug!("a client gets no answer: {error}");
        }
    }
}

fn header<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    Some(message.headers.as_ref()?.get(name)?.as_str())
}

fn is_key(key: &str) -> bool {
    (1..=MAX_KEY_BYTES).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests;
