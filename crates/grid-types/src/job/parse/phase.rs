//! Reads the phases of a job and their tasks.

use serde_json::{Map, Value};

use super::values::{concurrency_field, condition_field, flag_field, refuse_unknown, span_field, task_condition_field};
use crate::decl::{self, ActionDecl, EffectClass, Params};
use crate::fault::Faults;
use crate::job::{Condition, Phase, PhaseNodes, Task, fields};
use crate::limits::{DEFAULT_TASK_TIMEOUT_MS, MAX_RETRIES, MAX_STEPS};
use crate::span::Span;

const LEAF_FIELDS: &[&str] = &fields::names(fields::LEAF);
const TASK_FIELDS: &[&str] = &fields::joined::<6, 1, 7>(fields::LEAF, fields::IN_PIPELINE);
const PHASE_FIELDS: &[&str] = &fields::joined::<6, 7, 13>(fields::LEAF, fields::PHASE);

pub(super) fn phases_field(value: Option<&Value>, faults: &mut Faults) -> Vec<Phase> {
    let Some(Value::Array(list)) = value else {
        let given = value.is_some_and(|value| !value.is_null());
        let verb = if given { "must be" } else { "is required:" };
        faults.add("tasks", format!("{verb} a list of at least one phase"));
        return Vec::new();
    };
    if list.is_empty() {
        faults.add("tasks", "must have at least one phase");
    }
    // Before anything in it is looked at: what is too long is reported once, not for each of its parts.
    let steps: usize = list.iter().map(|phase| phase.get("tasks").and_then(Value::as_array).map_or(1, Vec::len)).sum();
    if steps > MAX_STEPS || list.len() > MAX_STEPS {
        let (phases, steps) = (list.len(), steps.max(list.len()));
        faults.add("tasks", format!("has {phases} phases with {steps} steps; a job has at most {MAX_STEPS} steps"));
        return Vec::new();
    }
    list.iter().enumerate().filter_map(|(i, phase)| phase_at(phase, &format!("tasks[{i}]"), faults)).collect()
}

fn phase_at(value: &Value, at: &str, faults: &mut Faults) -> Option<Phase> {
    let Value::Object(phase) = value else {
        faults.add(at, "must be an object: a task (backend, action) or a pipeline (tasks)");
        return None;
    };
    refuse_unknown(phase, PHASE_FIELDS, at, faults);
    let concurrency = concurrency_field(phase.get("concurrency"), &format!("{at}.concurrency"), faults);
    let confirm = flag_field(phase.get("confirm"), &format!("{at}.confirm"), faults);
    let first = concurrency_field(phase.get("first"), &format!("{at}.first"), faults);
    let atomic = flag_field(phase.get("atomic"), &format!("{at}.atomic"), faults);
    let Some(tasks) = phase.get("tasks") else {
        if atomic {
            faults.add(
                format!("{at}.atomic"),
                "only a pipeline (tasks) can be atomic; a single task always runs to its end",
            );
        }
        let task = task_at(phase, at, faults);
        let condition = condition_field(phase.get("condition"), at, faults);
        let leaf = Phase::leaf(Task { condition, ..task });
        let nodes = nodes_field(phase.get("nodes"), leaf.condition, at, faults);
        refuse_first(first.is_some(), leaf.condition, at, faults);
        return Some(Phase { concurrency, confirm, nodes, first, ..leaf });
    };
    for field in LEAF_FIELDS.iter().filter(|f| phase.contains_key(**f)) {
        faults.add(format!("{at}.{field}"), "a phase is either a task or a pipeline; it cannot have this beside tasks");
    }
    let condition = condition_field(phase.get("condition"), at, faults);
    let nodes = nodes_field(phase.get("nodes"), condition, at, faults);
    refuse_first(first.is_some(), condition, at, faults);
    let Value::Array(list) = tasks else {
        faults.add(format!("{at}.tasks"), "must be a list of tasks");
        return None;
    };
    if list.is_empty() {
        faults.add(format!("{at}.tasks"), "must have at least one task");
    }
    let tasks = list.iter().enumerate().filter_map(|(i, task)| sub_task(task, i, &format!("{at}.tasks[{i}]"), faults));
    Some(Phase { condition, concurrency, confirm, nodes, atomic, first, ..Phase::pipeline(tasks.collect()) })
}

/// J9: only a clean-up may choose its nodes; every other phase runs on the nodes that have not failed.
fn nodes_field(value: Option<&Value>, condition: Condition, at: &str, faults: &mut Faults) -> Option<PhaseNodes> {
    let value = value.filter(|value| !value.is_null())?;
    let words = [("failed", PhaseNodes::Failed), ("healthy", PhaseNodes::Healthy), ("all", PhaseNodes::All)];
    let found = words.iter().find(|(word, _)| value.as_str() == Some(word)).map(|(_, nodes)| *nodes);
    if found.is_none() {
        faults.add(format!("{at}.nodes"), "must be failed, healthy or all");
    } else if condition != Condition::OnFailure {
        faults.add(format!("{at}.nodes"), "only a phase with condition: on_failure can choose its nodes");
    }
    found
}

