//! Reads a job from JSON and names every fault in it at once.
//!
//! By hand rather than by `serde`: a derived reader stops at the first fault and cannot say where it is.

use serde_json::{Map, Value};

use super::{Condition, JobSpec, Phase, Strategy, Target, Task};
use crate::decl::{self, ActionDecl, EffectClass, Params};
use crate::fault::Faults;
use crate::limits::{DEFAULT_TASK_TIMEOUT_MS, MAX_RETRIES, MAX_STEPS};
use crate::name::Name;
use crate::span::Span;

const JOB_FIELDS: &[&str] = &["target", "tasks", "strategy", "timeout"];
const LEAF_FIELDS: &[&str] = &["backend", "action", "params", "timeout", "max_retries"];
const PHASE_FIELDS: &[&str] = &["backend", "action", "params", "timeout", "max_retries", "tasks", "condition"];
const TARGET_FIELDS: &[&str] = &["scope", "value"];

/// Reads a job as it was submitted.
pub fn parse_job(document: &Value) -> Result<JobSpec, Faults> {
    let mut faults = Faults::default();
    let Value::Object(job) = document else {
        faults.add("", "a job is an object with target and tasks");
        return Err(faults);
    };
    refuse_unknown(job, JOB_FIELDS, "", &mut faults);
    let target = target_field(job.get("target"), &mut faults);
    let strategy = strategy_field(job.get("strategy"), &mut faults);
    let timeout = span_field(job.get("timeout"), "timeout", &mut faults);
    let phases = phases_field(job.get("tasks"), &mut faults);
    let spec = JobSpec { target: target.unwrap_or(Target::All), phases, strategy, timeout };
    if spec.step_count() > MAX_STEPS {
        faults.add("tasks", format!("has {} steps; a job has at most {MAX_STEPS}", spec.step_count()));
    }
    faults.finish(spec)
}

/// `scope` and `value` as the seeds' target object has them.
pub fn parse_target(scope: &str, value: Option<&str>) -> Result<Target, String> {
    let name = |what: &str| -> Result<Name, String> {
        let value = value.filter(|v| !v.is_empty()).ok_or_else(|| format!("{what} needs a name, like {what}:web"))?;
        value.parse::<Name>().map_err(|e| e.to_string())
    };
    match scope {
        "all" if value.is_none_or(str::is_empty) => Ok(Target::All),
        "all" => Err("all takes no value".to_owned()),
        "group" => name("group").map(Target::Group),
        "node" => name("node").map(Target::Node),
        other => {
            let shown: String = other.chars().take(40).collect();
            Err(format!("unknown scope {shown:?}: use all, group:NAME or node:ID"))
        }
    }
}

fn refuse_unknown(map: &Map<String, Value>, known: &[&str], at: &str, faults: &mut Faults) {
    for key in map.keys().filter(|key| !known.contains(&key.as_str())) {
        let shown: String = key.chars().take(60).collect();
        let field = if at.is_empty() { shown } else { format!("{at}.{shown}") };
        faults.add(field, format!("unknown field; known here: {}", known.join(", ")));
    }
}

fn target_field(value: Option<&Value>, faults: &mut Faults) -> Option<Target> {
    let parsed = match value {
        None | Some(Value::Null) => Err("is required, like {\"scope\":\"all\"}".to_owned()),
        Some(Value::String(text)) => text.parse(),
        Some(Value::Object(target)) => {
            refuse_unknown(target, TARGET_FIELDS, "target", faults);
            match (target.get("scope"), target.get("value")) {
                (Some(Value::String(scope)), None | Some(Value::Null)) => parse_target(scope, None),
                (Some(Value::String(scope)), Some(Value::String(value))) => parse_target(scope, Some(value)),
                (Some(Value::String(_)), Some(_)) => Err("value must be a string".to_owned()),
                _ => Err("scope is required: all, group or node".to_owned()),
            }
        }
        Some(_) => Err("must be an object with scope and value".to_owned()),
    };
    parsed.map_err(|problem| faults.add("target", problem)).ok()
}

