//! Requests of plain HTTP agents (W10), which `agents` answers.

use std::future::Future;

use grid_types::api::{LeasesDoc, RecordedDoc};

use crate::control::{AgentPoll, AgentResult, Agents, Caller, Refusal, Right, Scope};
use crate::controller::Controller;

impl Agents for Controller {
    #[tracing::instrument(level = "debug", name = "agent", skip_all, fields(node = %poll.agent))]
    async fn poll_agent(
        &self,
        caller: &Caller,
        poll: AgentPoll,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<LeasesDoc, Refusal> {
        let permit = caller.permit(Right::Work, Scope::Cluster)?;
        self.serve_agent(permit, poll, stop).await
    }

    #[tracing::instrument(level = "debug", name = "agent", skip_all, fields(node = %result.agent, job = %result.lease.lease.job))]
    async fn agent_result(&self, caller: &Caller, result: AgentResult) -> Result<RecordedDoc, Refusal> {
        let permit = caller.permit(Right::Work, Scope::Cluster)?;
        self.record_agent(permit, result).await
    }
}
