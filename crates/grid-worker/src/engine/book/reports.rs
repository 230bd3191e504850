//! Builds the messages of the worker: results, finished revokes, requests to start (W3), accepted offers, the outstanding leases
//! and their digest.
//!
//! W4, W5: a result or a finished revoke is said again until the leader's final answer, because any of them may be lost
//! with the stream or with the leader. Everything that is ready travels in one message, within [`MESSAGE_BYTES`].

use grid_proto::{outstanding_digest, v1};
use grid_types::{LeaseKey, SessionId};
use prost::Message;

use super::begin::GRANT_MS;
use super::entry::{Entry, Phase};
use super::{Book, Now};

/// A message is not filled beyond this; a quarter of what a controller accepts.
const MESSAGE_BYTES: usize = 1024 * 1024;
/// Without any answer, said again after this. A leader answers in milliseconds, a busy one in seconds, and nothing is
/// lost within a session: this is for a leader that forgets, and must not be load for one that has too much of it.
const UNANSWERED_MS: u64 = 30_000;

/// Whether a message is a heartbeat, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heartbeat {
    With,
    Without,
}

impl Book {
    /// Whether [`Book::outgoing`] has anything to say now.
    #[must_use]
    pub fn has_outgoing(&self, now: Now) -> bool {
        self.list_asked
            || !self.asked_about.is_empty()
            || !self.due.is_empty()
            || !self.accepted.is_empty()
            || self.again_at.first().is_some_and(|(at, _)| *at <= now.mono_ms)
    }

    /// Messages may have been lost, in both directions: the list, and every report and request without an answer, are due now.
    pub fn say_everything_again(&mut self, now: Now) {
        self.list_asked = true;
        // `Forget`s, too.
        self.session_is_new = true;
        for (_, lease) in std::mem::take(&mut self.again_at) {
            if let Some(entry) = self.leases.get_mut(&lease) {
                entry.again_at_ms = Some(now.mono_ms);
                self.again_at.insert((now.mono_ms, lease));
            }
        }
    }

    /// When something unanswered is to be said again.
    #[must_use]
    pub fn next_due_mono_ms(&self) -> Option<u64> {
        self.again_at.first().map(|(at, _)| *at)
    }

    /// The next message. `tail` reads the end of an output that is no longer in memory.
    pub fn outgoing(&mut self, now: Now, heartbeat: Heartbeat, tail: impl Fn(&LeaseKey) -> Vec<u8>) -> v1::FromWorker {
        while let Some((at, lease)) = self.again_at.first().copied().filter(|(at, _)| *at <= now.mono_ms) {
            self.again_at.remove(&(at, lease));
            if let Some(entry) = self.leases.get_mut(&lease) {
                entry.again_at_ms = None;
            }
            self.say(lease);
        }
        let mut message = self.envelope();
        message.accepted = std::mem::take(&mut self.accepted).into_iter().map(v1::Lease::from).collect();
        if std::mem::take(&mut self.list_asked) {
            let leases = self.leases.keys().map(|lease| (*lease).into()).collect();
            let settled_jobs = if std::mem::take(&mut self.session_is_new) { self.settled_jobs() } else { Vec::new() };
            message.outstanding = Some(v1::OutstandingList { leases, settled_jobs });
        }
        if heartbeat == Heartbeat::With || message.outstanding.is_some() {
            message.heartbeat = Some(self.heartbeat());
        }
        message.journal = self.recall();
        let mut bytes = message.encoded_len();
        while let Some(lease) = self.due.pop_first() {
            let Some(entry) = self.leases.get_mut(&lease) else { continue };
            if matches!(entry.phase, Phase::Asking(_)) {
                let begin = v1::Begin { lease: Some(lease.into()), asked_ms: now.mono_ms };
                bytes += begin.encoded_len();
                message.begins.push(begin);
                self.say_again_at(lease, now.mono_ms + GRANT_MS);
            } else {
                bytes += report(&mut message, &lease, entry, &tail);
                self.say_again_at(lease, now.mono_ms + UNANSWERED_MS);
            }
            if bytes >= MESSAGE_BYTES {
                break;
            }
        }
        message
    }

    /// Jobs with settled leases: their `Forget` may have come while this worker was away.
    fn settled_jobs(&self) -> Vec<u64> {
        let mut jobs: Vec<u64> = self.settled.keys().map(|lease| lease.job.0).collect();
        jobs.dedup();
        jobs
    }

    fn envelope(&self) -> v1::FromWorker {
        let SessionId(session) = self.session;
        v1::FromWorker { session, leader_epoch: self.epoch.wire(), ..Default::default() }
    }

    fn heartbeat(&self) -> v1::Heartbeat {
        let outstanding_count = u32::try_from(self.leases.len()).unwrap_or(u32::MAX);
        v1::Heartbeat { outstanding_digest: outstanding_digest(self.leases.keys()), outstanding_count }
    }
}

/// Adds one report and returns its size.
fn report(
    message: &mut v1::FromWorker,
    lease: &LeaseKey,
    entry: &mut Entry,
    tail: impl Fn(&LeaseKey) -> Vec<u8>,
) -> usize {
    let ended = entry.ended.as_ref();
    let output_bytes = ended.map_or(0, |ended| ended.output_bytes);
    let output_tail = match &entry.tail {
        Some(bytes) => bytes.clone(),
        None if output_bytes > 0 => tail(lease),
        None => Vec::new(),
    };
    entry.output_is_reported = output_bytes > 0 && output_tail.len() as u64 == output_bytes;
    let status = ended.map_or(v1::LeaseStatus::Unspecified, |ended| ended.status.into());
    let duration_ms = ended.map_or(0, |ended| ended.duration_ms);
    let started_at_ms = ended.map_or(0, |ended| ended.started_at_ms);
    let lease = Some((*lease).into());
    let error = ended.map_or_else(String::new, |ended| ended.error.clone());
    if entry.revoked {
        let ended = status.into();
        let done = v1::RevokeDone { lease, ended, duration_ms, started_at_ms, output_tail, output_bytes, error };
        let bytes = done.encoded_len();
        message.revokes_done.push(done);
        bytes
    } else {
        let status = status.into();
        let detail = ended.and_then(|ended| ended.detail).unwrap_or_default();
        let output_truncated = ended.is_some_and(|ended| ended.output_truncated);
        let result = v1::LeaseResult {
            lease,
            status,
            error,
            output_tail,
            output_bytes,
            duration_ms,
            started_at_ms,
            output_truncated,
            exit_code: detail.exit_code,
            signal: detail.signal,
            changed: detail.changed,
        };
        let bytes = result.encoded_len();
        message.results.push(result);
        bytes
    }
}
