//! Defines the facts that a node registers with, and its status.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::limits::{FACTS_SHARE_BYTES, MAX_FACT_BYTES, MAX_FACTS_BYTES};
use crate::name::Name;

/// What a worker says of its machine when it registers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct NodeFacts {
    /// Host name of the machine.
    #[n(0)]
    pub hostname: String,
    /// Address of the machine, for people.
    #[n(1)]
    pub address: String,
    /// Groups that jobs can target.
    #[n(2)]
    pub groups: BTreeSet<Name>,
    /// Labels that jobs can target.
    #[n(3)]
    pub labels: BTreeMap<String, String>,
    /// Backend → its actions, as this worker runs them.
    #[n(4)]
    pub backends: BTreeMap<String, BTreeSet<String>>,
    /// Operating system.
    #[n(5)]
    pub os: String,
    /// Processor architecture.
    #[n(6)]
    pub arch: String,
    /// What the machine has.
    #[n(7)]
    pub capacity: Capacity,
    /// Version of the worker.
    #[n(8)]
    pub version: String,
    /// What the worker found out about its machine, such as `os.id` and `kernel.release`; see [`NodeFacts::fact`].
    #[n(9)]
    #[cbor(default)]
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
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

    /// A fact by the name that targets use.
    #[must_use]
    pub fn fact(&self, key: &str) -> Option<&str> {
        match key {
            "hostname" => Some(&self.hostname),
            "address" => Some(&self.address),
            "arch" => Some(&self.arch),
            "os" => Some(&self.os),
            "grid.version" => Some(&self.version),
            key => self.facts.get(key).map(String::as_str),
        }
    }

    /// Size of the facts as they are stored.
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

/// What a machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Capacity {
    /// Thousandths of a processor core.
    #[n(0)]
    pub cpu_milli: u64,
    /// Main memory.
    #[n(1)]
    pub memory_bytes: u64,
    /// Size of the file system with the data folder.
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

/// What the key of a fact is, for messages.
pub const FACT_KEY_RULE: &str = "a key has 1 to 63 of a-z, 0-9, '.', '_' and '-'";

/// Whether these are the key and the value of a fact.
#[must_use]
pub fn is_fact(key: &str, value: &str) -> bool {
    is_fact_key(key) && value.len() <= MAX_FACT_BYTES && !value.contains(char::is_control)
}

/// Whether this is the key of a fact.
#[must_use]
pub fn is_fact_key(key: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    (1..=63).contains(&key.len()) && key.bytes().all(plain)
}

/// ```text
///   Ready --15 s--> Warning --30 s--> Unhealthy --60 s--> Dead
///     ^----------- heard again ---------'                  |
///     '------------------ registers again -----------------'
///   any --drain--> Draining --leave--> Left --registers--> Ready (Draining, if an operator ordered it)
///   Dead, Left, Draining with nothing left (or any, by force) --remove--> Removed --registers--> Ready, as new
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum NodeStatus {
    /// Its worker is connected and heard.
    #[n(0)]
    Ready,
    /// Not heard for a while; still gets work.
    #[n(1)]
    Warning,
    /// Not heard for longer: offline for jobs.
    #[n(2)]
    Unhealthy,
    /// Not heard for so long that its leases are given up.
    #[n(3)]
    Dead,
    /// Finishes what it has and gets nothing new.
    #[n(4)]
    Draining,
    /// Its worker ended in order.
    #[n(5)]
    Left,
    /// By an operator. What is left of it gives old results their node's name; it counts as a node again when it registers.
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

    /// Its session is over: nothing that it says counts until it registers again (V3).
    #[must_use]
    pub fn is_gone(self) -> bool {
        matches!(self, Self::Dead | Self::Left | Self::Removed)
    }

    /// The name in documents.
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
