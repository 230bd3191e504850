//! Holds what changes of a job besides its cells: one row, which every batch that touches the job writes.

use std::collections::{BTreeMap, BTreeSet};

use grid_types::{
    Attempt, JobEpoch, JobId, JobStatus, LeaderEpoch, Name, NodeOrd, Outcome, Reason, RunKind, StepIndex,
};
use minicbor::{Decode, Encode};

use super::{Bits, Meta};

/// The changing facts of a job, stored as one row.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct JobHead {
    /// The job.
    #[n(0)]
    pub id: JobId,
    /// The namespace that it belongs to.
    #[n(1)]
    pub namespace: Name,
    /// Its status.
    #[n(2)]
    pub status: JobStatus,
    /// Why it ended as it did, if there is more to say.
    #[n(26)]
    pub reason: Option<Reason>,
    /// The current job epoch, which fences its leases (J8).
    #[n(4)]
    pub epoch: JobEpoch,
    /// That wrote it last.
    #[n(5)]
    pub leader_epoch: LeaderEpoch,
    /// When it was submitted.
    #[n(6)]
    pub created_wall_ms: u64,
    /// When it last changed.
    #[n(7)]
    pub updated_wall_ms: u64,
    /// In leader time; none before the start.
    #[n(8)]
    pub deadline_ms: Option<u64>,
    /// The phase that it is in, from 0.
    #[n(9)]
    pub phase: u32,
    /// Why only `on_failure` phases may still run.
    #[n(10)]
    pub tripped: Option<Trip>,
    /// J1: nodes on which a step has failed for good, and how many steps have.
    #[n(11)]
    pub failed: BTreeMap<NodeOrd, u32>,
    /// Rows skipped because their node was offline, outside of clean-ups.
    #[n(12)]
    pub offline_skips: u32,
    /// Per step.
    #[n(13)]
    pub tallies: Vec<Tally>,
    /// W8: outcomes that the worker's journal may still settle.
    #[n(14)]
    pub unknown: BTreeMap<(StepIndex, NodeOrd), Attempt>,
    /// Nodes that take no part in later phases: something failed there, whatever became known of it later.
    #[n(18)]
    pub excluded: BTreeSet<NodeOrd>,
    /// `offline_skips` when the current phase began.
    #[n(19)]
    pub offline_before: u32,
    /// The first step of a phase that reached nobody.
    #[n(20)]
    pub unreached: Option<StepIndex>,
    /// The phase that waits for an operator's confirmation.
    #[n(15)]
    pub gate: Option<u32>,
    /// Phases below this one need no further word.
    #[n(16)]
    pub confirmed: u32,
    /// What was left until the deadline when the wait for an operator began (J3).
    #[n(17)]
    pub remaining_ms: Option<u64>,
    /// The epoch in which the current run began: rows of earlier ones count only where they are done.
    #[n(21)]
    pub run_epoch: JobEpoch,
    /// Leader time when it left the state for history; 0 before.
    #[n(24)]
    #[cbor(default)]
    pub ended_ms: u64,
    /// J8: the number of the current run, from 1.
    #[n(30)]
    pub run: u32,
    /// When this run started and ended, for display.
    #[n(31)]
    pub started_wall_ms: Option<u64>,
    /// When this run ended, for display.
    #[n(32)]
    pub ended_wall_ms: Option<u64>,
    /// What began this run.
    #[n(33)]
    pub run_kind: RunKind,
    /// `StepFailed` events of this run.
    #[n(27)]
    #[cbor(default)]
    pub failure_events: u32,
    /// J11: positions in `expected` that were offline when their turn came, and so were skipped, in this run.
    #[n(29)]
    #[cbor(default)]
    pub skipped_offline: Bits,
    /// It was restored from a backup of this time and waits for an operator (E2).
    #[n(25)]
    pub held: Option<String>,
    /// It is from before the restore that began this generation: what ran of it since the backup, only journals know (E2).
    #[n(28)]
    pub restored: Option<Restored>,
    /// E2: positions in `expected` whose journals were complete in this generation: a `once` step without a row has never run
    /// there. Known when a restored job has ended, and in the runs that follow.
    #[n(34)]
    pub complete_journals: Option<Bits>,
    /// J13: while the current phase is only for its first nodes.
    #[n(35)]
    pub first: Option<FirstNodes>,
}

