//! Namespaces, and the name of a job in one. A job id is unique in the cluster, but a caller of one namespace must not learn
//! that another one has it, so both always travel together.

use std::fmt;
use std::str::FromStr;

use crate::ids::JobId;
use crate::name::{BadName, Name};

/// The name of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(Name);

/// A job as a caller names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRef {
    /// Where the caller looks for it.
    pub namespace: Namespace,
    /// Its id.
    pub id: JobId,
}

impl Namespace {
    /// The name of the only namespace so far.
    pub const DEFAULT: &'static str = "default";

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The name, as commands and jobs carry it.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.0
    }
}

impl From<Name> for Namespace {
    fn from(name: Name) -> Self {
        Self(name)
    }
}

impl FromStr for Namespace {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        text.parse().map(Self)
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for JobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::Namespace;

    #[test]
    fn a_namespace_is_a_name() {
        let default: Namespace = Namespace::DEFAULT.parse().unwrap();
        assert_eq!((default.as_str(), default.to_string().as_str()), ("default", "default"));
        assert!("Not a name".parse::<Namespace>().is_err());
    }
}
