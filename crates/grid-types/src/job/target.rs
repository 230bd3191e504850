//! Defines which nodes a job runs on: `all`, `any`, one term, or an expression of them.
//!
//! What could be said before there were expressions is stored as it was then ([`Target::All`] to [`Target::Any`]);
//! everything else is a [`Target::Where`]. A text that is neither is refused, never taken for `all`.
//! Not here: which nodes these are (`grid-core::targets`).

mod compare;
mod expr;
mod glob;
mod read;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use minicbor::{Decode, Encode};

pub use compare::{FactTest, Op, Version};
pub use expr::{Expr, Names};
pub use glob::{Glob, Pattern};
pub use read::TargetError;
pub(super) use read::share;

use crate::limits::MAX_LABELS;
use crate::name::{Name, NodeId};
use crate::node::is_label;
use glob::needs_quotes;
use read::{read_expr, read_value};

/// Which nodes a job runs on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum Target {
    /// Every node.
    #[n(0)]
    All,
    /// Nodes of a group.
    #[n(1)]
    Group(#[n(0)] Name),
    /// One node.
    #[n(2)]
    Node(#[n(0)] NodeId),
    /// Nodes that carry every one of these.
    #[n(3)]
    Labels(#[n(0)] BTreeMap<String, String>),
    /// One node, which the scheduler picks.
    #[n(4)]
    Any,
    /// An expression that is none of the above.
    #[n(5)]
    Where(#[n(0)] Box<Expr>),
}

impl Target {
    /// The word for the kind of target; of an expression of several terms `where`.
    #[must_use]
    pub fn scope(&self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Group(_) => "group",
            Self::Node(_) => "node",
            Self::Labels(_) => "labels",
            Self::Any => "any",
            Self::Where(expr) => expr.term().map_or("where", |(scope, _)| scope),
        }
    }

    /// The groups, the nodes, the labels, the facts, or the expression, as text.
    #[must_use]
    pub fn value(&self) -> Option<String> {
        match self {
            Self::All | Self::Any => None,
            Self::Group(name) => Some(name.to_string()),
            Self::Node(node) => Some(node.to_string()),
            Self::Labels(labels) => Some(labels_text(labels)),
            Self::Where(expr) => Some(expr.term().map_or_else(|| expr.to_string(), |(_, value)| value)),
        }
    }

    /// From `scope` and `value`, as the target object of a job has them.
    ///
    /// # Errors
    /// The first fault, and where it is in `value`.
    pub fn from_parts(scope: &str, value: Option<&str>) -> Result<Self, TargetError> {
        let fault = |problem: String| TargetError { at: 0, problem };
        match (scope, value.unwrap_or_default()) {
            ("all", "") => Ok(Self::All),
            ("any", "") => Ok(Self::Any),
            ("all" | "any", _) => Err(fault(format!("{scope} takes no value"))),
            ("where", text) => text.parse(),
            // The value ends where the text ends: whatever else is in it belongs to the labels.
            ("labels", text) => read_value(scope, text)
                .map(Self::from)
                .or_else(|fault| plain_labels(text).map_or(Err(fault), |labels| Ok(Self::Labels(labels)))),
            ("group" | "node" | "facts", text) => read_value(scope, text).map(Self::from),
            (other, _) => {
                let shown: String = other.chars().take(40).collect();
                Err(fault(format!("unknown scope {shown:?}: use all, any, group, node, labels, facts or where")))
            }
        }
    }
}

/// As simple as it can be said.
impl From<Expr> for Target {
    fn from(expr: Expr) -> Self {
        let simple = match &expr {
            Expr::All => Some(Self::All),
            Expr::Nodes(names) => names.single().cloned().map(NodeId::from).map(Self::Node),
            Expr::Groups(names) => names.single().cloned().map(Self::Group),
            Expr::Labels(labels) => {
                let exact = labels.iter().map(|(key, value)| match value {
                    Pattern::Exact(text) => Some((key.clone(), text.clone())),
                    Pattern::Glob(_) => None,
                });
                exact.collect::<Option<_>>().map(Self::Labels)
            }
            _ => None,
        };
        simple.unwrap_or_else(|| Self::Where(Box::new(expr)))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.scope(), self.value()) {
            (scope, None) => f.write_str(scope),
            ("where", Some(expr)) => f.write_str(&expr),
            (scope, Some(value)) => write!(f, "{scope}:{value}"),
        }
    }
}

/// `all`, `any`, or an expression; anything else is refused, never taken for `all`.
impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        if text.trim() == "any" {
            return Ok(Self::Any);
        }
        let fault = match read_expr(text) {
            Ok(expr) => return Ok(expr.into()),
            Err(fault) => fault,
        };
        // Labels could hold anything before there were expressions, and still can where nothing looks like one.
        let combines = text.split_whitespace().any(|word| matches!(word, "and" | "or"));
        match text.split_once(':') {
            Some(("labels", value)) if !combines => plain_labels(value).map(Self::Labels).ok_or(fault),
            Some((scope @ ("all" | "any"), "")) => Self::from_parts(scope, None),
            _ => Err(fault),
        }
    }
}

/// Every character but commas belongs to the keys and values.
fn plain_labels(text: &str) -> Option<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    for pair in text.split(',') {
        let (key, value) = pair.split_once('=').filter(|(key, value)| is_label(key, value))?;
        // A quote that is not closed, or a pattern, is somebody's slip in an expression.
        let is_plain = !value.starts_with('"') && !glob::is_glob(value);
        if !is_plain || labels.insert(key.to_owned(), value.to_owned()).is_some() || labels.len() > MAX_LABELS {
            return None;
        }
    }
    Some(labels)
}

fn labels_text(labels: &BTreeMap<String, String>) -> String {
    // A key that an expression cannot write is read by the rule for plain labels, which knows no quotes.
    let is_plain = labels.keys().any(|key| needs_quotes(key));
    let pair = |(key, value): (&String, &String)| match is_plain {
        true => format!("{key}={value}"),
        false => format!("{key}={}", Pattern::Exact(value.clone())),
    };
    labels.iter().map(pair).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
