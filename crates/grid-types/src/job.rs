//! Defines what a job is to do: its target, its phases, its rules for failure. Checked, with every default resolved, so that
//! what was accepted means the same to every later version.
//!
//! Not here: how the phases are walked (`grid-core`).

mod concurrency;
pub mod fields;
mod limit;
mod parse;
mod target;
mod tolerance;

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use serde::Serialize;

pub use concurrency::Concurrency;
pub use limit::Limit;
pub use parse::parse_job;
pub use target::{Expr, FactTest, Glob, Names, Op, Pattern, Target, TargetError, Version};
pub use tolerance::{Share, Tolerance};

use crate::decl::{EffectClass, Params};
use crate::ids::StepIndex;
use crate::name::Name;
use crate::span::Span;

/// A job as it was submitted, checked.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct JobSpec {
    /// The nodes that it runs on.
    #[n(0)]
    pub target: Target,
    /// Its phases, in order; each is a barrier.
    #[n(1)]
    pub phases: Vec<Phase>,
    /// What happens when too many nodes fail.
    #[n(2)]
    pub strategy: Strategy,
    /// As given; [`JobSpec::timeout_ms`] resolves it.
    #[n(3)]
    pub timeout: Option<Span>,
    /// As given; [`JobSpec::tolerance`] resolves it.
    #[n(4)]
    pub failure_tolerate: Option<Tolerance>,
    /// What happens with offline nodes.
    #[n(5)]
    pub offline: Offline,
    /// What an unknown outcome means.
    #[n(6)]
    pub on_unknown: OnUnknown,
    /// Of every phase that has none of its own.
    #[n(7)]
    pub concurrency: Option<Concurrency>,
    /// For people; need not be unique.
    #[n(8)]
    pub name: Option<String>,
    /// For people and filters.
    #[n(9)]
    #[cbor(default)]
    pub labels: BTreeMap<Name, Name>,
    /// Nodes of the target that it does not run on.
    #[n(10)]
    pub exclude: Option<Target>,
    /// The part of what is left that it runs on.
    #[n(11)]
    pub limit: Option<Limit>,
    /// Of every phase that has none of its own; [`JobSpec::first_nodes`] resolves it.
    #[n(12)]
    pub first: Option<Concurrency>,
}

/// What becomes of a node that is offline when it would be offered a lease (J4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode, Serialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Offline {
    /// Its steps are skipped there.
    #[default]
    #[n(0)]
    Skip,
    /// The job waits for the node.
    #[n(1)]
    Wait,
    /// J11: the step has failed there.
    #[n(2)]
    Fail,
}

/// What an outcome that nobody knows means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode, Serialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknown {
    /// It counts as failed.
    #[default]
    #[n(0)]
    Fail,
    /// A person decides (`gridc job resolve`).
    #[n(1)]
    Wait,
}

/// A leaf is one task on every active node; a pipeline is a list of them that each node walks alone.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Phase {
    /// Whether each node runs through the tasks on its own.
    #[n(0)]
    pub is_pipeline: bool,
    /// One task, or those of the pipeline.
    #[n(1)]
    pub tasks: Vec<Task>,
    /// Looks at the job.
    #[n(2)]
    pub condition: Condition,
    /// How many nodes may be in the phase at once (J2).
    #[n(3)]
    pub concurrency: Option<Concurrency>,
    /// Waits for an operator before it begins.
    #[n(4)]
    pub confirm: bool,
    /// J9: as given, on `on_failure` phases only.
    #[n(5)]
    #[cbor(default)]
    pub nodes: Option<PhaseNodes>,
    /// J10: of a pipeline, a node that has begun it is walked to its end although fail-fast tripped elsewhere.
    #[n(6)]
    #[cbor(default)]
    pub atomic: bool,
    /// J13: so many nodes run it before the others, which then need an operator's confirmation.
    #[n(7)]
    pub first: Option<Concurrency>,
}

/// J9: on which of the expected nodes a top-level `on_failure` phase runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum PhaseNodes {
    /// Nodes on which a step failed in this run.
    #[n(0)]
    Failed,
    /// Neither failed nor excluded.
    #[n(1)]
    Healthy,
    /// All of them.
    #[n(2)]
    All,
}

/// One task: an action of a backend with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Task {
    /// The backend, by name.
    #[n(0)]
    pub backend: String,
    /// The action, by name.
    #[n(1)]
    pub action: String,
    /// Checked, with the declared defaults.
    #[n(2)]
    pub params: Params,
    /// Inside a pipeline it looks at the node; a leaf's is that of its phase.
    #[n(3)]
    pub condition: Condition,
    /// Further attempts after a failure.
    #[n(4)]
    pub max_retries: u32,
    /// As given, to show it again.
    #[n(5)]
    pub timeout: Option<Span>,
    /// J7, resolved when the job was accepted.
    #[n(6)]
    pub timeout_ms: u64,
    /// Of the declaration when the job was accepted, or the task's own where that leaves it to the caller.
    #[n(7)]
    pub effect: EffectClass,
}

/// When a phase or a task runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode, Serialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// In any case, unless the job has tripped.
    #[default]
    #[n(0)]
    Always,
    /// If nothing has failed.
    #[n(1)]
    OnSuccess,
    /// If something has failed.
    #[n(2)]
    OnFailure,
    /// Inside a pipeline, if an earlier task of it may have changed something on the node.
    #[n(3)]
    OnChanged,
}

