//! Events as the API shows them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Role;
use crate::event::Event;

/// All kinds of events.
pub const EVENT_KINDS: &[&str] = Event::KINDS;

/// One event: the JSON `data` of the stream, and an item of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EventDoc {
    /// Rises with every event; used in `Last-Event-ID` and `after`.
    pub id: u64,
    /// When it was recorded.
    pub at: String,
    /// The kind, in the past tense: `JobStarted`, `NodeDead`.
    pub kind: String,
    /// The job, node or controller it is about.
    pub subject: String,
    /// The explanation, for an operator.
    pub text: String,
    /// The job that it is about.
    #[serde(default)]
    pub job: Option<String>,
    /// The node that it is about.
    #[serde(default)]
    pub node: Option<String>,
    /// The nodes it is about if there are several; at most 20 are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<String>>,
    /// The namespace of the job.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Name of the job, as long as the job is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels of the job, as long as it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Epoch of the leader that recorded it.
    pub leader_epoch: u64,
    /// Role of the controller that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}

#[cfg(test)]
mod tests {
    use super::EVENT_KINDS;

    const DOCS: &str = include_str!("../../../../docs/http.md");
    const HELP: &str = include_str!("../../../gridc/src/cli/events.rs");

    #[test]
    fn every_kind_is_documented() {
        for kind in EVENT_KINDS {
            assert!(DOCS.contains(&format!("`{kind}`")), "docs/http.md does not explain {kind}");
            let mut words = HELP.split_whitespace();
            assert!(words.any(|word| word == *kind), "the help of gridc events does not name {kind}");
        }
    }
}