/// J13: a clean-up is wanted at once.
fn refuse_first(given: bool, condition: Condition, at: &str, faults: &mut Faults) {
    if given && condition == Condition::OnFailure {
        faults.add(format!("{at}.first"), "a phase with condition: on_failure waits for no confirmation");
    }
}

fn sub_task(value: &Value, index: usize, at: &str, faults: &mut Faults) -> Option<Task> {
    match value {
        Value::Object(task) if task.contains_key("tasks") => {
            faults.add(format!("{at}.tasks"), "phases nest at most 2 deep: a pipeline cannot hold a pipeline");
            None
        }
        Value::Object(task) => {
            refuse_unknown(task, TASK_FIELDS, at, faults);
            let read = task_at(task, at, faults);
            let condition = task_condition_field(task.get("condition"), index, at, faults);
            Some(Task { condition, ..read })
        }
        _ => {
            faults.add(at, "must be a task with backend and action");
            None
        }
    }
}

/// All but its condition, which depends on where it is.
fn task_at(task: &Map<String, Value>, at: &str, faults: &mut Faults) -> Task {
    let timeout = span_field(task.get("timeout"), &format!("{at}.timeout"), faults);
    let action = action_of(task, at, faults);
    let params = params_field(task.get("params"), action, at, faults);
    let text = |field: &str| task.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    Task {
        backend: text("backend"),
        action: text("action"),
        params,
        condition: Condition::Always,
        max_retries: retries_field(task.get("max_retries"), at, faults),
        timeout,
        timeout_ms: resolved_timeout_ms(timeout, action.and_then(|a| a.timeout)),
        effect: effect_field(task.get("effect"), action, at, faults),
    }
}

/// Only where the declaration leaves it to the caller.
fn effect_field(value: Option<&Value>, action: Option<&ActionDecl>, at: &str, faults: &mut Faults) -> EffectClass {
    let declared = action.map_or(EffectClass::Once, |action| action.effect);
    let Some(value) = value.filter(|value| !value.is_null()) else { return declared };
    let given = EffectClass::ALL.into_iter().find(|effect| value.as_str() == Some(effect.word()));
    match (given, action) {
        (None, _) => faults.add(format!("{at}.effect"), "must be pure, idempotent or once"),
        (Some(given), Some(action)) if given != declared && !action.effect_choice => {
            let problem =
                format!("{} is always {}: this action does not let a task choose", action.name, declared.word());
            faults.add(format!("{at}.effect"), problem);
        }
        _ => {}
    }
    given.unwrap_or(declared)
}

/// J7: the task's own beats the declared one, which beats 5 minutes.
pub(super) fn resolved_timeout_ms(own: Option<Span>, declared: Option<Span>) -> u64 {
    own.or(declared).map_or(DEFAULT_TASK_TIMEOUT_MS, Span::ms)
}

fn action_of(task: &Map<String, Value>, at: &str, faults: &mut Faults) -> Option<&'static ActionDecl> {
    let backend = match task.get("backend") {
        Some(Value::String(name)) => {
            let found = decl::backend(name);
            if found.is_none() {
                let known: Vec<_> = decl::builtin().iter().map(|b| b.name).collect();
                let shown: String = name.chars().take(60).collect();
                faults.add(format!("{at}.backend"), format!("unknown backend {shown:?}; known: {}", known.join(", ")));
            }
            found
        }
        _ => {
            faults.add(format!("{at}.backend"), "is required, a string");
            None
        }
    };
    match (task.get("action"), backend) {
        (Some(Value::String(name)), Some(backend)) => {
            let found = backend.action(name);
            if found.is_none() {
                let known: Vec<_> = backend.actions.iter().map(|a| a.name).collect();
                let shown: String = name.chars().take(60).collect();
                let problem = format!("unknown action {shown:?}; {} has {}", backend.name, known.join(", "));
                faults.add(format!("{at}.action"), problem);
            }
            found
        }
        (Some(Value::String(_)), None) => None,
        _ => {
            faults.add(format!("{at}.action"), "is required, a string");
            None
        }
    }
}

fn params_field(value: Option<&Value>, action: Option<&ActionDecl>, at: &str, faults: &mut Faults) -> Params {
    let field = format!("{at}.params");
    let empty = Map::new();
    let given = match value {
        None | Some(Value::Null) => &empty,
        Some(Value::Object(map)) => map,
        Some(_) => {
            faults.add(field, "must be an object of parameters");
            return Params::new();
        }
    };
    action.map(|action| action.check(given, &field, faults)).unwrap_or_default()
}

fn retries_field(value: Option<&Value>, at: &str, faults: &mut Faults) -> u32 {
    match value {
        None | Some(Value::Null) => 0,
        Some(value) => match value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| *n <= MAX_RETRIES) {
            Some(n) => n,
            None => {
                faults.add(format!("{at}.max_retries"), format!("must be a whole number from 0 to {MAX_RETRIES}"));
                0
            }
        },
    }
}
