//! Defines the job document, and how a validated spec is shown in it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::decl;
use crate::job::{Concurrency, Condition, Phase, Target, Task};
use crate::outcome::{JobStatus, Outcome, RunKind};
use crate::wait::WaitingFor;

/// Rows per outcome. Every outcome is always present, so that a script can add them up.
pub type Counts = BTreeMap<String, u64>;

/// The target of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TargetDoc {
    /// `all`, `any`, `node`, `group`, `labels`, `facts`, or `where` for an expression.
    pub scope: String,
    /// The nodes, groups, labels or facts, as they follow the colon in the text; for `where` the expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// A job with its progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobDoc {
    /// The id of the job.
    pub id: String,
    /// The namespace of the job.
    pub namespace: String,
    /// A name for display; not unique.
    #[serde(default)]
    pub name: Option<String>,
    /// Labels of the job, to filter lists by.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The nodes that it runs on.
    pub target: TargetDoc,
    /// Nodes of the target that it does not run on, as a target expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude: Option<String>,
    /// The part of the target that it runs on: a number of nodes, a share, or a target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Of phases that have none of their own: how many nodes, or which share, run a phase before the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// Phases as submitted, defaults filled in.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub tasks: Value,
    /// `fail-fast` or `continue`.
    pub strategy: String,
    /// How long it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Nodes that may fail, as given or by the strategy's default.
    #[serde(default)]
    pub failure_tolerate: String,
    /// What happens with offline nodes: `skip`, `wait` or `fail`.
    #[serde(default)]
    pub offline: String,
    /// What an unknown outcome means: `fail` or `wait`.
    #[serde(default)]
    pub on_unknown: String,
    /// The default for phases without their own: a number of nodes, or a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<String>,
    /// Status of the run that is shown.
    pub status: JobStatus,
    /// Why it has this status, for an operator.
    pub reason: Option<String>,
    /// It was restored from a backup of this time and waits for an operator to confirm it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// The decision of an operator that it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<WaitingFor>,
    /// What it waits for and how to continue it, for an operator; only for a job that waits for an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The first step of the phase it is in.
    pub step: u32,
    /// The frozen target; left out of lists above 1,000 names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Vec<String>>,
    /// Number of expected nodes; 0 until the job starts.
    #[serde(default)]
    pub expected_count: u64,
    /// Number of nodes on which a step was skipped because they were offline, in this run.
    #[serde(default)]
    pub skipped_offline: u64,
    /// The controller that led when the job last changed.
    pub owner: Option<String>,
    /// Rises whenever its outstanding leases become invalid.
    pub job_epoch: u32,
    /// The leader epoch in which it last changed.
    pub leader_epoch: u64,
    /// Rows per outcome, over all steps and expected nodes.
    pub counts: Counts,
    /// Progress of each step.
    pub steps: Vec<StepDoc>,
    /// Step → node → result; left out of lists and above 1,000 rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<BTreeMap<String, BTreeMap<String, ResultDoc>>>,
    /// The run that this document shows: the newest, unless another was requested.
    #[serde(default = "first_run")]
    pub run: u32,
    /// The newest 20 runs, newest first; left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<Vec<RunDoc>>,
    /// When it was submitted.
    pub created_at: String,
    /// When it last changed.
    pub updated_at: String,
}

fn first_run() -> u32 {
    1
}

/// One run of a job: from its submit, a resume or a retry until it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunDoc {
    /// Number of the run, from 1.
    pub run: u32,
    /// What began the run.
    pub kind: RunKind,
    /// How it ended, or its current status.
    pub status: JobStatus,
    /// Why it has this status, for an operator.
    pub reason: Option<String>,
    /// Rows per outcome, over all steps and expected nodes; steps that an earlier run completed count as success.
    pub counts: Counts,
    /// Null before it starts.
    #[serde(default)]
    pub started_at: Option<String>,
    /// Null before it has ended.
    #[serde(default)]
    pub ended_at: Option<String>,
}

/// One step of a job, over all nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StepDoc {
    /// Its index, depth first.
    pub step: u32,
    /// The phase that it belongs to.
    pub phase: u32,
    /// The backend of its task.
    pub backend: String,
    /// The action of its task.
    pub action: String,
    /// Nodes by outcome.
    pub counts: Counts,
}

