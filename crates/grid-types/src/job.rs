//! What a job is to do: its target, its phases, its rules for failure. Checked, with every default resolved, so that
//! what was accepted means the same to every later version.
//!
//! Not here: how the phases are walked (`grid-core`).

mod parse;

use std::fmt;
use std::str::FromStr;

use minicbor::{Decode, Encode};
use serde::Serialize;

pub use parse::{parse_job, parse_target};

use crate::decl::{EffectClass, Params};
use crate::ids::StepIndex;
use crate::name::Name;
use crate::span::Span;

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct JobSpec {
    #[n(0)]
    pub target: Target,
    #[n(1)]
    pub phases: Vec<Phase>,
    #[n(2)]
    pub strategy: Strategy,
    /// As given; [`JobSpec::timeout_ms`] resolves it.
    #[n(3)]
    pub timeout: Option<Span>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum Target {
    #[n(0)]
    All,
    #[n(1)]
    Group(#[n(0)] Name),
    #[n(2)]
    Node(#[n(0)] Name),
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Phase {
    /// One task on every active node.
    #[n(0)]
    Leaf(#[n(0)] Task),
    /// Each node walks the tasks alone.
    #[n(1)]
    Pipeline {
        #[n(0)]
        condition: Condition,
        #[n(1)]
        tasks: Vec<Task>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Task {
    #[n(0)]
    pub backend: String,
    #[n(1)]
    pub action: String,
    /// Checked, with the declared defaults.
    #[n(2)]
    pub params: Params,
    #[n(3)]
    pub condition: Condition,
    #[n(4)]
    pub max_retries: u32,
    /// As given, to show it again.
    #[n(5)]
    pub timeout: Option<Span>,
    /// J7, resolved when the job was accepted.
    #[n(6)]
    pub timeout_ms: u64,
    /// Of the declaration when the job was accepted.
    #[n(7)]
    pub effect: EffectClass,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode, Serialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    #[default]
    #[n(0)]
    Always,
    #[n(1)]
    OnSuccess,
    #[n(2)]
    OnFailure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode, Serialize)]
#[cbor(index_only)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    #[default]
    #[n(0)]
    FailFast,
    #[n(1)]
    Continue,
}

impl JobSpec {
    #[must_use]
    pub fn timeout_ms(&self) -> u64 {
        self.timeout.map_or(crate::limits::DEFAULT_JOB_TIMEOUT_MS, Span::ms)
    }

    #[must_use]
    pub fn step_count(&self) -> usize {
        self.phases.iter().map(|p| p.tasks().len()).sum()
    }

    /// Every leaf, depth first, with the phase it belongs to.
    pub fn steps(&self) -> impl Iterator<Item = (usize, &Task)> {
        self.phases.iter().enumerate().flat_map(|(phase, p)| p.tasks().iter().map(move |task| (phase, task)))
    }

    /// The flat index of the first step of a phase.
    #[must_use]
    pub fn first_step(&self, phase: usize) -> StepIndex {
        let before: usize = self.phases.iter().take(phase).map(|p| p.tasks().len()).sum();
        StepIndex(u32::try_from(before).unwrap_or(u32::MAX))
    }
}

impl Phase {
    #[must_use]
    pub fn tasks(&self) -> &[Task] {
        match self {
            Self::Leaf(task) => std::slice::from_ref(task),
            Self::Pipeline { tasks, .. } => tasks,
        }
    }

    /// The condition that looks at the job.
    #[must_use]
    pub fn condition(&self) -> Condition {
        match self {
            Self::Leaf(task) => task.condition,
            Self::Pipeline { condition, .. } => *condition,
        }
    }
}

impl Target {
    #[must_use]
    pub fn scope(&self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Group(_) => "group",
            Self::Node(_) => "node",
        }
    }

    #[must_use]
    pub fn value(&self) -> Option<&str> {
        match self {
            Self::All => None,
            Self::Group(name) | Self::Node(name) => Some(name.as_str()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value() {
            None => f.write_str(self.scope()),
            Some(value) => write!(f, "{}:{value}", self.scope()),
        }
    }
}

/// `all`, `group:NAME` or `node:ID`; anything else is refused, never taken for `all`.
impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scope, value) = text.split_once(':').map_or((text, None), |(scope, value)| (scope, Some(value)));
        parse_target(scope, value)
    }
}

impl Condition {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::OnSuccess => "on_success",
            Self::OnFailure => "on_failure",
        }
    }
}

impl Strategy {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::FailFast => "fail-fast",
            Self::Continue => "continue",
        }
    }
}
