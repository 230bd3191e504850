//! Converts a broadcast offer to and from a message on `cmd.*`: JSON that an operator can read, with the same facts in headers.
//!
//! ```text
//!   cmd.all|group.<g>.<backend>.<action>
//!   {"cluster_id", "job_id", "job_epoch", "leader_epoch", "step", "attempt", "run", "session", "include", "effect", "params", "timeout"}
//! ```
//!
//! N2: `include` names the nodes that run it, `session` the highest session that is meant: a worker that registered later is offered what it
//! still should run by its own session. Epochs, ordinals and sessions are equal in different clusters: of two that share an account by
//! mistake, each command names its own (E3). Backend and action are those of the subject, which the server's permissions can restrict.
//! Values have no types in JSON. A duration is a text like `300ms`, and is told from a text by the declaration of its action, which both ends
//! know. A field that this version does not know is ignored, as in the messages of sessions, but see `include`.
//! Not here: publishing it (`broadcast`), subscribing (`link`).

use async_nats::HeaderMap;
use bytes::Bytes;
use grid_proto::v1;
use grid_types::decl::{self, EffectClass};
use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, NodeOrd, SessionId, Span, StepIndex};
use serde::{Deserialize, Serialize};

use super::include::Include;
use super::params;
use super::subjects::{self, Scope};
use crate::offer_many::{Audience, OfferMany};

/// A command as it was read from its message.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// Of the leader that sent it.
    pub cluster_id: String,
    /// What is offered; its `session` is 0.
    pub offer: v1::Offer,
    /// Of the leader that sent it.
    pub leader_epoch: u64,
    /// No later session is meant.
    pub session: SessionId,
    /// The nodes that are meant.
    pub include: Include,
}

/// A command as a message.
#[derive(Debug, Clone)]
pub struct Encoded {
    pub subject: String,
    pub headers: HeaderMap,
    pub payload: Bytes,
}

/// A session as it listens to commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    pub cluster_id: String,
    /// As the registration's answer confirmed it.
    pub node: NodeOrd,
    pub session: SessionId,
    /// Of the leader with which it registered.
    pub leader_epoch: u64,
}

/// A message that no leader sends.
#[derive(Debug, thiserror::Error)]
pub enum BadCommand {
    #[error("the subject is none of a broadcast")]
    Subject,
    #[error("the body is no command: {0}")]
    Body(#[from] serde_json::Error),
    #[error("parameter {0}: its value does not fit the declaration of the action")]
    Param(String),
}

/// Why a command has no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotEncoded {
    #[error("it has nobody to go to, or its nodes are too far apart for one message")]
    Include,
    #[error("it cannot be written as JSON that reads the same")]
    Content,
}

#[derive(Serialize, Deserialize)]
struct Body {
    cluster_id: String,
    job_id: JobId,
    job_epoch: JobEpoch,
    leader_epoch: u64,
    step: StepIndex,
    attempt: Attempt,
    #[serde(default)]
    run: u32,
    session: SessionId,
    include: Include,
    effect: EffectClass,
    #[serde(default)]
    params: serde_json::Map<String, serde_json::Value>,
    timeout: Span,
}

/// The message of a broadcast.
///
/// # Errors
/// It cannot be broadcast; every recipient is offered it in its own session.
pub fn encode(many: &OfferMany, cluster_id: &str) -> Result<Encoded, NotEncoded> {
    let offer = &many.offer;
    let lease = offer.lease.map(LeaseKey::from).ok_or(NotEncoded::Content)?;
    let session = many.recipients.iter().map(|recipient| recipient.session).max().ok_or(NotEncoded::Include)?;
    let include = Include::of(many.recipients.iter().map(|recipient| recipient.node)).ok_or(NotEncoded::Include)?;
    let body = Body {
        cluster_id: cluster_id.to_owned(),
        job_id: lease.job,
        job_epoch: lease.job_epoch,
        leader_epoch: many.leader_epoch,
        step: lease.step,
        attempt: lease.attempt,
        run: offer.run,
        session,
        include,
        effect: offer.effect().class(),
        params: params::to_json(offer).ok_or(NotEncoded::Content)?,
        timeout: Span::from_ms(offer.timeout_ms),
    };
    let scope = match &many.audience {
        Audience::All => Scope::All,
        Audience::Group(group) => Scope::Group(group.clone()),
    };
    let subject = subjects::command(&scope, &offer.backend, &offer.action).ok_or(NotEncoded::Content)?;
    let payload = serde_json::to_vec(&body).map_err(|_| NotEncoded::Content)?;
    Ok(Encoded { subject, headers: headers(&body, offer), payload: payload.into() })
}

/// For people and for tools that route by headers; a worker reads subject and body.
fn headers(body: &Body, offer: &v1::Offer) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("job-id", body.job_id.to_string());
    headers.insert("task-index", body.step.to_string());
    headers.insert("attempt", body.attempt.to_string());
    headers.insert("backend", offer.backend.as_str());
    headers.insert("action", offer.action.as_str());
    headers.insert("job-epoch", body.job_epoch.to_string());
    headers.insert("leader-epoch", body.leader_epoch.to_string());
    headers
}

/// The command of a message.
///
/// # Errors
/// It is none; nothing of it counts.
pub fn decode(subject: &str, payload: &[u8]) -> Result<Command, BadCommand> {
    let (scope, backend, action) = subjects::command_of(subject).ok_or(BadCommand::Subject)?;
    // What one node is offered comes in its session, which also says that the worker has it.
    if matches!(scope, Scope::Node(_)) {
        return Err(BadCommand::Subject);
    }
    let mut body: Body = serde_json::from_slice(payload)?;
    let lease = LeaseKey { job: body.job_id, job_epoch: body.job_epoch, step: body.step, attempt: body.attempt };
    let declared = decl::backend(backend).and_then(|backend| backend.action(action));
    let offer = v1::Offer {
        lease: Some(lease.into()),
        session: 0,
        backend: backend.to_owned(),
        action: action.to_owned(),
        params: params::from_json(declared, std::mem::take(&mut body.params)).map_err(BadCommand::Param)?,
        effect: v1::EffectClass::of(body.effect).into(),
        timeout_ms: body.timeout.ms(),
        restored: false,
        run: body.run,
    };
    let Body { cluster_id, leader_epoch, session, include, .. } = body;
    Ok(Command { cluster_id, offer, leader_epoch, session, include })
}

impl Command {
    /// What a session is offered by it: nothing, unless its node is included and the leader meant this session or a later one of
    /// the same term. A session belongs to the term in which it registered, so a later leader does not mean it either.
    #[must_use]
    pub fn message_for(&self, listener: &Listener) -> Option<v1::ToWorker> {
        let is_meant = self.cluster_id == listener.cluster_id
            && self.leader_epoch == listener.leader_epoch
            && listener.session <= self.session
            && self.include.has(listener.node);
        is_meant.then(|| {
            let offer = v1::Offer { session: listener.session.0, ..self.offer.clone() };
            v1::ToWorker { leader_epoch: self.leader_epoch, offers: vec![offer], ..v1::ToWorker::default() }
        })
    }
}

#[cfg(test)]
mod tests;