/// What happens when more nodes failed than are tolerated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode, Serialize)]
#[cbor(index_only)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// The job stops: no new lease, only `on_failure` phases run.
    #[default]
    #[n(0)]
    FailFast,
    /// Failed nodes are left out of later phases.
    #[n(1)]
    Continue,
}

impl JobSpec {
    /// With every rule at its default.
    #[must_use]
    pub fn new(target: Target, phases: Vec<Phase>) -> Self {
        Self {
            target,
            phases,
            strategy: Strategy::default(),
            timeout: None,
            failure_tolerate: None,
            offline: Offline::default(),
            on_unknown: OnUnknown::default(),
            concurrency: None,
            name: None,
            labels: BTreeMap::new(),
            exclude: None,
            limit: None,
            first: None,
        }
    }

    /// Its target with what narrows it, for messages: `group:web, without node:web-01, limited to 1`.
    #[must_use]
    pub fn aim(&self) -> String {
        let without = self.exclude.as_ref().map(|exclude| format!(", without {exclude}")).unwrap_or_default();
        let limit = self.limit.as_ref().map(|limit| format!(", limited to {limit}")).unwrap_or_default();
        format!("{}{without}{limit}", self.target)
    }

    /// J1: none may fail, or, under `continue`, all may.
    #[must_use]
    pub fn tolerance(&self) -> Tolerance {
        self.failure_tolerate.clone().unwrap_or_else(|| match self.strategy {
            Strategy::FailFast => Tolerance::Nodes(0),
            Strategy::Continue => Tolerance::all(),
        })
    }

    /// J2: how many of so many expected nodes may be in a phase at once; none: all of them.
    #[must_use]
    pub fn places(&self, phase: &Phase, expected: usize) -> Option<u32> {
        let window = phase.concurrency.as_ref().or(self.concurrency.as_ref());
        window.map(|window| window.places(expected))
    }

    /// J13: how many of so many expected nodes run a phase before the others; none: all begin together. A clean-up never waits.
    #[must_use]
    pub fn first_nodes(&self, phase: &Phase, expected: usize) -> Option<u32> {
        let first = phase.first.as_ref().or(self.first.as_ref());
        first.filter(|_| phase.condition != Condition::OnFailure).map(|first| first.places(expected))
    }

    /// How long the job may take.
    #[must_use]
    pub fn timeout_ms(&self) -> u64 {
        self.timeout.map_or(crate::limits::DEFAULT_JOB_TIMEOUT_MS, Span::ms)
    }

    /// How many leaves it has.
    #[must_use]
    pub fn step_count(&self) -> usize {
        self.phases.iter().map(|p| p.tasks.len()).sum()
    }

    /// Every leaf, depth first, with the phase it belongs to.
    pub fn steps(&self) -> impl Iterator<Item = (usize, &Task)> {
        self.phases.iter().enumerate().flat_map(|(phase, p)| p.tasks.iter().map(move |task| (phase, task)))
    }

    /// Whether a step is there for failures only.
    #[must_use]
    pub fn is_cleanup(&self, step: StepIndex) -> bool {
        let found = usize::try_from(step.0).ok().and_then(|at| self.steps().nth(at));
        found.is_some_and(|step| self.cleans_up(step))
    }

    /// The same, of one of [`JobSpec::steps`].
    #[must_use]
    pub fn cleans_up(&self, (phase, task): (usize, &Task)) -> bool {
        task.condition == Condition::OnFailure || self.phases[phase].condition == Condition::OnFailure
    }

    /// The flat index of the first step of a phase.
    #[must_use]
    pub fn first_step(&self, phase: usize) -> StepIndex {
        let before: usize = self.phases.iter().take(phase).map(|p| p.tasks.len()).sum();
        StepIndex(u32::try_from(before).unwrap_or(u32::MAX))
    }
}

impl Phase {
    /// A phase of one task; the task's condition becomes that of the phase.
    #[must_use]
    pub fn leaf(task: Task) -> Self {
        let condition = task.condition;
        let task = Task { condition: Condition::Always, ..task };
        Self {
            is_pipeline: false,
            tasks: vec![task],
            condition,
            concurrency: None,
            confirm: false,
            nodes: None,
            atomic: false,
            first: None,
        }
    }

    /// A phase that each node runs through on its own.
    #[must_use]
    pub fn pipeline(tasks: Vec<Task>) -> Self {
        Self {
            is_pipeline: true,
            tasks,
            condition: Condition::Always,
            concurrency: None,
            confirm: false,
            nodes: None,
            atomic: false,
            first: None,
        }
    }
}

impl Task {
    /// Whether running it may change something on the node: all but pure actions may.
    #[must_use]
    pub fn may_change(&self) -> bool {
        self.effect != EffectClass::Pure
    }
}

impl Offline {
    /// The name in job files.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Wait => "wait",
            Self::Fail => "fail",
        }
    }
}

impl OnUnknown {
    /// The name in job files.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Wait => "wait",
        }
    }
}

impl Condition {
    /// The name in job files.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::OnSuccess => "on_success",
            Self::OnFailure => "on_failure",
            Self::OnChanged => "on_changed",
        }
    }
}

impl Strategy {
    /// The name in job files.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::FailFast => "fail-fast",
            Self::Continue => "continue",
        }
    }
}
