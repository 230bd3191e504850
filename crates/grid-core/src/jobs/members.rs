//! Decides which phases run, and on which of the job's nodes.
//!
//! | phase | nodes |
//! |---|---|
//! | any other | all that no step has failed on (`excluded`) |
//! | `on_failure` after a trip | all |
//! | `on_failure`, failures tolerated | those that failed (J1) in this run |
//! | `on_failure`, nothing failed, a phase reached nobody | all |
//! | `on_failure` with `nodes` | as it says (J9) |
//!
//! Decided once, when the phase begins: later failures change nothing about it. A retry's nodes are always a subset.
//! Not here: how a member walks the phase (`walk`), when it is let in (`window`), what becomes of offline ones (`lease`).

use grid_types::job::{Condition, Phase, PhaseNodes};
use grid_types::{Reason, StepIndex};

use crate::state::Job;

impl Job {
    /// Why a top-level phase is skipped for everyone, if it is.
    pub(crate) fn passes_by(&self, condition: Condition) -> Option<Reason> {
        let has_failed = !self.head.failed.is_empty() || self.head.unreached.is_some();
        match (&self.head.tripped, condition) {
            // No phase has `on_changed`, which looks at tasks on one node.
            (Some(_), Condition::OnFailure) | (None, Condition::Always | Condition::OnChanged) => None,
            (Some(why), Condition::Always | Condition::OnSuccess | Condition::OnChanged) => Some(why.reason()),
            (None, Condition::OnSuccess) if !has_failed => None,
            (None, Condition::OnFailure) if has_failed => None,
            (None, Condition::OnSuccess) if self.head.failed.is_empty() => Some(Reason::EarlierPhaseUnreached),
            (None, Condition::OnSuccess) if self.any_failure_is_known() => Some(Reason::ANodeFailed),
            (None, Condition::OnSuccess) => Some(Reason::UnknownOnANode),
            (None, Condition::OnFailure) => Some(Reason::NothingFailed),
        }
    }

    /// Whether the current phase is a clean-up of the job.
    pub(crate) fn cleans_up(&self) -> bool {
        self.current_phase().is_some_and(|phase| phase.condition == Condition::OnFailure)
    }

    pub(crate) fn is_member(&self, position: usize) -> bool {
        self.left_out(position).is_none()
    }

    /// Why the current phase, which is about to begin, leaves a node out, if it does.
    pub(crate) fn left_out(&self, position: usize) -> Option<Reason> {
        if !self.takes_part(position) {
            return Some(Reason::NotRetried);
        }
        let phase = self.current_phase()?;
        let node = self.expected[position];
        let (failed, excluded) = (self.head.failed.contains_key(&node), self.head.excluded.contains(&node));
        if phase.condition != Condition::OnFailure {
            let reason = || if self.failure_is_known(node) { Reason::NodeExcluded } else { Reason::UnknownExcluded };
            return excluded.then(reason);
        }
        match self.cleanup_nodes(phase) {
            PhaseNodes::Failed => (!failed).then_some(Reason::NotAFailedNode),
            PhaseNodes::Healthy if !failed && !excluded => None,
            PhaseNodes::Healthy if self.failure_is_known(node) => Some(Reason::NotAHealthyNode),
            PhaseNodes::Healthy => Some(Reason::UnknownNotHealthy),
            PhaseNodes::All => None,
        }
    }

    /// J9: what was tolerated is cleaned up where it happened; a job that has failed is cleaned up everywhere.
    fn cleanup_nodes(&self, phase: &Phase) -> PhaseNodes {
        let tolerated = self.head.tripped.is_none() && !self.head.failed.is_empty();
        phase.nodes.unwrap_or(if tolerated { PhaseNodes::Failed } else { PhaseNodes::All })
    }

    /// Whether the current phase has anything to do on any of its nodes: an earlier run may have done it all.
    pub(crate) fn has_work(&self, phase: &Phase) -> bool {
        (0..self.expected.len()).any(|position| self.is_member(position) && self.has_work_at(phase, position))
    }

    /// The same, on one node that takes part. What an earlier run did there counts as a change (`condition: on_changed`).
    pub(crate) fn has_work_at(&self, phase: &Phase, position: usize) -> bool {
        let mut changed = false;
        (self.first_step().0..).map(StepIndex).zip(&phase.tasks).any(|(step, task)| {
            let done = self.is_done(step, position);
            changed |= (done && task.may_change()) || self.changed_earlier(step, position);
            !done && !self.was_unchanged(step, position) && self.skips_after(position, task, changed).is_none()
        })
    }
}
