//! Defines the documents of refusals.

use serde::{Deserialize, Serialize};

use super::role_doc::Role;
use crate::fault::{Fault, Faults};

/// The body of every refusal except NOT_LEADER and STALE_EPOCH, which have further fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ErrorDoc {
    /// The name of a [`Code`](crate::Code).
    pub error: String,
    /// The explanation, for an operator.
    #[serde(default)]
    pub message: String,
    /// Every fault of the request, by its field.
    #[serde(default)]
    pub details: Vec<FaultDoc>,
}

/// A fault in one field of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FaultDoc {
    /// Path of the field, such as `tasks[0].timeout`; empty for the whole document.
    pub field: String,
    /// The problem.
    pub problem: String,
    /// For a field with a grammar, such as `target`: the number of characters before the fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u32>,
}

impl From<&Fault> for FaultDoc {
    fn from(fault: &Fault) -> Self {
        let at = fault.at.and_then(|at| u32::try_from(at).ok());
        Self { field: fault.field.clone(), problem: fault.problem.clone(), at }
    }
}

/// The faults that are recorded by name, and how many more there are.
#[must_use]
pub fn fault_docs(faults: &Faults) -> Vec<FaultDoc> {
    let named = faults.list().iter().map(FaultDoc::from);
    let more = (faults.more() > 0).then(|| FaultDoc {
        field: String::new(),
        problem: format!("{} more faults are not listed", faults.more()),
        at: None,
    });
    named.chain(more).collect()
}

/// NOT_LEADER (409), with the address to send the request to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NotLeaderDoc {
    /// `NOT_LEADER`.
    pub error: String,
    /// The explanation, for an operator.
    pub message: String,
    /// The leader, if it is known.
    pub leader_id: Option<String>,
    /// Where to send the request instead; null: try again later.
    pub leader_url: Option<String>,
    /// The leader epoch that the answering controller knows.
    pub leader_epoch: Option<u64>,
    /// The controller that answers.
    pub node_id: String,
    /// Its role: never `LEADER`.
    pub role: Role,
}
