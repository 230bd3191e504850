//! Events as the API shows them, and the filters for reading them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Role;
use crate::event::Event;
use crate::ids::JobId;

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

/// Selects events; an empty field matches any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Events of these kinds; empty: any.
    pub kinds: Vec<String>,
    /// Events about this job.
    pub job: Option<JobId>,
    /// Events about this node.
    pub node: Option<String>,
    /// Events of this namespace.
    pub namespace: Option<String>,
}

impl EventFilter {
    /// Whether the node is one of several that the event names.
    fn names(&self, event: &EventDoc) -> bool {
        self.node.as_ref().zip(event.nodes.as_ref()).is_some_and(|(node, nodes)| nodes.contains(node))
    }

    /// Whether an event passes the filter.
    #[must_use]
    pub fn matches(&self, event: &EventDoc) -> bool {
        let same = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        (self.kinds.is_empty() || self.kinds.contains(&event.kind))
            && self.job.is_none_or(|job| event.job.as_deref() == Some(job.to_string().as_str()))
            && (same(&self.node, &event.node) || self.names(event))
            && same(&self.namespace, &event.namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::{EVENT_KINDS, EventDoc, EventFilter};

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

    #[test]
    fn issue13_26_a_node_finds_events_that_name_it_among_others() {
        let event = EventDoc {
            id: 1,
            at: String::new(),
            kind: "StepFailed".to_owned(),
            subject: String::new(),
            text: String::new(),
            job: None,
            node: None,
            nodes: Some(vec!["web-01".to_owned(), "web-02".to_owned()]),
            namespace: None,
            name: None,
            labels: None,
            leader_epoch: 1,
            role: None,
        };
        let of = |node: &str| EventFilter { node: Some(node.to_owned()), ..EventFilter::default() };
        assert!(of("web-02").matches(&event) && !of("web-03").matches(&event));
        assert!(EventFilter::default().matches(&event));
    }
}
