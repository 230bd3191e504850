//! Defines a part of a job's target, so that a job can be tried on a few nodes first: `3`, `"20%"`, or a target.

use std::fmt;
use std::str::FromStr;

use minicbor::{Decode, Encode};

use super::target::share;
use super::{Concurrency, Target, TargetError};

/// Which part of its target a job runs on.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Limit {
    /// The first nodes of it, by their ids: so many, or a share, which is rounded down, and at least one.
    #[n(0)]
    First(#[n(0)] Concurrency),
    /// The nodes of it that also match this.
    #[n(1)]
    To(#[n(0)] Target),
}

/// A number of nodes, a percentage, or a target.
impl FromStr for Limit {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let fault = |problem: String| TargetError { at: 0, problem };
        let plain = text.trim();
        if !plain.is_empty() && plain.bytes().all(|b| b.is_ascii_digit()) {
            let nodes = plain.parse().ok().filter(|nodes| *nodes > 0);
            let nodes: u32 = nodes.ok_or_else(|| fault("must be a number of nodes from 1".to_owned()))?;
            return Ok(Self::First(Concurrency::Nodes(nodes)));
        }
        if plain.ends_with('%') && !plain.contains(char::is_whitespace) {
            return share(plain).map(|share| Self::First(Concurrency::Share(share))).map_err(fault);
        }
        text.parse().map(Self::To)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First(portion) => portion.fmt(f),
            Self::To(target) => target.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Limit;
    use crate::job::Concurrency;

    #[test]
    fn a_limit_is_a_number_a_share_or_a_target() {
        let read = |text: &str| text.parse::<Limit>();
        assert_eq!(read("3"), Ok(Limit::First(Concurrency::Nodes(3))));
        assert_eq!(read("20%"), Ok(Limit::First(Concurrency::Share("20%".parse().unwrap()))));
        assert_eq!(read("group:web and node:a*").unwrap().to_string(), "group:web and node:a*");
        assert_eq!(read("20% of group:web").unwrap().to_string(), "20% of group:web");
        for bad in ["", "0", "0%", "101%", "-1", "4294967296", "web", "3 nodes"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
