//! A node as it describes itself, and how it stands.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::limits::{FACTS_SHARE_BYTES, MAX_FACTS_BYTES};
use crate::name::Name;

/// What a worker says of its machine when it registers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct NodeFacts {
    #[n(0)]
    pub hostname: String,
    #[n(1)]
    pub address: String,
    #[n(2)]
    pub groups: BTreeSet<Name>,
    #[n(3)]
    pub labels: BTreeMap<String, String>,
    /// Backend → its actions, as this worker runs them.
    #[n(4)]
    pub backends: BTreeMap<String, BTreeSet<String>>,
    #[n(5)]
    pub os: String,
    #[n(6)]
    pub arch: String,
    #[n(7)]
    pub capacity: Capacity,
    #[n(8)]
    pub version: String,
}

impl NodeFacts {
    /// What a node says of itself is bounded in sum: it is kept in memory, copied into every list and sent to every controller.
    /// Both forms count: as it is stored, and as JSON, where escaping makes a text up to six times as long.
    ///
    /// # Errors
    /// What to do about it.
    pub fn check_size(&self) -> Result<(), String> {
        let shown = serde_json::to_vec(self).map_or(usize::MAX, |json| json.len());
        let bytes = shown.max(self.stored_bytes());
        if bytes <= MAX_FACTS_BYTES {
            return Ok(());
        }
        Err(format!(
            "what this node says of itself takes {bytes} bytes, at most {MAX_FACTS_BYTES} are allowed; use fewer or shorter \
             labels and groups"
        ))
    }

    #[must_use]
    pub fn stored_bytes(&self) -> usize {
        minicbor::to_vec(self).map_or(usize::MAX, |encoded| encoded.len())
    }

    /// What they take of the bytes that all nodes share.
    #[must_use]
    pub fn extra_bytes(&self) -> usize {
        self.stored_bytes().saturating_sub(FACTS_SHARE_BYTES)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Capacity {
    #[n(0)]
    pub cpu_milli: u64,
    #[n(1)]
    pub memory_bytes: u64,
    #[n(2)]
    pub disk_bytes: u64,
    /// Leases at once (W7).
    #[n(3)]
    pub slots: u32,
}

/// What a label is, for messages.
pub const LABEL_RULE: &str = "a label has a key of 1 to 63 and a value of at most 255 bytes, without commas, '=' in the key, or control characters";

/// Whether these are the key and the value of a label.
#[must_use]
pub fn is_label(key: &str, value: &str) -> bool {
    let plain = |text: &str| !text.contains(|c: char| c == ',' || c.is_control());
    (1..=63).contains(&key.len()) && value.len() <= 255 && !key.contains('=') && plain(key) && plain(value)
}

/// ```text
///   Ready --15 s--> Warning --30 s--> Unhealthy --60 s--> Dead
///     ^----------- heard again ---------'                  |
///     '------------------ registers again -----------------'
///   any --drain--> Draining --leave--> Left --registers--> Ready (Draining, if a person ordered it)
///   Dead, Left, Draining with nothing left (or any, by force) --remove--> Removed --registers--> Ready, as new
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum NodeStatus {
    #[n(0)]
    Ready,
    #[n(1)]
    Warning,
    #[n(2)]
    Unhealthy,
    #[n(3)]
    Dead,
    #[n(4)]
    Draining,
    #[n(5)]
    Left,
    /// By a person. What is left of it gives old results their node's name; it counts as a node again when it registers.
    #[n(6)]
    Removed,
}

impl NodeStatus {
    /// J4: may be offered a lease.
    #[must_use]
    pub fn is_online(self) -> bool {
        matches!(self, Self::Ready | Self::Warning)
    }

    /// Away, and may come back: a job can wait for it.
    #[must_use]
    pub fn is_away(self) -> bool {
        !self.is_online() && self != Self::Removed
    }

    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Warning => "warning",
            Self::Unhealthy => "unhealthy",
            Self::Dead => "dead",
            Self::Draining => "draining",
            Self::Left => "left",
            Self::Removed => "removed",
        }
    }
}

impl fmt::Display for NodeStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::NodeFacts;
    use crate::limits::MAX_FACTS_BYTES;

    #[test]
    fn issue14_facts_are_counted_as_they_are_stored_and_as_they_are_shown() {
        let labelled = |value: &str| {
            let labels = (0..50).map(|i| (format!("l{i}"), value.repeat(240))).collect();
            NodeFacts { labels, ..NodeFacts::default() }
        };
        assert_eq!(labelled("v").check_size(), Ok(()));
        for escaped in ["\"", "\\"] {
            let facts = labelled(escaped);
            assert!(facts.stored_bytes() < MAX_FACTS_BYTES, "what is stored is the same");
            assert!(facts.check_size().unwrap_err().contains("16384"));
        }
    }
}
