//! Defines what plain HTTP agents send, and how they are answered (W10).

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use grid_types::api::{LeasesDoc, RecordedDoc};
use grid_types::{LeaseId, Name, NodeId, Outcome};

use super::{Caller, Introspect, Refusal};

/// What an agent says of itself. A field that it leaves out keeps its last value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentFacts {
    pub hostname: Option<String>,
    pub groups: Option<BTreeSet<Name>>,
    pub labels: Option<BTreeMap<String, String>>,
    /// Backend and actions.
    pub backends: Option<BTreeMap<String, BTreeSet<String>>>,
    pub slots: Option<u32>,
}

/// An agent asks for work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPoll {
    pub agent: NodeId,
    /// Distinguishes processes of an agent; all that send none count as one.
    pub instance: Option<String>,
    pub facts: AgentFacts,
    /// The leases that it works on, or has the result of.
    pub outstanding: BTreeSet<LeaseId>,
    pub wait: Duration,
}

/// An agent reports how a lease ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentResult {
    pub agent: NodeId,
    pub lease: LeaseId,
    pub outcome: Outcome,
    pub output: String,
    pub error: Option<String>,
    pub duration_ms: u64,
}

pub trait Agents: Introspect {
    /// Answers when there is work, when the agent's wait is over, or when `stop` resolves.
    fn poll_agent(
        &self,
        caller: &Caller,
        poll: AgentPoll,
        stop: impl Future<Output = ()> + Send,
    ) -> impl Future<Output = Result<LeasesDoc, Refusal>> + Send;
    /// Records how a lease ended (W4).
    fn agent_result(
        &self,
        caller: &Caller,
        result: AgentResult,
    ) -> impl Future<Output = Result<RecordedDoc, Refusal>> + Send;
}
