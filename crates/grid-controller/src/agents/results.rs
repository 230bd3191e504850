//! Records the results of agents: the same commands as those of workers, with the answers of W4 as HTTP statuses.
//!
//! An agent confirms a revoke by a result: whatever it says of a revoked lease confirms that nothing of it
//! runs any more (W9). `cancelled` is the answer to a revoke; of a lease that nobody revoked it is a failure.

use grid_core::{Answer, Command, ConfirmRevoke, RecordResult, Rejection, Reply, Stale};
use grid_types::api::RecordedDoc;
use grid_types::node::NodeStatus;
use grid_types::{Code, Faults, Outcome};

use super::Admitted;
use crate::control::{AgentResult, Permit, Refusal, no_node, refused};
use crate::controller::Controller;
use crate::leader::{end_of, error_of};
use crate::reply::NoReply;

/// A session that moved on while a result was on its way is asked for again.
const TRIES: u32 = 5;

impl Controller {
    pub(crate) async fn record_agent(&self, permit: Permit, result: AgentResult) -> Result<RecordedDoc, Refusal> {
        let agent = self.known_agent(&result)?;
        self.hear_agent(agent);
        let mut outcome = result.outcome;
        if outcome == Outcome::Cancelled {
            if self.confirm_revoke(permit, &result, outcome).await? == Answer::Committed {
                return Ok(self.recorded(&result, outcome));
            }
            outcome = Outcome::Failed;
        }
        let answer =
            self.report(permit, &result, |agent| Command::RecordResult(self.record(&result, agent, outcome))).await?;
        match answer {
            Answer::Committed => Ok(self.recorded(&result, outcome)),
            Answer::Superseded(stale) => {
                if self.is_revoked(&result) {
                    self.confirm_revoke(permit, &result, outcome).await?;
                }
                Err(superseded(&result, stale))
            }
        }
    }

    fn known_agent(&self, result: &AgentResult) -> Result<Admitted, Refusal> {
        let state = self.shared.state();
        let node = state.node_by_id(&result.agent).filter(|node| node.status != NodeStatus::Removed);
        let node = node.ok_or_else(|| no_node(&result.agent))?;
        if !node.agent {
            let why = format!("{} is a worker, which reports by its own session", result.agent);
            return Err(Refusal::new(Code::Conflict, why));
        }
        if result.lease.node != node.ord {
            let mut faults = Faults::default();
            faults.add("lease_id", format!("is no lease of agent {}", result.agent));
            return Err(Refusal::invalid(faults));
        }
        Ok(Admitted { node: node.ord, session: node.session })
    }

    fn is_revoked(&self, result: &AgentResult) -> bool {
        let state = self.shared.state();
        let out = state.jobs.get(&result.lease.lease.job).and_then(|job| job.lease_at(result.lease.node));
        out.is_some_and(|(lease, revoked)| lease == result.lease.lease && revoked.is_some())
    }

    async fn confirm_revoke(&self, permit: Permit, result: &AgentResult, outcome: Outcome) -> Result<Answer, Refusal> {
        self.report(permit, result, |agent| Command::ConfirmRevoke(self.confirmation(result, agent, outcome))).await
    }

    async fn report(
        &self,
        permit: Permit,
        result: &AgentResult,
        command: impl Fn(Admitted) -> Command,
    ) -> Result<Answer, Refusal> {
        for _ in 0..TRIES {
            let agent = self.known_agent(result)?;
            match self.propose(permit, &command(agent)).await {
                Ok(Reply::Answered(answer)) => {
                    self.shared.look(|leader, _| leader.on_agent_result(agent.node, result.lease.lease));
                    return Ok(answer);
                }
                Ok(_) => return Err(Refusal::new(Code::Internal, "unexpected reply to a result")),
                Err(NoReply::Rejected(Rejection::StaleSession { .. })) => {}
                Err(no_reply) => return Err(refused(no_reply)),
            }
        }
        let why = format!("agent {} registers again and again; report it again", result.agent);
        Err(Refusal::new(Code::OutcomeUnknown, why))
    }

    fn record(&self, result: &AgentResult, Admitted { node, session }: Admitted, outcome: Outcome) -> RecordResult {
        let unasked =
            (outcome != result.outcome).then(|| "the agent ended it, and nobody had asked for that".to_owned());
        RecordResult {
            node,
            session,
            lease: result.lease.lease,
            outcome,
            error: result.error.clone().and_then(error_of).or(unasked),
            output_tail: end_of(result.output.clone().into_bytes()),
            output_bytes: u64::try_from(result.output.len()).unwrap_or(u64::MAX),
            output_truncated: false,
            detail: None,
            duration_ms: result.duration_ms,
            started_wall_ms: self.started_wall_ms(result),
        }
    }

    fn confirmation(
        &self,
        result: &AgentResult,
        Admitted { node, session }: Admitted,
        ended: Outcome,
    ) -> ConfirmRevoke {
        ConfirmRevoke {
            node,
            session,
            lease: result.lease.lease,
            ended: Some(ended),
            error: result.error.clone().and_then(error_of),
            duration_ms: result.duration_ms,
            started_wall_ms: self.started_wall_ms(result),
            output_tail: end_of(result.output.clone().into_bytes()),
            output_bytes: u64::try_from(result.output.len()).unwrap_or(u64::MAX),
        }
    }

    /// An agent's clock is not asked.
    fn started_wall_ms(&self, result: &AgentResult) -> u64 {
        self.shared.clock.wall_ms().saturating_sub(result.duration_ms)
    }

    fn recorded(&self, result: &AgentResult, status: Outcome) -> RecordedDoc {
        RecordedDoc { lease_id: result.lease.to_string(), status, leader_epoch: self.epoch() }
    }
}

fn superseded(result: &AgentResult, stale: Stale) -> Refusal {
    let why = match stale {
        Stale::Job => "its job was cancelled, timed out or resumed since",
        Stale::Attempt => "another attempt of its step is outstanding",
        Stale::Settled => "its outcome is already recorded",
    };
    Refusal::stale(stale.into(), format!("{}: {why}; drop this result", result.lease))
}
