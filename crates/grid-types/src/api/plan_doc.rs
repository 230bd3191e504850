//! Defines the document that says what a job would do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::job_doc::TargetDoc;

/// `POST …/jobs/plan`: what a job would do, without running it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PlanDoc {
    /// Identifies this plan; `POST …/jobs?plan=HASH` refuses the job if anything that the hash covers has changed.
    pub hash: String,
    /// The target as given.
    pub target: TargetDoc,
    /// Nodes of the target that it would not run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude: Option<String>,
    /// The part of the target that it would run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// How many nodes, or which share, would run a phase before the others, where the phase does not say it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// How many nodes the cluster knows.
    #[serde(default)]
    pub known: u64,
    /// Why the other nodes are left out, grouped by the first part of the target that they fail.
    #[serde(default)]
    pub unmatched: Vec<UnmatchedDoc>,
    /// The nodes it would run on.
    pub expected: Vec<String>,
    /// Those of them that are offline now, with their state.
    pub offline: BTreeMap<String, String>,
    /// Those that are online and lack what a step needs, by `backend/action`: the step would fail on them.
    #[serde(default)]
    pub lacking: BTreeMap<String, Vec<String>>,
    /// Phases with every default filled in.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub tasks: Value,
    /// `fail-fast` or `continue`.
    pub strategy: String,
    /// How many nodes may fail, or which share of them.
    pub failure_tolerate: String,
    /// How many nodes, or which share of them, may be in a phase at once, unless the phase has its own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<String>,
    /// Steps times nodes.
    pub rows: u64,
}

/// Nodes that a job leaves out for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct UnmatchedDoc {
    /// Continues "3 of 10 nodes …", such as `do not match group:web`.
    pub reason: String,
    /// How many they are.
    pub count: u64,
    /// The first five of them by id.
    pub nodes: Vec<String>,
}
