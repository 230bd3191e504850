//! Events as the API shows them, and what a reader may ask for.

use serde::{Deserialize, Serialize};

use super::Role;
use crate::event::Event;
use crate::ids::JobId;

/// Every kind there is.
pub const EVENT_KINDS: &[&str] = Event::KINDS;

/// One event: the JSON `data` of the stream, and an item of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EventDoc {
    /// Rises; what `Last-Event-ID` and `after` name.
    pub id: u64,
    pub at: String,
    /// Past tense: `JobStarted`, `NodeDead`.
    pub kind: String,
    /// The job, node or controller it is about.
    pub subject: String,
    pub text: String,
    #[serde(default)]
    pub job: Option<String>,
    #[serde(default)]
    pub node: Option<String>,
    #[serde(default)]
    pub namespace: Option<String>,
    /// Of the leader that recorded it.
    pub leader_epoch: u64,
    /// Of the controller that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}

/// Which events; what is left out is any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    pub kinds: Vec<String>,
    pub job: Option<JobId>,
    pub node: Option<String>,
    pub namespace: Option<String>,
}

impl EventFilter {
    #[must_use]
    pub fn matches(&self, event: &EventDoc) -> bool {
        let same = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        (self.kinds.is_empty() || self.kinds.contains(&event.kind))
            && self.job.is_none_or(|job| event.job.as_deref() == Some(job.to_string().as_str()))
            && same(&self.node, &event.node)
            && same(&self.namespace, &event.namespace)
    }
}
