//! What plain HTTP agents ask and tell.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use grid_types::{LeaseId, Name, NodeId, Outcome};

/// What an agent says of itself. What it leaves out stays as it was said last.
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
    /// Tells one process of an agent from another; all that name none count as one.
    pub instance: Option<String>,
    pub facts: AgentFacts,
    /// What it works on, or has the result of.
    pub held: BTreeSet<LeaseId>,
    pub wait: Duration,
}

/// An agent tells how a lease ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentResult {
    pub agent: NodeId,
    pub lease: LeaseId,
    pub outcome: Outcome,
    pub output: String,
    pub error: Option<String>,
    pub duration_ms: u64,
}