/// The nodes that run a phase before the others (J13).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct FirstNodes {
    /// Their positions in `expected`.
    #[n(0)]
    pub nodes: Bits,
    /// They are through: the others wait for an operator.
    #[n(1)]
    pub through: bool,
}

/// A job from before a restore (E2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Restored {
    /// The generation that the restore began.
    #[n(0)]
    pub generation: u32,
    /// An operator allowed `once` steps that may have run already to run again.
    #[n(1)]
    pub rerun_once: bool,
    /// The next job epoch is at least this: beyond those that were given after the backup, whose leases workers may know.
    #[n(2)]
    #[cbor(default)]
    pub epochs_from: JobEpoch,
}

/// No job moves through four epochs a second.
const EPOCHS_A_SECOND: u32 = 4;

impl Restored {
    /// As of the restore that began this generation. Epochs of leaders begin with its time in seconds. No operator has allowed anything yet.
    pub(crate) fn by(meta: &Meta) -> Self {
        let LeaderEpoch { generation, n } = meta.leadership.epoch;
        // Leaves room for the epochs that follow, whatever the clock said.
        let epochs_from = JobEpoch(n.saturating_mul(EPOCHS_A_SECOND).min(u32::MAX / 2));
        Self { generation, rerun_once: false, epochs_from }
    }
}

/// Why a job does no new work but clean-up.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Trip {
    /// More nodes failed than the job tolerates (J1).
    #[n(0)]
    FailFast {
        /// The step whose failure was one too many.
        #[n(0)]
        step: StepIndex,
        /// The node on which it failed.
        #[n(1)]
        node: NodeOrd,
        /// How it ended; none in what older versions wrote.
        #[n(2)]
        outcome: Option<Outcome>,
    },
    /// Its time was over.
    #[n(1)]
    JobTimeout,
}

/// Rows of one step per outcome; they always add up to the expected nodes (I9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Tally(#[n(0)] [u32; 8]);

impl Tally {
    /// Of a step that has not begun anywhere.
    #[must_use]
    pub fn all_pending(nodes: u32) -> Self {
        Self([nodes, 0, 0, 0, 0, 0, 0, 0])
    }

    /// How many nodes have this outcome.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> u32 {
        self.0[outcome as usize]
    }

    /// How many nodes there are.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().copied().map(u64::from).sum()
    }

    pub(crate) fn shift(&mut self, from: Outcome, to: Outcome, rows: u32) {
        self.0[from as usize] = self.0[from as usize].saturating_sub(rows);
        self.0[to as usize] += rows;
    }
}

impl JobHead {
    /// Of a run that is accepted now and waits to be started.
    pub(crate) fn new(id: JobId, namespace: Name, epoch: JobEpoch, meta: &Meta) -> Self {
        Self {
            id,
            namespace,
            status: JobStatus::Pending,
            reason: None,
            epoch,
            leader_epoch: meta.leadership.epoch,
            created_wall_ms: meta.wall_ms,
            updated_wall_ms: meta.wall_ms,
            deadline_ms: None,
            phase: 0,
            tripped: None,
            failed: BTreeMap::new(),
            offline_skips: 0,
            skipped_offline: Bits::default(),
            tallies: Vec::new(),
            unknown: BTreeMap::new(),
            excluded: BTreeSet::new(),
            offline_before: 0,
            unreached: None,
            gate: None,
            confirmed: 0,
            remaining_ms: None,
            run_epoch: epoch,
            ended_ms: 0,
            held: None,
            failure_events: 0,
            restored: None,
            complete_journals: None,
            first: None,
            run: 1,
            started_wall_ms: None,
            ended_wall_ms: None,
            run_kind: RunKind::Submit,
        }
    }
}

impl JobHead {
    /// The phase that waits for an operator: to begin, or to go on beyond its first nodes (J13).
    #[must_use]
    pub fn waiting_phase(&self) -> Option<u32> {
        let rest = self.first.as_ref().is_some_and(|first| first.through);
        self.gate.or(rest.then_some(self.phase))
    }
}

#[cfg(test)]
mod tests {
    use grid_types::JobEpoch;

    use super::Restored;

    #[test]
    fn e2_a_restored_job_of_before_its_epochs_moved_is_read() {
        let older = [0x82, 0x03, 0xf5];
        let restored = Restored { generation: 3, rerun_once: true, epochs_from: JobEpoch(0) };
        assert_eq!(minicbor::decode::<Restored>(&older).unwrap(), restored);
    }
}
