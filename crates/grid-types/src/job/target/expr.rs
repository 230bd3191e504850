//! Stores the expression of a target: sets of nodes, combined.
//!
//! Not here: how it is read (`read`), which nodes it means (`grid-core::targets`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use minicbor::{Decode, Encode};

use super::compare::FactTest;
use super::glob::{Glob, Pattern};
use crate::job::Concurrency;
use crate::name::Name;

/// A set of nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum Expr {
    /// Every node.
    #[n(0)]
    All,
    /// Nodes by their ids.
    #[n(1)]
    Nodes(#[n(0)] Names),
    /// Nodes that are in one of these groups.
    #[n(2)]
    Groups(#[n(0)] Names),
    /// Nodes that carry every one of these labels.
    #[n(3)]
    Labels(#[n(0)] BTreeMap<String, Pattern>),
    /// Nodes whose facts pass every one of these comparisons.
    #[n(4)]
    Facts(#[n(0)] Vec<FactTest>),
    /// Nodes in all of these sets.
    #[n(5)]
    And(#[n(0)] Vec<Expr>),
    /// Nodes in any of these sets.
    #[n(6)]
    Or(#[n(0)] Vec<Expr>),
    /// Nodes that are not in the set.
    #[n(7)]
    Not(#[n(0)] Box<Expr>),
    /// The first nodes of the set, by their ids.
    #[n(8)]
    Part {
        /// How many, or which share: rounded down, and at least one.
        #[n(0)]
        portion: Concurrency,
        /// Of which set.
        #[n(1)]
        of: Box<Expr>,
    },
}

/// Names, and patterns of names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
pub struct Names {
    /// These names.
    #[n(0)]
    pub exact: BTreeSet<Name>,
    /// Names that fit one of these.
    #[n(1)]
    pub globs: BTreeSet<Glob>,
}

impl Names {
    /// The name, if it is exactly one.
    #[must_use]
    pub fn single(&self) -> Option<&Name> {
        self.exact.first().filter(|_| self.exact.len() == 1 && self.globs.is_empty())
    }

    /// Whether a name is one of them.
    #[must_use]
    pub fn has(&self, name: &Name) -> bool {
        self.exact.contains(name) || self.globs.iter().any(|glob| glob.matches(name.as_str()))
    }
}

impl Expr {
    /// The word for the kind of a single term, and its value.
    #[must_use]
    pub fn term(&self) -> Option<(&'static str, String)> {
        match self {
            Self::All => Some(("all", String::new())),
            Self::Nodes(names) => Some(("node", names.to_string())),
            Self::Groups(names) => Some(("group", names.to_string())),
            Self::Labels(labels) => {
                Some(("labels", joined(labels.iter().map(|(key, value)| format!("{key}={value}")))))
            }
            Self::Facts(tests) => Some(("facts", joined(tests.iter().map(ToString::to_string)))),
            Self::And(_) | Self::Or(_) | Self::Not(_) | Self::Part { .. } => None,
        }
    }

    /// How tightly its parts hold together; what holds less tightly is shown in parentheses.
    fn rank(&self) -> u8 {
        match self {
            Self::Part { .. } => 0,
            Self::Or(_) => 1,
            Self::And(_) => 2,
            Self::Not(_) => 3,
            _ => 4,
        }
    }

    /// As an operand of something of this rank.
    fn fmt_in(&self, rank: u8, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rank() < rank { write!(f, "({self})") } else { write!(f, "{self}") }
    }
}

/// As it is written.
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((scope, value)) = self.term() {
            return if value.is_empty() && scope == "all" { f.write_str(scope) } else { write!(f, "{scope}:{value}") };
        }
        match self {
            Self::And(all) => fmt_list(all, " and ", 3, f),
            Self::Or(any) => fmt_list(any, " or ", 2, f),
            Self::Not(of) => {
                f.write_str("not ")?;
                of.fmt_in(3, f)
            }
            Self::Part { portion: Concurrency::Nodes(nodes), of } => write!(f, "first {nodes} of {of}"),
            Self::Part { portion: Concurrency::Share(share), of } => write!(f, "{share} of {of}"),
            _ => Ok(()),
        }
    }
}

fn fmt_list(list: &[Expr], between: &str, rank: u8, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (i, expr) in list.iter().enumerate() {
        if i > 0 {
            f.write_str(between)?;
        }
        expr.fmt_in(rank, f)?;
    }
    Ok(())
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = self.exact.iter().map(Name::as_str);
        f.write_str(&joined(exact.chain(self.globs.iter().map(Glob::as_str)).map(str::to_owned)))
    }
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(",")
}
