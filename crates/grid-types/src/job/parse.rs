//! Reads a job from JSON and names every fault in it at once.
//!
//! By hand rather than by `serde`: a derived reader stops at the first fault and cannot say where it is.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Condition, JobSpec, Offline, OnUnknown, Phase, Share, Strategy, Target, Task, Tolerance, fields};
use crate::decl::{self, ActionDecl, EffectClass, Params};
use crate::fault::Faults;
use crate::limits::{DEFAULT_TASK_TIMEOUT_MS, MAX_LABELS, MAX_RETRIES, MAX_STEPS};
use crate::name::Name;
use crate::node::{LABEL_RULE, is_label};
use crate::span::Span;

const JOB_FIELDS: &[&str] = &fields::names(fields::JOB);
const LEAF_FIELDS: &[&str] = &fields::names(fields::LEAF);
const TASK_FIELDS: &[&str] = &fields::joined::<5, 1, 6>(fields::LEAF, fields::IN_PIPELINE);
const PHASE_FIELDS: &[&str] = &fields::joined::<5, 4, 9>(fields::LEAF, fields::PHASE);
const TARGET_FIELDS: &[&str] = &fields::names(fields::TARGET);

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
    let failure_tolerate = tolerance_field(job.get("failure_tolerate"), &mut faults);
    let offline = choice_field(job, "offline", &[("skip", Offline::Skip), ("wait", Offline::Wait)], &mut faults);
    let on_unknown =
        choice_field(job, "on_unknown", &[("fail", OnUnknown::Fail), ("wait", OnUnknown::Wait)], &mut faults);
    let target = target.unwrap_or(Target::All);
    let spec = JobSpec { target, phases, strategy, timeout, failure_tolerate, offline, on_unknown };
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
        "any" if value.is_none_or(str::is_empty) => Ok(Target::Any),
        "all" | "any" => Err(format!("{scope} takes no value")),
        "labels" => labels(value.unwrap_or_default()).map(Target::Labels),
        "group" => name("group").map(Target::Group),
        "node" => name("node").map(Target::Node),
        other => {
            let shown: String = other.chars().take(40).collect();
            Err(format!("unknown scope {shown:?}: use all, group:NAME, node:ID, labels:KEY=VALUE or any"))
        }
    }
}

fn labels(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut labels = BTreeMap::new();
    for pair in text.split(',') {
        let shown = || pair.chars().take(60).collect::<String>();
        let (key, value) = pair
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| format!("labels are KEY=VALUE, separated by commas; {:?} is none", shown()))?;
        if !is_label(key, value) {
            return Err(format!("{:?} is no label: {LABEL_RULE}", shown()));
        }
        if labels.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(format!("label {key:?} stands there twice"));
        }
        if labels.len() > MAX_LABELS {
            return Err(format!("has more than {MAX_LABELS} labels, the most a node can carry"));
        }
    }
    Ok(labels)
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
                _ => Err("scope is required: all, group, node, labels or any".to_owned()),
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

/// One of a few words; the first is the default.
fn choice_field<T: Copy>(job: &Map<String, Value>, field: &str, words: &[(&str, T)], faults: &mut Faults) -> T {
    let found = match job.get(field) {
        None | Some(Value::Null) => Some(words[0].1),
        Some(value) => words.iter().find(|(word, _)| value.as_str() == Some(word)).map(|(_, choice)| *choice),
    };
    found.unwrap_or_else(|| {
        let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        faults.add(field, format!("must be {}", known.join(" or ")));
        words[0].1
    })
}

fn tolerance_field(value: Option<&Value>, faults: &mut Faults) -> Option<Tolerance> {
    let parsed = match value {
        None | Some(Value::Null) => return None,
        Some(Value::Number(number)) => {
            let nodes = number.as_u64().and_then(|n| u32::try_from(n).ok());
            nodes.map(Tolerance::Nodes).ok_or_else(|| {
                "must be a whole number of nodes, or a share in quotes like \"10%\" or \"0.1\"".to_owned()
            })
        }
        Some(Value::String(text)) => text.parse::<Share>().map(Tolerance::Share),
        Some(_) => Err("must be a number of nodes, or a share like \"10%\"".to_owned()),
    };
    parsed.map_err(|problem| faults.add("failure_tolerate", problem)).ok()
}

