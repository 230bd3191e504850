//! One session: from its first message to its end.
//!
//! W5: the first message lists what is held; each beat carries the digest of it; `ask_held` is answered with the list.
//! Told to end: DrainNode; offers are taken until that is answered, because the leader may have given them out before it
//! knew; then nothing new, and LeaveNode when nothing is held any more.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use grid_fabric::{Credential, Dialer, Downlink, Link, LinkError, Uplink};
use grid_types::LeaderEpoch;
use tokio::time::{Instant, MissedTickBehavior};

use crate::book::Heard;
use crate::config::{Ready, WorkerError};
use crate::connect::Connected;
use crate::directory::Directory;
use crate::shutdown::Stop;
use crate::worker::Worker;

const DEFAULT_HEARTBEAT_MS: u64 = 5_000;
const HEARTBEAT_BOUNDS_MS: std::ops::RangeInclusive<u64> = 50..=60_000;

pub(crate) enum SessionEnd {
    /// As it was told to.
    Left,
    /// A person removed the node.
    Removed,
    Broken {
        reason: String,
        leader_url: Option<String>,
    },
}

/// How far the leader knows that this node takes nothing new.
enum Drain {
    No,
    Asked(Pin<Box<dyn Future<Output = Result<(), LinkError>> + Send>>),
    Done,
}

fn broken(reason: impl Into<String>) -> SessionEnd {
    SessionEnd::Broken { reason: reason.into(), leader_url: None }
}

impl<D: Dialer, R: Directory> Worker<D, R> {
    pub(crate) async fn session(&mut self, connected: Connected<D::Link>) -> Result<SessionEnd, WorkerError> {
        let Connected { link, reply, leader } = connected;
        let credential = Credential::of(&reply);
        let session = credential.session;
        if !self.book.begin_session(session, LeaderEpoch::from_wire(reply.leader_epoch)) {
            return Ok(broken(format!("{leader} leads epoch {}, which is over", reply.leader_epoch)));
        }
        self.book.ask_about(&reply.ask_journal);
        self.outputs.set_tail_bytes(reply.output_tail_bytes);
        self.commit()?;
        let (uplink, downlink) = match self.open(&link, &credential).await? {
            Ok(streams) => streams,
            Err(error) => return Ok(broken(error.to_string())),
        };
        tracing::info!(node = %self.folder.node_id(), %session, %leader, "registered");
        if let Some(ready) = self.ready.take() {
            ready(Ready { node_id: self.folder.node_id().clone(), session });
        }
        let heartbeat_ms = if reply.heartbeat_ms == 0 { DEFAULT_HEARTBEAT_MS } else { reply.heartbeat_ms };
        let heartbeat_ms = self.heartbeat.map_or(heartbeat_ms, |own| heartbeat_ms.min(own.ms()));
        let heartbeat_ms = heartbeat_ms.clamp(*HEARTBEAT_BOUNDS_MS.start(), *HEARTBEAT_BOUNDS_MS.end());
        self.talk(link, credential, uplink, downlink, Duration::from_millis(heartbeat_ms)).await
    }

    async fn open(
        &mut self,
        link: &D::Link,
        credential: &Credential,
    ) -> Result<Result<(Uplink, Downlink), LinkError>, WorkerError> {
        let mut first = self.message(true);
        first.secret = Some(credential.secret.clone());
        let mut opening = Box::pin(link.open(first));
        loop {
            tokio::select! {
                opened = &mut opening => return Ok(opened),
                inner = self.inbox.next() => {
                    self.handle(inner)?;
                    self.commit()?;
                }
            }
        }
    }

    fn message(&mut self, beat: bool) -> grid_proto::v1::FromWorker {
        let (now, outputs) = (self.now(), &self.outputs);
        self.book.outgoing(now, beat, |lease| outputs.tail(lease))
    }