fn strategy_field(value: Option<&Value>, faults: &mut Faults) -> Strategy {
    match value {
        None | Some(Value::Null) => Strategy::default(),
        Some(Value::String(s)) if s == "fail-fast" => Strategy::FailFast,
        Some(Value::String(s)) if s == "continue" => Strategy::Continue,
        Some(_) => {
            faults.add("strategy", "must be fail-fast or continue");
            Strategy::default()
        }
    }
}

fn condition_field(value: Option<&Value>, at: &str, faults: &mut Faults) -> Condition {
    match value {
        None | Some(Value::Null) => Condition::Always,
        Some(Value::String(s)) if s == "always" => Condition::Always,
        Some(Value::String(s)) if s == "on_success" => Condition::OnSuccess,
        Some(Value::String(s)) if s == "on_failure" => Condition::OnFailure,
        Some(_) => {
            faults.add(format!("{at}.condition"), "must be always, on_success or on_failure");
            Condition::Always
        }
    }
}

/// An optional duration above zero. An empty string counts as left out, as the seeds' documents write it.
fn span_field(value: Option<&Value>, field: &str, faults: &mut Faults) -> Option<Span> {
    match value {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) if text.is_empty() => None,
        Some(Value::String(text)) => match text.parse::<Span>() {
            Ok(span) if span.ms() == 0 => {
                faults.add(field, "must be longer than 0");
                None
            }
            Ok(span) => Some(span),
            Err(e) => {
                faults.add(field, e.to_string());
                None
            }
        },
        Some(_) => {
            faults.add(field, "must be a duration like 300ms, 3s, 2m or 1h");
            None
        }
    }
}

