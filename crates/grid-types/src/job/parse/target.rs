//! Reads the target of a job, and what narrows it: a text, or an object of scope and value.

use serde_json::Value;

use super::values::refuse_unknown;
use crate::fault::Faults;
use crate::job::{Concurrency, Limit, Target, TargetError, fields};

const TARGET_FIELDS: &[&str] = &fields::names(fields::TARGET);

pub(super) fn target_field(value: Option<&Value>, faults: &mut Faults) -> Option<Target> {
    match value {
        None | Some(Value::Null) => {
            faults.add("target", "is required, like \"all\" or {\"scope\":\"all\"}");
            None
        }
        Some(value) => set_of_nodes(value, "target", faults),
    }
}

pub(super) fn exclude_field(value: Option<&Value>, faults: &mut Faults) -> Option<Target> {
    not_any(set_of_nodes(given(value)?, "exclude", faults)?, "exclude", faults)
}

pub(super) fn limit_field(value: Option<&Value>, faults: &mut Faults) -> Option<Limit> {
    match given(value)? {
        Value::Number(number) => {
            let nodes = number.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
            if nodes.is_none() {
                faults.add("limit", "must be a number of nodes from 1, a share like \"20%\", or a target");
            }
            nodes.map(|nodes| Limit::First(Concurrency::Nodes(nodes)))
        }
        Value::String(text) => match text.parse() {
            Ok(Limit::To(target)) => not_any(target, "limit", faults).map(Limit::To),
            Ok(limit) => Some(limit),
            Err(TargetError { at, problem }) => {
                faults.add_at("limit", problem, at);
                None
            }
        },
        value => not_any(set_of_nodes(value, "limit", faults)?, "limit", faults).map(Limit::To),
    }
}

fn given(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null())
}

/// `any` lets the scheduler pick, so it is no set of nodes.
fn not_any(target: Target, field: &str, faults: &mut Faults) -> Option<Target> {
    if target == Target::Any {
        return refuse(field, "any is one node that the scheduler picks; name a set of nodes", faults);
    }
    Some(target)
}

/// A target, or another field that names nodes in the same way.
fn set_of_nodes(value: &Value, field: &str, faults: &mut Faults) -> Option<Target> {
    let parsed = match value {
        Value::String(text) => text.parse(),
        Value::Object(target) => {
            refuse_unknown(target, TARGET_FIELDS, field, faults);
            match (target.get("scope"), target.get("value")) {
                (Some(Value::String(scope)), None | Some(Value::Null)) => Target::from_parts(scope, None),
                (Some(Value::String(scope)), Some(Value::String(value))) => Target::from_parts(scope, Some(value)),
                (Some(Value::String(_)), Some(_)) => return refuse(field, "value must be a string", faults),
                _ => return refuse(field, "scope is required: all, any, group, node, labels, facts or where", faults),
            }
        }
        _ => return refuse(field, "must be a text, or an object with scope and value", faults),
    };
    parsed.map_err(|TargetError { at, problem }| faults.add_at(field, problem, at)).ok()
}

fn refuse(field: &str, problem: &str, faults: &mut Faults) -> Option<Target> {
    faults.add(field, problem);
    None
}
