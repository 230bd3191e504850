//! Defines the record of one lease in the book.

use grid_types::LeaseKey;
use grid_types::decl::EffectClass;

use super::Work;
use crate::engine::record::{Ended, Group, Record};

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) phase: Phase,
    pub(super) effect: EffectClass,
    pub(super) started_at_ms: u64,
    pub(super) revoked: bool,
    /// `None` while it is not over, and for a lease that never started.
    pub(super) ended: Option<Ended>,
    /// The last bytes of the output; none after a restart if a file has them.
    pub(super) tail: Option<Vec<u8>>,
    /// The last report carried all of the output.
    pub(super) output_is_reported: bool,
    /// Of an earlier process of this worker while it replays, otherwise of this one.
    pub(super) groups: Vec<Group>,
    /// Nothing is done or said about it before this record is on disk.
    pub(super) waits_for: u64,
    /// When it is to be said again.
    pub(super) again_at_ms: Option<u64>,
}

#[derive(Debug)]
pub(super) enum Phase {
    Queued(Box<Work>),
    /// Waits until `started` is on disk.
    Starting(Box<Work>),
    /// Waits until the leader has recorded that it begins (W3).
    Asking(Box<Work>),
    Running,
    /// Nothing runs; the leader's final answer is missing.
    Over,
}

/// The leader's answer was final; kept so that the lease never runs again.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) ended: Option<Ended>,
    pub(super) revoked: bool,
    pub(super) at_ms: u64,
}

impl Entry {
    pub(super) fn new(phase: Phase, effect: EffectClass) -> Self {
        Self {
            phase,
            effect,
            started_at_ms: 0,
            revoked: false,
            ended: None,
            tail: None,
            output_is_reported: false,
            groups: Vec::new(),
            waits_for: 0,
            again_at_ms: None,
        }
    }

    /// A lease of which nothing ran and nothing will.
    pub(super) fn unseen() -> Self {
        Self::new(Phase::Over, EffectClass::Once)
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// W3: a `once` lease that starts only after the leader has granted it. Others start by themselves.
    pub(super) fn must_ask(&self) -> bool {
        self.effect == EffectClass::Once
            && matches!(self.phase, Phase::Queued(_) | Phase::Starting(_) | Phase::Asking(_))
    }

    /// Something about it has to be reported to the leader, or asked.
    pub(super) fn has_news(&self) -> bool {
        matches!(self.phase, Phase::Over | Phase::Asking(_))
    }

    /// All of the output, if the last bytes are all of it.
    pub(super) fn whole_output(&self) -> Vec<u8> {
        let output_bytes = self.ended.as_ref().map_or(0, |ended| ended.output_bytes);
        self.tail.as_ref().filter(|tail| tail.len() as u64 == output_bytes).cloned().unwrap_or_default()
    }

    pub(super) fn finish(&mut self, ended: Option<Ended>, tail: Vec<u8>) {
        self.phase = Phase::Over;
        self.started_at_ms = ended.as_ref().map_or(0, |ended| ended.started_at_ms);
        self.ended = ended;
        self.tail = Some(tail);
        self.groups = Vec::new();
    }

    pub(super) fn settled(self, at_ms: u64) -> Settled {
        Settled { ended: self.ended, revoked: self.revoked, at_ms }
    }
}

impl Settled {
    /// The leader asks again.
    pub(super) fn reopen(self) -> Entry {
        let mut entry = Entry::unseen();
        entry.started_at_ms = self.ended.as_ref().map_or(0, |ended| ended.started_at_ms);
        entry.ended = self.ended;
        entry.revoked = self.revoked;
        entry
    }

    /// What has to be replayed for it.
    pub(super) fn records(&self, lease: LeaseKey) -> impl Iterator<Item = Record> + use<> {
        let settled = Record::Settled { lease, at_ms: self.at_ms };
        // Its output is with the leader, or in a file.
        outcome(lease, self.ended.as_ref(), Vec::new(), self.revoked).chain([settled])
    }
}

/// How it ended and whether it was revoked, as records.
pub(super) fn outcome(
    lease: LeaseKey,
    ended: Option<&Ended>,
    output: Vec<u8>,
    revoked: bool,
) -> impl Iterator<Item = Record> + use<> {
    let ended = ended.map(|ended| Record::Ended { lease, ended: ended.clone(), output });
    ended.into_iter().chain(revoked.then_some(Record::Revoked { lease }))
}