fn concurrency_field(value: Option<&Value>, at: &str, faults: &mut Faults) -> Option<u32> {
    match value {
        None | Some(Value::Null) => None,
        Some(value) => {
            let nodes = value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
            if nodes.is_none() {
                faults.add(format!("{at}.concurrency"), "must be a whole number of nodes, at least 1");
            }
            nodes
        }
    }
}

fn confirm_field(value: Option<&Value>, at: &str, faults: &mut Faults) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::Bool(confirm)) => *confirm,
        Some(_) => {
            faults.add(format!("{at}.confirm"), "must be true or false");
            false
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

/// An optional duration above zero.
fn span_field(value: Option<&Value>, field: &str, faults: &mut Faults) -> Option<Span> {
    match value {
        None | Some(Value::Null) => None,
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
        let given = value.is_some_and(|value| !value.is_null());
        let verb = if given { "must be" } else { "is required:" };
        faults.add("tasks", format!("{verb} a list of at least one phase"));
        return Vec::new();
    };
    if list.is_empty() {
        faults.add("tasks", "must have at least one phase");
    }
    // Before anything in it is looked at: what is too long is told once, not for each of its parts.
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
    let concurrency = concurrency_field(phase.get("concurrency"), at, faults);
    let confirm = confirm_field(phase.get("confirm"), at, faults);
    let Some(tasks) = phase.get("tasks") else {
        return Some(Phase { concurrency, confirm, ..Phase::leaf(task_at(phase, at, faults)) });
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
    let tasks = list.iter().enumerate().filter_map(|(i, task)| sub_task(task, &format!("{at}.tasks[{i}]"), faults));
    Some(Phase { condition, concurrency, confirm, ..Phase::pipeline(tasks.collect()) })
}

fn sub_task(value: &Value, at: &str, faults: &mut Faults) -> Option<Task> {
    match value {
        Value::Object(task) if task.contains_key("tasks") => {
            faults.add(format!("{at}.tasks"), "phases nest at most 2 deep: a pipeline cannot hold a pipeline");
            None
        }
        Value::Object(task) => {
            refuse_unknown(task, TASK_FIELDS, at, faults);
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
    fn tasks_of_the_wrong_kind_are_not_called_missing() {
        let told = |body: Value| parse_job(&body).unwrap_err().list()[0].problem.clone();
        assert!(told(json!({"target": "all"})).starts_with("is required"));
        assert!(told(json!({"target": "all", "tasks": null})).starts_with("is required"));
        assert!(told(json!({"target": "all", "tasks": "ping"})).starts_with("must be a list"));
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
                {"backend": "ping", "action": "echo", "concurrency": 0, "confirm": "yes"},
                {"tasks": [{"backend": "ping", "action": "echo", "confirm": true}]},
            ],
            "failure_tolerate": 0.1,
            "offline": "later",
            "on_unknown": 3,
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
                "tasks[5].concurrency",
                "tasks[5].confirm",
                "tasks[6].tasks[0].confirm",
                "failure_tolerate",
                "offline",
                "on_unknown",
            ]
        );
    }

    #[test]
    fn what_is_too_long_is_told_once() {
        let pipeline = json!({"tasks": vec![json!(7); 600]});
        assert_eq!(fields(&json!({"target": "all", "tasks": [pipeline, pipeline]})), ["tasks"]);
        assert_eq!(fields(&json!({"target": "all", "tasks": vec![json!({"tasks": []}); 1_001]})), ["tasks"]);
    }

    #[test]
    fn a_label_selector_is_bounded_like_labels_are() {
        let many: Vec<_> = (0..65).map(|i| format!("k{i}=v")).collect();
        assert!(format!("labels:{}", many[1..].join(",")).parse::<Target>().is_ok());
        let long_key = format!("labels:{}=v", "k".repeat(64));
        let long_value = format!("labels:k={}", "v".repeat(256));
        for bad in [format!("labels:{}", many.join(",")), long_key, long_value, "labels:a\0=b".to_owned()] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_unknown_scope_never_means_all() {
        for bad in [
            "everything",
            "",
            "al",
            "group",
            "group:",
            "node:UP",
            "all:x",
            "any:x",
            "labels:",
            "labels:a",
            "labels:a=1,a=2",
        ] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }
}
