//! Results and outputs of a job, as lists.

use serde::{Deserialize, Serialize};

use super::job_doc::ResultDoc;

/// One row of `…/results`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ResultRowDoc {
    /// The step.
    pub step: u32,
    /// The node.
    pub node: String,
    /// How the step ended there, or its current state.
    #[serde(flatten)]
    pub result: ResultDoc,
}

/// Nodes whose output of a step is the same, largest group first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OutputGroupDoc {
    /// How many nodes have this output.
    pub count: u64,
    /// Their names; only the first ones if there are many.
    pub nodes: Vec<String>,
    /// The end of the output.
    pub output: String,
    /// Bytes of the whole output; `output` holds the last of them.
    pub total_bytes: u64,
}