fn phases_field(value: Option<&Value>, faults: &mut Faults) -> Vec<Phase> {
    let Some(Value::Array(list)) = value else {
        faults.add("tasks", "is required: a list of at least one phase");
        return Vec::new();
    };
    if list.is_empty() {
        faults.add("tasks", "must have at least one phase");
    }
    if list.len() > MAX_STEPS {
        faults.add("tasks", format!("has {} phases; a job has at most {MAX_STEPS} steps", list.len()));
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
    let Some(tasks) = phase.get("tasks") else {
        return Some(Phase::Leaf(task_at(phase, at, faults)));
    };
    for field in LEAF_FIELDS.iter().filter(|f| phase.contains_key(**f)) {
        faults.add(format!("{at}.{field}"), "a phase is either a task or a pipeline; it cannot have this beside tasks");
    }
    let condition = condition_field(phase.get("condition"), at, faults);
    let Value::Array(list) = tasks else {
        faults.add(format!("{at}.tasks"), "must be a list of tasks");
        return None;
    };
    if list.is_empty() {
        faults.add(format!("{at}.tasks"), "must have at least one task");
    }
    if list.len() > MAX_STEPS {
        faults.add(format!("{at}.tasks"), format!("has {} tasks; a job has at most {MAX_STEPS} steps", list.len()));
        return None;
    }
    let tasks = list.iter().enumerate().filter_map(|(i, task)| sub_task(task, &format!("{at}.tasks[{i}]"), faults));
    Some(Phase::Pipeline { condition, tasks: tasks.collect() })
}

fn sub_task(value: &Value, at: &str, faults: &mut Faults) -> Option<Task> {
    match value {
        Value::Object(task) if task.contains_key("tasks") => {
            faults.add(format!("{at}.tasks"), "phases nest at most 2 deep: a pipeline cannot hold a pipeline");
            None
        }
        Value::Object(task) => {
            refuse_unknown(task, PHASE_FIELDS, at, faults);
            Some(task_at(task, at, faults))
        }
        _ => {
            faults.add(at, "must be a task with backend and action");
            None
        }
    }
}

fn task_at(task: &Map<String, Value>, at: &str, faults: &mut Faults) -> Task {
    let timeout = span_field(task.get("timeout"), &format!("{at}.timeout"), faults);
    let action = action_of(task, at, faults);
    let params = params_field(task.get("params"), action, at, faults);
    let text = |field: &str| task.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    Task {
        backend: text("backend"),
        action: text("action"),
        params,
        condition: condition_field(task.get("condition"), at, faults),
        max_retries: retries_field(task.get("max_retries"), at, faults),
        timeout,
        timeout_ms: resolved_timeout_ms(timeout, action.and_then(|a| a.timeout)),
        effect: action.map_or(EffectClass::Once, |a| a.effect),
    }
}

/// J7: the task's own beats the declared one, which beats 5 minutes.
fn resolved_timeout_ms(own: Option<Span>, declared: Option<Span>) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::{Target, parse_job};
    use serde_json::{Value, json};

    fn fields(document: &Value) -> Vec<String> {
        parse_job(document).unwrap_err().list().iter().map(|f| f.field.clone()).collect()
    }

    #[test]
    fn the_job_of_the_seed_is_read() {
        let job = parse_job(&json!({
            "target": {"scope": "group", "value": "web"},
            "tasks": [
                {"tasks": [
                    {"backend": "ping", "action": "echo"},
                    {"backend": "test", "action": "succeed", "timeout": "3s", "max_retries": 2, "condition": "on_success"},
                ]},
                {"backend": "test", "action": "record", "params": {"path": "/tmp/x"}},
            ],
        }))
        .unwrap();
        assert_eq!(job.target, Target::Group("web".parse().unwrap()));
        assert_eq!(job.step_count(), 3);
        let steps: Vec<_> = job.steps().map(|(phase, t)| (phase, t.action.as_str(), t.timeout_ms)).collect();
        assert_eq!(steps, [(0, "echo", 300_000), (0, "succeed", 3_000), (1, "record", 300_000)]);
        assert_eq!(job.first_step(1).0, 2);
    }

    #[test]
    fn j7_a_tasks_timeout_beats_the_declared_one_which_beats_5_minutes() {
        let timeout = |task: Value| {
            let job = parse_job(&json!({"target": "all", "tasks": [task]})).unwrap();
            job.steps().next().unwrap().1.timeout_ms
        };
        assert_eq!(timeout(json!({"backend": "ping", "action": "echo", "timeout": "7s"})), 7_000);
        assert_eq!(timeout(json!({"backend": "ping", "action": "echo"})), 300_000);
        assert_eq!(super::resolved_timeout_ms(None, Some(crate::Span::from_ms(9_000))), 9_000);
        let both = super::resolved_timeout_ms(Some(crate::Span::from_ms(1)), Some(crate::Span::from_ms(9_000)));
        assert_eq!(both, 1);
    }

    #[test]
    fn every_fault_is_named_at_once() {
        let got = fields(&json!({
            "target": {"scope": "everyone", "why": 1},
            "strategy": "hope",
            "timeout": "-1s",
            "extra": true,
            "tasks": [
                {"backend": "ping", "action": "pong"},
                {"backend": "nope", "action": "x", "max_retries": -1},
                {"backend": "ping", "action": "echo", "tasks": []},
                {"tasks": [{"tasks": []}, {"backend": "ping", "action": "sleep", "condition": "maybe"}]},
                7,
            ],
        }));
        assert_eq!(
            got,
            [
                "extra",
                "target.why",
                "target",
                "strategy",
                "timeout",
                "tasks[0].action",
                "tasks[1].backend",
                "tasks[1].max_retries",
                "tasks[2].backend",
                "tasks[2].action",
                "tasks[2].tasks",
                "tasks[3].tasks[0].tasks",
                "tasks[3].tasks[1].params.duration",
                "tasks[3].tasks[1].condition",
                "tasks[4]",
            ]
        );
    }

    #[test]
    fn an_unknown_scope_never_means_all() {
        for bad in ["everything", "", "al", "group", "group:", "node:UP", "all:x"] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }
}