/// How one step ended on one node, or its current state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ResultDoc {
    /// The outcome.
    pub status: Outcome,
    /// How long the last attempt ran, such as `2.3s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<String>,
    /// How many attempts there were, in all runs up to the one that is shown.
    #[serde(default)]
    pub attempts: u32,
    /// The error that the worker reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why it has this outcome, where the worker's error does not explain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the last attempt started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// The exit code of the program that the last attempt ran, if it ran one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended the program, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Whether the step changed anything on the node, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
}

impl JobDoc {
    /// The number of its nodes, also for a document that leaves out their names.
    #[must_use]
    pub fn node_count(&self) -> u64 {
        self.expected_count.max(u64::try_from(self.expected_names().len()).unwrap_or(u64::MAX))
    }

    /// The nodes by name, if the document has them.
    #[must_use]
    pub fn expected_names(&self) -> &[String] {
        self.expected.as_deref().unwrap_or_default()
    }
}

/// A target as documents show it.
#[must_use]
pub fn target_doc(target: &Target) -> TargetDoc {
    TargetDoc { scope: target.scope().to_owned(), value: target.value() }
}

/// The phases of a spec in the form of a job body.
#[must_use]
pub fn tasks_doc(phases: &[Phase]) -> Value {
    let shown = phases.iter().map(|phase| {
        let mut map = match phase.tasks.as_slice() {
            [task] if !phase.is_pipeline => task_doc(task),
            tasks => {
                let tasks = tasks.iter().map(|task| Value::Object(task_doc(task))).collect();
                Map::from_iter([("tasks".to_owned(), tasks)])
            }
        };
        put_condition(&mut map, phase.condition);
        if let Some(concurrency) = &phase.concurrency {
            map.insert("concurrency".to_owned(), concurrency_doc(concurrency));
        }
        if phase.confirm {
            map.insert("confirm".to_owned(), json!(true));
        }
        if let Some(first) = &phase.first {
            map.insert("first".to_owned(), concurrency_doc(first));
        }
        if let Some(nodes) = phase.nodes {
            map.insert("nodes".to_owned(), json!(nodes));
        }
        if phase.atomic {
            map.insert("atomic".to_owned(), json!(true));
        }
        Value::Object(map)
    });
    shown.collect()
}

fn concurrency_doc(concurrency: &Concurrency) -> Value {
    match concurrency {
        Concurrency::Nodes(nodes) => json!(nodes),
        Concurrency::Share(share) => json!(share.to_string()),
    }
}

fn task_doc(task: &Task) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("backend".to_owned(), json!(task.backend));
    map.insert("action".to_owned(), json!(task.action));
    if !task.params.is_empty() {
        map.insert("params".to_owned(), json!(task.params));
    }
    if let Some(timeout) = task.timeout {
        map.insert("timeout".to_owned(), json!(timeout));
    }
    if task.max_retries > 0 {
        map.insert("max_retries".to_owned(), json!(task.max_retries));
    }
    let declared = decl::backend(&task.backend).and_then(|backend| backend.action(&task.action));
    if declared.is_some_and(|action| action.effect_choice && action.effect != task.effect) {
        map.insert("effect".to_owned(), json!(task.effect));
    }
    put_condition(&mut map, task.condition);
    map
}

fn put_condition(map: &mut Map<String, Value>, condition: Condition) {
    if condition != Condition::Always {
        map.insert("condition".to_owned(), json!(condition));
    }
}

#[cfg(test)]
mod tests {
    use super::tasks_doc;
    use crate::job::parse_job;
    use serde_json::json;

    #[test]
    fn a_shown_spec_reads_back_as_itself() {
        let body = json!({
            "target": "all",
            "tasks": [
                {"condition": "on_failure", "confirm": true, "nodes": "healthy", "atomic": true, "tasks": [{"backend": "ping", "action": "sleep", "params": {"duration": "3s"}}]},
                {"backend": "ping", "action": "echo", "condition": "on_success", "concurrency": 7, "first": "10%"},
                {"backend": "test", "action": "output", "params": {"lines": 3, "width": 4}, "timeout": "9s", "max_retries": 3},
            ],
        });
        let spec = parse_job(&body).unwrap();
        let again = parse_job(&json!({"target": "all", "tasks": tasks_doc(&spec.phases)})).unwrap();
        assert_eq!(spec, again);
    }
}
