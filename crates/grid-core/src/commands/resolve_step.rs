//! `ResolveStep`: an operator records the outcome of a step that is unknown (`on_unknown: wait`, W8).

use grid_types::{Event, JobId, JobStatus, Name, NodeId, Outcome, Reason, StepIndex};
use minicbor::{Decode, Encode};

use super::{Rejection, Reply};
use crate::jobs::{Facts, Report};
use crate::state::CellState;
use crate::turn::Turn;

/// An operator decides about an unknown step (W8).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ResolveStep {
    /// The namespace of the job.
    #[n(0)]
    pub namespace: Name,
    /// The job.
    #[n(1)]
    pub job: JobId,
    /// The step whose outcome is unknown.
    #[n(2)]
    pub step: StepIndex,
    /// The node on which it ran.
    #[n(3)]
    pub node: NodeId,
    /// What the operator decides.
    #[n(4)]
    pub verdict: Verdict,
}

/// How an operator resolves a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Verdict {
    /// It has succeeded.
    #[n(0)]
    Success,
    /// It has failed.
    #[n(1)]
    Failed,
    /// Run it again: another attempt.
    #[n(2)]
    Retry,
}

impl ResolveStep {
    pub(super) fn handle(&self, turn: &mut Turn<'_>) -> Result<Reply, Rejection> {
        let job = turn.live_job(&self.namespace, self.job)?;
        let position = turn.state.node_by_id(&self.node).and_then(|node| job.position(node.ord)).filter(|position| {
            let cell = &job.cells[*position];
            cell.state == CellState::Unresolved && job.step_of(cell) == self.step
        });
        let Some(position) = position else {
            let what = format!("step {} of {} on {} does not wait to be resolved", self.step, self.job, self.node);
            return Err(Rejection::NotWaiting(what));
        };
        let ord = job.expected[position];
        let nobody = turn.state.nodes.get(&ord).is_none_or(|node| !node.status.is_online() && !job.waits_for(node));
        if self.verdict == Verdict::Retry && nobody {
            let what = format!("{} is offline; say retry when it is back, or success or failed now", self.node);
            return Err(Rejection::NotWaiting(what));
        }
        let said = |outcome| Report::said(outcome, Some(Reason::ResolvedByOperator), Facts::default());
        match self.verdict {
            Verdict::Success => turn.resolve(self.job, position, said(Outcome::Success)),
            Verdict::Failed => turn.resolve(self.job, position, said(Outcome::Failed)),
            Verdict::Retry => turn.run_again(self.job, position),
        }
        let verdict = match self.verdict {
            Verdict::Success => Some(Outcome::Success),
            Verdict::Failed => Some(Outcome::Failed),
            Verdict::Retry => None,
        };
        turn.record_step_event(self.job, ord, Event::StepResolved { step: self.step, verdict });
        Ok(Reply::Moved { job: self.job, status: JobStatus::Running })
    }
}
