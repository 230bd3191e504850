//! Reads the values of single fields: words, numbers, durations, shares.

use serde_json::{Map, Value};

use crate::fault::Faults;
use crate::job::{Concurrency, Condition, Share, Strategy, Tolerance};
use crate::span::Span;

pub(super) fn refuse_unknown(map: &Map<String, Value>, known: &[&str], at: &str, faults: &mut Faults) {
    for key in map.keys().filter(|key| !known.contains(&key.as_str())) {
        let shown: String = key.chars().take(60).collect();
        let field = if at.is_empty() { shown } else { format!("{at}.{shown}") };
        faults.add(field, format!("unknown field; known here: {}", known.join(", ")));
    }
}

pub(super) fn strategy_field(value: Option<&Value>, faults: &mut Faults) -> Strategy {
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
pub(super) fn choice_field<T: Copy>(
    job: &Map<String, Value>,
    field: &str,
    words: &[(&str, T)],
    faults: &mut Faults,
) -> T {
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

pub(super) fn tolerance_field(value: Option<&Value>, faults: &mut Faults) -> Option<Tolerance> {
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

pub(super) fn concurrency_field(value: Option<&Value>, field: &str, faults: &mut Faults) -> Option<Concurrency> {
    let parsed = match value {
        None | Some(Value::Null) => return None,
        Some(Value::String(text)) => match text.parse::<Share>() {
            Ok(share) if share.is_zero() => Err("must be more than 0%".to_owned()),
            share => share.map(Concurrency::Share),
        },
        Some(value) => {
            let nodes = value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
            let problem = "must be a whole number of nodes, at least 1, or a share in quotes like \"20%\"";
            nodes.map(Concurrency::Nodes).ok_or_else(|| problem.to_owned())
        }
    };
    parsed.map_err(|problem| faults.add(field, problem)).ok()
}

pub(super) fn flag_field(value: Option<&Value>, field: &str, faults: &mut Faults) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::Bool(flag)) => *flag,
        Some(_) => {
            faults.add(field, "must be true or false");
            false
        }
    }
}

/// Of a phase: it looks at the job.
pub(super) fn condition_field(value: Option<&Value>, at: &str, faults: &mut Faults) -> Condition {
    let condition = any_condition(value, at, "always, on_success or on_failure", faults);
    if condition == Condition::OnChanged {
        let problem =
            "on_changed looks at earlier tasks on the same node: only a task inside a pipeline (tasks) can have it";
        faults.add(format!("{at}.condition"), problem);
    }
    condition
}

/// Of the task at `index` of a pipeline: it looks at the node.
pub(super) fn task_condition_field(value: Option<&Value>, index: usize, at: &str, faults: &mut Faults) -> Condition {
    let condition = any_condition(value, at, "always, on_success, on_failure or on_changed", faults);
    if condition == Condition::OnChanged && index == 0 {
        faults
            .add(format!("{at}.condition"), "on_changed looks at earlier tasks of the pipeline, and this is the first");
    }
    condition
}

fn any_condition(value: Option<&Value>, at: &str, known: &str, faults: &mut Faults) -> Condition {
    match value {
        None | Some(Value::Null) => Condition::Always,
        Some(Value::String(s)) if s == "always" => Condition::Always,
        Some(Value::String(s)) if s == "on_success" => Condition::OnSuccess,
        Some(Value::String(s)) if s == "on_failure" => Condition::OnFailure,
        Some(Value::String(s)) if s == "on_changed" => Condition::OnChanged,
        Some(_) => {
            faults.add(format!("{at}.condition"), format!("must be {known}"));
            Condition::Always
        }
    }
}

/// An optional duration above zero.
pub(super) fn span_field(value: Option<&Value>, field: &str, faults: &mut Faults) -> Option<Span> {
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
