//! Decides when to register, and when to stop trying.
//!
//! An attempt that fails is repeated for ever, with pauses, except where the leader refuses this worker for good.
//! W1: DUPLICATE_NODE is retried for as long as the leader says that it needs, after a crash, to notice that the old
//! session is dead; then the leader's message, with the way out, ends the worker. E3: so does a controller of another
//! cluster, after [`REFUSED_PATIENCE_MS`].

use grid_fabric::{FabricRefusal, LinkError};
use grid_proto::v1;
use grid_types::Code;

use super::{Connection, Ending, Engine, Output, Registration};
use crate::engine::book::Now;

const FIRST_PAUSE_MS: u64 = 100;
const LONGEST_PAUSE_MS: u64 = 3_000;
/// For a controller that does not say how long.
const REFUSED_PATIENCE_MS: u64 = 20_000;
/// The same trouble is logged again after this.
const LOG_AGAIN_MS: u64 = 15_000;
/// A session shorter than this counts as a failed attempt.
const STEADY_MS: u64 = 5_000;

/// What is known between two sessions.
#[derive(Debug, Default)]
pub(super) struct Connecting {
    /// Sessions in a row that were too short.
    short_sessions: u32,
    /// Attempts since the last session.
    attempts: u32,
    ask_first: Option<String>,
    /// Registered before: what the leader finds wrong now is not this worker's configuration.
    is_known: bool,
    duplicate_since_ms: Option<u64>,
    logged_at_ms: Option<u64>,
}

impl Connecting {
    pub(super) fn registered(&mut self) {
        self.is_known = true;
    }
}

impl Engine {
    pub(super) fn register_if_due(&mut self, now: Now) {
        let Connection::Pausing { until_ms } = self.connection else { return };
        if now.mono_ms < until_ms {
            return;
        }
        self.connecting.attempts += 1;
        let registration = Registration { request: self.registration(), ask_first: self.connecting.ask_first.take() };
        self.connection = Connection::Registering;
        self.outputs.push(Output::Register(Box::new(registration)));
    }

    pub(super) fn not_registered(&mut self, trouble: &LinkError, now: Now) {
        if !matches!(self.connection, Connection::Registering) {
            return;
        }
        if let LinkError::Refused(refusal) = trouble {
            if self.connecting.is_final(refusal, now) {
                return self.end(Ending::Refused(refusal.message.clone()));
            }
            self.connecting.ask_first.clone_from(&refusal.leader_url);
        }
        if self.connecting.logged_at_ms.is_none_or(|at_ms| now.mono_ms.saturating_sub(at_ms) >= LOG_AGAIN_MS) {
            self.connecting.logged_at_ms = Some(now.mono_ms);
            tracing::warn!("not connected: {trouble}; trying again");
        }
        self.pause(now);
    }

    /// A session that began then is over.
    pub(super) fn reconnect(&mut self, began_ms: u64, ask_first: Option<String>, now: Now) {
        let was_short = now.mono_ms.saturating_sub(began_ms) < STEADY_MS;
        let short_sessions = if was_short { self.connecting.short_sessions + 1 } else { 0 };
        self.connecting = Connecting { short_sessions, ask_first, is_known: true, ..Connecting::default() };
        self.pause(now);
    }

    fn pause(&mut self, now: Now) {
        let failures = self.connecting.short_sessions + self.connecting.attempts;
        self.connection = Connection::Pausing { until_ms: now.mono_ms + self.random.pause_ms(failures) };
    }

    fn registration(&self) -> v1::RegisterNodeRequest {
        v1::RegisterNodeRequest {
            node_id: self.identity.node_id.to_string(),
            facts: Some(v1::NodeFacts::from(&self.identity.facts)),
            journal_id: self.identity.journal_id.clone(),
            boot: self.identity.boot,
            nonce: self.identity.nonce.to_vec(),
            cluster_id: self.identity.cluster_id.clone(),
            outstanding: self.book.outstanding().map(v1::Lease::from).collect(),
            unstarted: self.book.unstarted().map(v1::Lease::from).collect(),
            leader_epoch: self.book.epoch().wire(),
        }
    }
}

impl Connecting {
    fn is_final(&mut self, refusal: &FabricRefusal, now: Now) -> bool {
        match refusal.code {
            Code::DuplicateNode | Code::Conflict => {
                let since_ms = *self.duplicate_since_ms.get_or_insert(now.mono_ms);
                let patience_ms = refusal.passes_within_ms.unwrap_or(0).max(REFUSED_PATIENCE_MS);
                now.mono_ms.saturating_sub(since_ms) >= patience_ms
            }
            Code::Invalid | Code::BadRequest => !self.is_known,
            _ => false,
        }
    }
}

/// Numbers that look random; the same ones for the same seed (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Doubles from attempt to attempt, with half of it random: a fleet must not come back in step.
    fn pause_ms(&mut self, failures: u32) -> u64 {
        if failures == 0 {
            return 0;
        }
        let full_ms = FIRST_PAUSE_MS.saturating_mul(1 << (failures - 1).min(10)).min(LONGEST_PAUSE_MS);
        full_ms / 2 + self.next() % (full_ms / 2 + 1)
    }
}