    async fn talk(
        &mut self,
        link: D::Link,
        credential: Credential,
        uplink: Uplink,
        mut downlink: Downlink,
        heartbeat: Duration,
    ) -> Result<SessionEnd, WorkerError> {
        let mut beats = tokio::time::interval_at(Instant::now() + heartbeat, heartbeat);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut beat_due, mut last_beat) = (false, Instant::now());
        let mut drain = Drain::No;
        loop {
            self.commit()?;
            if let Some(end) = self.draining(&link, &credential, &mut drain).await {
                return Ok(end);
            }
            let now = self.now();
            let speak = beat_due || self.book.has_outgoing(now);
            let again = self.book.next_due_mono_ms().map(|at| Duration::from_millis(at.saturating_sub(now.mono_ms)));
            let patience = self.patience();
            tokio::select! {
                heard = downlink.next() => match heard {
                    Some(Ok(message)) => {
                        if let Some(end) = self.hear(&link, &credential, message) {
                            return Ok(end);
                        }
                    }
                    Some(Err(error)) => return Ok(broken(error.to_string())),
                    None => return Ok(broken("the controller ended the stream")),
                },
                inner = self.inbox.next() => self.handle(inner)?,
                slot = uplink.reserve(), if speak => match slot {
                    Some(slot) => {
                        // What is said anyway carries the next beat: a busy node needs no message for it alone.
                        let beat = beat_due || last_beat.elapsed() >= heartbeat / 2;
                        slot.send(self.message(beat));
                        if beat {
                            (beat_due, last_beat) = (false, Instant::now());
                            beats.reset();
                        }
                    }
                    None => return Ok(broken("the stream broke")),
                },
                _ = beats.tick() => beat_due = true,
                () = sleep_or_never(again), if !speak => {}
                drained = drained(&mut drain) => {
                    if let Err(error) = drained {
                        tracing::warn!("the controller was not told to drain this node: {error}");
                    }
                    self.book.refuse_offers();
                    drain = Drain::Done;
                }
                () = tokio::time::sleep_until(patience), if self.stop > Stop::No => {}
            }
        }
    }

    fn hear(
        &mut self,
        link: &D::Link,
        credential: &Credential,
        mut message: grid_proto::v1::ToWorker,
    ) -> Option<SessionEnd> {
        if message.closing.as_ref().is_some_and(|closing| closing.reason == grid_fabric::closing::REMOVED) {
            return Some(SessionEnd::Removed);
        }
        self.connector.learn(&message.controllers);
        let log_request = message.log_request.take();
        match self.book.receive(&message, self.now()) {
            Heard::Go => {
                if let Some(request) = log_request {
                    self.logs.answer(link.clone(), credential.clone(), request);
                }
                None
            }
            Heard::Reconnect { reason, leader_url } => Some(SessionEnd::Broken { reason, leader_url }),
        }
    }

    async fn draining(&mut self, link: &D::Link, credential: &Credential, drain: &mut Drain) -> Option<SessionEnd> {
        if self.stop == Stop::No {
            return None;
        }
        let node = self.folder.node_id().to_string();
        match drain {
            Drain::No => {
                let (link, credential) = (link.clone(), credential.clone());
                *drain = Drain::Asked(Box::pin(async move { link.drain(node, credential).await }));
                None
            }
            Drain::Asked(_) => None,
            Drain::Done => {
                if self.book.held_count() > 0 && !self.is_out_of_patience() {
                    return None;
                }
                let holds_nothing = self.book.held_count() == 0;
                if let Err(error) = link.leave(node, credential.clone(), holds_nothing).await {
                    tracing::warn!("the controller was not told that this node leaves: {error}");
                }
                Some(SessionEnd::Left)
            }
        }
    }
}

async fn drained(drain: &mut Drain) -> Result<(), LinkError> {
    match drain {
        Drain::Asked(asked) => asked.await,
        Drain::No | Drain::Done => std::future::pending().await,
    }
}

async fn sleep_or_never(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}
