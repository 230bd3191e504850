//! Names of nodes, groups and namespaces: `[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?`, the rule of a DNS label.
//!
//! One rule for all, because names become NATS subjects, file names and Kubernetes objects.

use std::fmt;
use std::str::FromStr;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// A validated name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(transparent)]
#[serde(try_from = "String", into = "String")]
pub struct Name(#[n(0)] Box<str>);

/// The name of a node: a type of its own, so that no group, namespace or controller is taken for one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(transparent)]
#[serde(transparent)]
pub struct NodeId(#[n(0)] Name);

/// A text that is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a name: use 1 to 63 of a-z, 0-9 and '-', beginning and ending with a letter or digit")]
pub struct BadName(String);

impl Name {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    (1..=63).contains(&bytes.len())
        && bytes.iter().all(|b| plain(b) || *b == b'-')
        && bytes.first().is_some_and(plain)
        && bytes.last().is_some_and(plain)
}

impl FromStr for Name {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        if is_name(text) { Ok(Self(text.into())) } else { Err(BadName(text.chars().take(80).collect())) }
    }
}

impl TryFrom<String> for Name {
    type Error = BadName;

    fn try_from(text: String) -> Result<Self, BadName> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0.into()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl NodeId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The id as a name among others, such as the names of a target.
    #[must_use]
    pub fn as_name(&self) -> &Name {
        &self.0
    }
}

impl From<Name> for NodeId {
    fn from(name: Name) -> Self {
        Self(name)
    }
}

impl From<NodeId> for String {
    fn from(node: NodeId) -> Self {
        node.0.into()
    }
}

impl FromStr for NodeId {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        text.parse().map(Self)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::{Name, NodeId};

    #[test]
    fn names_follow_the_rule() {
        for good in ["a", "web-01", "0", "a-b-c", &"x".repeat(63)] {
            assert!(good.parse::<Name>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a_b", "ä", "a b", &"x".repeat(64)] {
            assert!(bad.parse::<Name>().is_err(), "{bad}");
        }
    }

    /// Rows and log entries written with the alias are read with the type.
    #[test]
    fn a_node_id_is_encoded_as_its_name() {
        let node: NodeId = "web-01".parse().unwrap();
        assert_eq!(minicbor::to_vec(&node).unwrap(), minicbor::to_vec(node.as_name()).unwrap());
        assert_eq!(serde_json::to_string(&node).unwrap(), "\"web-01\"");
        assert!(serde_json::from_str::<NodeId>("\"Web\"").is_err());
    }
}
