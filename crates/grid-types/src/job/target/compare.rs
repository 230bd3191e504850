//! Comparisons of facts: `os.id=debian`, `os.version>=12`, `memory.total_bytes>=8Gi`.
//!
//! `=` and `!=` compare texts, with patterns. The others compare versions: up to four whole numbers, separated by dots; a
//! plain number is a version of one part. What follows them in a fact (`6.1.0-18-amd64`) is left out.
//! A node that does not have the fact, or whose fact is no number where one is needed, passes no comparison, `!=` included.

use std::fmt;

use minicbor::{Decode, Encode};

use super::glob::Pattern;

/// One comparison of a fact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct FactTest {
    /// The fact.
    #[n(0)]
    pub key: String,
    /// How it is compared.
    #[n(1)]
    pub op: Op,
    /// What it is compared with; of an order a [`Version`].
    #[n(2)]
    pub value: Pattern,
}

/// How a fact is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum Op {
    /// The same text.
    #[n(0)]
    Is,
    /// Another text.
    #[n(1)]
    IsNot,
    /// At least.
    #[n(2)]
    AtLeast,
    /// At most.
    #[n(3)]
    AtMost,
    /// More than.
    #[n(4)]
    Above,
    /// Less than.
    #[n(5)]
    Below,
}

/// Every operator, the longer ones first.
pub(super) const OPS: [(&str, Op); 6] =
    [("!=", Op::IsNot), (">=", Op::AtLeast), ("<=", Op::AtMost), ("=", Op::Is), (">", Op::Above), ("<", Op::Below)];

/// Up to four numbers; the missing ones are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version([u64; 4]);

const UNITS: [(&str, u32); 4] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40)];

impl FactTest {
    /// Whether a node with this fact passes.
    #[must_use]
    pub fn passes(&self, fact: Option<&str>) -> bool {
        let Some(fact) = fact else { return false };
        let (is_met, wanted): (fn(Version, Version) -> bool, _) = match (self.op, &self.value) {
            (Op::Is, pattern) => return pattern.matches(fact),
            (Op::IsNot, pattern) => return !pattern.matches(fact),
            (Op::AtLeast, Pattern::Exact(wanted)) => (|fact, wanted| fact >= wanted, wanted),
            (Op::AtMost, Pattern::Exact(wanted)) => (|fact, wanted| fact <= wanted, wanted),
            (Op::Above, Pattern::Exact(wanted)) => (|fact, wanted| fact > wanted, wanted),
            (Op::Below, Pattern::Exact(wanted)) => (|fact, wanted| fact < wanted, wanted),
            (_, Pattern::Glob(_)) => return false,
        };
        let versions = Version::of_fact(fact).zip(Version::written(wanted));
        versions.is_some_and(|(fact, wanted)| is_met(fact, wanted))
    }
}

impl Version {
    /// Of a fact: the numbers that it begins with.
    #[must_use]
    pub fn of_fact(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let mut parts = [0; 4];
        for (part, digits) in parts.iter_mut().zip(text[..end].trim_end_matches('.').split('.')) {
            // More than 64 bits hold is more than anything that is compared.
            *part = digits.bytes().fold(0u64, |n, b| n.saturating_mul(10).saturating_add(u64::from(b - b'0')));
        }
        text.starts_with(|c: char| c.is_ascii_digit()).then_some(Self(parts))
    }

    /// As a target writes it: `12`, `6.1`, `8Gi`.
    #[must_use]
    pub fn written(text: &str) -> Option<Self> {
        if let Some((number, shift)) = UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift))) {
            let bytes = number.parse::<u64>().ok().filter(|_| is_number(number))?.checked_mul(1 << shift)?;
            return Some(Self([bytes, 0, 0, 0]));
        }
        let mut parts = [0; 4];
        let mut given = text.split('.');
        for (part, digits) in parts.iter_mut().zip(given.by_ref()) {
            *part = digits.parse().ok().filter(|_| is_number(digits))?;
        }
        given.next().is_none().then_some(Self(parts))
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

impl fmt::Display for FactTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = OPS.iter().find(|(_, op)| *op == self.op).map_or("=", |(word, _)| word);
        write!(f, "{}{op}{}", self.key, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::{FactTest, Op, Version};
    use crate::job::Pattern;

    fn passes(op: Op, wanted: &str, fact: &str) -> bool {
        FactTest { key: "k".to_owned(), op, value: Pattern::new(wanted) }.passes(Some(fact))
    }

    #[test]
    fn versions_and_numbers_are_compared_by_their_parts() {
        for (fact, wanted) in [
            ("12", "12"),
            ("12.4", "12"),
            ("6.1.0-18-amd64", "6.1"),
            ("10", "9"),
            ("22.04", "20.10"),
            ("8589934592", "8Gi"),
            ("99999999999999999999999", "1"),
        ] {
            assert!(passes(Op::AtLeast, wanted, fact), "{fact} {wanted}");
            assert!(!passes(Op::Below, wanted, fact), "{fact} {wanted}");
        }
        for (fact, wanted) in [("11", "12"), ("6.0.9", "6.1"), ("9", "10"), ("8589934591", "8Gi")] {
            assert!(passes(Op::Below, wanted, fact) && passes(Op::AtMost, wanted, fact), "{fact} {wanted}");
            assert!(!passes(Op::AtLeast, wanted, fact) && !passes(Op::Above, wanted, fact), "{fact} {wanted}");
        }
        assert!(passes(Op::Is, "deb*", "debian") && passes(Op::IsNot, "deb*", "ubuntu"));
    }

    #[test]
    fn what_is_no_number_or_not_there_passes_nothing() {
        for op in [Op::AtLeast, Op::AtMost, Op::Above, Op::Below] {
            assert!(!passes(op, "12", "rolling") && !passes(op, "12", "") && !passes(op, "12", ".5"));
        }
        let other = FactTest { key: "k".to_owned(), op: Op::IsNot, value: Pattern::new("x") };
        assert!(!other.passes(None), "a node without the fact");
        for bad in ["", "x", "1.", ".1", "1..2", "1.2.3.4.5", "-1", "+1", "8Gb", "Gi", "99999999999999999999", "1.5Gi"]
        {
            assert_eq!(Version::written(bad), None, "{bad}");
        }
    }
}
